import { type Fault } from "./errors.js";
export interface ClientOptions {
    /** The API key or token. */
    token?: string;
    /** Seconds for which one call is repeated, from its first failure on. Default 30; 0: not at all. */
    retryTime?: number;
    /** false: produces have no producer ID, so that one of unknown outcome is not repeated. */
    idempotent?: boolean;
    /** Replaces the platform's fetch, for example to use a proxy or a private certificate authority. */
    fetch?: (url: string, init: RequestInit) => Promise<Response>;
}
/** What every call takes. */
export interface CallOptions {
    /** Ends the call. A write that was sent has an unknown outcome then. */
    signal?: AbortSignal;
}
/** One call, which may be sent several times. */
export interface Call extends CallOptions {
    method: "GET" | "POST" | "PUT" | "DELETE";
    path: string;
    query?: {
        [name: string]: string | number | boolean | undefined;
    };
    headers?: {
        [name: string]: string;
    };
    body?: string;
    /** The call changes data: only rejected calls may be repeated. */
    write?: boolean;
    /** The write may be repeated whatever its outcome. */
    idempotent?: boolean;
    /** Milliseconds that the broker may wait; undefined: the call takes as long as it takes. */
    wait?: number;
    /** Milliseconds without a byte after which an answer is broken, also with one broker. */
    stream?: number;
    /** Reports that a refusal rules out an effect of earlier attempts. */
    settled?: (f: Fault) => boolean;
}
/** Sends requests to the brokers of one bucket. */
export declare class Transport {
    #private;
    readonly idempotent: boolean;
    constructor(addresses: string | readonly string[], o: ClientOptions, agent?: string);
    backoff(signal?: AbortSignal): Backoff;
    /** Sends a call and decodes the answer. member: one that each such answer of a broker has. */
    json<T>(c: Call, member: keyof T & string): Promise<T>;
    /** Sends a call whose answer is empty. */
    nothing(c: Call): Promise<void>;
    /** Sends a call and closes the answer after read. */
    call<T>(c: Call, read: (answer: Answer) => Promise<T>): Promise<T>;
    /** Sends a call until it has an answer, it may not be repeated, or the retry time is over. read must close the answer. */
    open<T>(c: Call, read: (answer: Answer) => Promise<T>): Promise<T>;
}
/** Ends a request at the caller's signal, or after a time without a byte. */
declare class Watch {
    #private;
    readonly outer: AbortSignal | undefined;
    readonly silence: number;
    reason?: unknown;
    constructor(outer: AbortSignal | undefined, silence: number);
    get signal(): AbortSignal;
    /** Measures from now on. more: milliseconds that are added. */
    start(more?: number): void;
    end(): void;
    abort(): void;
}
/** The answer to a request. */
export declare class Answer {
    #private;
    readonly response: Response;
    constructor(response: Response, watch: Watch);
    get status(): number;
    /** A header that is a number, or -1. */
    number(header: string): number;
    /** The text of the body, piece by piece. */
    chunks(): AsyncGenerator<string, void, void>;
    text(): Promise<string>;
    /** The body as JSON. It throws unless that has a member: a proxy with JSON of its own must not acknowledge a write. */
    json<T>(member?: keyof T & string): Promise<T>;
    /** Releases the connection. */
    close(): void;
}
/** The longest delay that timers take: with a longer one they end at once. */
export declare const timerMax: number;
/** Waits between attempts. The delay doubles, with jitter, up to a deadline after the first failure. */
export declare class Backoff {
    #private;
    readonly time: number;
    readonly signal?: AbortSignal | undefined;
    constructor(time: number, signal?: AbortSignal | undefined);
    /** Sleeps for some seconds or longer, and returns whether another attempt is allowed. */
    wait(atLeast?: number): Promise<boolean>;
}
/** A pause that doubles with each failure in a row. */
export declare function growth(min: number, max: number, failures: number): number;
/** Waits for some milliseconds, or until a signal is aborted. */
export declare function sleep(ms: number, signal?: AbortSignal): Promise<void>;
export {};
