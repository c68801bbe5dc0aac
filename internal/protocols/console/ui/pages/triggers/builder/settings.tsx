// The settings of a trigger beside its expression, and what they mean in words.

import { stringify } from "../../../lib/api";
import { Card, Choice, Text } from "../../../lib/parts";
import { session } from "../../../lib/session";
import type { Delivery, Spec, Trigger } from "../types";
import type { Faults } from "./checks";
import { deliveryOf, targetOf, type Target } from "./delivery";

/** Settings is the form. */
export interface Settings { id: string; topic: string; fire: string; cooldown: string; backfill: string; carry: boolean; retract: boolean; target: Target }

export const fires = [["once", "Once for each entity"], ["edge", "Each time it becomes true"], ["reset", "Each time, and start the entity again"]] as const;

/** backfills are the treatments of older events. */
export const backfills = [
  ["silent", "count, but do not fire"], ["current", "count, and it fires where it is true now"], ["replay", "fire too"], ["none", "do not count"],
] as const;

/** named returns the name of a value. */
export const named = (names: readonly (readonly [string, string])[], value?: string) => names.find(([v]) => v === value)?.[1] ?? String(value);

/** settingsOf fills the form from a stored trigger. */
export function settingsOf(t: Partial<Trigger>): Settings {
  return {
    id: t.id ?? "", topic: t.topic ?? "", fire: t.fire ?? "once", cooldown: t.cooldown ?? "", backfill: t.backfill ?? "silent", carry: t.carry_fired ?? true, retract: t.on_retract === "notify", target: targetOf(t.deliver),
  };
}

/** specOf is the body of a PUT without the expression. Errors: Fault. */
export function specOf(s: Settings): Omit<Spec, "expr"> {
  return {
    topic: s.topic || undefined, fire: s.fire, cooldown: s.fire === "once" ? undefined : s.cooldown || undefined, backfill: s.backfill,
    carry_fired: s.carry, on_retract: s.retract && s.fire !== "reset" ? "notify" : undefined, deliver: deliveryOf(s.target), keep_deliver: s.target.kind === "keep" || undefined,
  };
}

/** Change is a setting in words, before and after. makes: it makes a new version. */
export interface Change { name: string; before: string; after: string; makes: boolean }

/** changesOf lists what a definition changes of a stored trigger, without the expression. */
export function changesOf(old: Trigger, spec: Omit<Spec, "expr">): Change[] {
  const row = (name: string, before: string, after: string, makes = true) => ({ name, before, after, makes });
  const rows = [
    row("Topic of the events", old.topic, spec.topic ?? session.value!.events_topic),
    row("Fires", named(fires, old.fire), named(fires, spec.fire)),
    row("Cooldown", old.cooldown || "none", spec.cooldown || "none"),
    row("Older events", named(backfills, old.backfill), named(backfills, spec.backfill)),
    row("Firings of earlier versions", old.carry_fired ? "count" : "do not count", spec.carry_fired ? "count" : "do not count"),
    row("No longer true", old.on_retract ? "a second message" : "no message", spec.on_retract ? "a second message" : "no message"),
    ...spec.status && spec.status !== old.status ? [row("State", old.status, spec.status, false)] : [],
  ].filter(r => r.before !== r.after);
  return spec.keep_deliver ? rows : [...rows, ...deliveryChanges(old.deliver ?? {}, spec.deliver ?? {})];
}

/** deliveryChanges are those of the members. Secrets cannot be compared. */
function deliveryChanges(old: Delivery, now: Delivery): Change[] {
  const text = (v: unknown) => v === undefined ? "none" : typeof v === "string" ? v : stringify(v);
  return [...new Set([...Object.keys(old), ...Object.keys(now)])].filter(k => k !== "secrets" && text(old[k]) !== text(now[k]))
    .map(k => ({ name: `Delivery: ${k.replace(/_/g, " ")}`, before: text(old[k]), after: text(now[k]), makes: false }))
    .concat(now.secrets ? [{ name: "Delivery: secrets", before: old.secrets ? "those of before" : "none", after: `${now.secrets.length} new`, makes: false }] : []);
}

/** SettingsCard is the form of the settings. fixed: the ID is that of a stored trigger. A draft has no earlier version that counts. */
export function SettingsCard({ of: s, fixed, draft, faults, onTopic, onChange }: { of: Settings; fixed: boolean; draft: boolean; faults: Faults; onTopic: () => void; onChange: (c: Partial<Settings>) => void }) {
  const text = (name: "id" | "topic" | "fire" | "cooldown" | "backfill") => ({ value: s[name], onValue: (v: string) => onChange({ [name]: v }) });
  const checked = (name: "id" | "topic" | "cooldown") => ({ ...text(name), name, error: s[name] ? faults[name] : undefined });
  const box = (name: "carry" | "retract", label: string) => <p><label><input type="checkbox" checked={s[name]} onChange={e => onChange({ [name]: e.currentTarget.checked })} /> {label}</label></p>;
  return <Card title={fixed ? "How often it fires" : "Its name, and how often it fires"}>
    <div class="row">{!fixed && <Text label="ID" {...checked("id")} required hint="Letters, digits, dots, hyphens and underscores" />}
      <Choice label="Fires" {...text("fire")} options={fires} />
      {s.fire !== "once" && <Text label="Cooldown" {...checked("cooldown")} placeholder="none" hint="Not more than once for each entity in this time, such as 7d" />}
      <Choice label="Older events" {...text("backfill")} options={backfills} />
      <Text label="Topic of the events" {...checked("topic")} placeholder={session.value!.events_topic} onBlur={onTopic} /></div>
    {s.fire === "once" && !draft && box("carry", "Firings of earlier versions count")}
    {s.fire !== "reset" && box("retract", "Send a second message when it is no longer true")}
  </Card>;
}
