// The panel of the selected box: what it says, its time, its conditions, and what can be done with it.

import { useEffect, useId, useRef, useState } from "preact/hooks";
import { count } from "../../../lib/format";
import { Button, Choice, Text } from "../../../lib/parts";
import { Conditions } from "./filter";
import {
  boxOf, duplicate, group, inner, insert, move, placeOf, pointerOf, setAbsent, setCount, setNamed, setOp, setTime, simplify,
  type Box, type Comparison, type Direction, type Edit, type Op, type Path, type Tree,
} from "./tree";
import { duration, groups, inUnit, isAbsence, often, parts, similar, unfinishedName, unitNames } from "./words";

/** EventName is a name of events in the log, as in GET /events/names. */
export interface EventName { name: string; count: number; sampled: number; last: string | null; properties: { path: string; types: string[]; sampled: number }[]; more?: boolean }

/** Typed is a text field whose value counts while it is valid. What is typed stays until the field is left, and an error until another edit. */
export function Typed({ value, onValue, check, wrong, ...rest }: { label: string; value: string; onValue: (v: string) => void; check: (v: string) => unknown; wrong?: string; inputMode?: "decimal" }) {
  const [typed, set] = useState<string>(), bad = typed !== undefined && !check(typed);
  useEffect(() => { if (bad) set(undefined); }, [value]);
  return <Text {...rest} value={typed ?? value} error={bad ? wrong : undefined} onBlur={() => { if (!bad) set(undefined); }} onValue={v => { set(v); if (check(v)) onValue(v); }} />;
}

interface PanelProps {
  tree: Tree; path: Path; title: string; names: EventName[]; faults: Record<string, string>;
  onEdit(tree: Tree, select: Path, merge?: string): void; change(edit: Edit | undefined, said: string): void; add(edit: Edit): void;
  drop(path: Path): void; go(path: Path, to: Direction): void; onward(): void; leave(): void;
}

/** Panel edits the selected box. Enter in a field goes on, Escape goes back to the box. */
export function Panel(p: PanelProps) {
  const { tree, path } = p, b = boxOf(tree, path), at = pointerOf(path), turn = useRef(0), id = useId();
  // Typing in a field is one edit until the field is left.
  const edit = (e: Edit, field?: string) => p.onEdit(e.tree, e.select, field && `${at} ${field} ${turn.current}`);
  const press = (e: KeyboardEvent) => {
    if (e.key === "Enter" && e.target instanceof HTMLInputElement) p.onward();
    else if (e.key === "Escape") p.leave();
    else return;
    e.preventDefault();
    e.stopPropagation();
  };
  const use = { p, b, edit }, { named } = b;
  return <section class="panel" aria-labelledby={id} onKeyDown={press} onFocusIn={() => { turn.current++; }}>
    <h3 id={id} title={p.title}><bdi>{p.title}</bdi></h3>
    <div class="row" key={at}>
      {named && <EventField event={named.event} names={p.names} onValue={event => edit(setNamed(tree, path, { event }), "event")} />}
      <What {...use} />
      <Times {...use} />
    </div>
    {named && <Conditions key={at + "where"} where={named.where} pointer={pointerOf([...b.at, ...(b.count ? ["count"] : []), "where"])} faults={p.faults}
      properties={p.names.find(n => n.name === named.event)?.properties ?? []} onEdit={(where, field) => edit(setNamed(tree, path, { where }), field)} />}
    <Actions {...use} />
  </section>;
}

/** EventField is a field with the known names. An unknown name that is near a known one offers it. */
function EventField({ event, names, onValue }: { event: string; names: EventName[]; onValue: (v: string) => void }) {
  const list = useId(), known = names.find(n => n.name === event), near = names.some(n => n.name.startsWith(event)) ? undefined : similar(event, names.map(n => n.name));
  const hint = known ? `${known.count ? count(known.count) : "none"} so far` : event && names.length > 0 && <>none so far{near && <>. Is it <Button kind="quiet" onClick={() => onValue(near)}><bdi>{near}</bdi></Button>?</>}</>;
  return <>
    <Text label="Event" hint={hint} value={event} onValue={onValue} maxLength={256} placeholder={unfinishedName} list={list} />
    <datalist id={list}>{names.map(n => <option value={n.name} key={n.name}>{n.count ? count(n.count) : ""}</option>)}</datalist>
  </>;
}

type Use = { p: PanelProps; b: Box; edit: (e: Edit, field?: string) => void };

