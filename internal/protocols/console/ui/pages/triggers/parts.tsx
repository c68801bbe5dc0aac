// Parts of the pages of triggers, firings and dry runs.

import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { parse, stringify, type Problem } from "../../lib/api";
import { count, localTime, seconds } from "../../lib/format";
import { Chip, Field, Note, Table, When, type Column } from "../../lib/parts";
import { to } from "../../lib/route";
import type { Awaited, Firing, Trigger, Witness } from "./types";

/** exprOf is an expression as the API takes it: the JSON form begins with a brace. Errors: Error. */
export function exprOf(text: string): unknown {
  if (!text.trim().startsWith("{")) return text;
  try {
    return parse(text);
  } catch (e) {
    throw new Error(`The expression begins with a brace, but is not JSON: ${(e as Error).message}`);
  }
}

/** Warnings lists what the broker warns of. */
export function Warnings({ of }: { of: readonly string[] }) { return of.length > 0 && <Note kind="warn"><ul>{of.map(w => <li key={w}>{w}</li>)}</ul></Note>; }

/** Expression shows an expression. */
export function Expression({ text }: { text: string }) { return <pre class="expr"><code>{text}</code></pre>; }

/**
 * ExpressionField is an editor of an expression as text. An error with a line and column shows them,
 * and the cursor goes there, unless the field is checked while a person types (live).
 */
export function ExpressionField({ value, onValue, error, live }: { value: string; onValue: (v: string) => void; error?: Problem; live?: boolean }) {
  const ref = useRef<HTMLTextAreaElement>(null), { line, column, pointer } = error?.members ?? {};
  const lines = value.split("\n"), chars = [...(lines[line - 1] ?? "")];
  useEffect(() => {
    if (!line || live) return;
    const at = lines.slice(0, line - 1).join("\n").length + (line > 1 ? 1 : 0) + chars.slice(0, column - 1).join("").length;
    ref.current!.focus();
    ref.current!.setSelectionRange(at, at);
  }, [error]);
  return <Field label="Expression" wide hint={<>Such as <code>signup THEN (NOT first_project WITHIN 7 days)</code>. The JSON form begins with a brace.</>}
    error={error && [line ? `Line ${line}, column ${column}` : pointer !== undefined ? `At ${pointer || "the root"} of the JSON form` : "", live ? error.message.replace(/^expr: (\d+:\d+: )?/, "") : ""].filter(Boolean).join(": ") || undefined}
    render={a => <>
      <textarea {...a} ref={ref} rows={4} spellcheck={false} autocomplete="off" required value={value} onInput={e => onValue(e.currentTarget.value)} />
      {line && <pre class="bad" aria-hidden="true"><code>{chars.join("")}{"\n" + " ".repeat(column - 1) + "^"}</code></pre>}
    </>} />;
}

/** Json shows a value as JSON. */
export function Json({ value, label }: { value: unknown; label: string }) {
  return <pre tabIndex={0} role="region" aria-label={label}><code>{stringify(value, 2)}</code></pre>;
}

/** TriggerState shows whether a trigger works. */
export function TriggerState({ of: t }: { of: Trigger }) {
  const all: [boolean, "" | "warn" | "bad", string][] = [
    [t.status === "paused", "warn", "paused"], [!!t.blocked, "bad", "blocked"], [t.topic_missing, "bad", "topic missing"], [t.backfilling, "", "backfilling"], [!!t.late, "warn", "late"],
  ];
  const shown = all.filter(([is]) => is);
  return <span class="chips">{shown.length ? shown.map(([, kind, name]) => <Chip kind={kind} key={name}>{name}</Chip>) : <Chip kind="good">running</Chip>}</span>;
}

/** states are the states of firings with their meaning. */
export const states: Record<string, string> = {
  computed: "became true, not yet in the log", pending: "to be delivered", delivered: "delivered, or nothing is to be delivered", dead: "given up", suppressed: "within a cooldown or a pause",
  carried: "an earlier version fired", historic: "happened before the trigger was made", retracted: "no longer true before any message was sent", cancelled: "the trigger was deleted", forgotten: "older than the topic of firings",
};

/** FiringState shows the state of a firing. */
export function FiringState({ of: f }: { of: Pick<Firing, "state" | "held"> }) {
  return <><Chip kind={f.state === "delivered" ? "good" : f.state === "dead" ? "bad" : f.state === "pending" ? "warn" : ""}>{f.state}</Chip>{f.held && <> {f.held === "paused" ? "trigger paused" : "quiet hours"}</>}</>;
}

