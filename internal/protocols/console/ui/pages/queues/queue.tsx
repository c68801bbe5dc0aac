// One queue. Its parts are tabs: #/queues/NAME/PART.

import type { ComponentChildren } from "preact";
import { at, call, type Int } from "../../lib/api";
import { Chart } from "../../lib/chart";
import { bytes, count, figure, plural, seconds, word } from "../../lib/format";
import { useAction, useGet, useLoad, type Loaded } from "../../lib/load";
import { ActButton, announce, Button, Card, Copied, Facts, Failure, Got, Loading, Note, Page, Table, Tabs, When } from "../../lib/parts";
import { go, to } from "../../lib/route";
import { may } from "../../lib/session";
import { OverTime, total } from "../overview/charts";
import { Form, getSettings } from "../topics/settings";
import { Chips } from ".";
import { Messages } from "./messages";
import { Redrive } from "./redrive";
import { Send } from "./send";
import { letters, moves, paused, type Queue } from "./types";

type Part = (p: { q: Queue; reload: () => void }) => ComponentChildren;

export function One({ name, part }: { name: string; part?: string }) {
  const queue = useGet<Queue>(at`/queues/${name}`, {}, 5000), q = queue.data;
  const tabs: (readonly [path: string, name: string, view: Part, shown?: boolean])[] = [
    ["numbers", "Numbers", Numbers],
    ["messages", "Messages", Messages, may("read", "topic")],
    ["send", "Send", Send, may("write", "topic")],
    ["schedules", "Schedules", Schedules],
    ["settings", "Settings", Settings],
    ["redrive", "Move back", Redrive, moves() && !!q && !letters(q)], // letters lie in queues without letters
  ];
  const mine = tabs.filter(([, , , shown = true]) => shown), [path, , View] = mine.find(([p]) => p === part) ?? mine[0]!;
  return <Page title={name} lead={<a href={to("queues")}>All queues</a>} actions={q && <Actions q={q} reload={queue.reload} />}>
    <Tabs label="Parts of the queue" tabs={mine.map(([p, n]) => [to("queues", name, p), n] as const)} here={to("queues", name, path)} />
    <Failure error={queue.error} />
    {q ? <><Warnings q={q} /><View q={q} reload={queue.reload} key={path} /></> : !queue.error && <Loading />}
  </Page>;
}

const left = (q: Queue) => [q.ready, q.leased, q.delayed, q.retry, q.dying].reduce<bigint>((sum, n) => sum + BigInt(n), 0n);

function Actions({ q, reload }: { q: Queue; reload: () => void }) {
  const action = useAction(), stopped = paused(q);
  const toggle = async () => {
    if (!await action.run(() => call("POST", at`/queues/${q.name}` + (stopped ? "/resume" : "/pause")))) return;
    announce(stopped ? "Workers get messages again" : "The queue is paused");
    reload();
  };
  return <>
    <Chips of={q} />
    <Failure error={action.error} />
    {may("alter-configs", "topic") && <Button busy={action.busy} onClick={toggle} kind={stopped ? "primary" : undefined}>{stopped ? "Resume" : "Pause"}</Button>}
    {may("delete", "topic") && <>
      <ActButton button="Purge" title={`Purge the queue ${q.name}?`} action={`End ${plural(left(q), "message")}`} danger typed={q.name} act={() => call("POST", at`/queues/${q.name}/purge`)} said={`Queue ${q.name} is empty`} onDone={reload}>
        <p>Ends all messages that are not finished, also those that workers have and those sent for later. No worker gets them any more. This cannot be undone.</p>
      </ActButton>
      <ActButton button="Delete" title={`Delete the queue ${q.name}?`} action="Delete the queue" danger typed={q.name} act={() => call("DELETE", at`/queues/${q.name}`)} said={`Queue ${q.name} deleted`} onDone={() => go(to("queues"))}>
        <p>Deletes the queue with all its messages and schedules, permanently.{letters(q) && ` Its dead letters stay in ${letters(q)}.`}</p>
      </ActButton>
    </>}
  </>;
}

/** Warnings say why workers get no messages, and what to do. */
function Warnings({ q }: { q: Queue }) {
  return <>
    {paused(q) && <Note kind="warn">The queue is paused: workers get no messages. New ones are stored.</Note>}
    {q.full && <Note kind="warn">The queue is full: it refuses new messages, because they take as many bytes as <a href={to("topics", q.name, "settings")}>retention-bytes</a> permits.</Note>}
    {q.look_ahead_full && <Note kind="warn">The queue waits: it has looked ahead as far as it may, and all messages that it found wait for an earlier one of the same key. Messages of other keys may lie behind them.</Note>}
  </>;
}

