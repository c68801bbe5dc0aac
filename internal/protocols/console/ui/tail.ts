// The worker of the live tail, a file of its own. It reads one event stream, keeps the newest
// records as they came, and gives the page those that it shows. So the page stays smooth however
// fast records come, and the network waits, rather than memory growing, if they come too fast.

/** Start begins a stream behind the event with the ID position, or, without one, resumes it where it was. */
export interface Start { kind: "start"; url: string; headers: Record<string, string>; position?: string; all: boolean }

/** Ask wants `count` records from the number `first` down, or the newest. */
export interface Ask { kind: "ask"; first?: number; count: number }

export type ToTail = Start | Ask | { kind: "pause" };

/**
 * Tail is the answer to Ask. Records are numbered from 1 on, as they are received. The text of the
 * i-th row is in text up to ends[i]; it is moved to the page, not copied.
 */
export interface Tail {
  state: "connecting" | "open" | "lost" | "paused" | "ended"; problem?: { status: number; detail: string };
  received: number; looked: number; oldest: number; rate: number; position: string; first: number; text: Uint8Array; ends: number[];
  skips: [from: string, to: string][]; // positions between which nothing was read
}

// Records that are kept, and the bytes of their text.
const keep = 50_000, keepBytes = 24 << 20, segmentBytes = 512 << 10;

// A record stays as bytes of the segment that it was received into. The page decodes what it shows.
const segments = new Array<Uint8Array | undefined>(keep), starts = new Uint32Array(keep), sizes = new Uint32Array(keep);
const skips: Tail["skips"] = [];
let received = 0, oldest = 1, kept = 0, looked = 0, position = "";
let begun = false, state: Tail["state"] = "connecting", problem: Tail["problem"], abort = new AbortController();
const marks: [time: number, received: number][] = [];

function add(segment: Uint8Array, start: number, end: number) {
  if (++received - oldest >= keep) drop();
  const at = received % keep;
  segments[at] = segment;
  starts[at] = start;
  kept += sizes[at] = end - start;
  while (kept > keepBytes && oldest < received) drop();
}

function drop() {
  const at = oldest++ % keep, segment = segments[at]!;
  kept -= sizes[at]!;
  segments[at] = undefined;
  // Segments are filled one after the other, so this was the last record of its segment.
  if (segments[oldest % keep] !== segment && segment !== filled && segment.length === segmentBytes) free.push(segment);
}

// Segments for use again: new ones would be megabytes of garbage a second.
const free: Uint8Array[] = [];
let filled: Uint8Array | undefined;

function segmentOf(least: number): Uint8Array {
  filled = least <= segmentBytes ? free.pop() ?? new Uint8Array(segmentBytes) : new Uint8Array(least);
  return filled;
}

const decoder = new TextDecoder();

/** rowsFrom copies the text of the records with the numbers from `first` down to `last`. */
function rowsFrom(first: number, last: number): { text: Uint8Array<ArrayBuffer>; ends: number[] } {
  const ends: number[] = [];
  let end = 0;
  for (let n = first; n >= last; n--) ends.push(end += sizes[n % keep]!);
  const text = new Uint8Array(end);
  for (let n = first, i = 0; n >= last; n--, i++) {
    const at = n % keep, start = starts[at]!;
    text.set(segments[at]!.subarray(start, start + sizes[at]!), i ? ends[i - 1]! : 0);
  }
  return { text, ends };
}

const newline = 10, space = 32, letter = { id: 105, event: 101, data: 100 }; // the first letters of the fields

/**
 * take reads the whole events of a segment from begin up to end, and adds those that are records.
 * It returns where the rest begins, or a problem that ends the stream.
 */
function take(segment: Uint8Array, begin: number, end: number): number | NonNullable<Tail["problem"]> {
  const text = (start: number, end: number) => decoder.decode(segment.subarray(start, end));
  let id: [number, number] | undefined, event: [number, number] | undefined, data: [number, number] | undefined, next: [number, number] | undefined;
  const received = segment.subarray(0, end);
  for (let line = begin; ;) {
    const eol = received.indexOf(newline, line);
    if (eol < 0) break;
    const field = segment[line], value = line + (field === letter.id ? 3 : field === letter.event ? 6 : 5), range: [number, number] = [segment[value] === space ? value + 1 : value, eol];
    if (eol > line) {
      if (field === letter.data) data = range;
      else if (field === letter.id) next = range;
      else if (field === letter.event) event = range;
      line = eol + 1;
      continue;
    }
    id = next ?? id;
    const kind = event ? text(...event) : "";
    if (kind === "error") {
      if (id) position = text(...id);
      return problemOf(text(...data!));
    }
    if (kind === "progress") looked += Number(JSON.parse(text(...data!)).records);
    else if (data) add(segment, ...data);
    event = data = next = undefined;
    begin = line = eol + 1;
  }
  if (id) position = text(...id);
  return begin;
}

