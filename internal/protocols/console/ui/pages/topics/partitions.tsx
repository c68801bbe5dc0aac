// The partitions of a topic.

import { useState } from "preact/hooks";
import { call } from "../../lib/api";
import { whole } from "../../lib/check";
import { bytes, count } from "../../lib/format";
import { useAction, type Loaded } from "../../lib/load";
import { announce, Button, Card, Confirm, Loading, Table, Text, When } from "../../lib/parts";
import { may, session } from "../../lib/session";
import { sum, type Partition, type Topic } from "../../lib/topics";

export function Partitions({ topic, info }: { topic: string; info: Loaded<Topic> }) {
  const [trimmed, trim] = useState<Partition>();
  if (!info.data) return info.error ? null : <Loading />;
  const all = info.data.partitions, canTrim = may("delete", "topic");
  return <>
    <Card title={`${count(sum(all.map(p => p.records)))} records, ${bytes(sum(all.map(p => p.bytes)))}`}>
      <Table caption="Partitions" rows={all} keyOf={p => String(p.partition)} columns={[
        { name: "Partition", cell: p => p.partition },
        { name: "Start offset", num: true, cell: p => count(p.start_offset) },
        { name: "End offset", num: true, cell: p => p.last_stable_offset === p.next_offset ? count(p.next_offset) : `${count(p.next_offset)} (readers wait at ${count(p.last_stable_offset)})` },
        { name: "Records", num: true, cell: p => count(p.records) },
        { name: "Size", num: true, cell: p => bytes(p.bytes) },
        { name: "Last write", cell: p => <When t={p.latest_commit_at} /> },
        ...canTrim ? [{ name: "Trim", cell: (p: Partition) => p.start_offset !== p.next_offset && <Button kind="quiet" aria-label={`Trim partition ${p.partition}`} onClick={() => trim(p)}>Trim</Button> }] : [],
      ]} />
      <p class="hint">Offsets from the start up to the end can be read; the next record gets the end offset.
        {session.value?.read_only ? " Another broker leads all partitions; this one follows it." : " This broker leads all partitions."}</p>
    </Card>
    {may("alter", "topic") && <Add topic={topic} now={all.length} onDone={info.reload} />}
    {trimmed && <Trim topic={topic} of={trimmed} onClose={() => trim(undefined)} onDone={info.reload} />}
  </>;
}

/** Trim deletes the first records of a partition. The offset stays text, since it can exceed a number. */
function Trim({ topic, of, onClose, onDone }: { topic: string; of: Partition; onClose: () => void; onDone: () => void }) {
  const [offset, set] = useState(String(of.start_offset)), action = useAction(), valid = /^\d+$/.test(offset);
  const gone = valid ? BigInt(offset) - BigInt(of.start_offset) : 0n;
  const trim = async () => {
    const done = await action.run(async () => { await call("POST", "/topic/trim", { query: { "topic-name": topic, partition: of.partition, offset } }); });
    if (!done) return;
    onClose();
    announce(`Partition ${of.partition} starts at offset ${offset}`);
    onDone();
  };
  return <Confirm title={`Trim partition ${of.partition}`} action="Delete the records" danger busy={action.busy} error={action.error} onConfirm={trim} onClose={onClose}>
    <p>Deletes all records below an offset permanently. Offsets {String(of.start_offset)} up to {String(of.next_offset)} can be read now.</p>
    <Text label="New start offset" inputMode="numeric" required value={offset} onValue={v => { action.clear(); set(v.trim()); }} check={v => whole(v, of.start_offset, of.next_offset)} />
    <p>{gone > 0n ? <>This deletes <b>{count(gone)}</b> {gone === 1n ? "offset" : "offsets"}.</> : "This deletes nothing."}</p>
  </Confirm>;
}

/** Add adds partitions. */
function Add({ topic, now, onDone }: { topic: string; now: number; onDone: () => void }) {
  const [asked, ask] = useState(false), [to, set] = useState(""), action = useAction();
  const add = async () => {
    const done = await action.run(async () => { await call("PUT", "/topic", { query: { "topic-name": topic }, body: { partitions: Number(to) } }); });
    if (!done) return;
    ask(false);
    announce(`${to} partitions`);
    onDone();
  };
  return <p><Button onClick={() => { set(String(now + 1)); ask(true); }}>Add partitions</Button>
    {asked && <Confirm title="Add partitions" action="Add" busy={action.busy} error={action.error} onConfirm={add} onClose={() => { ask(false); action.clear(); }}>
      <p>Partitions cannot be removed again. New records of a key can go to another partition than its older ones, so the order of a key's records is lost once.</p>
      <Text label="Partitions" inputMode="numeric" required value={to} check={v => whole(v, now + 1, 10_000)} hint={`The topic has ${now} now.`} onValue={v => { action.clear(); set(v.replace(/\D/g, "")); }} />
    </Confirm>}
  </p>;
}
