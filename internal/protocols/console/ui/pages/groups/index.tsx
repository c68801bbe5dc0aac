// Consumer groups: all of them, one, and the reset of its offsets.

import { call, type Int, Problem } from "../../lib/api";
import { count, plural } from "../../lib/format";
import { List, useList, type Paged } from "../../lib/list";
import { useLoad } from "../../lib/load";
import { ActButton, Card, Chip, Empty, Failure, Loading, Note, Page, Table, When } from "../../lib/parts";
import { go, to } from "../../lib/route";
import { may, session } from "../../lib/session";
import { getGroups } from "../../lib/status";
import { Reset } from "./reset";
import { Transactions } from "./transactions";

/** Offset is the committed offset of a group in one partition. */
export interface Offset { topic: string; partition: number; offset: Int; metadata?: string; committed_at: string; start_offset: Int; next_offset: Int; lag: Int }

/** Group of the API. A read-only broker does not know state and members. */
export interface Group {
  group: string; lag: Int; offsets: Offset[]; state?: string;
  members?: { member: string; instance?: string; client_id: string; host: string; assigned: { topic: string; partitions: number[] }[] }[];
}

/** loadGroup gets a group; undefined: it has neither offsets nor members. */
export async function loadGroup(name: string, signal: AbortSignal): Promise<Group | undefined> {
  try {
    return await getGroups<Group>({ group: name }, signal);
  } catch (e) {
    if (e instanceof Problem && e.code === "unknown_group") return undefined;
    throw e;
  }
}

export function Groups({ path: [name, part] }: { path: string[] }) {
  return name === undefined ? <All /> : part === "reset" ? <Reset key={name} name={name} /> : <One key={name} name={name} />;
}

const states: Record<string, [string, "" | "good" | "warn"]> = {
  Empty: ["no members", ""], Stable: ["stable", "good"], PreparingRebalance: ["rebalancing", "warn"], CompletingRebalance: ["rebalancing", "warn"], Reconciling: ["reconciling", "warn"],
};

/** State shows what the members of a group do. */
function State({ of }: { of: Group }) {
  const [name, kind] = states[of.state ?? ""] ?? [of.state ?? "unknown", ""];
  return <Chip kind={kind}>{name}</Chip>;
}

const topicsOf = (g: Group) => [...new Set(g.offsets.map(o => o.topic))];

function All() {
  const list = useList("/groups", { order: "lag" }, 5000, getGroups<Paged<"groups", Group>>);
  return <Page title="Groups" lead="Consumers that share their work and keep their position in the broker. The one with the most records left to read is first.">
    {may("describe", "transactional-id") && <Transactions />}
    <List of={list} rows={list.data?.groups} label="Name contains" noun="group" none="No group has committed an offset yet. A Kafka consumer with a group.id makes one, and so does seb consume --group.">{rows =>
      <div class="card"><Table caption="Groups" rows={rows} keyOf={g => g.group} columns={[
        { name: "Group", cell: g => <a href={to("groups", g.group)}><bdi>{g.group}</bdi></a> },
        { name: "State", cell: g => <State of={g} /> },
        { name: "Members", cell: g => count(g.members?.length), num: true },
        { name: "Topics", cell: g => topicsOf(g).join(", ") || "none", wide: true },
        { name: "Lag", cell: g => count(g.lag), num: true },
      ]} /></div>}</List>
  </Page>;
}

function One({ name }: { name: string }) {
  const group = useLoad(signal => loadGroup(name, signal), [], 5000), g = group.data;
  return <Page title={name} lead={<a href={to("groups")}>All groups</a>} actions={<>
    {may("read", "group") && !session.value!.read_only && <a class="button" href={to("groups", name, "reset", { topic: g?.offsets[0]?.topic })}>Reset offsets</a>}
    {g?.offsets.length && may("delete", "group") ? <Delete name={name} of={g} /> : null}
  </>}>
    <Failure error={group.error} />
    {g ? <><Offsets of={g} /><Members of={g} /></> : group.loading ? <Loading />
      : !group.error && <Empty>The group has neither committed offsets nor members. A reset of its offsets creates it.</Empty>}
  </Page>;
}

function Offsets({ of: g }: { of: Group }) {
  return <Card title={`Lag by partition: ${count(g.lag)} in all`}>
    <Table caption="Offsets" rows={g.offsets} empty="The group has no committed offsets in topics that you may see. Its members read from where their own settings say." keyOf={o => `${o.topic}/${o.partition}`} columns={[
      { name: "Topic", cell: o => <a href={to("topics", o.topic)}>{o.topic}</a> },
      { name: "Partition", cell: o => o.partition, num: true },
      { name: "Committed", cell: o => <a href={to("topics", o.topic, "records", { from: "offset", at: String(o.offset), partition: String(o.partition) })}>{count(o.offset)}</a>, num: true },
      { name: "Start", cell: o => count(o.start_offset), num: true },
      { name: "End", cell: o => count(o.next_offset), num: true },
      { name: "Lag", cell: o => count(o.lag), num: true },
      { name: "Committed at", cell: o => <When t={o.committed_at} /> },
      ...(g.offsets.some(o => o.metadata) ? [{ name: "Metadata", cell: (o: Offset) => <bdi>{o.metadata}</bdi> }] : []),
    ]} />
  </Card>;
}

function Members({ of: g }: { of: Group }) {
  return <Card title="Members" actions={<State of={g} />}>
    {g.members?.length ? <Table caption="Members with their partitions" rows={g.members} keyOf={m => m.member} columns={[
      { name: "Client", cell: m => <bdi>{m.client_id}</bdi> },
      { name: "Host", cell: m => m.host },
      { name: "Partitions", cell: m => m.assigned.map(t => <div key={t.topic}>{t.topic}: {t.partitions.join(", ")}</div>), wide: true },
      { name: "Member", cell: m => <><bdi>{m.member}</bdi>{m.instance && <> (static: <bdi>{m.instance}</bdi>)</>}</>, wide: true },
    ]} /> : <p>{g.members ? "None. Consumers over HTTP are not members." : "Only the leader knows the members; this broker follows another one."}</p>}
  </Card>;
}

function Delete({ name, of: g }: { name: string; of: Group }) {
  return <ActButton button="Delete group" title="Delete group" action="Delete group" danger typed={name} act={() => call("DELETE", "/groups", { query: { group: name } })} said="Group deleted" onDone={() => go(to("groups"))}>
    <p>{plural(g.offsets.length, "committed offset")} will be deleted permanently. Consumers of this group then begin where their own settings say.</p>
    {g.members?.length ? <Note kind="warn">The group has {plural(g.members.length, "member")}. Stop its consumers first.</Note> : null}
  </ActButton>;
}