/** What says whether a box happens, how often, or what kind of group it is. */
function What({ p: { tree, path }, b, edit }: Use) {
  const is = (b.absent ? "1" : "0") + (b.op ?? (b.count ? "count" : "")), now = b.count ?? { is: ">=", n: 2 };
  const options = b.op ? Object.entries(groups).flatMap(([op, names]) => names.map((name, i) => [i + op, name] as const))
    : b.named ? [["0", "happens"], ["1", "does not happen"], ["0count", "happens … times"], ["1count", "does not happen … times"]] as const : [["0", "this"], ["1", "this is not so"]] as const;
  return <>
    <Choice label="What" value={is} options={options} onValue={v => {
      const e = setAbsent(tree, path, v[0] === "1"), kind = v.slice(1);
      edit(b.op ? setOp(e.tree, path, kind as Op) : b.named ? setCount(e.tree, path, kind ? now : undefined) : e);
    }} />
    {b.count && <>
      <Choice label="How often" value={now.is} options={often} onValue={v => edit(setCount(tree, path, { ...now, is: v as Comparison }))} />
      <Typed label="Times" inputMode="decimal" value={String(now.n)} check={v => /^\d{1,4}$/.test(v) && Number(v) <= 1000} wrong="0 to 1,000" onValue={v => edit(setCount(tree, path, { ...now, n: Number(v) }), "n")} />
    </>}
  </>;
}

/** Times sets from when to when a box counts, from the step before it. */
function Times({ p: { tree, path }, b, edit }: Use) {
  const { within, after } = b, absence = isAbsence(b), both = after && within;
  // A time needs a step before it, or a count.
  if (!path.some((key, i) => path[i - 1] === "then" && key !== 0) && !within && !after && !b.count) return null;
  const choose = (v: string) => {
    let e: Edit = { tree, select: path };
    for (const [op, time] of [["within", within ?? "7 days"], ["after", after ?? "1 hour"]] as const) e = setTime(e.tree, path, op, v.includes(op) ? time : undefined);
    edit(e);
  };
  const time = (label: string, op: "within" | "after", value?: string) => value !== undefined && <Duration label={label} value={value} onValue={(v, field) => edit(setTime(tree, path, op, v), field)} />;
  return <div class="row times">
    <Choice label="Time" value={(after ? "after" : "") + (within ? "within" : "")} onValue={choose}
      options={absence ? [["", "without an end"], ["within", "for"], ["after", "from … on"], ["afterwithin", "from … to"]] : [["", "at any time"], ["within", "within"], ["after", "at least … later"], ["afterwithin", "between"]]} />
    {time(absence || both ? "From" : "At least", "after", after)}
    {time(both ? "To" : absence ? "For" : "Within", "within", within)}
  </div>;
}

/** Duration is a number with its unit. One of several units is shown as it is. */
function Duration({ label, value, onValue }: { label: string; value: string; onValue: (v: string, field?: string) => void }) {
  const all = parts(value), [n, unit] = all?.length === 1 ? all[0]! : [value, ""];
  return <>
    <Typed label={label} inputMode="decimal" value={n} check={v => parts(v) || Number(v) > 0} wrong="A number such as 7" onValue={v => onValue(parts(v) ? v : duration(v.trim(), unit || "days"), label)} />
    <Choice label="Unit" value={unit} options={["", ...unitNames].slice(unit ? 1 : 0).map(u => [u, u || "as written"] as const)} onValue={u => { if (u) onValue(unit ? duration(n, u) : inUnit(value, u)); }} />
  </>;
}

/** Actions are what can be done with a box as a whole. */
function Actions({ p, b }: Use) {
  const { tree, path } = p, place = placeOf(tree, path), easier = simplify(tree, path);
  const beside = (op: Op) => () => p.add(place?.op === op || op === "then" && !place ? insert(tree, path, "after") : b.op === op && !b.absent ? insert(tree, inner(b).at(-1)!, "after") : group(tree, path, op));
  const all: (readonly [name: string, act: () => void] | false | undefined)[] = [
    (!place || place.op === "then") && ["Add before", () => p.add(insert(tree, path, "before"))], ["Add after", beside("then")], ["And …", beside("and")], ["Or …", beside("or")],
    ...([["left", "Move earlier"], ["right", "Move later"], ["in", "Move into the group"], ["out", "Move out of the group"]] as const).map(([to, name]) => move(tree, path, to) && [name, () => p.go(path, to)] as const),
    ["Duplicate", () => p.add(duplicate(tree, path))], easier && ["Simplify", () => p.change(easier, "Simplified")],
  ];
  return <div class="actions">
    {all.map(a => a && <Button key={a[0]} onClick={a[1]}>{a[0]}</Button>)}
    <Button kind="danger" onClick={() => p.drop(path)}>Delete</Button>
  </div>;
}
