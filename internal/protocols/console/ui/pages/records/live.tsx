// The live tail of a topic: a worker reads and keeps records, and the page shows some of them ten
// times a second. What is received, kept and skipped is counted, so that nothing is lost unseen.

import { useEffect, useRef, useState } from "preact/hooks";
import { apiAddress, ended, parse, sessionHeaders } from "../../lib/api";
import { count, figure, plural } from "../../lib/format";
import { asProblem, type Loaded } from "../../lib/load";
import { announce, Button, Chip, Choice, Note, Text } from "../../lib/parts";
import { hasKeys, positionsOf, textOf, type Rec } from "../../lib/records";
import { go, route, to } from "../../lib/route";
import { topicOf, type Topic } from "../../lib/topics";
import type { Tail, ToTail } from "../../tail";
import { useReveal } from "./detail";
import { Docked, RecordTable } from "./records";

const decoder = new TextDecoder(), rowsShown = 40, behindMax = 100_000, redraw = 100;

// The browser starts a worker only from an address of this policy, which gives no other than tail.js.
const tailURL = new URL("./tail.js", import.meta.url).href;
const policy = (window as unknown as { trustedTypes?: { createPolicy(name: string, rules: object): { createScriptURL(url: string): string } } })
  .trustedTypes?.createPolicy("seb-tail", { createScriptURL: () => tailURL });

/** ends returns the ends of a topic's partitions as an event ID; of one partition, the ID before its end. */
function ends(t: Topic, partition: string | undefined): string {
  if (!partition) return textOf(new Map(t.partitions.map(p => [p.partition, BigInt(p.last_stable_offset)])));
  const next = BigInt(t.partitions.find(p => String(p.partition) === partition)?.last_stable_offset ?? 0);
  return next > 0n ? String(next - 1n) : "";
}

/** between counts the offsets from one position to another. */
function between(from: string, until: string): number {
  const a = positionsOf(from), b = positionsOf(until);
  if (!a || !b) return Math.max(0, Number(until || -1) - Number(from || -1));
  return [...b].reduce((n, [p, end]) => n + Math.max(0, Number(end - (a.get(p) ?? 0n))), 0);
}

/** Live is the tab of a topic with its records as they come. */
export function Live({ topic, info }: { topic: string; info: Loaded<Topic> }) {
  const { partition, where, contains } = route.value.query;
  return <>
    <Scope topic={topic} partitions={info.data?.partitions.length ?? 1} />
    {info.data && info.data.partitions.length > 100 && !partition ? <Note>A stream has at most 100 partitions, and this topic has {info.data.partitions.length}: choose one.</Note>
      : info.data && <Stream topic={topic} info={info.data} key={JSON.stringify([topic, partition, where, contains])} />}
  </>;
}

function Scope({ topic, partitions }: { topic: string; partitions: number }) {
  const q = route.value.query, here = { partition: q.partition ?? "", where: q.where ?? "", contains: q.contains ?? "" }, [draft, set] = useState(here);
  useEffect(() => set(here), [JSON.stringify(here)]);
  const apply = (d: typeof draft) => go(to("topics", topic, "live", { partition: d.partition, where: d.where.trim(), contains: d.contains }));
  return <form class="card row scope" aria-label="What is followed" onSubmit={() => apply(draft)}>
    {partitions > 1 && <Choice label="Partition" value={draft.partition} onValue={partition => apply({ ...draft, partition })}
      options={[["", `all (${partitions})`], ...Array.from({ length: partitions }, (_, i) => [String(i), String(i)] as const)]} />}
    <Text label="Where" wide value={draft.where} onValue={where => set({ ...draft, where })} placeholder='event = "purchase" AND amount > 100' />
    <Text label="Contains" wide value={draft.contains} onValue={contains => set({ ...draft, contains })} placeholder="text in the key or value" />
    <Button type="submit" kind="primary">Follow</Button>
  </form>;
}

