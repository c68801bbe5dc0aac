import type { Code, OffsetResult, PartitionResult, Problem } from "./types.js";

/** The effect of a call that failed: none (it does not write), rejected, or unknown. */
export type Effect = "none" | "rejected" | "unknown";

/** What is known of a failed call. Each error has these fields. */
export interface Fault {
  outcome: Effect;
  /** Of the HTTP answer; 0: no answer. */
  status: number;
  /** Stable name of the reason; "": the answer had none. A newer broker may send other codes. */
  code: Code | "" | (string & {});
  /** For people. */
  detail: string;
  /** Seconds; 0: the answer did not say. */
  retryAfter: number;
  /** The partition's end, with offset_mismatch. */
  nextOffset?: number;
  /** The partition's start, with offset_below_start. */
  startOffset?: number;
  /** The group's committed offset, with offset_mismatch of a commit; -1: none. */
  committed?: number;
  leader?: string;
  /** Line and column, from 1, of an error in the text of an expression. */
  line?: number;
  column?: number;
  /** JSON Pointer to an error in the JSON form of an expression. */
  pointer?: string;
  /** The outcome of each partition, if a produce to several ended differently. */
  results?: PartitionResult[];
  /** The outcome of each offset, if not all commits succeeded. */
  offsets?: OffsetResult[];
  /** Why there is no valid answer. */
  cause?: unknown;
}

/** A call has failed. Errors of writes are a RejectedError or an OutcomeUnknownError. */
export class SebError extends Error implements Fault {
  declare outcome: Effect;
  declare status: number;
  declare code: Fault["code"];
  declare detail: string;
  declare retryAfter: number;
  declare nextOffset?: number;
  declare startOffset?: number;
  declare committed?: number;
  declare leader?: string;
  declare line?: number;
  declare column?: number;
  declare pointer?: string;
  declare results?: PartitionResult[];
  declare offsets?: OffsetResult[];
  declare cause?: unknown;

  constructor(fault: Fault) {
    const { cause, ...rest } = fault;
    super(sentence(fault), cause === undefined ? undefined : { cause });
    Object.assign(this, rest);
  }
}

/** Nothing is stored, and nothing of the call can appear later. */
export class RejectedError extends SebError {}

/** The write may take effect once, or never. */
export class OutcomeUnknownError extends SebError {}

for (const [name, kind] of Object.entries({ SebError, RejectedError, OutcomeUnknownError })) {
  Object.defineProperty(kind.prototype, "name", { value: name });
}

export function errorOf(fault: Fault): SebError {
  const kind = { none: SebError, rejected: RejectedError, unknown: OutcomeUnknownError }[fault.outcome];
  return new kind(fault);
}

/** The fault of a call without a valid answer. */
export function noAnswer(outcome: Effect, cause: unknown, status = 0): Fault {
  return { outcome, status, code: "", detail: "", retryAfter: 0, cause };
}

/** The error for an argument that is wrong. write: of a call that writes. */
export function invalid(text: string, write = false): SebError {
  return errorOf(noAnswer(write ? "rejected" : "none", new TypeError(text)));
}

/** A 2xx answer that no broker sends: a proxy may have sent it. */
export class NotBroker extends Error {}

/** A request that the other side cannot have seen. again: a repetition may succeed. */
export interface NotSent {
  again: boolean;
}

/** Tells from the error of fetch whether the request cannot have been sent, or the peer refused or is not trusted. */
export function notSent(error: unknown): NotSent | undefined {
  for (let e = error as FetchCause | undefined; e; e = (e.cause ?? e.errors?.[0]) as FetchCause | undefined) {
    const code = String(e.code ?? "");
    if (/CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG/.test(code) ||
        /invalid peer certificate|bad port|port \d+ (is|are) blocked|TLS handshake failed|corrupt message/i.test(e.message ?? "")) return { again: false };
    if (["connect", "getaddrinfo"].includes(e.syscall ?? "") || /^(ECONNREFUSED|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused|FailedToOpenSocket)$/.test(code) ||
        /tcp connect error|dns error/i.test(e.message ?? "")) return { again: true };
  }
  return undefined;
}

