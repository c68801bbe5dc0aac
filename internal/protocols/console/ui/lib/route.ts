// The address of a page is the fragment: #/topics/orders/records?from=newest. Everything that a
// person chooses is in it, so that an address can be sent to another person.

import { State } from "./state";

/** Route is a parsed address. */
export interface Route { path: string[]; query: Record<string, string> }

function read(): Route {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split(/\?(.*)/s);
  let segments: string[];
  try {
    segments = path.split("/").filter(Boolean).map(decodeURIComponent);
  } catch {
    segments = []; // typed by hand
  }
  return { path: segments, query: Object.fromEntries(new URLSearchParams(query)) };
}

/** route is the present address. */
export const route = new State(read());
addEventListener("hashchange", () => { route.value = read(); });

/** to returns the address of a page, for a link: to("topics", name, { from: "key" }). Undefined and empty parameters are left out. */
export function to(...path: (string | Record<string, string | undefined>)[]): string {
  const last = path.at(-1), query = typeof last === "object" ? Object.entries(last).filter(([, value]) => value) : [];
  return "#/" + path.filter(p => typeof p === "string").map(encodeURIComponent).join("/") + (query.length ? "?" + new URLSearchParams(query as string[][]) : "");
}

/** go opens an address. */
export function go(address: string) { location.hash = address; }

/** replace opens an address in place of the present one. */
export function replace(address: string) {
  history.replaceState(null, "", address);
  route.value = read();
}

/** choose changes parameters of the present address without a new entry in the browser's history. */
export function choose(change: Record<string, string | undefined>) {
  const { path, query } = route.value;
  replace(to(...path, { ...query, ...change }));
}
