// The pages. The first segment of an address is the page's path.

import type { ComponentType } from "preact";
import { useLoad } from "../lib/load";
import { Empty, Failure, Loading, Page } from "../lib/parts";
import { to } from "../lib/route";
import { Overview } from "./overview";
import { Topics } from "./topics";

/** PageEntry is a page. It is in the bar if it has a name and the client has one of the rights that it needs. */
export interface PageEntry {
  path: string;
  name?: string;
  needs?: readonly (readonly [operation: string, resource: string])[];
  view: ComponentType<{ path: string[] }>;
}

/** later is a page of more.ts. */
function later(name: keyof typeof import("./more")): PageEntry["view"] {
  return props => {
    const more = useLoad(() => import("./more"), []), View = more.data?.[name];
    return View ? <View {...props} /> : more.error ? <Failure error={more.error}><p>Reload the page to try again.</p></Failure> : <Loading />;
  };
}

export const pages: readonly PageEntry[] = [
  { path: "overview", name: "Overview", view: Overview },
  { path: "topics", name: "Topics", needs: [["describe", "topic"]], view: Topics },
  { path: "groups", name: "Groups", needs: [["describe", "group"]], view: later("Groups") },
  { path: "access", name: "Access", view: later("Access") },
];

/** nowhere is shown for an address without a page. */
export const nowhere: PageEntry = {
  path: "",
  view: () => <Page title="No such page"><Empty>This address is not one of the console. <a href={to("overview")}>Go to the overview</a>.</Empty></Page>,
};
