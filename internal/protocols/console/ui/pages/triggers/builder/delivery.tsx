// Where the messages of a trigger go: a webhook, a topic or a queue, and when.

import type { ComponentChildren } from "preact";
import { useId, useRef } from "preact/hooks";
import { parse, stringify } from "../../../lib/api";
import { Card, Choice, Field, Text } from "../../../lib/parts";
import type { Delivery } from "../types";
import type { Faults } from "./checks";
import type { EventName } from "./panel";
import type { Tree } from "./tree";

/**
 * Target is the form of a delivery. kind: keep, url, topic, queue or "" for none. Secrets, headers and waits
 * are lists as text. more: members without a field, as JSON.
 */
export interface Target {
  kind: string; url: string; secrets: string; headers: string; template: string; type: string; retries: string; concurrency: string;
  to: string; queue: string; delay: string; from: string; till: string; zone: string; cap: string; per: string; more: string;
}

const kinds = [["", "None: only list the firings"], ["url", "Webhook"], ["topic", "Topic"], ["queue", "Queue"]] as const;

/** targetOf fills the form from a stored delivery, whose secrets are masked. */
export function targetOf(d: Delivery | undefined): Target {
  const { url = "", topic = "", queue = "", delay = "", secrets: _, headers = {}, template = "", content_type = "", retries, concurrency, quiet_hours: quiet, frequency_cap: cap, ...rest } = (d ?? {}) as Delivery & {
    template?: string; content_type?: string; retries?: string[]; concurrency?: number; quiet_hours?: { from: string; to: string; zone: string }; frequency_cap?: { count: number; per: string };
  };
  return {
    kind: d ? "keep" : "", url, secrets: "", headers: Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join("\n"), template, type: content_type,
    retries: retries ? retries.join(", ") || "none" : "", concurrency: concurrency ? String(concurrency) : "", to: topic, queue, delay, from: quiet?.from ?? "", till: quiet?.to ?? "", zone: quiet?.zone ?? "", cap: cap ? String(cap.count) : "", per: cap?.per ?? "",
    more: Object.keys(rest).length ? stringify(rest, 2) : "",
  };
}

/** here is the person's time zone. */
const here = Intl.DateTimeFormat().resolvedOptions().timeZone;

const words = (list: string) => list.split(/[\s,]+/).filter(Boolean);

/** Fault is what is wrong with a field before the broker can read it. */
export class Fault extends Error {
  constructor(readonly field: string, detail: string) { super(detail); }
}

/** deliveryOf is the delivery of a filled form; undefined: none, or that of before. Errors: Fault. */
export function deliveryOf(t: Target): Delivery | undefined {
  if (!t.kind || t.kind === "keep") return undefined;
  let d: Delivery = {};
  try {
    if (t.more.trim()) d = parse(t.more);
  } catch (e) {
    throw new Fault("deliver", `not JSON: ${(e as Error).message}`);
  }
  if (t.kind === "url") {
    Object.assign(d, { url: t.url.trim(), secrets: words(t.secrets) });
    if (t.headers.trim()) d.headers = { ...d.headers, ...headersOf(t.headers) };
  } else if (t.kind === "queue") {
    if (!t.queue) throw new Fault("deliver.queue", "missing");
    d.queue = t.queue;
    if (t.delay.trim()) d.delay = t.delay.trim();
  } else if (t.to) d.topic = t.to;
  else throw new Fault("deliver.topic", "missing");
  if (t.kind !== "topic") {
    if (t.template) d.template = t.template;
    if (t.type.trim()) d.content_type = t.type.trim();
  }
  if (t.retries.trim()) d.retries = t.retries.trim() === "none" ? [] : words(t.retries);
  if (t.from || t.till || t.zone.trim()) d.quiet_hours = { from: t.from, to: t.till, zone: t.zone.trim() || here };
  if (t.cap || t.per) d.frequency_cap = { count: whole(t.cap, "frequency_cap"), per: t.per };
  if (t.concurrency) d.concurrency = whole(t.concurrency, "concurrency");
  return d;
}

function whole(text: string, field: string): number {
  if (/^\d{0,9}$/.test(text)) return Number(text);
  throw new Fault("deliver." + field, "want a whole number");
}

