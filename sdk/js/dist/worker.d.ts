import { LeasedMessage, type Span } from "./content.js";
import { type CallOptions } from "./transport.js";
import type { LeaseRequest, MessageResult, QueueMessage, Settlement } from "./types.js";
export interface WorkOptions {
    /** Handlers that run at once, at most 10,000; default 1. */
    concurrency?: number;
    /** Time after which another worker gets a message if this process dies: 1 s to 12 h. Default: that of the queue. */
    visibility?: Span;
    /** false: the signal of a handler is aborted shortly before its lease is over, instead of extending that. */
    extend?: boolean;
    /** Returns when no message is ready and all handlers have returned. */
    untilEmpty?: boolean;
    /** Time that handlers have after the end of signal; default (also 0): no limit. Then their signals are aborted also. */
    grace?: Span;
    /** Ends the work: no more messages are leased, and work returns when the handlers have returned and that is stored. */
    signal?: AbortSignal;
    /** Gets the errors that work rides out: a broker that does not answer, a lease that is lost. */
    onError?: (error: unknown) => void;
}
/** What is done for each message. signal is aborted if the lease is lost. */
export type Handler = (message: LeasedMessage, signal: AbortSignal) => unknown;
/** Thrown by a handler: the message comes again after some seconds instead of the backoff of the queue. */
export declare class RetryAfter extends Error {
    readonly seconds: number;
    constructor(seconds: number, reason?: unknown);
}
/** Thrown by a handler: the message goes to the dead-letter queue at once. */
export declare class GiveUp extends Error {
    constructor(reason?: unknown);
}
/** Why the signal of a handler is aborted. */
export declare class LeaseEnded extends Error {
    readonly why: "lost" | "over" | "stopped";
    constructor(why: "lost" | "over" | "stopped");
}
/** What the worker needs of a client. */
export interface Source {
    visibility(o: CallOptions): Promise<string>;
    lease(r: LeaseRequest & CallOptions): Promise<QueueMessage[]>;
    settle(list: Settlement[], o: CallOptions): Promise<MessageResult[]>;
}
export declare function work(source: Source, handler: Handler, o: WorkOptions): Promise<void>;