/** useTail runs the worker. view is the number of the first row, or undefined for the newest. */
function useTail(topic: string, info: Topic, view: { current: number | undefined }) {
  const { partition, where, contains } = route.value.query;
  const worker = useRef<Worker | undefined>(undefined), [tail, set] = useState<Tail>();
  const send = (m: ToTail) => worker.current?.postMessage(m);
  const start = (position?: string) => send({ kind: "start", position, all: !partition, headers: { Accept: "text/event-stream", ...sessionHeaders() },
    url: apiAddress("/records", { "topic-name": topic, partition: partition ?? "all", where, contains, "max-value-bytes": 400 }).href });
  useEffect(() => {
    const w = worker.current = new Worker(policy ? policy.createScriptURL("") : tailURL, { type: "module" });
    let timer = 0, frame = 0, gone = false;
    const ask = () => send({ kind: "ask", first: view.current, count: rowsShown });
    w.onmessage = e => {
      const t = e.data as Tail;
      if (t.problem?.status === 401) ended.value = t.problem.detail;
      // A hidden page draws nothing, and then asks for nothing.
      frame = requestAnimationFrame(() => { set(t); timer = setTimeout(ask, redraw) as unknown as number; });
    };
    // The start is the end of the topic as it is now, so that a stream that breaks off at once loses nothing.
    topicOf(topic).then(t => { if (!gone) { start(ends(t, partition)); ask(); } }, e => set({ ...none, state: "ended", problem: { status: 0, detail: asProblem(e).message } }));
    return () => { gone = true; w.terminate(); clearTimeout(timer); cancelAnimationFrame(frame); };
  }, []);
  const toNewest = async () => {
    send({ kind: "pause" }); // so that the end is not behind what is read meanwhile
    const end = ends(await topicOf(topic), partition);
    view.current = undefined;
    start(end);
  };
  const behind = tail?.state === "open" && tail.position ? between(tail.position, ends(info, partition)) : 0;
  useEffect(() => { if (behind > behindMax) toNewest().catch(() => { /* the broker is not there: the worker says so */ }); }, [info]);
  const skipped = (tail?.skips ?? []).reduce((n, [from, until]) => n + between(from, until), 0);
  return { tail, skipped, behind, pause: () => send({ kind: "pause" }), resume: () => start(), toNewest };
}

const none: Tail = { state: "connecting", received: 0, looked: 0, oldest: 1, rate: 0, position: "", first: 0, text: new Uint8Array(), ends: [], skips: [] };

const states = { connecting: ["", "connecting"], open: ["good", "live"], lost: ["warn", "no connection, trying again"], paused: ["warn", "paused"], ended: ["bad", "ended"] } as const;

function Stream({ topic, info }: { topic: string; info: Topic }) {
  const view = useRef<number | undefined>(undefined), q = route.value.query, { partition } = q;
  const { tail = none, skipped, behind, pause, resume, toNewest } = useTail(topic, info, view);
  const { hidden, note } = useReveal(topic);
  const rows = tail.ends.map((end, i): Rec => ({ partition: Number(partition ?? 0), ...parse(decoder.decode(tail.text.subarray(tail.ends[i - 1] ?? 0, end))) }));
  const kept = tail.received - tail.oldest + 1, following = view.current === undefined, stopped = tail.state === "paused" || tail.state === "ended";
  const [kind, state] = states[tail.state], hold = () => { view.current ??= tail.first; };
  return <>
    <div class="searched">
      <Chip kind={kind}>{state}</Chip>
      <span><b class="num">{figure(tail.rate)}</b> a second</span>
      <span>{plural(tail.received, "record")} received{tail.looked > 0 && ` of ${count(tail.looked)} looked at`}{kept < tail.received && `, the newest ${count(kept)} kept`}</span>
      {behind > 1000 && <span class="dim">{plural(behind, "offset")} behind</span>}
      <span class="actions">
        {stopped ? <>{tail.state === "paused" && <Button onClick={() => { resume(); announce("Live"); }}>Resume where it stopped</Button>}<Button onClick={toNewest}>Resume at the newest</Button></>
          : <Button onClick={() => { pause(); announce("Paused"); }}>Pause</Button>}
        {!following && <Button onClick={() => { view.current = undefined; }}>Show the newest</Button>}
      </span>
    </div>
    {tail.problem && <div class="failure" role="alert"><p>{tail.problem.detail}</p></div>}
    {skipped > 0 && <Note kind="warn">{plural(skipped, "offset")} skipped: they are in the <a href={to("topics", topic, "records")}>records</a>, not here. The tail skips to the end when it is more than {count(behindMax)} offsets behind.</Note>}
    {note}
    <Docked topic={topic} keys={hasKeys(info)} hidden={hidden}>
      <section aria-label="Newest records" class="records live" onFocusCapture={e => { if ((e.target as HTMLElement).tagName === "A") hold(); }}>
        {rows.length === 0 ? <p class="empty">{tail.state === "open" ? "Waiting for records." : ""}</p> : <RecordTable caption={`Newest records of ${topic}`} rows={rows} hidden={hidden} keyOf={r => String(rows.indexOf(r))} />}
        {tail.received > rowsShown && <nav class="actions paging" aria-label="Kept records">
          <Button disabled={tail.first >= tail.received} onClick={() => { view.current = tail.first + rowsShown; }}>Newer</Button>
          <Button disabled={tail.first - rowsShown < tail.oldest} onClick={() => { view.current = tail.first - rowsShown; }}>Older</Button>
          <span class="dim">{count(tail.first - rows.length + 1)} to {count(tail.first)} of {count(tail.received)}{following ? ", following" : ", held"}</span>
        </nav>}
      </section>
    </Docked>
  </>;
}
