// What the broker says about itself.

import { call, parse, send, type Int, type Query } from "./api";
import { everything } from "./list";

/** Status is the answer to GET /status. */
export interface Status {
  version?: string; started?: string; role: string; epoch: number; format_level: number; ready: boolean; reason?: string; topics: number; warnings?: string[];
  store: { name?: string; puts: number; put_median_ms: number; put_p99_ms: number };
  memory: { limit_bytes: number; reserved_bytes: number; state_bytes: number; state_max_bytes: number };
  lag: { group?: { group: string; topic: string; records: Int }; trigger_records: Int; trigger_seconds: number };
  letters?: { queue: string; messages: Int };
  kafka?: { address: string; tls?: boolean };
}

export function getStatus(signal: AbortSignal): Promise<Status> { return call("GET", "/status", { signal }); }

/** Stats is the answer to GET /stats: for each time, in Unix seconds, a value of each series or null. */
export interface Stats { window: string; reason?: string; step_seconds: number; times: number[]; series: Record<string, { unit: string; values: (number | null)[] }> }

export function getStats(window: string, signal: AbortSignal, path = "/stats"): Promise<Stats> { return call("GET", path, { query: { window }, signal }); }

/** Group is a consumer group with its members. lag is a number of records. */
export interface Group { group: string; lag: Int; members?: unknown[]; offsets: { committed_at: string; topic: string; partition: number; offset: Int; lag: Int }[] }

/** getGroups loads groups with their members, if the broker knows them. at is the broker's clock: that of the browser may be wrong. */
export async function getGroups<T = { groups: Group[]; next?: string }>(query: Query, signal: AbortSignal): Promise<T & { at: number }> {
  const get = (members?: boolean) => send("GET", "/groups", { query: { ...query, members }, signal });
  const answer = await get(true).catch(e => {
    if (e.code !== "read_only") throw e;
    return get();
  });
  return { ...parse(await answer.text()), at: Date.parse(answer.headers.get("Date") ?? "") || Date.now() };
}

/** Trigger is a trigger with the counts of its firings. */
export interface Trigger { id: string; blocked?: string; firings?: { states: Record<string, number> } }

export function getTriggers(signal: AbortSignal): Promise<Trigger[]> { return everything("/triggers", "triggers", { counts: true }, signal); }
