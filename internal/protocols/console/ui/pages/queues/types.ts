// Queues, as the API describes them.

import type { Int } from "../../lib/api";
import type { Content } from "../../lib/records";
import { may } from "../../lib/session";

/** Queue is an answer of GET /queues/{queue}. The numbers are of messages. */
export interface Queue {
  name: string; priorities: number; settings: Record<string, string>; effective_settings: Record<string, string>;
  ready: Int; leased: Int; delayed: Int; retry: Int; dying: Int; dead: Int; sent: Int; bytes: Int; oldest_seconds?: number; look_ahead_full?: boolean; full?: boolean;
}

/** Try is a failed try of a message. by: the token of the worker. */
export interface Try { time: string; by?: string; reason?: string }

/** Message is a message of a queue in a list. */
export interface Message extends Content { id: string; state: string; deliveries: number; until?: string; sent: string; tries?: Try[] }

/** states are those of messages, with what they mean. */
export const states: Record<string, string> = {
  ready: "waits for a worker", leased: "a worker has it", delayed: "was sent for later", retry: "failed, and waits for the next try", done: "is finished",
};

/** letters is the queue to which messages go that failed too often; "": none. */
export function letters(q: Queue): string { const to = q.effective_settings["dead-letter"] ?? ""; return to === "none" ? "" : to; }

/** paused reports whether workers get no messages. */
export function paused(q: Queue): boolean { return q.effective_settings.paused === "true"; }

/** moves reports whether the client may move messages to other queues. */
export function moves(): boolean { return may("read", "topic") && may("read", "group") && may("write", "topic"); }

/** header is the text of a header of a message. */
export function header(m: Message, name: string): string | undefined { return m.headers?.find(h => h.key === name)?.value ?? undefined; }

/** triesOf are the failed tries of a message, also of a dead letter. */
export function triesOf(m: Message): Try[] {
  try {
    return m.tries ?? JSON.parse(header(m, "seb-tries") ?? "[]");
  } catch {
    return []; // another client has written the header
  }
}
