import type { Message, PlacedRecord, QueueMessage } from "./types.js";
/** Text, bytes, or none. */
export type Data = string | Uint8Array | null;
/** A header of a record that a program writes. */
export interface OutgoingHeader {
    key: string;
    value?: Data;
}
/** A record to produce. */
export interface OutgoingRecord {
    /** A record with a key goes to the partition of its hash, as in Kafka's Java client. */
    key?: Data;
    /** null is a tombstone. */
    value: Data;
    headers?: OutgoingHeader[];
    /** Milliseconds since 1970. Default: the time at the broker. */
    timestamp?: number;
}
/** A message to send to a queue. */
export type OutgoingMessage = Omit<Message, "key" | "value" | "headers"> & {
    key?: string | Uint8Array;
    value?: string | Uint8Array;
    headers?: OutgoingHeader[];
};
/** A header of a record or message. */
export interface ContentHeader {
    key: string;
    value: Data;
}
/** What a record or message contains. Valid UTF-8 is a string, other bytes are a Uint8Array. */
export declare class Content {
    readonly key: Data;
    readonly value: Data;
    readonly headers: ContentHeader[];
    constructor(in_: Pick<PlacedRecord, "key" | "key_base64" | "value" | "value_base64" | "headers">);
    /** The value as JSON. It throws a SyntaxError for other values. */
    json<T = unknown>(): T;
    /** The bytes of the value; null: it has none. */
    bytes(): Uint8Array | null;
}
/** A record of a topic. */
export declare class Record extends Content {
    readonly partition: number;
    readonly offset: number;
    /** Milliseconds since 1970. */
    readonly timestamp: number;
    constructor(in_: PlacedRecord);
}
/** A message of a queue that a worker has. */
export declare class LeasedMessage extends Content {
    readonly id: string;
    /** Leases of the message, this one included. */
    readonly deliveries: number;
    readonly sent: Date;
    constructor(in_: QueueMessage);
}
/** The members of a record or message in the form of the HTTP API. what names it in errors. */
export declare function encode(what: string, r: OutgoingRecord | OutgoingMessage): object;
/** JSON for a request. what names it in the error about a value that has no JSON. */
export declare function toJSON(what: string, value: unknown): string;
/** The text of anything that was thrown. */
export declare function messageOf(error: unknown): string;
/** Escapes text for a URL. Half of a surrogate pair becomes bytes that the broker refuses. */
export declare function escaped(text: string | number | boolean): string;
export declare function toBase64(bytes: Uint8Array): string;
export declare function fromBase64(text: string): Uint8Array;
/** The partition of a key among n, as in Kafka's Java client. */
export declare function partitionOf(key: Data | undefined, n: number): number;
/** A time span: seconds, or text of the broker such as 90s or 1m30s. */
export type Span = number | string;
export declare function spanText(s: Span): string;
/** Milliseconds of a time span; NaN: it is none. */
export declare function spanMillis(s: Span | undefined): number;
/** Checks a number that the broker takes as an offset. */
export declare function checkOffset(name: string, n: number, write: boolean): void;
