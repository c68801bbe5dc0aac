// The editor of a trigger, as text.

import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { at, call, parse, Problem, stringify } from "../../lib/api";
import { plural } from "../../lib/format";
import { useAction, useLoad } from "../../lib/load";
import { announce, Button, Card, Choice, Failure, Field, Loading, Note, Page, Text } from "../../lib/parts";
import { route, to, withQuery } from "../../lib/route";
import { session } from "../../lib/session";
import { ExpressionField, exprOf } from "./parts";
import { backfills } from "./trigger";
import type { Delivery, Spec, Stored, Trigger } from "./types";

/** Draft is the form. target: keep, url, topic or "" for none. Secrets are lines. more: settings of the delivery without a field, as JSON. */
interface Draft {
  id: string; expr: string; topic: string; fire: string; cooldown: string; backfill: string; carry: boolean; retract: boolean;
  target: string; url: string; secrets: string; to: string; more: string;
}

export const fires = [["once", "Once for each entity"], ["edge", "Each time it becomes true"], ["reset", "Each time, and start the entity again"]] as const;
const keep = ["keep", "As before"] as const;
const targets = [["", "None: only list the firings"], ["url", "Webhook"], ["topic", "Topic"]] as const;

/** draftOf fills the form from a stored trigger. */
function draftOf(t: Partial<Trigger>): Draft {
  const { url = "", topic = "", secrets: _, ...rest } = t.deliver ?? {};
  return {
    id: t.id ?? "", expr: t.text ?? "", topic: t.topic ?? "", fire: t.fire ?? "once", cooldown: t.cooldown ?? "", backfill: t.backfill ?? "silent", carry: t.carry_fired ?? true,
    retract: t.on_retract === "notify", target: t.deliver ? "keep" : "", url, secrets: "", to: topic, more: Object.keys(rest).length ? stringify(rest, 2) : "",
  };
}

/** specOf is the body of a PUT. Errors: Error. */
function specOf(d: Draft): Spec {
  let deliver: Delivery | undefined;
  if (d.target && d.target !== "keep") {
    try {
      deliver = d.more.trim() ? parse(d.more) : {};
    } catch (e) {
      throw new Error(`More settings of the delivery: not JSON: ${(e as Error).message}`);
    }
    deliver = d.target === "url" ? { ...deliver, url: d.url.trim(), secrets: d.secrets.split(/\s+/).filter(Boolean) } : { ...deliver, topic: d.to };
  }
  return {
    expr: exprOf(d.expr), topic: d.topic || undefined, fire: d.fire, cooldown: d.fire === "once" ? undefined : d.cooldown || undefined, backfill: d.backfill,
    carry_fired: d.carry, on_retract: d.retract ? "notify" : undefined, deliver, keep_deliver: d.target === "keep" || undefined,
  };
}

/** Edit changes a trigger, or without an ID makes one. */
export function Edit({ id }: { id?: string }) {
  const old = useLoad(async signal => id === undefined ? {} : call<Trigger>("GET", at`/triggers/${id}`, { signal }), []);
  return <Page title={id === undefined ? "New trigger" : `Edit ${id}`} lead={<a href={id === undefined ? to("triggers") : to("triggers", id)}>{id === undefined ? "All triggers" : "The trigger"}</a>}>
    <Failure error={old.error} />
    {old.data ? <Form old={old.data} /> : !old.error && <Loading />}
  </Page>;
}

