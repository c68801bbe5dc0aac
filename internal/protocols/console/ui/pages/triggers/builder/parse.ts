// What the broker says of the expression that is being edited. The page has no parser and no printer.

import { useEffect, useState } from "preact/hooks";
import { call, type Problem } from "../../../lib/api";
import { plural } from "../../../lib/format";
import { asProblem } from "../../../lib/load";
import { exprOf } from "../parts";
import type { History } from "./history";
import { unfinished, type Tree } from "./tree";

/** Warning is a likely mistake, at a node of the JSON form. */
export interface Warning { message: string; pointer?: string }

/** Answer is that of POST /drip/parse. */
export interface Answer { expr: Tree; text: string; sentence: string; warnings: Warning[]; names: string[] }

/**
 * ask parses a text or a tree. source is the text of the tree before an edit, whose notation is kept.
 * Errors: Problem, AbortError, Error.
 */
export function ask(expr: unknown, signal?: AbortSignal, source?: string): Promise<Answer> {
  return call<Answer>("POST", "/drip/parse", { body: { expr, source }, signal });
}

/** typingPause is the time after the last key. */
export const typingPause = 250;

/** Parsed is the answer about the present expression, and what is wrong with it or with the text that is being typed. */
export interface Parsed {
  answer?: Answer;
  /** last is the answer to show until the next one is there. */
  last?: Answer;
  fault?: Problem; typedFault?: Problem;
  /** now waits for the answer about the last key or edit. Errors: Problem, Error. */
  now(): Promise<Answer>;
}

/** useParsed asks about each edit. typed is a text that is not in the history yet; accept tells that it is. */
export function useParsed(h: History, typed: string | undefined, accept: (typed: string) => void): Parsed {
  const [state, set] = useState<{ tree?: Tree; answer?: Answer; fault?: Problem }>({}), [bad, refuse] = useState<{ typed: string; fault: Problem }>();
  const known = state.tree === h.tree, open = unfinished(h.tree);
  const askTree = async (signal?: AbortSignal) => {
    const { tree, text, printed } = h, answer = await ask(printed ? exprOf(text) : tree, signal, printed || !text || text.trim().startsWith("{") ? undefined : text);
    set({ tree, answer });
    if (!printed) h.parsed(answer.text);
    return answer;
  };
  const askTyped = async (typed: string, signal?: AbortSignal) => {
    const answer = await ask(exprOf(typed), signal);
    set({ tree: answer.expr, answer });
    h.type(typed, answer.expr);
    accept(typed);
    return answer;
  };
  useEffect(() => {
    if (known || open) return;
    const abort = new AbortController(), { tree } = h;
    askTree(abort.signal).catch(e => { if (!abort.signal.aborted) set({ tree, fault: asProblem(e) }); });
    return () => abort.abort();
  }, [h.tree]);
  useEffect(() => {
    if (typed === undefined) return;
    const abort = new AbortController();
    const timer = setTimeout(() => askTyped(typed, abort.signal).catch(e => { if (!abort.signal.aborted) refuse({ typed, fault: asProblem(e) }); }), typingPause);
    return () => { clearTimeout(timer); abort.abort(); };
  }, [typed]);
  const answer = known && !open ? state.answer : undefined;
  return {
    answer, last: open ? undefined : state.answer, fault: known && !open ? state.fault : undefined, typedFault: typed !== undefined && bad?.typed === typed ? bad.fault : undefined,
    now: async () => {
      if (typed !== undefined) return askTyped(typed);
      if (open) throw new Error(openWords(open));
      return answer ?? askTree();
    },
  };
}

/** openWords says how many boxes are not finished. */
export function openWords(n: number): string { return `${plural(n, "box", "boxes")} ${n === 1 ? "is" : "are"} not finished: choose ${n === 1 ? "its event" : "their events"}.`; }
