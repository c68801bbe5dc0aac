// Hooks that load data for a page.

import { useEffect, useRef, useState } from "preact/hooks";
import { call, Problem, stringify, type Query } from "./api";

/** Loaded is the state of a request. data stays while it is loaded again. */
export interface Loaded<T> { data?: T; error?: Problem; loading: boolean; reload: () => void }

/** asProblem turns anything thrown into a Problem. */
export function asProblem(e: unknown): Problem { return e instanceof Problem ? e : new Problem(0, "", e instanceof Error ? e.message : String(e)); }

/**
 * useLoad calls get at once and when a dependency changes, and every `every` ms while the page is
 * visible, if that is given. A call that is replaced is aborted; calls do not overlap.
 */
export function useLoad<T>(get: (signal: AbortSignal) => Promise<T>, deps: unknown[], every?: number): Loaded<T> {
  const [state, set] = useState<{ data?: T; error?: Problem; loading: boolean }>({ loading: true });
  const [turn, again] = useState(0);
  const latest = useRef(get);
  latest.current = get;
  const key = useRef<unknown[]>([]);
  const same = key.current.length === deps.length && deps.every((d, i) => d === key.current[i]);
  useEffect(() => {
    const abort = new AbortController();
    let timer = 0;
    key.current = deps;
    set(s => ({ data: same ? s.data : undefined, loading: true }));
    const run = async () => {
      if (document.visibilityState === "visible" || !every) {
        try {
          const data = await latest.current(abort.signal);
          if (abort.signal.aborted) return;
          set({ data, loading: false });
        } catch (e) {
          if (abort.signal.aborted) return;
          set(s => ({ data: s.data, error: asProblem(e), loading: false }));
        }
      }
      if (every) timer = setTimeout(run, every) as unknown as number;
    };
    run();
    return () => { abort.abort(); clearTimeout(timer); };
  }, [...deps, turn]);
  return { ...(same ? state : { loading: true }), reload: () => again(n => n + 1) }; // what is there may be of the dependencies before
}

/** useGet loads an answer of the API with useLoad, again when its address changes. Without a path it loads nothing. */
export function useGet<T>(path: string | false, query: Query = {}, every?: number): Loaded<T> {
  return useLoad(async signal => path ? call<T>("GET", path, { query, signal }) : undefined, [path, stringify(query)], every) as Loaded<T>;
}

/** Doing is an action that a person starts: at most one runs, and its error is shown. */
export interface Doing { run: (act: () => Promise<unknown>) => Promise<boolean>; busy: boolean; error?: Problem; clear: () => void }

/** useAction returns a Doing. run resolves to whether the action succeeded. */
export function useAction(): Doing {
  const [state, set] = useState<{ busy: boolean; error?: Problem }>({ busy: false });
  return {
    ...state,
    clear: () => set({ busy: false }),
    run: async act => {
      set({ busy: true });
      try {
        await act();
        set({ busy: false });
        return true;
      } catch (e) {
        set({ busy: false, error: asProblem(e) });
        return false;
      }
    },
  };
}
