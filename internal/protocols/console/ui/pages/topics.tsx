// The topics: #/topics lists them, #/topics/NAME is one.

import { useState } from "preact/hooks";
import { bytes, count } from "../lib/format";
import { List, useList, type Paged } from "../lib/list";
import { Button, Chip, Copied, Page, Table, When } from "../lib/parts";
import { to } from "../lib/route";
import { may } from "../lib/session";
import { lastWrite, sum, type Topic as Info } from "../lib/topics";
import { Topic } from "./topic";
import { Create } from "./topics/create";

export function Topics({ path }: { path: string[] }) {
  return path[0] === undefined ? <All /> : <Topic path={path} />;
}

function All() {
  const list = useList<Paged<"topics", Info>>("/topics"), [creating, create] = useState(false);
  return <Page title="Topics" actions={may("create", "topic") && <Button kind="primary" onClick={() => create(true)}>Create a topic</Button>}>
    <div class="card"><List of={list} rows={list.data?.topics} label="Filter by name" noun="topic" none={<None />}>{rows => <Table caption="Topics" rows={rows} keyOf={t => t.name} columns={[
      { name: "Name", wide: true, cell: t => <><a href={to("topics", t.name)}>{t.name}</a>{t.settings.queue && <> <Chip><a href={to("queues", t.name)} aria-label={`Queue ${t.name}`}>queue</a></Chip></>}</> },
      { name: "Partitions", num: true, cell: t => count(t.partitions.length) },
      { name: "Records", num: true, cell: t => count(sum(t.partitions.map(p => p.records))) },
      { name: "Size", num: true, cell: t => bytes(sum(t.partitions.map(p => p.bytes))) },
      { name: "Last write", cell: t => <When t={lastWrite(t)} /> },
      { name: "Policy", cell: t => <span class="nowrap">{t.settings["cleanup-policy"] ?? "delete"}</span> },
    ]} />}</List></div>
    {creating && <Create onClose={() => create(false)} />}
  </Page>;
}

function None() {
  return <><p>There are no topics yet. Create one, send an event from the <a href={to("overview")}>overview</a>, or produce the first record: it creates its topic.</p>
    <Copied label="Command that produces a record" text="echo hello | seb produce demo" /></>;
}
