// Moving dead letters back: a preview first, and then the move, both up to 1,000 letters a request.

import { useEffect, useRef, useState } from "preact/hooks";
import { at, call } from "../../lib/api";
import { topicName } from "../../lib/check";
import { count, plural } from "../../lib/format";
import { useAction } from "../../lib/load";
import { announce, Button, Card, Failure, Note, Table, Text, When } from "../../lib/parts";
import { choose, route, to } from "../../lib/route";
import { Preview } from "../records/records";
import { header, type Message, type Queue } from "./types";

/** Moved is what a redrive has moved, or would move, so far. */
interface Moved { moved: number; skipped: number }

const examples = 5;

export function Redrive({ q, reload }: { q: Queue; reload: () => void }) {
  const { reason = "", text = "", target = "" } = route.value.query, filter = { reason, text, to: target };
  const [preview, show] = useState<Moved & { first: Message[] }>(), [done, finish] = useState<Moved & { stopped: boolean }>(), [progress, step] = useState<Moved>();
  const looking = useAction(), moving = useAction(), abort = useRef<AbortController | undefined>(undefined);
  useEffect(() => () => abort.current?.abort(), []);
  const clear = () => { show(undefined); finish(undefined); looking.clear(); moving.clear(); };
  const field = (name: string) => ({ value: filter[name as "reason"], onValue: (v: string) => { choose({ [name === "to" ? "target" : name]: v }); clear(); } });
  const all = q.ready && Number(q.ready) + Number(q.leased) + Number(q.delayed) + Number(q.retry);
  /** each sends requests until there are no more letters, or Stop. */
  const each = async (dry: boolean): Promise<Moved> => {
    const signal = (abort.current = new AbortController()).signal, sum = { moved: 0, skipped: 0 };
    step(sum);
    try {
      for (let after: string | undefined; !signal.aborted;) {
        const r = await call<Moved & { next?: string }>("POST", at`/queues/${q.name}/redrive`, { body: { ...filter, after, dry_run: dry }, signal: dry ? signal : undefined });
        step({ moved: sum.moved += r.moved, skipped: sum.skipped += r.skipped });
        if (!(after = r.next)) break;
      }
    } finally {
      step(undefined);
    }
    return sum;
  };
  const look = async () => {
    clear();
    if (!await looking.run(async () => {
      const sum = await each(true);
      const { messages } = await call<{ messages: Message[] }>("GET", at`/queues/${q.name}/messages`, { query: { limit: 200, "max-value-bytes": 400 } });
      show({ ...sum, first: messages.filter(m => (header(m, "seb-reason") ?? "").includes(reason) && (m.value ?? "").includes(text)).slice(0, examples) });
    })) return;
    announce("Preview ready");
  };
  const move = async () => {
    await moving.run(async () => finish({ ...await each(false), stopped: abort.current!.signal.aborted }));
    show(undefined);
    announce("The letters were moved");
    reload();
  };
  return <>
    <Card title="Which letters"><form onSubmit={look}>
      <p class="hint">A letter goes back to the queue from which it came, and workers get it again as a new message. Repair first what made it fail.</p>
      <div class="row">
        <Text label="Reason contains" {...field("reason")} placeholder="any reason" hint="Such as mailbox full" />
        <Text label="Body contains" {...field("text")} placeholder="any body" />
        <Text label="To" {...field("to")} check={topicName} placeholder="where each came from" hint="Another queue" />
        <Button kind={preview ? undefined : "primary"} type="submit" busy={looking.busy}>Preview</Button>
      </div>
    </form></Card>
    {progress && <p class="searched"><span role="status">{looking.busy ? "Counting" : "Moving"}: {count(progress.moved)} of at most {count(all)}.</span>
      <progress max={Math.max(1, Number(all))} value={progress.moved + progress.skipped} aria-label="Letters looked at" /><Button onClick={() => abort.current!.abort()}>Stop</Button></p>}
    <Failure error={looking.error?.message.includes("abort") ? undefined : looking.error}>{looking.error?.code === "unknown_topic" && <p>There is no queue {target || "of the name that a letter has"}.</p>}</Failure>
    <Failure error={moving.error}><p>The letters that were moved before stay moved. Make a new preview for the others.</p></Failure>
    {preview && <Card title={`${plural(preview.moved, "letter")} would be moved, ${count(preview.skipped)} not`} actions={<Button kind="danger" disabled={!preview.moved} busy={moving.busy} onClick={move}>Move {plural(preview.moved, "letter")}</Button>}>
      {preview.first.length > 0 && <Table caption="Some of the letters" rows={preview.first} keyOf={m => m.id} columns={[
        { name: "Letter", cell: m => <a href={to("queues", q.name, "messages", { open: m.id })}>{m.id}</a> },
        { name: "Since", cell: m => <When t={m.sent} /> },
        { name: "Goes to", cell: m => <span class="nowrap">{target || header(m, "seb-queue") || "–"}</span> },
        { name: "Reason", wide: true, cell: m => <bdi>{header(m, "seb-reason") || "–"}</bdi> },
        { name: "Body", line: "value", cell: m => <Preview r={m} /> },
      ]} />}
      {preview.moved > preview.first.length && preview.first.length > 0 && <p class="hint">Some of them, the newest first.</p>}
    </Card>}
    {done && <Note kind="good">{done.stopped && "Stopped. "}{plural(done.moved, "letter was", "letters were")} moved{done.skipped > 0 && `, ${count(done.skipped)} did not match or are with workers`}.</Note>}
  </>;
}
