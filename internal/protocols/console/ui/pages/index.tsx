// The pages. The first segment of an address is the page's path.

import type { ComponentType } from "preact";
import { later } from "../lib/later";
import { Empty, Page } from "../lib/parts";
import { to } from "../lib/route";
import { Overview } from "./overview";

/** PageEntry is a page. It is in the bar if it has a name and the client has one of the rights that it needs. */
export interface PageEntry {
  path: string;
  name?: string;
  needs?: readonly (readonly [operation: string, resource: string])[];
  view: ComponentType<{ path: string[] }>;
}

export const pages: readonly PageEntry[] = [
  { path: "overview", name: "Overview", view: Overview },
  { path: "topics", name: "Topics", needs: [["describe", "topic"]], view: later("Topics") },
  { path: "queues", name: "Queues", needs: [["describe", "topic"]], view: later("Queues") },
  { path: "groups", name: "Groups", needs: [["describe", "group"]], view: later("Groups") },
  { path: "triggers", name: "Triggers", needs: [["read", "trigger"]], view: later("Triggers") },
  { path: "dry-run", view: later("DryRun") },
  { path: "evaluate", view: later("Evaluate") },
  { path: "firings", name: "Firings", needs: [["read", "trigger"]], view: later("Firings") },
  { path: "entities", name: "Entities", needs: [["read", "topic"], ["read", "trigger"]], view: later("Entities") },
  { path: "latency", name: "Latency", needs: [["describe", "metrics"]], view: later("Latency") },
  { path: "access", name: "Access", view: later("Access") },
  { path: "broker", name: "Broker", needs: [["describe", "metrics"], ["describe", "cluster"]], view: later("Broker") },
];

/** nowhere is shown for an address without a page. */
export const nowhere: PageEntry = {
  path: "",
  view: () => <Page title="No such page"><Empty>This address is not one of the console. <a href={to("overview")}>Go to the overview</a>.</Empty></Page>,
};