function problemOf(text: string): { status: number; detail: string } {
  try {
    const p = JSON.parse(text);
    return { status: p.status, detail: p.detail ?? p.title };
  } catch {
    return { status: 0, detail: text };
  }
}

/**
 * reading returns a function that reads the next bytes, which are valid until the next call. It
 * reads into one buffer, where the browser can: a new one for each piece is garbage that stays long.
 */
function reading(body: ReadableStream<Uint8Array<ArrayBuffer>>): () => Promise<Uint8Array | undefined> {
  let buffer = new ArrayBuffer(64 << 10), reader: ReadableStreamBYOBReader;
  try {
    reader = body.getReader({ mode: "byob" });
  } catch {
    const plain = body.getReader();
    return async () => (await plain.read()).value;
  }
  return async () => {
    const { done, value } = await reader.read(new Uint8Array(buffer));
    if (done || !value) return undefined;
    buffer = value.buffer;
    return value;
  };
}

/** once reads one answer to its end. It returns why there is no use in another try, or undefined. */
async function once(s: Start, signal: AbortSignal): Promise<Tail["problem"]> {
  const url = new URL(s.url), headers = { ...s.headers };
  if (s.all) headers["Last-Event-ID"] = position;
  else if (position) url.searchParams.set("offset", String(BigInt(position) + 1n));
  else url.searchParams.set("offset", "0");
  const answer = await fetch(url, { headers, signal, credentials: "same-origin", cache: "no-store" });
  if (!answer.ok) {
    const p = problemOf(await answer.text());
    return answer.status >= 500 || answer.status === 429 ? undefined : { ...p, status: answer.status };
  }
  state = "open";
  const read = reading(answer.body!);
  let segment = segmentOf(segmentBytes), begin = 0, end = 0;
  for (;;) {
    const value = await read();
    if (!value) return undefined;
    if (end + value.length > segment.length) {
      const rest = segment.subarray(begin, end);
      segment = segmentOf(2 * (rest.length + value.length));
      segment.set(rest);
      [begin, end] = [0, rest.length];
    }
    segment.set(value, end);
    end += value.length;
    const got = take(segment, begin, end);
    if (typeof got !== "number") return got.status >= 500 || got.status === 429 ? undefined : got;
    begin = got;
  }
}

async function run(s: Start) {
  abort.abort();
  const { signal } = abort = new AbortController();
  state = "connecting";
  problem = undefined;
  if (s.position !== undefined) {
    if (begun) skips.push([position, s.position]);
    position = s.position;
  }
  begun = true;
  for (let wait = 250; !signal.aborted; wait = Math.min(2 * wait, 4000)) {
    const before = received;
    try {
      problem = await once(s, signal);
    } catch { /* the broker is not there, or the stream was broken off */ }
    if (signal.aborted) return;
    state = problem ? "ended" : "lost";
    if (problem) return;
    if (received > before) wait = 250;
    await new Promise(done => setTimeout(done, wait));
  }
}

/** rate is how many records came a second, over the last two seconds. */
function rate(): number {
  const now = performance.now();
  marks.push([now, received]);
  while (marks.length > 2 && now - marks[1]![0] > 2000) marks.shift();
  const [time, count] = marks[0]!;
  return now > time ? (received - count) * 1000 / (now - time) : 0;
}

addEventListener("message", e => {
  const m = e.data as ToTail;
  if (m.kind === "start") run(m);
  else if (m.kind === "pause") {
    abort.abort();
    state = "paused";
  } else {
    const least = oldest + Math.min(m.count, received - oldest + 1) - 1, first = Math.min(received, Math.max(m.first ?? received, least));
    const { text, ends } = rowsFrom(first, Math.max(oldest, first - m.count + 1));
    postMessage({ state, problem, received, looked, oldest, rate: rate(), position, first, text, ends, skips } satisfies Tail, [text.buffer]);
  }
});
