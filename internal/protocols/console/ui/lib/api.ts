// Requests to the broker's HTTP API. An error is a Problem with the broker's own sentence.

import { State } from "./state";

/** Int is a 64-bit number of the API. It is a bigint if a JavaScript number cannot hold it exactly. */
export type Int = number | bigint;

/** Query has the parameters of a request. Undefined and empty ones are left out. */
export type Query = Record<string, string | number | bigint | boolean | undefined>;

/** Options of a request. A body that is not text is sent as JSON. */
export interface Options {
  query?: Query;
  body?: unknown;
  headers?: Record<string, string>;
  accept?: string;
  signal?: AbortSignal;
}

/** Problem is an error answer, or status 0 if the broker cannot be reached. */
export class Problem extends Error {
  constructor(readonly status: number, readonly code: string, detail: string, readonly members: Record<string, any> = {}) {
    super(detail);
  }
}

/** unreachable is whether the last request found no broker. */
export const unreachable = new State(false);

/** ended is why the session ended, or "". The pages then give way to the login. */
export const ended = new State("");

// The API is one folder above the page, also behind a proxy that adds a path.
const root = new URL("..", document.baseURI);

// localStorage is kept apart by port, which cookies are not.
const stored = "seb-session";

/** keepSession stores the page's half of a session; "" forgets it. */
export function keepSession(half: string) {
  if (half) localStorage.setItem(stored, half);
  else localStorage.removeItem(stored);
}

/** hasSession reports whether the browser has the page's half of a session. */
export function hasSession(): boolean { return localStorage.getItem(stored) !== null; }

/** ahead is how far the broker's clock is ahead of this browser's, in ms; near enough for "in 3 days". */
let ahead = 0;

/** now is the broker's time in ms. */
export function now(): number { return Date.now() + ahead; }

/** sessionHeaders returns the header with the page's half. */
export function sessionHeaders(): Record<string, string> {
  const half = localStorage.getItem(stored);
  return half ? { "Seb-Session": half } : {};
}

/** at builds a path from a template, with each value escaped: at`/triggers/${id}`. */
export function at(parts: TemplateStringsArray, ...values: string[]): string {
  return parts.reduce((path, part, i) => path + encodeURIComponent(values[i - 1]!) + part);
}

/** apiAddress returns the address of a request. */
export function apiAddress(path: string, query: Query = {}): URL {
  const url = new URL(path.replace(/^\//, ""), root);
  for (const [name, value] of Object.entries(query)) {
    if (value !== undefined && value !== "") url.searchParams.set(name, String(value));
  }
  return url;
}

/** curl returns the command that sends a GET request, for a person at a terminal. */
export function curl(path: string, query?: Query): string {
  return `curl -H "Authorization: Bearer $KEY" '${apiAddress(path, query)}'`;
}

/** Exact is a number of JSON that a JavaScript number would change. */
export class Exact {
  constructor(readonly source: string) {}
  toString(): string { return this.source; }
}

// decimal returns the same text for equal numbers.
function decimal(text: string): string {
  const [, sign, whole, fraction = "", exponent = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? ["", "", text];
  const digits = (whole + fraction).replace(/^0+/, ""), all = digits.replace(/0+$/, "");
  return all && `${sign}${all}e${BigInt(exponent) - BigInt(fraction.length) + BigInt(digits.length - all.length)}`;
}

/** parse reads JSON. A number that a JavaScript number cannot hold becomes a bigint, or an Exact if it is not written as a whole one. */
export function parse(text: string): any {
  return JSON.parse(text, ((_: string, value: unknown, context?: { source?: string }) => {
    const source = context?.source;
    if (typeof value !== "number" || !source) return value;
    if (/^-?\d+$/.test(source)) return Number.isSafeInteger(value) ? value : BigInt(source);
    return decimal(String(value)) === decimal(source) ? value : new Exact(source);
  }) as (key: string, value: unknown) => unknown);
}

/** stringify is the reverse of parse. */
export function stringify(value: unknown, indent?: number): string {
  const raw = (JSON as unknown as { rawJSON?: (text: string) => unknown }).rawJSON;
  return JSON.stringify(value, (_, v) => typeof v === "bigint" || v instanceof Exact ? (raw ? raw(String(v)) : Number(String(v))) : v, indent);
}

/** send sends a request with the session and returns the answer. Errors: Problem, AbortError. */
export async function send(method: string, path: string, o: Options = {}): Promise<Response> {
  const headers: Record<string, string> = { Accept: o.accept ?? "application/json", ...o.headers };
  if (!headers.Authorization) Object.assign(headers, sessionHeaders());
  let body: BodyInit | undefined;
  if (typeof o.body === "string" || o.body instanceof Blob || o.body instanceof Uint8Array) body = o.body as BodyInit;
  else if (o.body !== undefined) {
    body = stringify(o.body);
    headers["Content-Type"] ??= "application/json";
  }
  let answer: Response;
  try {
    answer = await fetch(apiAddress(path, o.query), { method, headers, body, signal: o.signal, credentials: "same-origin", cache: "no-store" });
  } catch (e) {
    if (o.signal?.aborted) throw e;
    unreachable.value = true;
    throw new Problem(0, "unreachable", "The broker does not answer. It may have stopped, or the network is down.");
  }
  unreachable.value = false;
  const date = Date.parse(answer.headers.get("Date") ?? "");
  if (date) ahead = date - Date.now();
  if (answer.ok || answer.status === 304) return answer;
  throw await problemOf(answer);
}

async function problemOf(answer: Response): Promise<Problem> {
  const text = await answer.text();
  let p: Problem;
  try {
    const members = parse(text);
    p = new Problem(answer.status, members.code, members.detail ?? members.title, members);
  } catch {
    p = new Problem(answer.status, "", text || answer.statusText);
  }
  if (p.status === 401) ended.value = p.message;
  return p;
}

/** call sends a request and returns the JSON of the answer. Errors: Problem, AbortError. */
export async function call<T>(method: string, path: string, o?: Options): Promise<T> {
  const answer = await send(method, path, o);
  const text = await answer.text();
  return (text ? parse(text) : undefined) as T;
}

/** StreamEvent is a server-sent event. */
export interface StreamEvent { id: string; event: string; data: string }

/**
 * stream calls take with each event of an answer of server-sent events until the answer ends or the
 * signal is aborted. The events of one chunk of the network come in one call. Errors: Problem, AbortError.
 */
export async function stream(method: string, path: string, o: Options, take: (events: StreamEvent[]) => void): Promise<void> {
  const answer = await send(method, path, { ...o, accept: "text/event-stream" });
  const decoder = new TextDecoder(), reader = answer.body!.getReader();
  let rest = "", id = "";
  for (;;) {
    const { done, value } = await reader.read();
    if (done) return;
    rest += decoder.decode(value, { stream: true });
    const end = rest.lastIndexOf("\n\n");
    if (end < 0) continue;
    const events: StreamEvent[] = [];
    for (const block of rest.slice(0, end).split("\n\n")) {
      let event = "message", data: string[] = [];
      for (const line of block.split("\n")) {
        if (line.startsWith("data:")) data.push(line.slice(line[5] === " " ? 6 : 5));
        else if (line.startsWith("id:")) id = line.slice(3).trim();
        else if (line.startsWith("event:")) event = line.slice(6).trim();
      }
      if (data.length || event !== "message") events.push({ id, event, data: data.join("\n") });
    }
    rest = rest.slice(end + 2);
    if (events.length) take(events);
  }
}
