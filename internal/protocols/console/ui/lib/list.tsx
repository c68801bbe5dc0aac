// Lists of the API, page by page.

import type { ComponentChildren } from "preact";
import { useRef } from "preact/hooks";
import { call, type Query } from "./api";
import { plural } from "./format";
import { useLoad, type Loaded } from "./load";
import { Empty, Failure, Loading, Text } from "./parts";
import { choose, route, to } from "./route";

/** Paged is an answer with a part of a list. */
export type Paged<K extends string, T> = Record<K, T[]> & { next?: string };

const perPage = 100, top = () => scrollTo(0, 0);

/**
 * useList loads the page of a list that the address names: `find` is what names contain, `after` where it
 * begins. What was loaded stays until the next page is there. get sends the request in another way.
 */
export function useList<A>(path: string, query: Query = {}, every = 5000, get = (query: Query, signal: AbortSignal) => call<A>("GET", path, { query, signal })): Loaded<A> {
  const { find, after } = route.value.query, all = { ...query, contains: find, after, limit: perPage }, last = useRef<A | undefined>(undefined);
  const page = useLoad(signal => get(all, signal), [JSON.stringify(all)], every);
  return { ...page, data: last.current = page.data ?? last.current };
}

/** List shows a page of rows of a list, its search, with other choices, and the way to the next page. none is said of an empty list, else that nothing is found. */
export function List<T>({ of, rows, label, noun, none, choices, children }: {
  of: Loaded<{ next?: string }>; rows?: T[]; label: string; noun: string; none: ComponentChildren; choices?: ComponentChildren; children: (rows: T[]) => ComponentChildren;
}) {
  const { path, query: { after, ...query } } = route.value, find = query.find ?? "", searched = useRef(false), next = of.data?.next;
  searched.current ||= !!(find || choices || rows?.length); // the field stays when nothing is found
  return <>
    {searched.current && <div class="row filter"><Text label={label} value={find} onValue={v => choose({ find: v, after: undefined })} />{choices}
      <p role="status">{rows && plural(rows.length, noun)}{(after || next) && " on this page"}</p></div>}
    <Failure error={of.error} />
    {!rows ? !of.error && <Loading /> : rows.length ? children(rows) : <Empty>{find ? `No ${noun} has this in its name.` : after ? "There are no more." : none}</Empty>}
    {(after || next) && <p class="actions paging">
      {after && <a href={to(...path, query)} onClick={top}>First page</a>}
      {next && <a href={to(...path, { ...query, after: next })} onClick={top}>Next page</a>}
    </p>}
  </>;
}

/** everything loads a whole list. */
export async function everything<T>(path: string, member: string, query: Query, signal: AbortSignal): Promise<T[]> {
  const all: T[] = [];
  for (let after: string | undefined; ;) {
    const page = await call<Paged<string, T>>("GET", path, { query: { ...query, limit: 1000, after }, signal });
    all.push(...page[member]!);
    if (!(after = page.next)) return all;
  }
}
