// The records of a topic: a scope of reading, a filter, a list, and one record beside it.

import type { ComponentChildren } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { call, type Query } from "../../lib/api";
import { announce, Button, Empty, Failure, Loading, Note, Table, When } from "../../lib/parts";
import { bytes, count, plural } from "../../lib/format";
import { useLoad, type Loaded } from "../../lib/load";
import { bytesOf, hasKeys, place, positionsOf, read, textOf, type Got, type Positions, type Content, type Rec } from "../../lib/records";
import { choose, route, to } from "../../lib/route";
import { topicOf, type Topic } from "../../lib/topics";
import { Detail, Key, useReveal } from "./detail";
import { Scope } from "./scope";

const pageOf = 50, partitionsMax = 100;

/** Page is one page of a list, with the addresses of its neighbours. */
interface Page extends Partial<Got> { topic: Topic; records: Rec[]; older: boolean; after?: string }

/** startOf returns where reading begins, by the scope in the address. */
async function startOf(q: Record<string, string>, t: Topic, signal: AbortSignal): Promise<{ from: Positions; older: boolean }> {
  const page = q.page ? positionsOf(q.page) : undefined;
  if (page) return { from: page, older: q.way !== "newer" };
  const chosen = t.partitions.filter(p => !q.partition || String(p.partition) === q.partition);
  const all = (of: (p: Topic["partitions"][number]) => bigint): Positions => new Map(chosen.map(p => [p.partition, of(p)]));
  switch (q.from) {
    case "oldest": return { from: all(p => BigInt(p.start_offset)), older: false };
    case "offset": {
      const at = BigInt(/^\d{1,19}$/.test(q.at ?? "") ? q.at! : 0);
      const within = (low: bigint, high: bigint) => at < low ? low : at > high ? high : at;
      return { from: all(p => chosen.length === 1 ? at : within(BigInt(p.start_offset), BigInt(p.next_offset))), older: false };
    }
    case "time": {
      const found = await call<{ partitions: { partition: number; offset: number }[] }>("GET", "/topic/offsets", { signal, query: { "topic-name": t.name, time: q.at, partition: q.partition } });
      return { from: new Map(found.partitions.map(p => [p.partition, BigInt(p.offset)])), older: false };
    }
    default: return { from: all(p => BigInt(p.next_offset)), older: true };
  }
}

async function historyOf(q: Record<string, string>, topic: Topic, signal: AbortSignal): Promise<Page> {
  const query: Query = { "topic-name": topic.name, "key-base64": q.key64, after: q.page, limit: pageOf };
  // An empty key is one, too; the parameter must be there.
  const path = q.key64 ? "/key/history" : "/key/history?key=" + encodeURIComponent(q.key ?? "");
  const found = await call<{ records: Rec[]; next?: string }>("GET", path, { signal, query });
  return { topic, records: found.records, older: true, after: found.next, end: !found.next };
}

/** Records is the tab of a topic with its records. */
export function Records({ topic, info }: { topic: string; info: Loaded<Topic> }) {
  const q = route.value.query, searching = q.from !== "key" && !!(q.where || q.contains);
  const [progress, setProgress] = useState<Got & { older: boolean }>(), stop = useRef(new AbortController());
  const { open: _o, view: _v, ...scope } = q;
  const page = useLoad<Page>(async signal => {
    setProgress(undefined);
    const t = await topicOf(topic, signal);
    if (q.from === "key") return historyOf(q, t, signal);
    const { from, older } = await startOf(q, t, signal);
    const busy = t.partitions.filter(p => from.has(p.partition) && p.start_offset !== p.next_offset).length;
    if (busy > partitionsMax) return { topic: t, records: [], older };
    stop.current = new AbortController();
    const got = await read({ topic, from, older, count: pageOf, where: q.where, contains: q.contains, signal }, t, got => setProgress({ ...got, older }), stop.current.signal);
    if (searching) announce(`${plural(got.records.length, "record")} found`);
    return { topic: t, older, ...got };
  }, [topic, JSON.stringify(scope)]);
  const { hidden, note } = useReveal(topic);
  const newest = !q.from || q.from === "newest" || q.from === "key", got = page.loading ? progress : page.data, t = info.data ?? page.data?.topic;
  const records = got ? got.older === newest ? got.records : got.records.toReversed() : [];
  const atField = ["where", "contains"].includes(page.error?.members.field);
  useEffect(() => { if (atField) announce(page.error!.message); }, [page.error]);
  return <>
    {t && <Scope topic={t} fault={atField ? page.error : undefined} />}
    {note}
    <Failure error={atField || page.error?.message === info.error?.message ? undefined : page.error} />
    {page.data && !page.data.low && q.from !== "key" && <Note>This topic has records in more than {partitionsMax} partitions: choose one.</Note>}
    <Docked topic={topic} keys={!!t && hasKeys(t)} hidden={hidden}>
      <section aria-label="Records">
        {page.loading && !progress && <Loading what={searching ? "Searching" : "Reading"} />}
        {searching && got?.looked !== undefined && <Searched got={got as Got} running={page.loading} onStop={() => stop.current.abort()} />}
        {records.length > 0 && <List topic={topic} records={records} hidden={hidden} />}
        {page.data && !page.loading && !records.length && (page.data.low || q.from === "key") && <Empty>{searching ? "No record matches in what was looked at." : "No records here."}</Empty>}
        {page.data && !page.loading && <Paging page={page.data} newest={newest} searching={searching} />}
      </section>
    </Docked>
  </>;
}

