// The panel of the selected box: what it says, its time, its conditions, and what can be done with it.

import { useId, useRef, useState } from "preact/hooks";
import { count } from "../../../lib/format";
import { Button, Choice, Field } from "../../../lib/parts";
import { Conditions } from "./filter";
import {
  boxOf, group, inner, insert, move, placeOf, pointerOf, setAbsent, setCount, setNamed, setOp, setTime, simplify,
  type Box, type Comparison, type Direction, type Edit, type Op, type Path, type Tree,
} from "./tree";
import { duration, groups, inUnit, often, similar, single, unitNames } from "./words";

/** EventName is a name of events in the log, as in GET /events/names. */
export interface EventName { name: string; count: number; sampled: number; last: string | null; properties: { path: string; types: string[]; sampled: number }[]; more?: boolean }

/** Typed is a text field whose value counts only while it is valid. Until the field is left, what is typed stays. */
export function Typed({ label, value, onValue, check, wrong, list, numeric }: {
  label: string; value: string; onValue: (v: string) => void; check?: (v: string) => boolean; wrong?: string; list?: string; numeric?: boolean;
}) {
  const [typed, set] = useState<string>(), bad = typed !== undefined && check && !check(typed);
  return <Field label={label} error={bad ? wrong : undefined} render={a => <input type="text" autocomplete="off" spellcheck={false} {...a} list={list} inputMode={numeric ? "decimal" : undefined} value={typed ?? value}
    onInput={e => { const v = e.currentTarget.value; set(v); if (!check || check(v)) onValue(v); }} onBlur={() => set(undefined)} />} />;
}

interface PanelProps {
  tree: Tree; path: Path; title: string; names: EventName[]; faults: Record<string, string>;
  onEdit(edit: Edit, merge?: string): void; change(edit: Edit | undefined, said: string): void; add(edit: Edit): void;
  act: Record<Direction | "delete" | "copy", (path: Path) => void>; onward(): void; leave(): void;
}

