// Queues: all of them, and one.

import { useState } from "preact/hooks";
import { count, seconds } from "../../lib/format";
import { List, useList, type Paged } from "../../lib/list";
import { Button, Chip, Copied, Page, Table } from "../../lib/parts";
import { to } from "../../lib/route";
import { may } from "../../lib/session";
import { Create } from "./create";
import { One } from "./queue";
import { letters, paused, type Queue } from "./types";

export function Queues({ path: [name, part] }: { path: string[] }) { return name === undefined ? <All /> : <One key={name} name={name} part={part} />; }

/** Chips say what keeps a queue from its work. */
export function Chips({ of: q }: { of: Queue }) {
  return <>{paused(q) && <> <Chip kind="warn">paused</Chip></>}{q.full && <> <Chip kind="bad">full</Chip></>}{q.look_ahead_full && <> <Chip kind="warn">waits for keys</Chip></>}</>;
}

function All() {
  const list = useList<Paged<"queues", Queue>>("/queues"), [creating, create] = useState(false);
  const dead = (q: Queue) => letters(q) ? Number(q.dead) ? <a class="bad" href={to("queues", letters(q), "messages")} aria-label={`${count(q.dead)} dead letters of ${q.name}`}>{count(q.dead)}</a> : "0" : "–";
  return <Page title="Queues" lead="Jobs for workers. Each message goes to one worker, and comes again until a worker has finished it."
    actions={may("create", "topic") && <Button kind="primary" onClick={() => create(true)}>Create a queue</Button>}>
    <div class="card"><List of={list} rows={list.data?.queues} label="Filter by name" noun="queue" none={<None />}>{rows => <Table caption="Queues" rows={rows} keyOf={q => q.name} columns={[
      { name: "Name", wide: true, cell: q => <><a href={to("queues", q.name)}>{q.name}</a><Chips of={q} /></> },
      { name: "Ready", num: true, cell: q => count(q.ready) },
      { name: "Leased", num: true, cell: q => count(q.leased) },
      { name: "Delayed", num: true, cell: q => count(q.delayed) },
      { name: "Retry", num: true, cell: q => count(q.retry) },
      { name: "Dead", num: true, cell: dead },
      { name: "Oldest", num: true, cell: q => seconds(q.oldest_seconds) },
    ]} />}</List>
      {list.data?.queues.length ? <p class="hint">Ready: waits for a worker. Leased: a worker has it. Delayed: was sent for later. Retry: failed, and comes again. Dead: failed too often, and lies in another queue. Oldest: age of the oldest message that is not finished.</p> : null}</div>
    {creating && <Create onClose={() => create(false)} />}
  </Page>;
}

function None() {
  return <><p>There are no queues yet. A queue keeps jobs, such as mails to send, until a worker has done them. Create one, or use these commands: the first makes the queue, the second sends a job, and the third is a worker that prints each job.</p>
    <Copied label="Commands for the first queue and its worker" text={"seb queue create mails\nseb queue send mails '{\"to\":\"ada\"}'\nseb queue work mails -- cat"} /></>;
}
