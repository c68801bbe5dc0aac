// Words of the drawing.

import type { Box, Comparison, Filter, Value } from "./tree";

const units: Record<string, number> = { ms: 1, seconds: 1000, minutes: 60000, hours: 3600000, days: 86400000, weeks: 604800000 };

/** unitNames are the units of durations. */
export const unitNames = Object.keys(units);

const amount = /\s*(\d+(?:\.\d+)?)\s*(ms|w(?:eeks?)?|d(?:ays?)?|h(?:rs?|ours?)?|m(?:ins?|inutes?)?|s(?:ecs?|econds?)?)(?![a-z])\s*/giy;

/** parts splits a duration such as 1d12h into numbers and units; undefined: it is not valid. */
export function parts(text: string): (readonly [n: string, unit: string])[] | undefined {
  const found = [...text.matchAll(amount)];
  return found.length && found.map(f => f[0]).join("") === text ? found.map(([, n, u]) => [n!, /^ms$/i.test(u!) ? "ms" : unitNames.findLast(name => name[0] === u![0]!.toLowerCase())!]) : undefined;
}

/** inUnit converts a duration to one unit, to a whole number unless it has few decimals. */
export function inUnit(text: string, unit: string): string {
  const n = (parts(text) ?? []).reduce((sum, [n, u]) => sum + Number(n) * units[u]!, 0) / units[unit]!;
  return duration(n && Number.isInteger(n * 1000) ? n : Math.max(1, Math.round(n)), unit);
}

/** duration returns a duration: 1 day, 7 days. */
export function duration(n: string | number, unit: string): string { return `${n} ${Number(n) === 1 && unit !== "ms" ? unit.slice(0, -1) : unit}`; }

/** time reads a duration out: 1d12h is "1 day 12 hours". */
export function time(text: string): string { return parts(text)?.map(([n, unit]) => duration(n, unit)).join(" ") ?? text; }

/** timeWords says when a box must be true, from the step before it. */
export function timeWords(b: Box): string {
  const until = b.within && time(b.within), from = b.after && time(b.after);
  if (isAbsence(b)) return from ? `from ${from} ${until ? `to ${until}` : "on"}` : until ? `for ${until}` : "";
  return from ? until ? `between ${from} and ${until} later` : `at least ${from} later` : until ? `within ${until}` : "";
}

/** isAbsence reports whether nothing of a box may happen in its time. */
export function isAbsence({ absent, op }: Box): boolean { return absent && (!op || op === "or"); }

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

/** unfinishedName is shown for a box without an event. */
export const unfinishedName = "choose an event";

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
