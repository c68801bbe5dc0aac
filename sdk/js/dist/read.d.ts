import { Record } from "./content.js";
import { SebError } from "./errors.js";
import type { Answer, CallOptions, Transport } from "./transport.js";
/** An offset to read from: a number below 2^53, the first existing record, or the end. */
export type Start = number | "earliest" | "latest";
/** Selects records at the broker. */
export interface Filter {
    /** A filter of driplang, such as amount > 100 AND event = "purchase". */
    where?: string;
    /** A part of the key or the value. */
    contains?: string;
}
export interface ReadOptions extends Filter, CallOptions {
    /** Default 0. */
    partition?: number;
    /** Default "earliest". */
    offset?: Start;
    /** Waits for new records at the end until signal is aborted. Without it the read stops at the end that it finds. */
    follow?: boolean;
    /** Bounds one request; default 4 MiB. */
    maxBytes?: number;
}
export interface StreamOptions extends Filter, CallOptions {
    /** Default "all". */
    partition?: number | "all";
    /** Default "latest". With "all" no number. */
    offset?: Start;
}
/** The records of one answer. */
export interface Page {
    records: Record[];
    /** Offset of the next read. */
    resume: number;
    /** End of the partition. */
    end: number;
}
export interface PageOptions extends Filter, CallOptions {
    topic: string;
    partition: number;
    offset: number;
    follow: boolean;
    maxBytes: number;
}
/** Reads records with one request. */
export declare function readPage(t: Transport, o: PageOptions): Promise<Page>;
/** Yields the records of a partition. */
export declare function read(t: Transport, topic: string, o: ReadOptions): AsyncGenerator<Record, void, void>;
/** Yields the records of a partition or a topic as they arrive, over broken connections. */
export declare function stream(t: Transport, topic: string, o: StreamOptions): AsyncGenerator<Record, void, void>;
/** A server-sent event. */
export interface ServerEvent {
    type: string;
    data: string;
    id: string;
}
/** The events of an answer. One that is cut is none. */
export declare function events(answer: Answer): AsyncGenerator<ServerEvent, void, void>;
/** The error in an event of a stream. */
export declare function streamError(data: string): SebError;
