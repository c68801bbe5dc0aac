// The reset of a group's offsets: a preview of each partition first, and then a commit that hits
// only offsets that the preview has shown.

import { useState } from "preact/hooks";
import { call, type Int, type Problem } from "../../lib/api";
import { topicName, whole } from "../../lib/check";
import { count, plural } from "../../lib/format";
import { useAction, useLoad } from "../../lib/load";
import { announce, Button, Card, Choice, Failure, Note, Page, Table, Text, Time } from "../../lib/parts";
import { choose, route, to } from "../../lib/route";
import { loadGroup, type Group } from ".";

/** Move is what the reset does in one partition. Undefined offsets: none. Sparse: compaction removed records. */
interface Move { partition: number; start: bigint; end: bigint; committed?: bigint; target?: bigint; sparse?: boolean; note?: string }

/** Preview is what a reset would do now. */
interface Preview { topic: string; moves: Move[]; group?: Group }

/** Form has the choices. `to` is earliest, latest, time, offset or shift. */
interface Form { topic: string; to: string; at: string; offset: string; partitions: string }

const targets = [["earliest", "Earliest record"], ["latest", "End: skip all records"], ["time", "First record since a time"], ["offset", "An offset"], ["shift", "Shift by a number"]] as const;
const offsetMax = 2n ** 63n - 1n;
const min = (a: bigint, b: bigint) => a < b ? a : b, max = (a: bigint, b: bigint) => a > b ? a : b;

/** wanted returns the target before it is limited to the offsets that exist. */
function wanted(f: Form, m: Move, times: Map<number, Int>): bigint | undefined {
  switch (f.to) {
    case "earliest": return m.start;
    case "latest": return m.end;
    case "time": return BigInt(times.get(m.partition)!);
    case "offset": return BigInt(f.offset);
  }
  return m.committed === undefined ? undefined : m.committed + BigInt(f.offset);
}

/** look makes a preview. Only the target "time" reads the bucket. Errors: Problem, Error. */
async function look(name: string, f: Form): Promise<Preview> {
  if (f.to === "time" && !f.at) throw new Error("Time: required");
  const only = f.partitions.split(/[\s,]+/).filter(Boolean), query = { "topic-name": f.topic };
  const [topic, group, times] = await Promise.all([
    call<{ partitions: { partition: number; start_offset: Int; next_offset: Int; records: Int }[] }>("GET", "/topic", { query }),
    loadGroup(name, new AbortController().signal),
    f.to === "time" ? call<{ partitions: { partition: number; offset: Int }[] }>("GET", "/topic/offsets", { query: { ...query, time: f.at } }) : undefined,
  ]);
  const missing = only.filter(p => !topic.partitions.some(t => String(t.partition) === p));
  if (missing.length) throw new Error(`Partitions: the topic has none with the number ${missing.join(", ")}`);
  const found = new Map(times?.partitions.map(p => [p.partition, p.offset]));
  const moves = topic.partitions.filter(p => !only.length || only.includes(String(p.partition))).map(p => {
    const at = group?.offsets.find(o => o.topic === f.topic && o.partition === p.partition);
    const m: Move = { partition: p.partition, start: BigInt(p.start_offset), end: BigInt(p.next_offset), committed: at && BigInt(at.offset) };
    m.sparse = BigInt(p.records) < m.end - m.start;
    const want = wanted(f, m, found);
    if (want === undefined) return { ...m, note: "has no offset to shift" };
    m.target = min(max(want, m.start), m.end);
    if (want < m.start) m.note = `${count(want)} is below the start`;
    if (want > m.end) m.note = `${count(want)} is beyond the end`;
    return m;
  });
  return { topic: f.topic, moves, group };
}

const moving = (m: Move) => m.target !== undefined && m.target !== m.committed;

/** effect says how many existing records a move skips or reads again. */
function effect(m: Move): string {
  if (!moving(m)) return "nothing changes";
  const from = m.committed === undefined ? m.target! : min(max(m.committed, m.start), m.end), n = m.target! - from, most = m.sparse ? "at most " : "";
  if (m.committed === undefined) return `${most}${count(m.end - m.target!)} left to read`;
  return n > 0n ? `${most}${count(n)} skipped` : n < 0n ? `${most}${count(-n)} read again` : "none skipped or read again";
}

/** refusedOf returns the partitions that were not reset with the reason, of an answer to PUT /offsets. */
function refusedOf(p: Problem, moves: Move[]): Map<number, string> {
  const list: { partition: number; code?: string; detail?: string; committed_offset?: Int }[] = p.members.offsets ?? moves.map(m => ({ ...p.members, partition: m.partition }));
  return new Map(list.filter(o => o.code !== undefined || p.status === 0).map(o => [o.partition, o.code === "offset_mismatch" && o.committed_offset !== undefined
    ? `the group moved to ${o.committed_offset < 0 ? "no offset" : count(o.committed_offset)} meanwhile` : o.detail ?? o.code ?? p.message]));
}

