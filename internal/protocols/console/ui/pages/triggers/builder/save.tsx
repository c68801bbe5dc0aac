// Saving a trigger: what changes, who gets a message, and what to do if it was changed elsewhere.

import { useEffect, useState } from "preact/hooks";
import { call, type Problem } from "../../../lib/api";
import { count, plural } from "../../../lib/format";
import { useLoad } from "../../../lib/load";
import { Button, Card, Confirm, Note, Table, When } from "../../../lib/parts";
import { to } from "../../../lib/route";
import type { Firings, Spec, Trigger } from "../types";
import { Warnings } from "../parts";
import { ask, type Answer } from "./parse";
import type { Preview } from "./preview";
import type { Chosen, How, SavedAs } from "./state";
import { Differing } from "./sentence";
import { changesOf, type Settings } from "./settings";

/** pagesMax bounds the search for a delivery. A page without one has passed 10,000 firings. */
const pagesMax = 30;

/** hasSent reports whether a paused trigger may have sent a message, or may still do so. Errors: Problem, AbortError. */
export async function hasSent(t: Trigger, signal?: AbortSignal): Promise<boolean> {
  for (const state of ["pending", "delivered", "dead"]) {
    for (let before: number | undefined, page = 0; ; page++) {
      const found = await call<Firings>("GET", "/firings", { query: { trigger: t.id, state, order: "newest", limit: 1, before }, signal });
      // Older ones are of a deleted trigger with the same ID.
      if (found.firings[0]) {
        if (Date.parse(found.firings[0].at) > Date.parse(t.created_at)) return true;
        break;
      }
      if (found.next === null) break;
      if (page === pagesMax) return true;
      before = found.next;
    }
  }
  return false;
}

/** Changes shows how a definition differs from a stored one. starts: without what the start of a draft changes. */
export function Changes({ old, spec, answer, names, starts }: { old: Trigger; spec: Omit<Spec, "expr">; answer: Answer; names: readonly [before: string, after: string]; starts?: boolean }) {
  const before = useLoad(async signal => (await ask(old.text, signal)).sentence, [old.text]).data, notation = old.text !== answer.text;
  const rows = changesOf(old, starts ? { ...spec, status: undefined, backfill: old.backfill, carry_fired: old.carry_fired } : spec);
  return <>
    {before !== undefined && before !== answer.sentence ? <><h3>The expression</h3><p class="hint">Struck out: {names[0].toLowerCase()}. Underlined: {names[1].toLowerCase()}.</p><Differing before={before} after={answer.sentence} /></>
      : before !== undefined && notation && <p>The expression is written in another way: <code>{answer.text}</code></p>}
    {rows.length > 0 && <Table caption="Changed settings" rows={rows} keyOf={r => r.name} columns={[
      { name: "Setting", cell: r => <span class="nowrap">{r.name}</span> }, { name: names[0], cell: r => <del>{r.before}</del>, wide: true }, { name: names[1], cell: r => <ins>{r.after}</ins>, wide: true },
    ]} />}
    {!rows.length && !notation && !starts && <p>Nothing changes.</p>}
  </>;
}

/** versionOf says which changes make a new version; "": none does. */
function versionOf(old: Trigger, spec: Omit<Spec, "expr">, answer: Answer): string {
  const makes = changesOf(old, spec).filter(c => c.makes).map(c => c.name.toLowerCase());
  if (JSON.stringify(answer.expr) !== JSON.stringify(old.expr)) makes.unshift("the expression");
  return makes.join(", ");
}

