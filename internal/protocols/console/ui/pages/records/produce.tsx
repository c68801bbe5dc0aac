// Sending a record, or an event, to a topic.

import type { ComponentChildren } from "preact";
import { useLayoutEffect, useState } from "preact/hooks";
import { call, stringify, type Int, type Problem } from "../../lib/api";
import { base64 } from "../../lib/check";
import { useAction, useLoad, type Loaded } from "../../lib/load";
import { announce, Button, Choice, Empty, Failure, Field, Loading, Note, Text, When } from "../../lib/parts";
import { entityOf, place, recordAt, type Header, type Rec } from "../../lib/records";
import { choose, route, to } from "../../lib/route";
import { may, session } from "../../lib/session";
import type { Topic } from "../../lib/topics";
import { jsonOf } from "../../lib/value";
import { bodyOf, EventFields, faultOf } from "../../lib/event";
import { useReveal } from "./detail";

const copyMax = 1 << 20;

interface Sent { partition: number; offset: Int; time?: Int | string }

/** Produce is the tab of a topic that sends one record. */
export function Produce({ topic, info }: { topic: string; info: Loaded<Topic> }) {
  const q = route.value.query, events = topic === session.value?.events_topic && q.form !== "record";
  const { hidden, note } = useReveal(topic);
  const copied = useLoad(async signal => q.copy && !hidden && /^\d+:\d+$/.test(q.copy) ? recordAt(topic, q.copy, copyMax, signal) : undefined, [topic, q.copy, hidden]);
  if (session.value?.read_only) return <Empty>This broker is read-only: it follows another one and takes no writes.</Empty>;
  if (!may("write", "topic")) return <Empty>Your key has no right to write to topics.</Empty>;
  if (copied.loading || !info.data) return copied.error ? <Failure error={copied.error} /> : <Loading />;
  const from = copied.data, cut = from?.value_bytes !== undefined;
  const text = typeof from?.value === "string" ? from.value : undefined, event = from && !cut && entityOf(jsonOf(text)) !== undefined;
  return <>
    {q.copy && note}
    <Failure error={copied.error} />
    {q.copy && !from && !hidden && !copied.error && <Note kind="warn">There is no record {q.copy} to send again.</Note>}
    {cut && <Note kind="warn">The value of record {q.copy} is larger than 1 MiB and is not copied. Use <code>seb produce</code>.</Note>}
    {topic === session.value?.events_topic && <div class="views" role="group" aria-label="What is sent">
      <button type="button" class="quiet" aria-pressed={events} onClick={() => choose({ form: undefined })}>Event</button>
      <button type="button" class="quiet" aria-pressed={!events} onClick={() => choose({ form: "record" })}>Record</button></div>}
    {events ? <EventForm topic={topic} from={event ? text : undefined} /> : <RecordForm topic={topic} partitions={info.data.partitions.length} from={from} key={q.copy + String(hidden)} />}
  </>;
}

/** Form sends with its button and with Ctrl+Enter, and says where the record is. */
function Form({ topic, label, wrong, error, busy, sent, onSend, children }: {
  topic: string; label: string; wrong: boolean; error?: Problem; busy: boolean; sent?: Sent; onSend: () => void; children: ComponentChildren;
}) {
  return <form class="card produce" aria-label={label} onSubmit={() => { if (!wrong) onSend(); }}
    onKeyDown={e => { if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) { e.preventDefault(); e.currentTarget.requestSubmit(); } }}>
    {children}
    <Failure error={error} />
    <div class="actions"><Button type="submit" kind="primary" busy={busy} disabled={wrong}>Send</Button> <span class="dim">or Ctrl+Enter</span></div>
    {sent && <Note kind="good">Stored as <a href={to("topics", topic, "records", { open: place(sent) })}>record {place(sent)}</a>{sent.time !== undefined && <>, time <When t={typeof sent.time === "string" ? sent.time : Number(sent.time)} /></>}.</Note>}
  </form>;
}

/** useSend returns what a form needs to send. An error of one of its fields is for that field. */
function useSend(fields: readonly string[], send: () => Promise<Sent>) {
  const action = useAction(), [sent, set] = useState<Sent>(), field: string = action.error?.members.field ?? "";
  const own = fields.includes(field);
  return {
    busy: action.busy, sent, error: own ? undefined : action.error, clear: action.clear,
    at: (name: string) => own && field === name ? action.error!.message : undefined,
    run: () => { set(undefined); action.run(async () => { const done = await send(); set(done); announce(`Stored as record ${place(done)}`); }); },
  };
}

function EventForm({ topic, from }: { topic: string; from?: string }) {
  const [event, set] = useState(() => {
    const before = from === undefined ? undefined : jsonOf(from) as { event: string; entity_id: string; data?: unknown };
    return { name: before?.event ?? "", entity: before?.entity_id ?? route.value.query.entity ?? "", data: before?.data ? stringify(before.data) : "" };
  });
  const send = useSend(["event", "entity_id", "data"], () =>
    call<Sent>("POST", "/event", { query: { "topic-name": topic }, body: bodyOf(event), headers: { "Content-Type": "application/json" } }));
  return <Form topic={topic} label="Send an event" wrong={!!faultOf(event.data, true)} error={send.error} busy={send.busy} sent={send.sent} onSend={send.run}>
    <EventFields event={event} onChange={c => { send.clear(); set({ ...event, ...c }); }} at={send.at} />
  </Form>;
}