export function Reset({ name }: { name: string }) {
  const { topic = "", to: target = "earliest", at = "", offset = "", partitions = "" } = route.value.query;
  const [preview, set] = useState<Preview>(), [refused, refuse] = useState<Map<number, string>>(), [done, finish] = useState("");
  const group = useLoad(signal => loadGroup(name, signal), []), topics = [...new Set(group.data?.offsets.map(o => o.topic))];
  const looking = useAction(), applying = useAction();
  const refresh = (partitions: string) => looking.run(async () => set(await look(name, { topic, to: target, at, offset, partitions })));
  const clear = () => { set(undefined); refuse(undefined); finish(""); looking.clear(); applying.clear(); };
  const change = (q: Record<string, string>) => { choose(q); clear(); };
  const start = async () => { clear(); if (await refresh(partitions)) announce("Preview ready"); };
  const apply = async () => {
    const moves = preview!.moves.filter(moving);
    let left: Map<number, string> | undefined;
    await applying.run(async () => {
      try {
        await call("PUT", "/offsets", { query: { group: name }, body: { offsets: moves.map(m => (
          { topic: preview!.topic, partition: m.partition, offset: m.target, expected_offset: m.committed ?? -1, no_members: true })) } });
      } catch (e) {
        left = refusedOf(e as Problem, moves);
        throw e;
      }
    });
    refuse(left);
    if (left) {
      // Those that were reset leave the preview, so that a second try does not shift them again.
      const again = left.size < moves.length ? [...left.keys()].join(", ") : partitions;
      choose({ partitions: again });
      await refresh(again);
    } else set(undefined);
    const n = moves.length - (left?.size ?? 0), text = n || !left ? plural(n, "partition") + " reset." : "Nothing was reset.";
    finish(n ? text : "");
    announce(text);
  };
  const n = preview?.moves.filter(moving).length ?? 0, members = preview?.group?.members?.length ?? 0;
  return <Page title={`Reset offsets of ${name}`} lead={<a href={to("groups", name)}>Back to the group</a>}>
    <Card title="Where the group continues"><form onSubmit={start}>
      <div class="row">
        <Text label="Topic" value={topic} onValue={v => change({ topic: v })} list="topics" check={topicName} required />
        <datalist id="topics">{topics.map(t => <option value={t} key={t} />)}</datalist>
        <Choice label="To" value={target} onValue={v => change({ to: v })} options={targets} />
        {target === "time" && <Time label="Time" value={at} onValue={v => change({ at: v })} />}
        {target === "offset" && <Text label="Offset" value={offset} onValue={v => change({ offset: v })} hint="Of the next record to read" check={v => whole(v, 0, offsetMax)} required />}
        {target === "shift" && <Text label="Shift by" value={offset} onValue={v => change({ offset: v })} hint="Below 0: back" check={v => whole(v, -offsetMax, offsetMax)} required />}
        <Text label="Partitions" value={partitions} onValue={v => change({ partitions: v })} placeholder="all" hint="Such as 0, 2" check={v => v.split(/[\s,]+/).filter(Boolean).map(p => whole(p, 0, 9999)).find(Boolean)} />
        <Button kind={preview ? undefined : "primary"} type="submit" busy={looking.busy}>Preview</Button>
      </div>
    </form></Card>
    <Failure error={looking.error} />
    <Failure error={applying.error}>{preview && <p>The preview below was made again, of what was not reset.</p>}</Failure>
    {done && <Note kind="good">{done} <a href={to("groups", name)}>See the group</a></Note>}
    {preview && <Card title="Preview" actions={<Button kind="danger" disabled={!n} busy={applying.busy} onClick={apply}>Reset {plural(n, "partition")}</Button>}>
      {members > 0 && <Note kind="warn">The group has {plural(members, "member")}. The broker refuses a reset until its consumers are stopped.</Note>}
      <Table caption="Preview of the reset" rows={preview.moves} keyOf={m => String(m.partition)} columns={[
        { name: "Partition", cell: m => m.partition, num: true },
        { name: "Committed now", cell: m => m.committed === undefined ? "none" : count(m.committed), num: true },
        { name: "New", cell: m => count(m.target), num: true },
        { name: "Records", cell: m => <>{effect(m)}{m.note && <> ({m.note})</>}</>, wide: true },
        { name: "Existing offsets", cell: m => `${count(m.start)} to ${count(m.end)}`, num: true },
        ...(refused ? [{ name: "Not reset", cell: (m: Move) => <span class="bad">{refused.get(m.partition)}</span>, wide: true }] : []),
      ]} />
    </Card>}
  </Page>;
}