interface FetchCause {
  message?: string;
  code?: unknown;
  syscall?: string;
  cause?: unknown;
  errors?: unknown[];
}

/** The message of an error. That of fetch itself says nothing, but its cause does. */
function reasonOf(error: unknown): string {
  let e = error as FetchCause | undefined;
  for (let inner = e; inner && (!inner.message || inner.message === "fetch failed"); ) e = inner = (inner.cause ?? inner.errors?.[0]) as FetchCause | undefined;
  return firstLine(e?.message || String(e?.code ?? error));
}

/** One line: the reason, and the outcome of a write. */
function sentence(f: Fault): string {
  let text = "";
  if (f.code) text = f.code.replaceAll("_", " ");
  else if (f.status) text = `answer ${f.status}`;
  if (text && f.detail) text += ": " + f.detail;
  if (f.cause !== undefined) text += (text && ": ") + reasonOf(f.cause);
  if (f.outcome === "unknown" && f.code !== "outcome_unknown") text += " (outcome unknown: it may appear once, or never)";
  if (["not_found", "method_not_allowed"].includes(f.code) || (f.status === 404 && !f.code)) {
    text += " (the address does not know this call: it may be a broker of an older version)";
  }
  return text;
}

/** Reads the fault of an answer without a 2xx status. */
export function faultOf(status: number, headers: Headers, body: string, write: boolean): Fault {
  const f: Fault = { outcome: "none", status, code: "", detail: "", retryAfter: retryAfter(headers.get("Retry-After")) };
  let p: Problem | undefined;
  if (headers.get("Content-Type")?.startsWith("application/problem+json")) {
    try {
      p = JSON.parse(body) as Problem;
    } catch {} // the first line tells more
  }
  if (p && typeof p === "object") fillFault(f, p);
  else f.detail = firstLine(body);
  if (write) {
    // The broker's rejections have a code. A 5xx status without one comes from a proxy, which may have forwarded the request.
    f.outcome = f.code !== "outcome_unknown" && (status < 500 || (status === 503 && f.code !== "")) ? "rejected" : "unknown";
  }
  return f;
}

/** Fills in what a problem says. */
export function fillFault(f: Fault, p: Problem): void {
  f.code = String(p.code ?? "");
  f.detail = String(p.detail ?? "");
  const more = {
    nextOffset: p.next_offset, startOffset: p.start_offset, committed: p.committed_offset, leader: p.leader,
    line: p.line, column: p.column, pointer: p.pointer, results: p.results, offsets: p.offsets,
  };
  Object.assign(f, Object.fromEntries(Object.entries(more).filter(([, v]) => v !== undefined && v !== null)));
}

function retryAfter(text: string | null): number {
  if (!text) return 0;
  if (/^\d{1,4}$/.test(text)) return Number(text) <= 3600 ? Math.max(Number(text), 0.001) : 0;
  const at = Date.parse(text);
  return Number.isNaN(at) ? 0 : Math.max((at - Date.now()) / 1000, 0.001);
}

export function firstLine(body: string): string {
  return body.slice(0, 300).trim().split("\n", 1)[0]!.trim();
}

/** Reports whether another broker may serve the request that failed. */
export function elsewhere(f: Fault, aborted: boolean): boolean {
  if (["not_leader", "fenced", "shutting_down", "not_yet", "store_unavailable"].includes(f.code)) return true;
  return !aborted && (f.status === 0 || (f.status >= 200 && f.status < 300 && !(f.cause instanceof NotBroker)));
}

/** Reports whether sending a request again is safe and can succeed. free: the call is a read, or idempotent. */
export function repeatable(f: Fault, free: boolean): boolean {
  if (f.code === "fenced" && f.retryAfter === 0) return false;
  if (f.code === "key_index_behind") return false; // the broker has already waited
  if (f.status === 0) return notSent(f.cause)?.again !== false && (free || f.outcome === "rejected");
  if (f.status >= 200 && f.status < 300) return free && !(f.cause instanceof NotBroker); // the answer ended early
  if (!free) return f.outcome === "rejected" && !f.results?.length && f.retryAfter > 0 && (f.status === 429 || f.status === 503);
  return [408, 429, 502, 503, 504].includes(f.status);
}
