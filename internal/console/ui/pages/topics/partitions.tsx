// The partitions of a topic.

import type { Loaded } from "../../lib/load";
import { bytes, count } from "../../lib/format";
import { Loading, Table, When } from "../../lib/parts";
import type { Topic } from "../../lib/topics";

export function Partitions({ info }: { topic: string; info: Loaded<Topic> }) {
  if (!info.data) return info.error ? null : <Loading />;
  return <Table caption="Partitions" rows={info.data.partitions} keyOf={p => String(p.partition)} columns={[
    { name: "Partition", cell: p => p.partition },
    { name: "Start", num: true, cell: p => count(p.start_offset) },
    { name: "End", num: true, cell: p => count(p.next_offset) },
    { name: "Records", num: true, cell: p => count(p.records) },
    { name: "Size", num: true, cell: p => bytes(p.bytes) },
    { name: "Last write", cell: p => <When t={p.latest_commit_at.startsWith("0001") ? undefined : p.latest_commit_at} /> },
  ]} />;
}