/** Ask shows what saving does, and asks who gets a message. restart: a draft that has sent nothing begins. */
export function Ask({ how, restart, old, settings, specOf, answer, preview, busy, error, onSave, onClose }: {
  how: How; restart: boolean; old?: Trigger; settings: Settings; specOf: (c: Chosen) => Omit<Spec, "expr">; answer: Answer; preview: Preview;
  busy: boolean; error?: Problem; onSave: (c: Chosen) => void; onClose: () => void;
}) {
  const [chosen, set] = useState<Chosen>({ backfill: settings.backfill, carry: settings.carry && !(restart && old) });
  const spec = specOf(chosen), because = old ? versionOf(old, spec, answer) : "", starts = how === "start" && restart, fresh = !old || starts || because !== "";
  return <Confirm title={starts ? "Start the trigger" : "What changes"} action={how === "start" ? "Start" : "Save"} busy={busy} error={error} onConfirm={() => onSave(chosen)} onClose={onClose} back={`button[value=${how}]`}>
    {old && <Changes old={old} spec={spec} answer={answer} names={["Before", "After"]} starts={starts} />}
    {how === "start" && !restart && <Note kind="warn">It has sent messages before the pause. What became true during the pause stays suppressed.</Note>}
    {old && !starts && <p>{because ? <>This makes version {old.version + 1}, because of: {because}. It reads the older events again, and fires from now on.</>
      : "This makes no new version: it goes on with what it knows of each entity."}</p>}
    {fresh && <Qualify preview={preview} chosen={chosen} onChange={backfill => set({ ...chosen, backfill })} />}
    {old && !starts && because && spec.fire === "once" && <p><label><input type="checkbox" checked={chosen.carry} onChange={e => set({ ...chosen, carry: e.currentTarget.checked })} /> Entities that an earlier version fired for do not get it again</label></p>}
  </Confirm>;
}

/** Qualify says for how many entities the expression is true already, and asks whether they get a message. */
function Qualify({ preview: p, chosen, onChange }: { preview: Preview; chosen: Chosen; onChange: (backfill: string) => void }) {
  useEffect(() => { if (!p.on) p.start(); }, []);
  const r = p.fresh ? p.result : undefined, n = r && r.true_now * r.sample, about = r && (r.sample > 1 || r.truncated) ? "About " : "";
  const radio = (value: string, label: string) => <p><label><input type="radio" name="already" checked={chosen.backfill === value} onChange={() => onChange(value)} /> {label}</label></p>;
  return <fieldset>
    <legend><span role="status">{n !== undefined ? `${about}${plural(n, "entity qualifies", "entities qualify")} already.` : p.error ? `How many qualify already is not known: ${p.error.message}` : "Counting how many qualify already …"}</span></legend>
    {chosen.backfill === "silent" || chosen.backfill === "current" ? <>
      {radio("silent", "They get no message. It fires for those that qualify from now on.")}
      {radio("current", `They get the message too${n ? `: ${about.toLowerCase()}${count(n)} at once` : ""}.`)}
    </> : <p>{chosen.backfill === "replay" ? "It also fires for the past." : "Older events do not count."}</p>}
  </fieldset>;
}

/** Conflict is shown if the trigger is not what the edits began from. */
export function Conflict({ id, stored, spec, answer, busy, onMine, onStored }: {
  id: string; stored?: Trigger; spec?: Omit<Spec, "expr">; answer?: Answer; busy: boolean; onMine: () => void; onStored: () => void;
}) {
  return <Card title="It was changed elsewhere">
    <Note kind="warn">{stored ? <>Since you began, another page or program has stored version {stored.version} of {id} (<When t={stored.version_at} />). Yours is kept here.</> : <>The trigger {id} was deleted since you began. Yours is kept here.</>}</Note>
    {stored && (spec && answer ? <Changes old={stored} spec={spec} answer={answer} names={["Stored now", "Yours"]} /> : <p>Stored now: <code>{stored.text}</code></p>)}
    <div class="actions"><Button kind="primary" busy={busy} disabled={!spec || !answer} onClick={onMine}>{stored ? "Save mine over it" : "Save mine again"}</Button>
      {stored && <Button onClick={onStored}>Take the stored one</Button>}</div>
  </Card>;
}

/** Saved says what the broker stored, with its warnings. */
export function Saved({ of: t, how }: SavedAs) {
  const trimmed = t.history.filter(h => h.offset > 0).length;
  return <>
    <Note kind="good">{how === "draft" ? "Stored as a draft, which sends nothing until you start it" : how === "start" ? "Started" : "Stored"}: version {t.version}. <a href={to("triggers", t.id)}>See the trigger</a></Note>
    <Warnings of={t.warnings} />
    {trimmed > 0 && <Note kind="warn">Older events of {plural(trimmed, "partition")} no longer exist and count as absent.</Note>}
  </>;
}