function Searched({ got, running, onStop }: { got: Got; running: boolean; onStop: () => void }) {
  const state = running ? "" : got.stopped ? " Stopped." : got.end ? " All looked at." : "";
  return <p class="searched"><span role="status">{plural(got.records.length, "record")} found, looked at {count(got.looked)} of {count(Math.max(got.looked, got.total))}.{state}</span>
    {running && <><progress max={Math.max(1, got.total)} value={got.looked} aria-label="Looked at" /><Button onClick={onStop}>Stop</Button></>}</p>;
}

/** Docked has a list, and beside it the record that a person opened. */
export function Docked({ topic, keys, hidden, children }: { topic: string; keys: boolean; hidden: boolean; children: ComponentChildren }) {
  const { open } = route.value.query;
  const close = () => { choose({ open: undefined, view: undefined }); document.getElementById("at-" + open)?.focus(); };
  return <div class={open ? "docked" : ""}>
    {children}
    {open && /^\d+:\d+$/.test(open) && <Detail topic={topic} at={open} keys={keys} hidden={hidden} onClose={close} />}
  </div>;
}

/** RecordTable lists records, with links that open them. */
export function RecordTable({ caption, rows, hidden, keyOf = place }: { caption: string; rows: Rec[]; hidden: boolean; keyOf?: (r: Rec) => string }) {
  const { open } = route.value.query;
  return <Table caption={caption} rows={rows} keyOf={keyOf} selected={r => place(r) === open} columns={[
    { name: "Offset", cell: r => <Open at={place(r)} current={open === place(r)} /> },
    { name: "Time", cell: r => <When t={Number(r.timestamp)} /> },
    { name: "Key", line: "key", cell: r => <Key r={r} /> },
    { name: "Value", line: "value", cell: r => <Preview r={r} hidden={hidden} /> },
  ]} />;
}

function List({ topic, records, hidden }: { topic: string; records: Rec[]; hidden: boolean }) {
  const walk = (e: KeyboardEvent) => {
    const links = [...(e.currentTarget as HTMLElement).querySelectorAll<HTMLElement>("a.open")], at = links.indexOf(document.activeElement as HTMLElement);
    const next = links[at + (e.key === "ArrowDown" ? 1 : e.key === "ArrowUp" ? -1 : links.length)];
    if (at >= 0 && next) { e.preventDefault(); next.focus(); }
  };
  return <div onKeyDown={walk} class="records"><RecordTable caption={`Records of ${topic}`} rows={records} hidden={hidden} /></div>;
}

/** Open is the link that shows a record beside the list. */
export function Open({ at, current }: { at: string; current: boolean }) {
  const { path, query } = route.value;
  return <a class="open num" id={"at-" + at} aria-current={current || undefined} href={to(...path, { ...query, open: at })}
    onClick={e => { if (!e.metaKey && !e.ctrlKey && !e.shiftKey) { e.preventDefault(); choose({ open: at }); } }}>{at}</a>;
}

/** Preview is the beginning of a value, in one line. */
export function Preview({ r, hidden }: { r: Content; hidden?: boolean }) {
  if (hidden) return <span class="dim">hidden</span>;
  if (r.value_base64 !== undefined) {
    const data = bytesOf(r.value_base64);
    return <><span class="size">{bytes(r.value_bytes ?? data.length)}</span><span class="mark">bytes</span><span class="mono">{Array.from(data.subarray(0, 24), b => b.toString(16).padStart(2, "0")).join(" ")}</span></>;
  }
  if (r.value === null || r.value === undefined) return <span class="mark">tombstone</span>;
  if (r.value === "") return <span class="mark">empty</span>;
  return <>{r.value_bytes !== undefined && <span class="size">{bytes(r.value_bytes)}</span>}<span class="mono" dir="auto">{r.value.slice(0, 300)}</span></>;
}

/** Paging has the links to older and newer records. */
function Paging({ page, newest, searching }: { page: Page; newest: boolean; searching: boolean }) {
  const { path, query } = route.value;
  const link = (name: string, page: string | undefined, way?: string) => page !== undefined && <a href={to(...path, { ...query, open: undefined, page, way })}>{name}</a>;
  if (query.from === "key") return <p class="actions paging">{link("Older", page.after)}</p>;
  if (!page.low || !page.high) return null;
  const more = searching ? "Search " : "", low = textOf(page.low), oldest = page.topic.partitions.every(p => (page.low!.get(p.partition) ?? 0n) <= BigInt(p.start_offset));
  const older = oldest ? <span class="dim">No older records</span> : link(more ? more + "older" : "Older", low, "older");
  const newer = link(more ? more + "newer" : "Newer", textOf(page.high), "newer");
  return <nav class="actions paging" aria-label="Pages of records">{newest ? <>{newer}{older}</> : <>{older}{newer}</>}</nav>;
}
