// Topics, as the API describes them.

import { call, type Int } from "./api";

/** Partition is a partition of a topic. Offsets from start_offset up to last_stable_offset can be read: there the oldest open transaction begins. */
export interface Partition { partition: number; start_offset: Int; next_offset: Int; last_stable_offset: Int; latest_commit_at?: string; records: Int; bytes: Int }

/** Topic is an answer of GET /topic. settings has those that were set. */
export interface Topic { name: string; id: string; settings: Record<string, string>; partitions: Partition[] }

/** topicOf loads the description of a topic. */
export function topicOf(name: string, signal?: AbortSignal): Promise<Topic> {
  return call<Topic>("GET", "/topic", { query: { "topic-name": name }, signal });
}

/** sum adds 64-bit numbers. */
export function sum(all: readonly Int[]): bigint { return all.reduce<bigint>((a, b) => a + BigInt(b), 0n); }

/** lastWrite is the time of the newest commit to a topic; undefined: there is none. */
export function lastWrite(t: Topic): string | undefined {
  return t.partitions.map(p => p.latest_commit_at).reduce<string | undefined>((a, b) => b && (!a || b > a) ? b : a, undefined);
}