/** Panel edits the selected box. Enter in a field goes on, Escape goes back to the box. */
export function Panel(p: PanelProps) {
  const { tree, path } = p, b = boxOf(tree, path), at = pointerOf(path), turn = useRef(0), id = useId();
  // Typing in a field is one edit until the field is left.
  const typed = (field: string) => (e: Edit) => p.onEdit(e, `${at} ${field} ${turn.current}`);
  const press = (e: KeyboardEvent) => {
    if (e.key === "Enter" && e.target instanceof HTMLInputElement) p.onward();
    else if (e.key === "Escape") p.leave();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  return <section class="panel" aria-labelledby={id} onKeyDown={press} onFocusIn={() => { turn.current++; }}>
    <h3 id={id} title={p.title}><bdi>{p.title}</bdi></h3>
    <div class="row" key={at}>
      {b.named && <EventField event={b.named.event} names={p.names} onValue={event => typed("event")(setNamed(tree, path, { event }))} />}
      <What p={p} b={b} typed={typed} />
      <Times p={p} b={b} typed={typed} />
    </div>
    {b.named && <Conditions key={at + "where"} where={b.named.where} pointer={pointerOf([...b.at, ...(b.count ? ["count"] : []), "where"])} faults={p.faults}
      properties={p.names.find(n => n.name === b.named!.event)?.properties ?? []} onEdit={(where, field) => (field ? typed(field) : p.onEdit)(setNamed(tree, path, { where }))} />}
    <Actions p={p} b={b} />
  </section>;
}

/** EventField is a field with the known names. An unknown name that is near a known one offers it. */
function EventField({ event, names, onValue }: { event: string; names: EventName[]; onValue: (v: string) => void }) {
  const id = useId(), known = names.find(n => n.name === event), near = event && !known && !names.some(n => n.name.startsWith(event)) ? similar(event, names.map(n => n.name)) : undefined;
  const hint = known ? known.count ? `${count(known.count)} so far` : "no recent one" : event && names.length ? near ? <>No such event so far. <button type="button" class="quiet" onClick={() => onValue(near)}>Use <bdi>{near}</bdi></button></> : "no such event so far" : undefined;
  return <>
    <Field label="Event" hint={hint} render={a => <input type="text" autocomplete="off" spellcheck={false} maxLength={256} placeholder="choose an event" {...a} list={id} value={event} onInput={e => onValue(e.currentTarget.value)} />} />
    <datalist id={id}>{names.map(n => <option value={n.name} key={n.name}>{n.count ? count(n.count) : ""}</option>)}</datalist>
  </>;
}

type Use = { p: PanelProps; b: Box; typed: (field: string) => (e: Edit) => void };

/** What says whether a box happens, how often, or what kind of group it is. */
function What({ p, b, typed }: Use) {
  const { tree, path } = p;
  if (!b.named) {
    const options = b.op ? Object.entries(groups).flatMap(([op, names]) => names.map((name, i) => [op + i, name] as const)) : [["0", "this"], ["1", "this is not so"]] as const;
    return <Choice label="What" value={(b.op ?? "") + (b.absent ? 1 : 0)} options={options} onValue={v => {
      const e = setAbsent(tree, path, v.endsWith("1"));
      p.onEdit(b.op ? setOp(e.tree, path, v.slice(0, -1) as Op) : e);
    }} />;
  }
  return <>
    <Choice label="What" value={(b.absent ? "not" : "") + (b.count ? "count" : "")} options={[["", "happens"], ["not", "does not happen"], ["count", "happens … times"], ["notcount", "does not happen … times"]]} onValue={v => {
      const e = setAbsent(tree, path, v.startsWith("not"));
      p.onEdit(setCount(e.tree, path, v.endsWith("count") ? b.count ?? { is: ">=", n: 2 } : undefined));
    }} />
    {b.count && <>
      <Choice label="How often" value={b.count.is} options={often} onValue={v => p.onEdit(setCount(tree, path, { is: v as Comparison, n: b.count!.n }))} />
      <Typed label="Times" numeric value={String(b.count.n)} check={v => /^\d{1,4}$/.test(v) && Number(v) <= 1000} wrong="0 to 1,000" onValue={v => typed("n")(setCount(tree, path, { is: b.count!.is, n: Number(v) }))} />
    </>}
  </>;
}

/** Times sets from when to when a box counts, from the step before it. */
function Times({ p, b, typed }: Use) {
  const { tree, path } = p, { within, after } = b, absence = b.absent && (!b.op || b.op === "or");
  // A time needs a step before it, or a count.
  if (!path.some((key, i) => path[i - 1] === "then" && key !== 0) && within === undefined && after === undefined && !b.count) return null;
  const value = (after === undefined ? "" : "after") + (within === undefined ? "" : "within");
  const words = absence ? ["without an end", "for", "from … on", "from … to"] : ["at any time", "within", "at least … later", "between"];
  const choose = (v: string) => {
    let e: Edit = { tree, select: path };
    for (const [op, old, usual] of [["within", within, "7 days"], ["after", after, "1 hour"]] as const) e = setTime(e.tree, path, op, v.includes(op) ? old ?? usual : undefined);
    p.onEdit(e);
  };
  const both = after !== undefined && within !== undefined;
  return <div class="row times">
    <Choice label="Time" value={value} options={["", "within", "after", "afterwithin"].map((v, i) => [v, words[i]!] as const)} onValue={choose} />
    {after !== undefined && <Duration label={absence || both ? "From" : "At least"} value={after} onValue={(v, field) => (field ? typed("after") : p.onEdit)(setTime(tree, path, "after", v))} />}
    {within !== undefined && <Duration label={both ? "To" : absence ? "For" : "Within"} value={within} onValue={(v, field) => (field ? typed("within") : p.onEdit)(setTime(tree, path, "within", v))} />}
  </div>;
}

/** Duration is a number with its unit. One of several units is shown as it is. */
function Duration({ label, value, onValue }: { label: string; value: string; onValue: (v: string, typed?: true) => void }) {
  const one = single(value);
  return <>
    <Typed label={label} numeric value={one?.n ?? value} check={v => single(v) !== undefined || /^\d+(\.\d+)?$/.test(v) && Number(v) > 0 || !one && v === value} wrong="A number such as 7"
      onValue={v => onValue(/^[\d.]+$/.test(v) ? duration(v, one?.unit ?? "days") : v, true)} />
    <Choice label="Unit" value={one?.unit ?? ""} options={[...(one ? [] : [["", "as written"] as const]), ...unitNames.map(u => [u, u] as const)]} onValue={u => u && onValue(one ? duration(one.n, u) : inUnit(value, u))} />
  </>;
}

/** Actions are what can be done with a box as a whole. */
function Actions({ p, b }: { p: PanelProps; b: Box }) {
  const { tree, path, act } = p, place = placeOf(tree, path), easier = simplify(tree, path);
  const beside = (op: Op) => place?.op === op ? insert(tree, path, "after") : b.op === op && !b.absent ? insert(tree, inner(b).at(-1)!, "after") : group(tree, path, op);
  const moves = ([["left", "Move earlier"], ["right", "Move later"], ["in", "Move into the group"], ["out", "Move out of the group"]] as const).filter(([to]) => move(tree, path, to));
  return <div class="actions">
    {place?.op !== "and" && place?.op !== "or" && <Button onClick={() => p.add(insert(tree, path, "before"))}>Add before</Button>}
    <Button onClick={() => p.add(place ? beside("then") : insert(tree, path, "after"))}>Add after</Button>
    <Button onClick={() => p.add(beside("and"))}>And …</Button>
    <Button onClick={() => p.add(beside("or"))}>Or …</Button>
    {moves.map(([to, name]) => <Button key={to} onClick={() => act[to](path)}>{name}</Button>)}
    <Button onClick={() => act.copy(path)}>Duplicate</Button>
    {easier && <Button onClick={() => p.change(easier, "Simplified")}>Simplify</Button>}
    <Button kind="danger" onClick={() => act.delete(path)}>Delete</Button>
  </div>;
}
