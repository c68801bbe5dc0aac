// The consumer groups that read a topic.

import { count } from "../../lib/format";
import { List, useList } from "../../lib/list";
import { Card, Copied, Table, When } from "../../lib/parts";
import { to } from "../../lib/route";
import { getGroups, type Group } from "../../lib/status";
import { sum } from "../../lib/topics";

/** Reader is a group with its part in one topic. */
interface Reader { group: string; members: number; partitions: number; lag: bigint; last: string }

function readers(groups: readonly Group[], topic: string): Reader[] {
  return groups.flatMap(g => {
    const mine = g.offsets.filter(o => o.topic === topic);
    if (!mine.length) return [];
    return { group: g.group, members: g.members?.length ?? 0, partitions: mine.length, lag: sum(mine.map(o => o.lag)), last: mine.reduce((a, o) => o.committed_at > a ? o.committed_at : a, "") };
  });
}

export function TopicGroups({ topic }: { topic: string }) {
  const list = useList("/groups", { "topic-name": topic, order: "lag" }, 5000, getGroups);
  return <Card title="Groups that read this topic"><List of={list} rows={list.data && readers(list.data.groups, topic)} label="Name contains" noun="group"
    none={<><p>No group has committed an offset in this topic. To read it as a group:</p><Copied label="Command that reads as a group" text={`seb consume ${topic} --group mail`} /></>}>{rows =>
    <Table caption="Groups" rows={rows} keyOf={r => r.group} columns={[
      { name: "Group", wide: true, cell: r => <a href={to("groups", r.group)}><bdi>{r.group}</bdi></a> },
      { name: "Records behind", num: true, cell: r => count(r.lag) },
      { name: "Partitions", num: true, cell: r => count(r.partitions) },
      { name: "Members", num: true, cell: r => count(r.members) },
      { name: "Last commit", cell: r => <When t={r.last} /> },
    ]} />}</List></Card>;
}