function Numbers({ q }: { q: Queue }) {
  const to_ = letters(q), of = (n: Int, state: string, about: string) =>
    <>{Number(n) && may("read", "topic") ? <a href={to("queues", q.name, "messages", { state })}>{count(n)}</a> : count(n)} <span class="dim">{about}</span></>;
  const idle = Number(q.ready) > 0 && !Number(q.leased) && !paused(q) && to_;
  return <>
    {idle && <Note>Messages wait, and no worker has one. To start a worker that runs a program for each message:<Copied label="Command that starts a worker" text={`seb queue work ${word(q.name)} -- ./my-program`} /></Note>}
    <Card title="Messages"><Facts facts={[
      ["Ready", of(q.ready, "ready", "wait for a worker")],
      ["Leased", of(q.leased, "leased", "are with workers now")],
      ["Delayed", of(q.delayed, "delayed", "were sent for later")],
      ["Retry", of(q.retry, "retry", "failed, and come again")],
      Number(q.dying) && ["Dying", <>{count(q.dying)} <span class="dim">are on their way to <a href={to("queues", to_)}>{to_}</a></span></>],
      to_ && ["Dead", <>{count(q.dead)} <span class="dim">failed too often, and lie in <a href={to("queues", to_, "messages")}>{to_}</a></span></>],
      ["Oldest", q.oldest_seconds === undefined ? <span class="dim">all are finished</span> : <>{seconds(q.oldest_seconds)} <span class="dim">ago the oldest one was sent that is not finished</span></>],
      ["Sent", <>{count(q.sent)} <span class="dim">since the queue exists</span></>],
      ["Size", <>{bytes(q.bytes)} <span class="dim">with those that are finished and still kept</span></>],
    ]} /></Card>
    <OverTime title={window => <>Charts of the last <span class="unseen">{window}</span></>} path={at`/queues/${q.name}/stats`}>{s => <>
      <Chart title="Messages by state" times={s.times} format={figure} lines={[
        { name: "ready", values: total(s, "ready") }, { name: "leased", values: total(s, "leased") }, { name: "delayed or retry", values: total(s, "delayed", "retry") }]} />
      <Chart title="Messages per second" times={s.times} format={figure} lines={[
        { name: "sent", values: total(s, "sent") }, { name: "done", values: total(s, "done") }, { name: "failed tries", values: total(s, "failed") }]} />
      <Chart title="Oldest ready message" times={s.times} format={seconds} lines={[{ name: "age", values: total(s, "oldest") }]} />
      {to_ && <Chart title="Dead letters" times={s.times} format={figure} lines={[{ name: `in ${to_}`, values: total(s, "dead") }]} />}
    </>}</OverTime>
  </>;
}

/** fixed are settings that do not change here. */
const fixed = ["key-mode", "paused"];

function Settings({ q, reload }: { q: Queue; reload: () => void }) {
  const table = useLoad(signal => getSettings(signal, "queues"), []);
  return <Got of={table}>{all => <>
    <Form table={all.filter(s => !fixed.includes(s.name))} stored={q.settings} deleting={["expire", "keep-done"]} onStored={reload}
      save={settings => call("PUT", at`/queues/${q.name}`, { body: { settings } })} />
    <p class="lead">The queue has {plural(q.priorities, "priority", "priorities")} and key-mode {q.effective_settings["key-mode"]}, which stay. <a href={to("topics", q.name, "settings")}>Settings of its topic</a>, such as its size.</p>
  </>}</Got>;
}

interface Schedule { name: string; cron: string; zone?: string; next: string[] }

function Schedules({ q }: { q: Queue }) {
  const list: Loaded<{ schedules: Schedule[] }> = useGet(at`/queues/${q.name}/schedules`, {}, 30_000);
  return <Card title="Messages that are sent at times"><Got of={list}>{({ schedules }) => <Table caption="Schedules" rows={schedules} keyOf={s => s.name}
    empty={<><p>There are none. A schedule sends a message again and again, such as every morning at 9:</p><Copied label="Command that makes a schedule" text={`seb queue schedule ${word(q.name)} morning --cron '0 9 * * *' -- '{"report":"daily"}'`} /></>} columns={[
      { name: "Name", wide: true, cell: s => <bdi>{s.name}</bdi> },
      { name: "Times (cron)", cell: s => <code>{s.cron}</code> },
      { name: "Zone", cell: s => s.zone ?? "UTC" },
      { name: "Next", cell: s => <When t={s.next[0]} none="no more" /> },
      ...may("alter-configs", "topic") ? [{ name: "Delete", cell: (s: Schedule) => <ActButton button="Delete" title={`Delete the schedule ${s.name}?`} action="Delete the schedule" act={() => call("DELETE", at`/queues/${q.name}/schedules/${s.name}`)} said={`Schedule ${s.name} deleted`} onDone={list.reload}>
        <p>It sends no message any more. Those that it has sent stay.</p></ActButton> }] : [],
    ]} />}</Got></Card>;
}
