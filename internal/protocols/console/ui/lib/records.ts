// Reading of records, page by page in both directions, over one partition or all of them.

import { call, parse, send, type Int, type Query } from "./api";
import type { Topic } from "./topics";

/** Header is a header of a record. */
export interface Header { key: string; value?: string | null; value_base64?: string }

/** Content is what a record or a message has. Bytes that are not UTF-8 are in key_base64 and value_base64. */
export interface Content { headers?: Header[]; key?: string | null; key_base64?: string; value?: string | null; value_base64?: string; value_bytes?: Int }

/** Rec is a record of a partition. */
export interface Rec extends Content { partition: number; offset: Int; timestamp: Int }

/** hasKeys reports whether a topic has a key index. */
export function hasKeys(t: Topic): boolean {
  return (t.settings["key-index"] ?? String(/compact/.test(t.settings["cleanup-policy"] ?? ""))) === "true";
}

/** secretive reports whether the values of a topic have the secrets of webhooks. */
export function secretive(topic: string): boolean { return topic === "triggers"; }

/** place names a record: 0:85211. */
export function place(r: { partition: number; offset: Int }): string { return `${r.partition}:${r.offset}`; }

/** keyQuery has the parameters that name a record's key; without a key it is undefined. */
export function keyQuery(r: { key?: string | null; key_base64?: string }): { key?: string; key64?: string } | undefined {
  if (r.key_base64 !== undefined) return { key64: r.key_base64 };
  return r.key === null || r.key === undefined ? undefined : { key: r.key };
}

/** entityOf returns the entity of a record that is an event. */
export function entityOf(value: unknown): string | undefined {
  const e = value as { event?: unknown; entity_id?: unknown } | null;
  return typeof e === "object" && e !== null && typeof e.event === "string" && typeof e.entity_id === "string" && e.entity_id ? e.entity_id : undefined;
}

/** Positions has an offset of each partition that is read. */
export type Positions = Map<number, bigint>;

/** textOf writes positions for an address, as the IDs of event streams do: 0:124,1:78. */
export function textOf(p: Positions): string { return [...p].map(([partition, offset]) => `${partition}:${offset}`).join(","); }

/** positionsOf reads what textOf wrote; undefined if it is something else. */
export function positionsOf(text: string): Positions | undefined {
  if (!/^\d{1,9}:\d{1,19}(,\d{1,9}:\d{1,19})*$/.test(text)) return undefined;
  return new Map(text.split(",").map(t => t.split(":")).map(([p, o]) => [Number(p), BigInt(o!)]));
}

/** Want says what is read: `count` records from the positions, older or newer ones, that match the filter. */
export interface Want { topic: string; from: Positions; older: boolean; count: number; where?: string; contains?: string; signal: AbortSignal }

/** Got is what was read, in the direction of reading. low and high are the positions before and behind the records; end: there are no more in this direction. */
export interface Got { records: Rec[]; low: Positions; high: Positions; end: boolean; looked: number; total: number; stopped: boolean }

// valueCut is how many bytes of a value a list gets. scanBytes bounds one request of a search, so
// that the first hits come at once and Stop takes effect.
const valueCut = 400, scanBytes = 16 << 20;

/** Source reads one partition in one direction, a piece at a time. */
class Source {
  ready: Rec[] = [];
  done = false;
  looked = 0;
  constructor(readonly partition: number, public at: bigint, private want: Want, private end: bigint) {
    this.done = at === end; // the broker says what is wrong with a position outside
  }

  private finished() { return this.want.older ? this.at <= this.end : this.at >= this.end; }

  async more(count: number) {
    const { topic, older, where, contains, signal } = this.want, search = !!(where || contains);
    const query: Query = { "topic-name": topic, partition: this.partition, offset: this.at, order: older ? "newest" : undefined, "max-records": count,
      "max-value-bytes": valueCut, timeout: "0s", where, contains, "max-scan-bytes": search ? scanBytes : undefined };
    const answer = await send("GET", "/records", { query, signal });
    const records = parse(await answer.text()) as Rec[];
    for (const r of records) r.partition = this.partition;
    this.ready.push(...records);
    const resume = BigInt(answer.headers.get("Seb-Resume-Offset") ?? this.at), next = answer.headers.get("Seb-Next-Offset");
    this.looked += Number(answer.headers.get("Seb-Scanned-Records") ?? records.length);
    if (next && !older) this.end = BigInt(next);
    this.done = resume === this.at;
    this.at = resume;
    this.done ||= this.finished();
  }

  /** position is where the next read of this direction starts, after what was taken. */
  position(): bigint {
    const first = this.ready[0];
    return first ? BigInt(first.offset) + (this.want.older ? 1n : 0n) : this.at;
  }
}

const before = (a: Rec, b: Rec, older: boolean) => older ? a.timestamp > b.timestamp : a.timestamp < b.timestamp;

