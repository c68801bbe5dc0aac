// One record beside the list: its value, headers and sizes, and what can be done with it.

import type { ComponentChildren } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { announce, Button, CopyButton, Facts, Failure, Loading, Note, When } from "../../lib/parts";
import { bytes, count } from "../../lib/format";
import { useAction, useLoad } from "../../lib/load";
import { bytesOf, entityOf, keyQuery, recordAt, secretive, valueAt, type Content, type Rec } from "../../lib/records";
import { choose, route, to } from "../../lib/route";
import { may } from "../../lib/session";
import { jsonOf, ofBytes, ofText, ValueView, type Value } from "../../lib/value";

// A larger value is cut, and loaded whole on demand.
const shownMax = 1 << 20;

/** Key shows a key as text, or as base64 if it is not UTF-8. */
export function Key({ r }: { r: { key?: string | null; key_base64?: string } }) { return <Line text={r.key} base64={r.key_base64} none="none" />; }

/** Line shows text or bytes in one line. What is no text has a word beside it that a text cannot have. */
function Line({ text, base64, none }: { text?: string | null; base64?: string; none: string }) {
  if (base64 !== undefined) return <><span class="mark">base64</span><code>{base64}</code></>;
  if (text) return <bdi class="mono">{text}</bdi>;
  return <span class="mark">{text === "" ? "empty" : none}</span>;
}

/** revealed is the topic whose secret values the person asked for. */
let revealed = "";

/** useReveal tells whether values are hidden because they can show secrets, and has the note about it. */
export function useReveal(topic: string): { hidden: boolean; note: ComponentChildren } {
  const [, again] = useState(0), secret = secretive(topic), hidden = secret && revealed !== topic;
  return {
    hidden, note: secret && <Note kind="warn">The records of this topic have the secrets of webhooks. {hidden
      ? <Button onClick={() => { revealed = topic; again(1); }}>Show the values</Button> : "The values are shown: do not share this screen."}</Note>,
  };
}

/** Detail shows the record at a place of a topic, such as 0:85211. */
export function Detail({ topic, at, keys, hidden, onClose }: { topic: string; at: string; keys: boolean; hidden: boolean; onClose: () => void }) {
  const record = useLoad(signal => recordAt(topic, at, shownMax, signal), [topic, at]), r = record.data;
  const head = useRef<HTMLHeadingElement>(null);
  useEffect(() => { head.current!.focus({ preventScroll: innerWidth > 900 }); }, [at]);
  return <section class="card detail" aria-labelledby="detail" onKeyDown={e => { if (e.key === "Escape") onClose(); }}>
    <header><h2 id="detail" tabIndex={-1} ref={head}>Record {at}</h2><div class="actions"><Button kind="quiet" onClick={onClose}>Close</Button></div></header>
    <Failure error={record.error} />
    {record.loading && !r ? <Loading /> : !r ? !record.error && <p>There is no record at this offset: it was compacted away, or is not written yet.</p>
      : <Shown topic={topic} at={at} r={r} keys={keys} hidden={hidden} key={at} />}
  </section>;
}

/** valueOf is the value of a record or a message; undefined: none. */
export function valueOf(r: Content): Value | undefined {
  if (r.value_base64 !== undefined) return ofBytes(bytesOf(r.value_base64));
  return typeof r.value === "string" ? ofText(r.value, Number(r.value_bytes ?? new Blob([r.value]).size)) : undefined;
}

function Shown({ topic, at, r, keys, hidden }: { topic: string; at: string; r: Rec; keys: boolean; hidden: boolean }) {
  const [whole, setWhole] = useState<Value>(), action = useAction();
  const value = useMemo(() => whole ?? valueOf(r), [r, whole]), cut = !whole && r.value_bytes !== undefined;
  const entity = useMemo(() => entityOf(cut || hidden ? undefined : jsonOf(value?.text)), [value, cut, hidden]);
  const load = () => action.run(async () => { setWhole(ofBytes(await valueAt(topic, at))); announce("The whole value is shown"); });
  const length = r.value_bytes ?? value?.length, key = keyQuery(r);
  return <>
    <Facts facts={[
      ["Time", <When t={Number(r.timestamp)} />],
      ["Key", <Key r={r} />],
      ["Value", value === undefined ? "none (a tombstone)" : <>{bytes(length)}{Number(length) >= 1024 && <span class="dim"> ({count(length)} bytes)</span>}</>],
      ["Headers", r.headers?.length ? <Headers r={r} /> : "none"],
    ]} />
    <p class="actions">
      {value && !hidden && <CopyValue value={value} cut={cut} />}
      {!hidden && may("write", "topic") && <a href={to("topics", topic, "produce", { copy: at })}>Send again</a>}
      {keys && key && <a href={to("topics", topic, "records", { from: "key", ...key })}>History of this key</a>}
      {entity !== undefined && <a href={to("entities", entity)}>Time line of <bdi>{entity}</bdi></a>}
    </p>
    {cut && !hidden && <Note>The first {bytes(shownMax)} of {bytes(length)}. <Button busy={action.busy} onClick={load}>Load all {bytes(length)}</Button></Note>}
    <Failure error={action.error} />
    {value && (hidden ? <p class="dim">The value is hidden.</p> : <ValueView value={value} view={route.value.query.view} onView={view => choose({ view })} />)}
  </>;
}

/** Headers lists headers with their values. */
export function Headers({ r }: { r: Content }) {
  return <ul class="plain">{r.headers!.map((h, i) => <li key={i}><bdi class="mono">{h.key}</bdi>: <Line text={h.value} base64={h.value_base64} none="null" /></li>)}</ul>;
}

/** CopyValue copies a value. */
export function CopyValue({ value, cut }: { value: Value; cut: boolean }) {
  return <CopyButton text={() => value.text ?? Array.from(value.data!, b => b.toString(16).padStart(2, "0")).join("")}>
    {`Copy ${cut ? "what is shown" : value.text === undefined ? "as hex" : "value"}`}</CopyButton>;
}