function headersOf(lines: string): Record<string, string> {
  return Object.fromEntries(lines.split("\n").filter(line => line.trim()).map(line => {
    const at = line.indexOf(":");
    if (at < 1) throw new Fault("deliver.headers", `"${line}": want a name, a colon and a value`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

/** wordsOf says where messages go, in short. */
export function wordsOf(t: Target, old?: Delivery): { title: string; detail: string } {
  const { url, topic, queue } = t.kind === "keep" ? old! : { url: t.kind === "url" && t.url, topic: t.kind === "topic" && t.to, queue: t.kind === "queue" && t.queue };
  return { title: t.kind ? "Sends a message" : "Sends nothing", detail: url ? url.replace(/^https?:\/\//, "") : topic ? `to the topic ${topic}` : queue ? `to the queue ${queue}` : t.kind ? "where to?" : "firings are only listed" };
}

/** placeholderOf is a placeholder of a template for the first event that the expression waits for, with a property that such events have. */
export function placeholderOf(tree: Tree | undefined, names: readonly EventName[]): string | undefined {
  const find = (node: unknown): string | undefined => {
    if (typeof node !== "object" || node === null) return undefined;
    const { event, not: _, where: __, ...inner } = node as Record<string, unknown>;
    return typeof event === "string" ? event : Object.values(inner).map(find).find(e => e !== undefined);
  };
  const word = /^[A-Za-z_]\w*$/, event = find(tree), path = names.find(n => n.name === event)?.properties.find(p => p.path.split(".").every(k => word.test(k)))?.path;
  return event && `{{${word.test(event) ? `.Witness.${event}` : `(index .Witness ${JSON.stringify(event)})`}${path ? `.Data.${path}` : ".Time"}}}`;
}

/** DeliveryCard is the form. placeholder is one of the template. */
export function DeliveryCard({ of: t, old, faults, placeholder, onChange }: { of: Target; old?: Delivery; faults: Faults; placeholder?: string; onChange: (c: Partial<Target>) => void }) {
  const text = (name: keyof Target, field?: string) => ({ value: t[name], onValue: (v: string) => onChange({ [name]: v }), ...(field && { name: field, error: t[name] ? faults[field] : undefined }) }), zones = useId(), chosen = !!t.kind && t.kind !== "keep", renders = t.kind === "url" || t.kind === "queue", more = useRef(false);
  more.current ||= !!(t.headers || t.type || t.retries || t.concurrency || t.more || faults.deliver); // it does not close under a person's hands
  return <Card title="Delivery">
    <div class="row"><Choice label="Send to" {...text("kind")} options={old ? [["keep", "As before"], ...kinds] : kinds} />
      {t.kind === "keep" && <p class="kept"><bdi>{old?.url ?? old?.topic ?? old?.queue}</bdi>, with its secrets and other settings</p>}
      {t.kind === "url" && <Text label="URL" wide {...text("url", "deliver.url")} required placeholder="https://" />}
      {t.kind === "topic" && <Text label="Topic of the messages" {...text("to", "deliver.topic")} required />}
      {t.kind === "queue" && <><Text label="Queue" {...text("queue", "deliver.queue")} required /><Text label="Delay" {...text("delay", "deliver.delay")} placeholder="none" hint="Such as 5m or 1d" /></>}</div>
    {renders && <>
      {t.kind === "url" && <Area label="Secrets, one a line" {...text("secrets", "deliver.secrets")} rows={1} required hint={<>{old?.secrets && "Those of before are not shown. "}<button type="button" class="quiet" onClick={() => onChange({ secrets: `${t.secrets}\n${newSecret()}`.trim() })}>Make a secret</button></>} />}
      <Area label="Template of the message" {...text("template", "deliver.template")} hint={<>Empty: the standard message. Values such as <code>{"{{.Entity}}"}</code>{placeholder && <> and <code>{placeholder}</code></>}</>} />
    </>}
    {chosen && <>
      <fieldset><legend>Quiet hours: no message</legend><div class="row">
        <Clock label="From" {...text("from", "deliver.quiet_hours.from")} error={faults["deliver.quiet_hours"] ?? faults["deliver.quiet_hours.from"]} />
        <Clock label="Until" {...text("till", "deliver.quiet_hours.to")} error={faults["deliver.quiet_hours.to"]} />
        <Text label="Time zone" {...text("zone", "deliver.quiet_hours.zone")} placeholder={here} list={zones} /><datalist id={zones}>{Intl.supportedValuesOf("timeZone").map(z => <option value={z} key={z} />)}</datalist>
      </div></fieldset>
      <fieldset><legend>At most, for each entity</legend><div class="row">
        <Text label="Messages" {...text("cap", "deliver.frequency_cap")} error={faults["deliver.frequency_cap"]} inputMode="numeric" placeholder="no limit" /><Text label="In" {...text("per", "deliver.frequency_cap.per")} error={faults["deliver.frequency_cap.per"]} placeholder="7d" hint="Such as 12h or 7d" />
      </div></fieldset>
      <details open={more.current}><summary>More settings</summary>
        {t.kind === "url" && <Area label="Headers, one a line" {...text("headers", "deliver.headers")} hint={<>Such as <code>Authorization: Bearer abc</code>. Write a value that is not shown again.</>} />}
        {renders && <Text label="Content type" {...text("type", "deliver.content_type")} placeholder="application/json" />}
        <Text label="Waits between attempts" {...text("retries", "deliver.retries")} placeholder="5s, 5m, 30m, 2h …" hint="none: a single attempt" />
        <Text label="Messages in flight" {...text("concurrency", "deliver.concurrency")} inputMode="numeric" placeholder="adapts to the receiver" hint="Sent and not yet answered, at most 1000" />
        <Area label="More settings, as JSON" {...text("more", "deliver")} hint="Members without a field of their own" />
      </details>
    </>}
  </Card>;
}

/** newSecret returns one as `seb trigger secret` does. */
function newSecret(): string { return "whsec_" + btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32)))); }

type Value = { label: string; value: string; onValue: (v: string) => void; name?: string; error?: string };

function Area({ label, hint, value, onValue, required, name, error, rows = 3 }: Value & { hint: ComponentChildren; required?: boolean; rows?: number }) {
  return <Field label={label} hint={hint} error={error} wide render={a => <textarea {...a} name={name} rows={rows} class="short" spellcheck={false} autocomplete="off" required={required} value={value} onInput={e => onValue(e.currentTarget.value)} />} />;
}

function Clock({ label, value, onValue, name, error }: Value) {
  return <Field label={label} error={error} render={a => <input type="time" {...a} name={name} value={value} onInput={e => onValue(e.currentTarget.value)} />} />;
}
