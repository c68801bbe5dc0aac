// Where the messages of a trigger go: a webhook or a topic, and when.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { parse, stringify } from "../../../lib/api";
import { Card, Choice, Field, Text } from "../../../lib/parts";
import type { Delivery } from "../types";

/**
 * Target is the form of a delivery. kind: keep, url, topic or "" for none. Secrets, headers and waits
 * are lists as text. more: members without a field, as JSON.
 */
export interface Target {
  kind: string; url: string; secrets: string; headers: string; template: string; type: string; retries: string;
  to: string; from: string; till: string; zone: string; cap: string; per: string; more: string;
}

const kinds = [["", "None: only list the firings"], ["url", "Webhook"], ["topic", "Topic"]] as const;

/** targetOf fills the form from a stored delivery, whose secrets are masked. */
export function targetOf(d: Delivery | undefined): Target {
  const { url = "", topic = "", secrets: _, headers = {}, template = "", content_type = "", retries, quiet_hours: quiet, frequency_cap: cap, ...rest } = (d ?? {}) as Delivery & {
    template?: string; content_type?: string; retries?: string[]; quiet_hours?: { from: string; to: string; zone: string }; frequency_cap?: { count: number; per: string };
  };
  return {
    kind: d ? "keep" : "", url, secrets: "", headers: Object.entries(headers).map(([name, value]) => `${name}: ${value}`).join("\n"), template, type: content_type,
    retries: retries ? retries.join(", ") || "none" : "", to: topic, from: quiet?.from ?? "", till: quiet?.to ?? "", zone: quiet?.zone ?? "", cap: cap ? String(cap.count) : "", per: cap?.per ?? "",
    more: Object.keys(rest).length ? stringify(rest, 2) : "",
  };
}

/** here is the person's time zone. */
const here = Intl.DateTimeFormat().resolvedOptions().timeZone;

const words = (list: string) => list.split(/[\s,]+/).filter(Boolean);

/** deliveryOf is the delivery of a filled form; undefined: none, or that of before. Errors: Error. */
export function deliveryOf(t: Target): Delivery | undefined {
  if (!t.kind || t.kind === "keep") return undefined;
  let d: Delivery = {};
  try {
    if (t.more.trim()) d = parse(t.more);
  } catch (e) {
    throw new Error(`More settings of the delivery: not JSON: ${(e as Error).message}`);
  }
  if (t.kind === "url") {
    Object.assign(d, { url: t.url.trim(), secrets: words(t.secrets) });
    if (t.headers.trim()) d.headers = { ...d.headers, ...headersOf(t.headers) };
    if (t.template) d.template = t.template;
    if (t.type.trim()) d.content_type = t.type.trim();
  } else d.topic = t.to;
  if (t.retries.trim()) d.retries = t.retries.trim() === "none" ? [] : words(t.retries);
  if (t.from || t.till) d.quiet_hours = { from: t.from, to: t.till, zone: t.zone.trim() || here };
  if (t.cap || t.per) d.frequency_cap = { count: Number(t.cap), per: t.per };
  return d;
}

function headersOf(lines: string): Record<string, string> {
  return Object.fromEntries(lines.split("\n").filter(line => line.trim()).map(line => {
    const at = line.indexOf(":");
    if (at < 1) throw new Error(`Headers: "${line}": want a name, a colon and a value`);
    return [line.slice(0, at).trim(), line.slice(at + 1).trim()];
  }));
}

/** wordsOf says where messages go, in short. */
export function wordsOf(t: Target, old?: Delivery): { title: string; detail: string } {
  const { url, topic } = t.kind === "keep" ? old! : { url: t.kind === "url" && t.url, topic: t.kind === "topic" && t.to };
  return { title: t.kind ? "Sends a message" : "Sends nothing", detail: url ? url.replace(/^https?:\/\//, "") : topic ? `to the topic ${topic}` : t.kind ? "where to?" : "firings are only listed" };
}

/** DeliveryCard is the form. */
export function DeliveryCard({ of: t, old, onChange }: { of: Target; old?: Delivery; onChange: (c: Partial<Target>) => void }) {
  const text = (name: keyof Target) => ({ value: t[name], onValue: (v: string) => onChange({ [name]: v }) }), zones = useId(), chosen = t.kind === "url" || t.kind === "topic";
  return <Card title="Delivery">
    <div class="row"><Choice label="Send to" {...text("kind")} options={old ? [["keep", "As before"], ...kinds] : kinds} />
      {t.kind === "keep" && <p class="kept"><bdi>{old?.url ?? old?.topic}</bdi>, with its secrets and other settings</p>}
      {t.kind === "url" && <Text label="URL" wide {...text("url")} required placeholder="https://" />}
      {t.kind === "topic" && <Text label="Topic of the messages" {...text("to")} required />}</div>
    {t.kind === "url" && <>
      <Area label="Secrets, one a line" {...text("secrets")} rows={1} required hint={<>{old?.secrets && "Those of before are not shown. "}<button type="button" class="quiet" onClick={() => onChange({ secrets: `${t.secrets}\n${newSecret()}`.trim() })}>Make a secret</button></>} />
      <Area label="Template of the message" {...text("template")} hint={<>Empty: the standard message. Values such as <code>{"{{.Entity}}"}</code> and <code>{"{{.Witness.signup.Data.name}}"}</code></>} />
    </>}
    {chosen && <>
      <fieldset><legend>Quiet hours: no message</legend><div class="row">
        <Clock label="From" {...text("from")} /><Clock label="Until" {...text("till")} />
        <Text label="Time zone" {...text("zone")} placeholder={here} list={zones} /><datalist id={zones}>{Intl.supportedValuesOf("timeZone").map(z => <option value={z} key={z} />)}</datalist>
      </div></fieldset>
      <fieldset><legend>At most, for each entity</legend><div class="row">
        <Text label="Messages" {...text("cap")} inputMode="numeric" placeholder="no limit" /><Text label="In" {...text("per")} placeholder="7d" hint="Such as 12h or 7d" />
      </div></fieldset>
      <details open={!!(t.headers || t.type || t.retries || t.more)}><summary>More settings</summary>
        {t.kind === "url" && <>
          <Area label="Headers, one a line" {...text("headers")} hint={<>Such as <code>Authorization: Bearer abc</code>. Write a value that is not shown again.</>} />
          <Text label="Content type" {...text("type")} placeholder="application/json" />
        </>}
        <Text label="Waits between attempts" {...text("retries")} placeholder="5s, 5m, 30m, 2h …" hint="none: a single attempt" />
        <Area label="More settings, as JSON" {...text("more")} hint="Members without a field of their own" />
      </details>
    </>}
  </Card>;
}

/** newSecret returns one as `seb trigger secret` does. */
function newSecret(): string { return "whsec_" + btoa(String.fromCharCode(...crypto.getRandomValues(new Uint8Array(32)))); }

type Value = { label: string; value: string; onValue: (v: string) => void };

function Area({ label, hint, value, onValue, required, rows = 3 }: Value & { hint: ComponentChildren; required?: boolean; rows?: number }) {
  return <Field label={label} hint={hint} wide render={a => <textarea {...a} rows={rows} class="short" spellcheck={false} autocomplete="off" required={required} value={value} onInput={e => onValue(e.currentTarget.value)} />} />;
}

function Clock({ label, value, onValue }: Value) {
  return <Field label={label} render={a => <input type="time" {...a} value={value} onInput={e => onValue(e.currentTarget.value)} />} />;
}
