import { invalid } from "./errors.js";
import type { Header, Message, PlacedRecord, QueueMessage } from "./types.js";

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
export type OutgoingMessage = Omit<Message, "key" | "value" | "headers"> & { key?: string | Uint8Array; value?: string | Uint8Array; headers?: OutgoingHeader[] };

/** A header of a record or message. */
export interface ContentHeader {
  key: string;
  value: Data;
}

/** What a record or message contains. Valid UTF-8 is a string, other bytes are a Uint8Array. */
export class Content {
  readonly key: Data;
  readonly value: Data;
  readonly headers: ContentHeader[];

  constructor(in_: Pick<PlacedRecord, "key" | "key_base64" | "value" | "value_base64" | "headers">) {
    this.key = dataOf(in_.key, in_.key_base64);
    this.value = dataOf(in_.value, in_.value_base64);
    this.headers = (in_.headers ?? []).map((h: Header) => ({ key: h.key, value: dataOf(h.value, h.value_base64) }));
  }

  /** The value as JSON. It throws a SyntaxError for other values. */
  json<T = unknown>(): T {
    if (typeof this.value !== "string") throw new SyntaxError(`the value is ${this.value ? "not text" : "null"}, want JSON`);
    return JSON.parse(this.value) as T;
  }

  /** The bytes of the value; null: it has none. */
  bytes(): Uint8Array | null {
    return typeof this.value === "string" ? encoder.encode(this.value) : this.value;
  }
}

/** A record of a topic. */
export class Record extends Content {
  readonly partition: number;
  readonly offset: number;
  /** Milliseconds since 1970. */
  readonly timestamp: number;

  constructor(in_: PlacedRecord) {
    super(in_);
    this.partition = in_.partition;
    this.offset = in_.offset;
    this.timestamp = in_.timestamp;
  }
}

/** A message of a queue that a worker has. */
export class LeasedMessage extends Content {
  readonly id: string;
  /** Leases of the message, this one included. */
  readonly deliveries: number;
  readonly sent: Date;

  constructor(in_: QueueMessage) {
    super(in_);
    this.id = in_.id;
    this.deliveries = in_.deliveries;
    this.sent = new Date(in_.sent);
  }
}

const encoder = new TextEncoder();

function dataOf(text: string | null | undefined, encoded: string | null | undefined): Data {
  return typeof text === "string" ? text : typeof encoded === "string" ? fromBase64(encoded) : null;
}

/** The members of a record or message in the form of the HTTP API. what names it in errors. */
export function encode(what: string, r: OutgoingRecord | OutgoingMessage): object {
  const member = (name: string, v: unknown, nullable: boolean) => {
    if (v instanceof Uint8Array) return { [name + "_base64"]: toBase64(v) };
    if (typeof v !== "string" && !(v === null && nullable)) throw invalid(`${what}: ${name} is ${typeof v}, want a string, a Uint8Array or null`, true);
    return { [name]: v };
  };
  if (typeof r !== "object" || r === null) throw invalid(`${what}: ${r === null ? "null" : typeof r}, want an object`, true);
  const { key, value, headers, ...rest } = r;
  return {
    ...rest,
    ...(key !== undefined && key !== null && member("key", key, false)),
    ...((value !== undefined || !("value_base64" in r)) && member("value", value, true)),
    ...(headers && { headers: headers.map((h) => ({ key: h.key, ...member("value", h.value ?? null, true) })) }),
  };
}

/** JSON for a request. what names it in the error about a value that has no JSON. */
export function toJSON(what: string, value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    throw invalid(`${what}: ${messageOf(error)}`, true);
  }
}

/** The text of anything that was thrown. */
export function messageOf(error: unknown): string {
  try {
    return String(error instanceof Error ? error.message || error.name : error);
  } catch {
    return "a value without text";
  }
}

/** Escapes text for a URL. Half of a surrogate pair becomes bytes that the broker refuses. */
export function escaped(text: string | number | boolean): string {
  return String(text).split(/[\ud800-\udfff]/u).map(encodeURIComponent).join("%ED%A0%80");
}

export function toBase64(bytes: Uint8Array): string {
  let text = "";
  for (let i = 0; i < bytes.length; i += 0x8000) text += String.fromCharCode(...bytes.subarray(i, i + 0x8000));
  return btoa(text);
}

export function fromBase64(text: string): Uint8Array {
  return Uint8Array.from(atob(text), (c) => c.charCodeAt(0));
}

/** The partition of a key among n, as in Kafka's Java client. */
export function partitionOf(key: Data | undefined, n: number): number {
  if (key === null || key === undefined || n <= 1) return 0;
  return (murmur2(typeof key === "string" ? encoder.encode(key) : key) & 0x7fffffff) % n;
}

function murmur2(data: Uint8Array): number {
  const m = 0x5bd1e995;
  let h = 0x9747b28c ^ data.length;
  const view = new DataView(data.buffer, data.byteOffset, data.length);
  let i = 0;
  for (; i + 4 <= data.length; i += 4) {
    let k = Math.imul(view.getInt32(i, true), m);
    k = Math.imul(k ^ (k >>> 24), m);
    h = Math.imul(h, m) ^ k;
  }
  let rest = 0;
  for (let j = data.length - 1; j >= i; j--) rest = (rest << 8) | data[j]!;
  if (i < data.length) h = Math.imul(h ^ rest, m);
  h = Math.imul(h ^ (h >>> 13), m);
  return h ^ (h >>> 15);
}

/** A time span: seconds, or text of the broker such as 90s or 1m30s. */
export type Span = number | string;

export function spanText(s: Span): string {
  return typeof s === "number" ? `${Math.round(1000 * s)}ms` : s;
}

const units: { [unit: string]: number } = { h: 3_600_000, m: 60_000, s: 1000, ms: 1, us: 0.001, "µs": 0.001, ns: 1e-6, d: 86_400_000, w: 604_800_000 };

/** Milliseconds of a time span; NaN: it is none. */
export function spanMillis(s: Span | undefined): number {
  if (typeof s !== "string") return 1000 * (s ?? 0);
  if (!/^([\d.]+(ms|us|µs|ns|[hmsdw]))+$/.test(s)) return s === "0" ? 0 : NaN;
  return [...s.matchAll(/([\d.]+)([a-zµ]+)/g)].reduce((sum, [, n, unit]) => sum + Number(n) * units[unit!]!, 0);
}

/** Checks a number that the broker takes as an offset. */
export function checkOffset(name: string, n: number, write: boolean): void {
  if (!Number.isSafeInteger(n) || n < 0) throw invalid(`${name}: ${String(n)} is not an integer from 0 to 2^53-1`, write);
}
