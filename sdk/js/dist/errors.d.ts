import type { Code, OffsetResult, PartitionResult, Problem } from "./types.js";
/** The effect of a call that failed: none (it does not write), rejected, or unknown. */
export type Effect = "none" | "rejected" | "unknown";
/** What is known of a failed call. Each error has these fields. */
export interface Fault {
    outcome: Effect;
    /** Of the HTTP answer; 0: no answer. */
    status: number;
    /** Stable name of the reason; "": the answer had none. A newer broker may send other codes. */
    code: Code | "" | (string & {});
    /** For people. */
    detail: string;
    /** Seconds; 0: the answer did not say. */
    retryAfter: number;
    /** The partition's end, with offset_mismatch. */
    nextOffset?: number;
    /** The partition's start, with offset_below_start. */
    startOffset?: number;
    /** The group's committed offset, with offset_mismatch of a commit; -1: none. */
    committed?: number;
    leader?: string;
    /** Line and column, from 1, of an error in the text of an expression. */
    line?: number;
    column?: number;
    /** JSON Pointer to an error in the JSON form of an expression. */
    pointer?: string;
    /** The outcome of each partition, if a produce to several ended differently. */
    results?: PartitionResult[];
    /** The outcome of each offset, if not all commits succeeded. */
    offsets?: OffsetResult[];
    /** Why there is no valid answer. */
    cause?: unknown;
}
/** A call has failed. Errors of writes are a RejectedError or an OutcomeUnknownError. */
export declare class SebError extends Error implements Fault {
    outcome: Effect;
    status: number;
    code: Fault["code"];
    detail: string;
    retryAfter: number;
    nextOffset?: number;
    startOffset?: number;
    committed?: number;
    leader?: string;
    line?: number;
    column?: number;
    pointer?: string;
    results?: PartitionResult[];
    offsets?: OffsetResult[];
    cause?: unknown;
    constructor(fault: Fault);
}
/** Nothing is stored, and nothing of the call can appear later. */
export declare class RejectedError extends SebError {
}
/** The write may take effect once, or never. */
export declare class OutcomeUnknownError extends SebError {
}
export declare function errorOf(fault: Fault): SebError;
/** The fault of a call without a valid answer. */
export declare function noAnswer(outcome: Effect, cause: unknown, status?: number): Fault;
/** The error for an argument that is wrong. write: of a call that writes. */
export declare function invalid(text: string, write?: boolean): SebError;
/** A 2xx answer that no broker sends: a proxy may have sent it. */
export declare class NotBroker extends Error {
}
/** A request that the other side cannot have seen. again: a repetition may succeed. */
export interface NotSent {
    again: boolean;
}
/** Tells from the error of fetch whether the request cannot have been sent, or the peer refused or is not trusted. */
export declare function notSent(error: unknown): NotSent | undefined;
/** Reads the fault of an answer without a 2xx status. */
export declare function faultOf(status: number, headers: Headers, body: string, write: boolean): Fault;
/** Fills in what a problem says. */
export declare function fillFault(f: Fault, p: Problem): void;
export declare function firstLine(body: string): string;
/** Reports whether another broker may serve the request that failed. */
export declare function elsewhere(f: Fault, aborted: boolean): boolean;
/** Reports whether sending a request again is safe and can succeed. free: the call is a read, or idempotent. */
export declare function repeatable(f: Fault, free: boolean): boolean;