/** merged orders records by time as far as that keeps the order within each partition. */
function merged(records: Rec[], older: boolean): Rec[] {
  const queues = [...new Set(records.map(r => r.partition))].map(p => records.filter(r => r.partition === p)), all: Rec[] = [];
  while (all.length < records.length) {
    let next: Rec[] | undefined;
    for (const q of queues) if (q[0] && (!next || before(q[0], next[0]!, older))) next = q;
    all.push(next!.shift()!);
  }
  return all;
}

/**
 * read reads records. Records of several partitions are ordered by time as far as that keeps the
 * order within each. A search instead takes what it finds first, tells `progress` at most twice a
 * second, and ends early, with what it has, when `stop` is aborted. Errors: Problem, AbortError.
 */
export async function read(want: Want, bounds: Topic, progress?: (got: Got) => void, stop?: AbortSignal): Promise<Got> {
  const sources = bounds.partitions.filter(p => want.from.has(p.partition)).map(p =>
    new Source(p.partition, want.from.get(p.partition)!, want, BigInt(want.older ? p.start_offset : p.last_stable_offset)));
  const total = bounds.partitions.reduce((n, p) => {
    const at = want.from.get(p.partition);
    return at === undefined ? n : n + Math.max(0, Number(want.older ? at - BigInt(p.start_offset) : BigInt(p.last_stable_offset) - at));
  }, 0);
  const taken: Rec[] = [], search = !!(want.where || want.contains);
  const got = (): Got => {
    const ends: Positions = new Map(sources.map(s => [s.partition, s.position()]));
    return { records: search ? merged(taken, want.older) : taken, low: want.older ? ends : want.from, high: want.older ? want.from : ends, total, looked: sources.reduce((n, s) => n + s.looked, 0),
      end: sources.every(s => s.done && !s.ready.length), stopped: !!stop?.aborted };
  };
  let told = 0;
  while (taken.length < want.count && !stop?.aborted) {
    if (search) {
      const open = sources.filter(s => !s.done).sort((a, b) => a.looked - b.looked)[0];
      if (!open) break;
      await open.more(want.count - taken.length);
      taken.push(...open.ready.splice(0));
      if (progress && performance.now() - told >= 500) { progress(got()); told = performance.now(); }
      continue;
    }
    const share = Math.min(want.count - taken.length, Math.ceil(2 * want.count / sources.length) + 4);
    await Promise.all(sources.filter(s => !s.done && !s.ready.length).map(s => s.more(share)));
    let next: Source | undefined;
    for (const s of sources) if (s.ready[0] && (!next || before(s.ready[0], next.ready[0]!, want.older))) next = s;
    if (!next) { if (sources.every(s => s.done)) break; else continue; }
    taken.push(next.ready.shift()!);
  }
  return got();
}

/** recordAt reads one record, its value up to max bytes; undefined if there is none at that offset. */
export async function recordAt(topic: string, at: string, max: number, signal?: AbortSignal): Promise<Rec | undefined> {
  const [partition, offset] = at.split(":");
  const found = await call<Rec[]>("GET", "/records", { signal, query: { "topic-name": topic, partition, offset, "max-records": 1, "max-value-bytes": max || undefined, timeout: "0s" } });
  const r = found[0];
  return r && String(r.offset) === offset ? { ...r, partition: Number(partition) } : undefined;
}

/** valueAt reads the whole value of a record. */
export async function valueAt(topic: string, at: string, signal?: AbortSignal): Promise<Uint8Array> {
  const [partition, offset] = at.split(":");
  const answer = await send("GET", "/record", { signal, accept: "*/*", query: { "topic-name": topic, partition, offset } });
  return new Uint8Array(await answer.arrayBuffer());
}

/** bytesOf decodes base64. */
export function bytesOf(base64: string): Uint8Array { return Uint8Array.from(atob(base64), c => c.charCodeAt(0)); }

/** KeyEntry is a key with its newest record. */
export interface KeyEntry { key?: string; key_base64?: string; partition: number; offset: Int; timestamp: Int }

/** Keys is a page of keys. next and next_base64 are absent in the last one. */
export interface Keys { keys: KeyEntry[]; next?: string; next_base64?: string }

/** keysOf reads a full page of keys, or all there are. Pages of the API can be short. */
export async function keysOf(topic: string, from: { prefix?: string; after?: string; after64?: string }, signal: AbortSignal): Promise<Keys> {
  const limit = 100, all: KeyEntry[] = [];
  let { after, after64 } = from;
  for (;;) {
    const page = await call<Keys>("GET", "/keys", { signal, query: { "topic-name": topic, prefix: from.prefix, after, "after-base64": after64, limit: limit - all.length } });
    all.push(...page.keys);
    [after, after64] = [page.next, page.next_base64];
    if (all.length >= limit || after === undefined && after64 === undefined) return { ...page, keys: all };
  }
}
