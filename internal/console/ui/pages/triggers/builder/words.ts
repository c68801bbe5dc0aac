// Words of the drawing.

import type { Box, Comparison, Filter, Value } from "./tree";

const units = [["w", "week", 604800000], ["d", "day", 86400000], ["h", "hour", 3600000], ["m", "minute", 60000], ["s", "second", 1000], ["ms", "ms", 1]] as const;

/** unitNames are the units of durations, in the plural. */
export const unitNames = units.map(([, name]) => plural(name)).reverse();

function plural(name: string): string { return name === "ms" ? name : name + "s"; }

/** unitOf returns the unit with a name of driplang: d, day, days. */
function unitOf(name: string) {
  const n = name.toLowerCase().replace(/^(hr|min|sec)(s?)$/, (_, u: string) => u[0]!);
  return units.find(([short, long]) => n === short || n === long || n === long + "s" && long !== "ms");
}

/** parts splits a duration such as 1d12h; undefined: it is not valid. */
function parts(text: string) {
  const found = [...text.matchAll(/\s*(\d+(?:\.\d+)?)\s*([A-Za-z]+)\s*/gy)].map(([, n, name]) => [n!, unitOf(name!)] as const);
  return found.length && found.every(([, u]) => u) && /^(\s*\d+(\.\d+)?\s*[A-Za-z]+)+\s*$/.test(text) ? found as [string, (typeof units)[number]][] : undefined;
}

/** single returns a duration of one unit as number and unit: 7, days. undefined: it has several. */
export function single(text: string): { n: string; unit: string } | undefined {
  const found = parts(text);
  return found?.length === 1 ? { n: found[0]![0], unit: plural(found[0]![1][1]) } : undefined;
}

/** inUnit converts a duration to one unit. */
export function inUnit(text: string, unit: string): string {
  const ms = parts(text)?.reduce((sum, [n, u]) => sum + Number(n) * u[2], 0) ?? 0, n = ms / units.find(u => plural(u[1]) === unit)![2];
  return duration(String(Number.isInteger(n * 1000) && n ? n : Math.max(1, Math.round(n))), unit);
}

/** duration returns a duration: 1 day, 7 days. */
export function duration(n: string, unit: string): string { return `${n} ${Number(n) === 1 && unit !== "ms" ? unit.slice(0, -1) : unit}`; }

/** time reads a duration out: 1d12h is "1 day 12 hours". */
export function time(text: string): string { return parts(text)?.map(([n, u]) => duration(n, plural(u[1]))).join(" ") ?? text; }

/** timeWords says when a box must be true, from the step before it. */
export function timeWords({ within, after, absent, op }: Box): string {
  const until = within === undefined ? "" : time(within), from = after === undefined ? "" : time(after);
  if (!until && !from) return "";
  if (absent && (!op || op === "or")) return from ? until ? `from ${from} to ${until}` : `from ${from} on` : `for ${until}`;
  return from ? until ? `between ${from} and ${until} later` : `at least ${from} later` : `within ${until}`;
}

/** often are the comparisons of a count. */
export const often: readonly (readonly [Comparison, string])[] = [[">=", "at least"], [">", "more than"], ["=", "exactly"], ["<=", "at most"], ["<", "fewer than"], ["!=", "not exactly"]];

/** compared are the comparisons of a property. */
export const compared: readonly (readonly [Comparison, string])[] = [["=", "is"], ["!=", "is not"], [">", "is more than"], [">=", "is at least"], ["<", "is less than"], ["<=", "is at most"]];

const say = (words: readonly (readonly [Comparison, string])[], is: Comparison) => words.find(([c]) => c === is)?.[1] ?? is;

/** happens says what a box says of its event. */
export function happens({ absent, count }: Box): string {
  return (absent ? "does not happen" : "happens") + (count ? ` ${say(often, count.is)} ${count.n} ${count.n === 1 ? "time" : "times"}` : "");
}

/** groups are the names of groups: of an operator, and of its NOT. */
export const groups = { and: ["all of", "not all of"], or: ["any of", "none of"], then: ["in this order", "not in this order"] } as const;

/** groupName is the name of a group. */
export function groupName({ op, absent }: Box): string { return op ? groups[op][absent ? 1 : 0] : absent ? "this is not so" : "this"; }

function constant(v: Value): string { return typeof v === "string" ? `“${v}”` : v === null ? "missing" : String(v); }

/** choose is a condition without a property. */
export const choose = "choose a property";

/** filterWords says a condition in one line. */
export function filterWords(f: Filter): string {
  if ("property" in f) return f.property === "" ? choose : `${f.property} ${say(compared, f.is)} ${constant(f.value)}`;
  if ("not" in f) return `not (${filterWords(f.not)})`;
  const [all, word] = "and" in f ? [f.and, " and "] : [f.or, " or "];
  return all.map(k => "property" in k || "not" in k ? filterWords(k) : `(${filterWords(k)})`).join(word);
}

/** lines says a condition, with the parts of an AND in a line each. */
export function lines(f?: Filter): string[] { return !f ? [] : "and" in f ? f.and.map(filterWords) : [filterWords(f)]; }

/** similar returns the known name that is the most similar to a name; undefined: none is, or the name is known. */
export function similar(name: string, known: readonly string[]): string | undefined {
  const limit = Math.floor(([...name].length + 2) / 4);
  let best = limit + 1, found: string | undefined;
  for (const k of known) {
    if (k === name) return undefined;
    const d = Math.abs(k.length - name.length) > limit ? best : distance(name.toLowerCase(), k.toLowerCase());
    if (d < best) [best, found] = [d, k];
  }
  return found;
}

// distance is the number of letters that are changed, missing, added or swapped with the next one.
function distance(a: string, b: string): number {
  let before: number[] = [], last: number[] = [], row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 0; i < a.length; i++) {
    [before, last, row] = [last, row, [i + 1]];
    for (let j = 0; j < b.length; j++) {
      row[j + 1] = Math.min(last[j]! + (a[i] === b[j] ? 0 : 1), last[j + 1]! + 1, row[j]! + 1);
      if (i && j && a[i] === b[j - 1] && a[i - 1] === b[j]) row[j + 1] = Math.min(row[j + 1]!, before[j - 1]! + 1);
    }
  }
  return row[b.length]!;
}
