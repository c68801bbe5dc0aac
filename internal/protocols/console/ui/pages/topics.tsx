// The topics: #/topics lists them, #/topics/NAME is one.

import { useMemo, useRef, useState } from "preact/hooks";
import { call } from "../lib/api";
import { bytes, count, plural } from "../lib/format";
import { useLoad } from "../lib/load";
import { Button, Copied, Empty, Got, Page, Table, Text, When } from "../lib/parts";
import { choose, route, to } from "../lib/route";
import { may } from "../lib/session";
import { lastWrite, sum, type Topic as Info } from "../lib/topics";
import { Topic } from "./topic";
import { Create } from "./topics/create";

export function Topics({ path }: { path: string[] }) {
  return path[0] === undefined ? <List /> : <Topic path={path} />;
}

/** many topics are loaded again less often: each has some hundred bytes. */
const many = 500, manyMs = 60_000;

function useTopics() {
  const last = useRef<{ at: number; topics: Info[] } | undefined>(undefined);
  return useLoad(async signal => {
    if (last.current && last.current.topics.length > many && performance.now() - last.current.at < manyMs) return last.current.topics;
    const topics = (await call<{ topics: Info[] }>("GET", "/topics", { signal })).topics;
    last.current = { at: performance.now(), topics };
    return topics;
  }, [], 5000);
}

function List() {
  const all = useTopics(), [creating, create] = useState(false), filter = route.value.query.filter ?? "";
  const rows = useMemo(() => (all.data ?? []).filter(t => t.name.toLowerCase().includes(filter.toLowerCase())), [all.data, filter]);
  return <Page title="Topics" actions={may("create", "topic") && <Button kind="primary" onClick={() => create(true)}>Create a topic</Button>}>
    <Got of={all}>{topics => !topics.length ? <None /> : <div class="card">
      <div class="row filter"><Text label="Filter by name" value={filter} onValue={v => choose({ filter: v })} />
        <p role="status">{filter ? `${count(rows.length)} of ${plural(topics.length, "topic")}` : plural(topics.length, "topic")}</p></div>
      <Table caption="Topics" rows={rows} empty="No topic has this in its name." keyOf={t => t.name} columns={[
        { name: "Name", wide: true, cell: t => <a href={to("topics", t.name)}>{t.name}</a> },
        { name: "Partitions", num: true, cell: t => count(t.partitions.length) },
        { name: "Records", num: true, cell: t => count(sum(t.partitions.map(p => p.records))) },
        { name: "Size", num: true, cell: t => bytes(sum(t.partitions.map(p => p.bytes))) },
        { name: "Last write", cell: t => <When t={lastWrite(t)} /> },
        { name: "Policy", cell: t => <span class="nowrap">{t.settings["cleanup-policy"] ?? "delete"}</span> },
      ]} />
    </div>}</Got>
    {creating && <Create onClose={() => create(false)} />}
  </Page>;
}

function None() {
  return <Empty><p>There are no topics yet. Create one, send an event from the <a href={to("overview")}>overview</a>, or produce the first record: it creates its topic.</p>
    <Copied label="Command that produces a record" text="echo hello | seb produce demo" /></Empty>;
}
