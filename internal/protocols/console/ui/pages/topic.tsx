// One topic. Its parts are tabs: #/topics/NAME/PATH.

import type { ComponentType } from "preact";
import { useLoad, type Loaded } from "../lib/load";
import { Failure, Page, Tabs } from "../lib/parts";
import { to } from "../lib/route";
import { may } from "../lib/session";
import { topicOf, type Topic as Info } from "../lib/topics";
import { Keys } from "./records/keys";
import { Live } from "./records/live";
import { Produce } from "./records/produce";
import { Records } from "./records/records";
import { DeleteTopic } from "./topics/delete";
import { TopicGroups } from "./topics/groups";
import { Partitions } from "./topics/partitions";
import { Settings } from "./topics/settings";

/** Tab is a part of a topic's page. The first tab that the client may use is shown at #/topics/NAME. */
export interface Tab {
  path: string;
  name: string;
  needs?: readonly [operation: string, resource: string];
  view: ComponentType<{ topic: string; info: Loaded<Info> }>;
}

export const tabs: readonly Tab[] = [
  { path: "records", name: "Records", needs: ["read", "topic"], view: Records },
  { path: "live", name: "Live", needs: ["read", "topic"], view: Live },
  { path: "keys", name: "Keys", needs: ["read", "topic"], view: Keys },
  { path: "produce", name: "Produce", needs: ["write", "topic"], view: Produce },
  { path: "partitions", name: "Partitions", view: Partitions },
  { path: "settings", name: "Settings", view: Settings },
  { path: "groups", name: "Groups", needs: ["describe", "group"], view: TopicGroups },
];

export function Topic({ path: [name = "", part] }: { path: string[] }) {
  const info = useLoad(signal => topicOf(name, signal), [name], 5000);
  const mine = tabs.filter(t => !t.needs || may(...t.needs)), tab = mine.find(t => t.path === part) ?? mine[0]!;
  return <Page title={name} lead={info.data?.settings.queue && <>The messages of <a href={to("queues", name)}>queue {name}</a> as records, also those that are done.</>} actions={info.data && may("delete", "topic") && <DeleteTopic topic={name} />}>
    <Tabs label="Parts of the topic" tabs={mine.map(t => [to("topics", name, t.path), t.name] as const)} here={to("topics", name, tab.path)} />
    <Failure error={info.error} />
    <tab.view topic={name} info={info} key={name + "/" + tab.path} />
  </Page>;
}