/** result is the result of the last attempt in a few words. */
function result(f: Firing): string {
  const o = f.outcome;
  return !o ? "" : o.reason ?? `${o.status ?? o.kind}, ${seconds(o.took_ns / 1e9)}`;
}

/** EntityOf leads to the state of a trigger for an entity. */
export function EntityOf({ of: { trigger, entity } }: { of: Pick<Firing, "trigger" | "entity"> }) { return <a href={to("triggers", trigger, "entities", entity)}><bdi>{entity}</bdi></a>; }

/** FiringsTable lists firings. trigger: with the trigger of each. */
export function FiringsTable({ trigger, ...table }: { rows: readonly Firing[]; trigger?: boolean; caption: string; empty?: string }) {
  const columns: Column<Firing>[] = [
    { name: "Became true", cell: f => <a href={to("firings", f.id)}><When t={f.at} /></a> },
    { name: "Entity", cell: f => <EntityOf of={f} /> },
    { name: "State", cell: f => <FiringState of={f} /> },
    { name: "Attempts", cell: f => count(f.attempts), num: true },
    { name: "Last attempt", cell: f => <bdi>{result(f)}</bdi>, wide: true },
    { name: "Next attempt", cell: f => <When t={f.next_attempt} /> },
  ];
  if (trigger) columns.splice(1, 0, { name: "Trigger", cell: f => <a href={to("triggers", f.trigger)}>{f.trigger}</a> });
  return <Table {...table} keyOf={f => f.id} columns={columns} />;
}

/** causeOf says why a firing happened then. */
export function causeOf(cause: string): string {
  const [kind, a = "", b = "", c = ""] = cause.split(":");
  return kind === "o" ? `event at offset ${b} of partition ${a}` : kind === "d" ? `deadline at ${localTime(Number(a))}` : kind === "c" ? `true when the trigger was made, event at offset ${c} of partition ${b}` : cause;
}

/** Events lists matched events of a partition. */
export function Events({ rows, caption, topic, partition }: { rows: readonly Witness[]; caption: string; topic: string; partition: number }) {
  return <Table caption={caption} rows={rows} empty="None is left in the log, or the expression became true without an event." keyOf={e => String(e.offset)} columns={[
    { name: "Time", cell: e => <When t={e.time} /> },
    { name: "Event", cell: e => <bdi>{e.event}</bdi> },
    { name: "Data", cell: e => e.data ? <Json value={e.data} label={`Data of the event at offset ${e.offset}`} /> : "–", wide: true },
    { name: "Offset", cell: e => <a href={to("topics", topic, "records", { open: `${partition}:${e.offset}` })}>{count(e.offset)}</a>, num: true },
    { name: "ID", cell: e => <bdi>{e.id}</bdi> },
  ]} />;
}

/** Value shows a value of an expression. */
export function Value({ of }: { of: string }) { return <Chip kind={of === "true" ? "good" : of === "pending" ? "warn" : ""}>{of}</Chip>; }

/** Steps lists the events and deadlines of an entity, and what each did. */
export function Steps({ caption, rows }: { caption: string; rows: readonly { at: string; name: ComponentChildren; value: string; text: string }[] }) {
  return <Table caption={caption} rows={rows.map((s, i) => ({ ...s, i }))} keyOf={s => String(s.i)} columns={[
    { name: "Time", cell: s => <When t={s.at} /> },
    { name: "What happens", cell: s => s.name || "a deadline passes" },
    { name: "What it does", cell: s => <bdi>{s.text}</bdi>, wide: true },
    { name: "Value from then on", cell: s => <Value of={s.value} /> },
  ]} />;
}

const roles: Record<string, string> = { must_come: "must come", must_not_come: "must not come", starts: "starts it again" };

/** AwaitedTable lists what can still change the value of an expression. */
export function AwaitedTable({ rows }: { rows: readonly Awaited[] }) {
  return <Table caption="Awaited events" rows={rows} empty="No event can change the value." keyOf={a => `${a.expr} ${a.role} ${a.from} ${a.until}`} columns={[
    { name: "Event", cell: a => <bdi>{a.event}</bdi> },
    { name: "Role", cell: a => roles[a.role] ?? a.role },
    { name: "Part of the expression", cell: a => <code>{a.expr}</code>, wide: true },
    { name: "So far", cell: a => `${count(a.have)} of ${count(a.need)}`, num: true },
    { name: "From", cell: a => <When t={a.from} /> },
    { name: "Until", cell: a => <When t={a.until} /> },
  ]} />;
}
