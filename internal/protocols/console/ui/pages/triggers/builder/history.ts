// Undo and redo of the builder. The entries are kept for the time of a browser tab, so that they
// survive a reload of the page.

import { useEffect, useMemo, useState } from "preact/hooks";
import { parse, stringify } from "../../../lib/api";
import { announce } from "../../../lib/parts";
import { push, step, textOf, type Entries } from "./entries";
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

const stored = (key: string) => "seb-builder:" + key;

/** forget removes the stored entries of a key. */
export function forget(key: string) { sessionStorage.removeItem(stored(key)); }

function save(key: string, { entries, at }: Entries, start: Tree) {
  try {
    sessionStorage.setItem(stored(key), `{"start":${stringify(start)},"at":${at},"entries":[${entries.map(textOf).join()}]}`);
  } catch {
    forget(key); // no space is left: undo works until a reload
  }
}

// Stored entries count if they are edits of the expression that the page starts with, or have led to
// it. Otherwise another client has changed the trigger.
function restore(key: string, start: Start): Entries {
  try {
    const { entries, at, start: first } = parse(sessionStorage.getItem(stored(key)) ?? "") as Entries & { start: Tree }, tree = stringify(start.tree);
    if (entries[at] && [first, ...entries.map(e => e.tree)].some(t => stringify(t) === tree)) return { entries, at };
  } catch { /* none, or of another version of the console */ }
  return { entries: [{ ...start }], at: 0 };
}

const typing = "text";

/** useHistory keeps the entries of a trigger. Ctrl+Z, Ctrl+Shift+Z and Ctrl+Y work outside of text fields. */
export function useHistory(key: string, start: Start): History {
  const [state, set] = useState(() => restore(key, start));
  useEffect(() => save(key, state, start.tree), [state]);
  const acts = useMemo(() => {
    const go = (by: 1 | -1, said: string) => set(s => {
      const next = step(s, by);
      if (next) announce(said);
      return next ?? s;
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
      if (!(e.ctrlKey || e.metaKey) || e.altKey || name !== "z" && !redo || (e.target as Element).matches("textarea, input:not([type=checkbox], [type=radio])")) return;
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