const kinds = [["text", "Text"], ["json", "JSON"], ["base64", "Bytes in base64"], ["none", "None (tombstone)"]] as const;

/** first is the form for a copy of a record, or an empty one. */
function first(r?: Rec) {
  const json = typeof r?.value === "string" && jsonOf(r.value) !== undefined;
  return {
    key: r?.key_base64 ?? r?.key ?? "", keyAs: r?.key_base64 !== undefined ? "base64" : r && typeof r.key !== "string" ? "none" : "text",
    value: (r?.value_bytes === undefined && (r?.value_base64 ?? r?.value)) || "", valueAs: r?.value_base64 !== undefined ? "base64" : r?.value === null ? "none" : json ? "json" : "text",
    headers: (r?.headers ?? []) as Header[],
  };
}

function RecordForm({ topic, partitions, from }: { topic: string; partitions: number; from?: Rec }) {
  const [form, set] = useState(() => first(from)), [partition, setPartition] = useState("");
  const fault = form.valueAs === "json" ? faultOf(form.value) : form.valueAs === "base64" ? base64(form.value) : undefined;
  const send = useSend(["key", "key_base64", "value", "value_base64", "headers"], async () => {
    const record: Record<string, unknown> = { headers: form.headers.filter(h => h.key) };
    if (form.keyAs === "base64") record.key_base64 = form.key;
    else if (form.keyAs === "text" && (form.key || from?.key === "")) record.key = form.key;
    if (form.valueAs === "base64") record.value_base64 = form.value;
    else record.value = form.valueAs === "none" ? null : form.value;
    const r = await call<{ partition: number; first_offset: Int }>("POST", "/records", { query: { "topic-name": topic, partition }, body: record });
    const at = { partition: r.partition, offset: r.first_offset };
    // The answer has no time. The record has, and was just written.
    const stored = may("read", "topic") ? await recordAt(topic, place(at), 1).catch(() => undefined) : undefined;
    return { ...at, time: stored?.timestamp };
  });
  const change = (c: Partial<typeof form>) => { send.clear(); set({ ...form, ...c }); };
  return <Form topic={topic} label="Send a record" wrong={!!fault} error={send.error} busy={send.busy} sent={send.sent} onSend={send.run}>
    <div class="row">
      <Choice label="Value is" value={form.valueAs} options={kinds} onValue={valueAs => change({ valueAs })} />
      <Text wide label={form.keyAs === "base64" ? "Key in base64" : "Key"} hint={form.keyAs === "base64" ? "The bytes of the copied key" : "Optional"} value={form.key} check={form.keyAs === "base64" ? base64 : undefined} error={send.at("key") ?? send.at("key_base64")}
        onValue={key => change({ key, keyAs: form.keyAs === "base64" ? "base64" : "text" })} />
      {partitions > 1 && <Choice label="Partition" value={partition} onValue={setPartition} options={[["", "by the key"], ...Array.from({ length: partitions }, (_, i) => [String(i), String(i)] as const)]} />}
    </div>
    {form.valueAs !== "none" && <Field label="Value" error={fault ?? send.at("value") ?? send.at("value_base64")} render={a =>
      <textarea {...a} spellcheck={false} dir="auto" value={form.value} onInput={e => change({ value: e.currentTarget.value })} />} />}
    <Headers headers={form.headers} onHeaders={headers => change({ headers })} error={send.at("headers")} />
  </Form>;
}

function Headers({ headers, onHeaders, error }: { headers: Header[]; onHeaders: (h: Header[]) => void; error?: string }) {
  const [added, setAdded] = useState(0);
  const put = (i: number, h: Header) => onHeaders(headers.map((old, j) => i === j ? h : old));
  useLayoutEffect(() => { if (added) document.getElementById("header-" + (headers.length - 1))?.focus(); }, [added]);
  return <fieldset class="headers"><legend>Headers</legend>
    {headers.map((h, i) => <div class="row" key={i}>
      <input id={"header-" + i} type="text" aria-label={`Name of header ${i + 1}`} placeholder="name" value={h.key} onInput={e => put(i, { ...h, key: e.currentTarget.value })} />
      {h.value_base64 !== undefined || h.value === null ? <span class="dim">{h.value === null ? "null" : `bytes: ${h.value_base64}`}</span>
        : <input type="text" class="wide" aria-label={`Value of header ${i + 1}`} placeholder="value" value={h.value ?? ""} onInput={e => put(i, { key: h.key, value: e.currentTarget.value })} />}
      <Button kind="quiet" aria-label={`Remove header ${i + 1}`} onClick={() => onHeaders(headers.filter((_, j) => i !== j))}>Remove</Button>
    </div>)}
    {error && <p class="bad">{error}</p>}
    <Button kind="quiet" onClick={() => { onHeaders([...headers, { key: "", value: "" }]); setAdded(added + 1); }}>Add a header</Button>
  </fieldset>;
}
