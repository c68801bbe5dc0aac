// The entries of the builder's history, as values.

import { stringify } from "../../../lib/api";
import type { Tree } from "./tree";

/** Entry is an expression. It has no text until the broker has printed it. Typing in a field has a merge. */
export interface Entry { tree: Tree; text?: string; merge?: string }

/** Entries has the entries of the edits in order; the present one is at `at`. */
export interface Entries { entries: Entry[]; at: number }

const maxEntries = 200, maxSize = 1 << 20;

const texts = new WeakMap<Entry, string>();

/** textOf is an entry in JSON. Entries never change, so it is made once. */
export function textOf(e: Entry): string {
  const text = texts.get(e) ?? stringify(e);
  texts.set(e, text);
  return text;
}

/** bounded leaves out the oldest entries beyond the newest `most` and beyond a size in bytes, but never the present one. */
export function bounded({ entries, at }: Entries, most = maxEntries, size = maxSize): Entries {
  let first = entries.length, left = size;
  while (first > 0 && entries.length - first < most && (left -= textOf(entries[first - 1]!).length + 1) >= 0) first--;
  first = Math.min(first, at);
  return first === 0 ? { entries, at } : { entries: entries.slice(first), at: at - first };
}

/** push adds an entry after the present one, in place of those after it. One with the same merge replaces the present one. */
export function push({ entries, at }: Entries, entry: Entry): Entries {
  const end = at > 0 && at === entries.length - 1 && entry.merge !== undefined && entries[at]!.merge === entry.merge ? at : at + 1;
  return bounded({ entries: [...entries.slice(0, end), entry], at: end });
}

/** step undoes with -1 and redoes with 1; undefined: there is nothing. What is typed next is a new entry. */
export function step({ entries, at }: Entries, by: 1 | -1): Entries | undefined {
  const next = at + by;
  if (!entries[next]) return undefined;
  return { entries: entries.map((e, i) => i === next && e.merge ? { ...e, merge: undefined } : e), at: next };
}
