// Undo and redo of the builder. The entries are kept for the time of a browser tab, so that they
// survive a reload of the page.

import { useEffect, useMemo, useState } from "preact/hooks";
import { parse, stringify } from "../../../lib/api";
import { announce } from "../../../lib/parts";
import type { Tree } from "./tree";

/** Start is an expression with its text. */
export interface Start { tree: Tree; text: string }

/** History has the present expression and the edits before and after it. */
export interface History extends Start {
  /** text is the newest known text: of the present tree if `printed`, or else of an earlier one. */
  printed: boolean;
  canUndo: boolean;
  canRedo: boolean;
  /** edit adds an entry. Edits in a row with the same merge are one entry. */
  edit(tree: Tree, merge?: string): void;
  /** type adds an entry with a text that a person typed; typing is one entry. */
  type(text: string, tree: Tree): void;
  /** parsed sets the text of the present tree. */
  parsed(text: string): void;
  undo(): void;
  redo(): void;
}

// An entry without a text is of an edit whose text the broker has not printed yet.
interface Entry { tree: Tree; text?: string; merge?: string }
interface State { entries: Entry[]; at: number }

const maxEntries = 200, maxSize = 1 << 20;

const stored = (key: string) => "seb-builder:" + key;

/** forget removes the stored entries of a key. */
export function forget(key: string) { sessionStorage.removeItem(stored(key)); }

const texts = new WeakMap<Entry, string>();

function textOf(e: Entry): string {
  const text = texts.get(e) ?? stringify(e);
  texts.set(e, text);
  return text;
}

/** bounded leaves out the oldest entries beyond the limits, but never the present one. */
export function bounded({ entries, at }: State, most = maxEntries, size = maxSize): State {
  let first = entries.length, left = size;
  while (first > 0 && entries.length - first < most && (left -= textOf(entries[first - 1]!).length + 1) >= 0) first--;
  first = Math.min(first, at);
  return { entries: entries.slice(first), at: at - first };
}

function save(key: string, state: State) {
  const { entries, at } = bounded(state);
  try {
    sessionStorage.setItem(stored(key), `{"at":${at},"entries":[${entries.map(textOf).join()}]}`);
  } catch {
    forget(key); // no space is left: undo works until a reload
  }
}

// Stored entries count if one of them is the expression that the page starts with. Otherwise somebody
// else has changed the trigger.
function restore(key: string, start: Start): State {
  try {
    const { entries, at } = parse(sessionStorage.getItem(stored(key)) ?? "") as State, tree = stringify(start.tree);
    if (entries[at] && entries.some(e => stringify(e.tree) === tree)) return { entries, at };
  } catch { /* none, or of another version of the console */ }
  return { entries: [{ ...start }], at: 0 };
}

/** push adds an entry after the present one. */
export function push({ entries, at }: State, entry: Entry): State {
  const here = entries[at]!, merged = entry.merge !== undefined && here.merge === entry.merge && at === entries.length - 1 && at > 0;
  return bounded({ entries: [...entries.slice(0, merged ? at : at + 1), entry], at: merged ? at : at + 1 });
}

const typing = "text";

/** useHistory keeps the entries of a trigger. Ctrl+Z, Ctrl+Shift+Z and Ctrl+Y work outside of text fields. */
export function useHistory(key: string, start: Start): History {
  const [state, set] = useState(() => restore(key, start));
  useEffect(() => save(key, state), [state]);
  const acts = useMemo(() => {
    const go = (by: number, said: string) => set(s => {
      const at = s.at + by;
      if (!s.entries[at]) return s;
      announce(said);
      // What is typed next is a new entry.
      return { entries: s.entries.map((e, i) => i === at && e.merge ? { ...e, merge: undefined } : e), at };
    });
    return {
      edit: (tree: Tree, merge?: string) => set(s => s.entries[s.at]!.tree === tree ? s : push(s, { tree, merge })),
      type: (text: string, tree: Tree) => set(s => push(s, { tree, text, merge: typing })),
      parsed: (text: string) => set(s => s.entries[s.at]!.text === text ? s : { ...s, entries: s.entries.map((e, i) => i === s.at ? { ...e, text } : e) }),
      undo: () => go(-1, "Undone"),
      redo: () => go(1, "Done again"),
    };
  }, []);
  useEffect(() => {
    const press = (e: KeyboardEvent) => {
      const name = e.key.toLowerCase(), redo = name === "y" || name === "z" && e.shiftKey;
      if (!(e.ctrlKey || e.metaKey) || e.altKey || name !== "z" && !redo || inText(e.target)) return;
      e.preventDefault();
      if (redo) acts.redo();
      else acts.undo();
    };
    document.addEventListener("keydown", press);
    return () => document.removeEventListener("keydown", press);
  }, []);
  const { entries, at } = state, here = entries[at]!;
  return {
    ...acts, tree: here.tree, text: entries.slice(0, at + 1).findLast(e => e.text !== undefined)?.text ?? start.text, printed: here.text !== undefined,
    canUndo: at > 0, canRedo: at < entries.length - 1,
  };
}

function inText(target: EventTarget | null): boolean {
  return target instanceof HTMLTextAreaElement || target instanceof HTMLInputElement && !/^(checkbox|radio|button)$/.test(target.type);
}
