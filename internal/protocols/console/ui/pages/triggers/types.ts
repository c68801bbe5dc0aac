// Triggers and firings, as the API describes them.

/** Delivery is where firings go. Its secrets and the values of its headers are masked. */
export interface Delivery { url?: string; topic?: string; queue?: string; delay?: string; secrets?: string[]; headers?: Record<string, string>; [more: string]: unknown }

/** Spec is the body of PUT /triggers/{id}. */
export interface Spec {
  expr: unknown; topic?: string; fire?: string; cooldown?: string; backfill?: string; carry_fired?: boolean; on_retract?: string; deliver?: Delivery; keep_deliver?: boolean; status?: string;
}

/** Trigger is an answer of GET /triggers/{id}. */
export interface Trigger extends Spec {
  id: string; version: number; tag: string; text: string; names: string[]; class: string; topic: string; fire: string; backfill: string; carry_fired: boolean; status: string;
  backfilling: boolean; late?: boolean; topic_missing: boolean; blocked?: string; created_at: string; version_at: string;
  firings?: {
    states: Record<string, number>; day: number; week: number; since: string | null; last: string | null; pending: number; oldest_pending: string | null; lag_seconds: number;
  };
}

/** Stored is the answer of PUT /triggers/{id}. */
export interface Stored extends Trigger { warnings: string[]; history: { partition: number; offset: number }[] }

/** Witness is an event that made an expression true. */
export interface Witness { event: string; offset: number; time: string; id?: string; data?: unknown }

/** Firing is a firing and the state of its delivery. */
export interface Firing {
  seq: number; id: string; trigger: string; version: number; entity: string; at: string; cause: string; state: string; recorded_at?: string; retracted_at?: string;
  retraction?: boolean; attempts: number; next_attempt?: string; held?: string; topic: string; partition: number; offsets: number[]; witness?: Witness[];
  outcome?: { kind: string; status?: number; reason?: string; detail?: string; at: number; took_ns: number };
}

/** Firings is a page of firings. next: null at the end. */
export interface Firings { firings: Firing[]; next: number | null }

/** Awaited is an event that can still change the value of an expression. */
export interface Awaited { event: string; expr: string; role: string; have: number; need: number; from: string | null; until: string | null }

/** History is what the events of an entity did. unread: why some are missing. A step without an offset is a deadline. */
export interface History {
  unread?: string; partition: number; elsewhere?: boolean; others: { event: string; count: number }[]; more: number;
  steps: { at: string; event: string; offset: number | null; value: string; text: string }[];
}

/** Explanation is the state of a trigger for an entity. */
export interface Explanation {
  trigger: string; version: number; entity: string; known: boolean; value: boolean; as_of?: string; next: string | null; over: boolean; fired: boolean; why: string;
  awaited: Awaited[]; instances: number; degraded: boolean; firings: Firing[]; history: History;
}
