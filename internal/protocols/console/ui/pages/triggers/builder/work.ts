// What a person has not saved yet. It is kept for the time of a browser tab, so that it survives a reload.

import { useEffect, useState } from "preact/hooks";
import { at, call, parse, stringify } from "../../../lib/api";
import type { Spec, Stored, Trigger } from "../types";
import { forget, type Start } from "./history";
import { settingsOf, type Settings } from "./settings";
import { hole } from "./tree";

/** Base is what the edits began from: a stored trigger, or nothing. */
export interface Base extends Start { trigger?: Trigger; settings: Settings }

/** Work is what a person has done. typed: a text that is not an expression yet. begun: a template was chosen. */
export interface Work { base: Base; settings: Settings; typed?: string; begun: boolean }

/** put stores a trigger in place of another one, if that was not changed; or a new one, if there is none. Errors: Problem. */
export function put(id: string, spec: Spec, old?: Trigger): Promise<Stored> {
  return call<Stored>("PUT", at`/triggers/${id}`, { body: spec, headers: old ? { "If-Match": `"${old.tag}"` } : { "If-None-Match": "*" } });
}

/** baseOf makes a base of a stored trigger. */
export function baseOf(t?: Trigger): Base { return { trigger: t, tree: t ? t.expr as Base["tree"] : hole, text: t?.text ?? "", settings: settingsOf(t ?? {}) }; }

const kept = (key: string) => "seb-builder-work:" + key;

/** drop forgets the work and its history. */
export function drop(key: string) { sessionStorage.removeItem(kept(key)); forget(key); }

/** useWork keeps the work of a trigger. Secrets are not kept. */
export function useWork(key: string, start: () => Work) {
  const [work, set] = useState<Work>(() => {
    try {
      const found = parse(sessionStorage.getItem(kept(key)) ?? "");
      if (found.base.settings) return found;
    } catch { /* none, or of another version of the console */ }
    return start();
  });
  useEffect(() => {
    const { target } = work.settings, headers = target.headers.replace(/:.*$/gm, ": ***");
    try {
      sessionStorage.setItem(kept(key), stringify({ ...work, settings: { ...work.settings, target: { ...target, secrets: "", headers } } }));
    } catch { /* no space is left: a reload loses it */ }
  }, [key, work]);
  return [work, (change: (w: Work) => Partial<Work>) => set(w => ({ ...w, ...change(w) }))] as const;
}