function Form({ old }: { old: Partial<Trigger> }) {
  const [draft, set] = useState(() => ({ ...draftOf(old), ...(old.id === undefined ? route.value.query as Partial<Draft> : {}) })), [stored, store] = useState<Stored>(), [saved, setSaved] = useState(false), action = useAction();
  const made = old.id !== undefined || stored !== undefined;
  const change = (c: Partial<Draft>) => { set({ ...draft, ...c }); setSaved(false); };
  const save = () => action.run(async () => {
    setSaved(false);
    // A trigger with the ID of a new one is not to be replaced by mistake.
    if (!made && await exists(draft.id)) throw new Error(`The trigger ${draft.id} exists. Edit it, or choose another ID.`);
    const s = await call<Stored>("PUT", at`/triggers/${draft.id}`, { body: specOf(draft) });
    store(s);
    setSaved(true);
    announce(`Stored as version ${s.version}`);
  });
  const error = action.error, text = (name: keyof Draft) => ({ value: draft[name] as string, onValue: (v: string) => change({ [name]: v }) });
  return <form onSubmit={e => { e.preventDefault(); save(); }}>
    <Card title="When it fires">
      <div class="row">{!made && <Text label="ID" {...text("id")} required hint="Letters, digits, dots, hyphens and underscores" />}
        <Text label="Topic of the events" {...text("topic")} placeholder={session.value!.events_topic} />
        <Choice label="Fires" {...text("fire")} options={fires} />
        {draft.fire !== "once" && <Text label="Cooldown" {...text("cooldown")} placeholder="none" hint="Such as 7d" />}
        <Choice label="Older events" {...text("backfill")} options={backfills} /></div>
      <ExpressionField {...text("expr")} error={error} />
      {draft.fire === "once" && <p><label><input type="checkbox" checked={draft.carry} onChange={e => change({ carry: e.currentTarget.checked })} /> Firings of earlier versions count</label></p>}
      {draft.fire !== "reset" && <p><label><input type="checkbox" checked={draft.retract} onChange={e => change({ retract: e.currentTarget.checked })} /> Send a second message when it is no longer true</label></p>}
    </Card>
    <Card title="Delivery">
      <div class="row"><Choice label="To" {...text("target")} options={old.deliver ? [keep, ...targets] : targets} />
        {draft.target === "keep" && <p class="kept"><bdi>{old.deliver!.url ?? old.deliver!.topic}</bdi>, with its secrets and other settings</p>}
        {draft.target === "url" && <Text label="URL" wide {...text("url")} required />}
        {draft.target === "topic" && <Text label="Topic of the messages" {...text("to")} required />}</div>
      {draft.target === "url" && <Area label="Secrets, one a line" {...text("secrets")} required
        hint={<>{old.deliver?.secrets && "Those of before are not shown. "}<code>seb trigger secret</code> prints a new one.</>} />}
      {(draft.target === "url" || draft.target === "topic") && <Area label="More settings, as JSON" {...text("more")} hint="headers, template, content_type, quiet_hours, frequency_cap, retries" />}
    </Card>
    <Failure error={error} />
    {stored && saved && <Saved of={stored} />}
    <div class="actions"><Button kind="primary" type="submit" busy={action.busy}>Save</Button>
      <a class="button" href={withQuery(to("dry-run"), { expr: draft.expr, topic: draft.topic, fire: draft.fire })}>Try on past events</a></div>
  </form>;
}

async function exists(id: string): Promise<boolean> {
  try {
    await call("GET", at`/triggers/${id}`);
    return true;
  } catch (e) {
    if (e instanceof Problem && e.status === 404) return false;
    throw e;
  }
}

function Area({ label, hint, value, onValue, required }: { label: string; hint: ComponentChildren; value: string; onValue: (v: string) => void; required?: boolean }) {
  return <Field label={label} hint={hint} wide render={a => <textarea {...a} rows={3} spellcheck={false} autocomplete="off" required={required} value={value} onInput={e => onValue(e.currentTarget.value)} />} />;
}

/** Saved says what the broker stored, with its warnings. */
function Saved({ of: t }: { of: Stored }) {
  const trimmed = t.history.filter(h => h.offset > 0).length;
  return <>
    <Note kind="good">Stored as version {t.version}. <a href={to("triggers", t.id)}>See the trigger</a></Note>
    {t.warnings.length > 0 && <Note kind="warn"><ul>{t.warnings.map(w => <li key={w}>{w}</li>)}</ul></Note>}
    {trimmed > 0 && <Note kind="warn">Older events of {plural(trimmed, "partition")} no longer exist and count as absent.</Note>}
  </>;
}
