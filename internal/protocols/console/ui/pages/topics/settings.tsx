// The settings of topics: what they mean, and fields to change them.

import { useState } from "preact/hooks";
import { call, type Problem } from "../../lib/api";
import { size, span, whole } from "../../lib/check";
import { useAction, useLoad, type Loaded } from "../../lib/load";
import { announce, Button, Choice, Confirm, Failure, Listed, Loading, Note, Text } from "../../lib/parts";
import { may } from "../../lib/session";
import type { Topic } from "../../lib/topics";

/** Setting describes a setting of topics. */
export interface Setting { name: string; default: string; default_compacted?: string; choices?: string[]; unit?: string; min?: string; max?: string; unlimited?: boolean; meaning: string }

/** Values are settings with the texts of their fields; "" is the default. */
export type Values = Record<string, string>;

/** getSettings loads the settings of topics, without the one that makes a queue, or those of queues. */
export async function getSettings(signal: AbortSignal, of: "settings" | "queues" = "settings"): Promise<Setting[]> {
  return (await call<Record<typeof of, Setting[]>>("GET", "/settings", { signal }))[of].filter(s => s.name !== "queue");
}

/** faultOf returns the error that belongs to the field of a setting, in the broker's words. */
export function faultOf(error: Problem | undefined, name: string): string | undefined {
  const m = /^settings: setting ([a-z-]+): (.*)/s.exec(error?.message ?? "");
  return m?.[1] === name ? m[2] : undefined;
}

/** range says which values a setting has. */
function range(s: Setting): string {
  const unlimited = s.unlimited ? ", or unlimited" : "", most = s.max ? ` to ${s.max}` : " or more";
  if (s.unit === "bytes") return `A size such as 16MiB: ${s.min}${most} bytes${unlimited}.`;
  if (s.unit === "ratio") return `A number from ${s.min} to ${s.max}.`;
  return s.unit === "time" ? `A time such as 90s, 12h or 7d: ${s.min}${most}${unlimited}.` : "";
}

function defaultOf(s: Setting): string { return (s.default || "none") + (s.default_compacted ? `; ${s.default_compacted} with compaction` : ""); }

/** wrong says why a text is no value of a setting. */
function wrong(s: Setting, text: string): string | undefined {
  const v = text.trim();
  if (s.unlimited && /^(unlimited|-1)$/.test(v)) return undefined;
  if (s.unit === "time") return span(v);
  if (s.unit === "ratio") return v && !(+v >= Number(s.min) && +v <= Number(s.max)) ? `"${v}" is not a number from ${s.min} to ${s.max}` : undefined;
  const n = s.unit === "bytes" ? size(v) : undefined;
  return s.unit !== "bytes" ? undefined : n === undefined ? `"${v}" is not a number of bytes like 1048576 or 16MiB` : whole(String(n), BigInt(s.min ?? 0), BigInt(s.max ?? 2n ** 63n - 1n)) && `${v} is not between ${s.min ?? 0} and ${s.max ?? 2n ** 63n - 1n} bytes`;
}

/** Fields has a field for each setting. */
export function Fields({ settings, values, onValue, error }: { settings: readonly Setting[]; values: Values; onValue: (name: string, value: string) => void; error?: Problem }) {
  return <div class="settings">{settings.map(s => {
    const fault = faultOf(error, s.name), meaning = s.meaning.charAt(0).toUpperCase() + s.meaning.slice(1) + ".";
    const all = { label: s.name, value: values[s.name] ?? "", onValue: (v: string) => onValue(s.name, v) };
    return <div key={s.name}>{s.choices
      ? <Choice {...all} hint={fault ? <span class="bad">{fault}</span> : meaning} options={[["", `default (${defaultOf(s)})`], ...s.choices.map(c => [c, c] as const)]} />
      : <Text {...all} error={fault} check={v => wrong(s, v)} placeholder={defaultOf(s)} hint={`${meaning} ${range(s)} Default: ${defaultOf(s)}.`} />}</div>;
  })}</div>;
}

/** deleting are settings that delete records when they change. */
const deleting = ["cleanup-policy", "retention-time", "retention-bytes", "delete-retention-time", "min-compaction-lag", "min-cleanable-dirty-ratio"];

export function Settings({ topic, info }: { topic: string; info: Loaded<Topic> }) {
  const table = useLoad(signal => getSettings(signal), []);
  if (!table.data || !info.data) return <><Failure error={table.error} />{!table.error && !info.error && <Loading />}</>;
  return <Form table={table.data} stored={info.data.settings} deleting={deleting} onStored={info.reload}
    save={settings => call("PUT", "/topic", { query: { "topic-name": topic }, body: { settings } })} />;
}

/** Form changes settings. Before those that are `deleting` change, it asks. */
export function Form({ table, stored, deleting, save: put, onStored }: {
  table: readonly Setting[]; stored: Values; deleting: readonly string[]; save: (changed: Values) => Promise<unknown>; onStored: () => void;
}) {
  const [edited, edit] = useState<Values>({}), [asked, ask] = useState(false), action = useAction();
  const changed = Object.fromEntries(Object.entries(edited).filter(([name, v]) => v !== (stored[name] ?? ""))), names = Object.keys(changed);
  const save = async () => {
    const done = await action.run(() => put(changed));
    ask(false);
    if (!done) return;
    edit({});
    announce("Settings saved");
    onStored();
  };
  const risky = names.filter(n => deleting.includes(n)), mayChange = may("alter-configs", "topic");
  return <form class="card" onSubmit={() => { if (risky.length) ask(true); else save(); }}>
    <fieldset disabled={!mayChange}>
      <legend class="unseen">Settings</legend>
      <Fields settings={table} values={{ ...stored, ...edited }} error={action.error} onValue={(name, v) => { action.clear(); edit({ ...edited, [name]: v }); }} />
    </fieldset>
    {action.error && !names.some(n => faultOf(action.error, n)) && <Failure error={action.error} />}
    {mayChange ? <div class="actions">
      <Button type="submit" kind="primary" busy={action.busy} disabled={!names.length}>Save{names.length > 0 && ` ${names.join(", ")}`}</Button>
      {names.length > 0 && <Button onClick={() => { edit({}); action.clear(); }}>Undo</Button>}
    </div> : <Note>This key may not change settings.</Note>}
    {asked && <Confirm title="Change what is kept?" action="Save" danger busy={action.busy} onConfirm={save} onClose={() => ask(false)}>
      <p>With <Listed of={risky.map(n => <code>{n}={changed[n] || "default"}</code>)} /> the broker can delete records permanently that it keeps now.</p>
    </Confirm>}
  </form>;
}

/** CreateFields has the fields of a new topic, the usual ones first. */
export function CreateFields({ settings, values, onValue, error, usual = ["cleanup-policy", "retention-time"] }: Parameters<typeof Fields>[0] & { usual?: string[] }) {
  return <>
    <Fields settings={settings.filter(s => usual.includes(s.name))} values={values} onValue={onValue} error={error} />
    <details><summary>More settings</summary>
      <Fields settings={settings.filter(s => !usual.includes(s.name))} values={values} onValue={onValue} error={error} />
    </details>
  </>;
}
