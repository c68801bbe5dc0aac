// The conditions on the data of an event.

import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { parse } from "../../../lib/api";
import { Button, Choice, Field } from "../../../lib/parts";
import { Typed, type EventName } from "./panel";
import type { Comparison, Filter, Value } from "./tree";
import { compared } from "./words";

type Properties = EventName["properties"];

/** Edited is a change of a filter; undefined: it is gone. field: where it is typed, or "" if another control of a condition changes it. */
type Edited = (f: Filter | undefined, field?: string) => void;

const fresh: Filter = { property: "", is: "=", value: "" };

interface Props { pointer: string; faults: Record<string, string>; properties: Properties }

/** Conditions edits the filter of an event. The focus goes to a new condition, or to the first one if its own is gone. */
export function Conditions({ where, onEdit, ...rest }: Props & { where?: Filter; onEdit: Edited }) {
  const list = useId(), ref = useRef<HTMLFieldSetElement>(null), moved = useRef(false);
  useLayoutEffect(() => {
    if (!moved.current) return;
    moved.current = false;
    const empty = [...ref.current!.querySelectorAll("input")].find(i => i.list && i.value === "");
    if (empty || document.activeElement === document.body) (empty ?? ref.current!.querySelector<HTMLElement>("input, button")!).focus();
  }, [where]);
  const edit: Edited = (f, field) => { moved.current = field === undefined; onEdit(f, field); };
  return <fieldset class="conditions" ref={ref}><legend>Conditions on its data</legend>
    {where ? <Condition f={where} list={list} {...rest} onEdit={edit} /> : <Button onClick={() => edit(fresh)}>Add a condition</Button>}
    <datalist id={list}>{rest.properties.map(p => <option value={p.path} key={p.path}>{p.types.join(", ")}</option>)}</datalist>
  </fieldset>;
}

type One = Props & { f: Filter; parent?: "and" | "or"; list: string; onEdit: Edited };

/** Condition edits one condition, or a list of them. */
function Condition(p: One) {
  const { f, onEdit, ...rest } = p, not = "not" in f, inner = not ? f.not : f;
  if ("property" in inner) return <Is {...p} f={inner} not={not} />;
  const set: Edited = not ? (k, field) => onEdit(k && { not: k }, field) : onEdit, pointer = rest.pointer + (not ? "/not" : "");
  if ("not" in inner) return <div class="list"><p>not</p><Condition {...rest} parent={undefined} f={inner} pointer={pointer} onEdit={set} /></div>;
  const op = "and" in inner ? "and" : "or", all = "and" in inner ? inner.and : inner.or;
  const listed = (next: Filter[]): Filter => op === "and" ? { and: next } : { or: next };
  const replace = (i: number, k: Filter | undefined, field?: string) => {
    const next = k ? all.map((old, n) => n === i ? k : old) : all.filter((_, n) => n !== i);
    set(next.length === 1 ? next[0] : listed(next), field);
  };
  return <div class="list">
    <Choice label="Which" value={op + (not ? 1 : 0)} options={[["and0", "all of these"], ["or0", "any of these"], ["and1", "not all of these"], ["or1", "none of these"]]} onValue={v => {
      const next: Filter = v.startsWith("and") ? { and: all } : { or: all };
      onEdit(v.endsWith("1") ? { not: next } : next, "");
    }} />
    {all.map((k, i) => <Condition {...rest} key={i} f={k} parent={op} pointer={`${pointer}/${op}/${i}`} onEdit={(next, field) => replace(i, next, field && `${i}/${field}`)} />)}
    <Button onClick={() => set(listed([...all, fresh]))}>Add a condition</Button>
  </div>;
}

const kinds = [["string", "text"], ["number", "number"], ["boolean", "yes or no"], ["null", "nothing"]] as const;

/** kindOf is the kind of a value, as the broker names the types of properties. */
function kindOf(v: Value): string { return v === null ? "null" : typeof v === "bigint" ? "number" : typeof v; }

function ofKind(kind: string, old: Value): Value {
  return kind === "string" ? String(old ?? "") : kind === "number" ? isNumber(String(old)) ? parse(String(old)) : 0 : kind === "boolean" ? old !== "false" : null;
}

const isNumber = (text: string) => /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(text) && Number.isFinite(Number(text));

/** Is edits a comparison. */
function Is({ f, not, parent, list, pointer, faults, properties, onEdit }: One & { f: Extract<Filter, { property: string }>; not: boolean }) {
  const set = (change: Partial<typeof f>, field?: string) => { const next = { ...f, ...change }; onEdit(not ? { not: next } : next, field); };
  const kind = kindOf(f.value), fault = Object.entries(faults).find(([at]) => at === pointer || at.startsWith(pointer + "/"))?.[1];
  const name = (property: string) => {
    // A known property suggests the kind of its values, as long as there is no value.
    const type = f.value === "" ? properties.find(p => p.path === property)?.types.find(t => kinds.some(([k]) => k === t)) : undefined;
    set(type ? { property, value: ofKind(type, f.value) } : { property }, "property");
  };
  const wrap = (op: "and" | "or") => { const old: Filter = not ? { not: f } : f; onEdit(op === "and" ? { and: [old, fresh] } : { or: [old, fresh] }); };
  return <div class="condition">
    <div class="row">
      <Field label={not ? "Not: property" : "Property"} error={fault} render={a => <input type="text" autocomplete="off" spellcheck={false} placeholder="such as plan" {...a} list={list} value={f.property} onInput={e => name(e.currentTarget.value)} />} />
      <Choice label="Comparison" value={f.is} options={compared} onValue={is => set({ is: is as Comparison }, "")} />
      <Choice label="Kind" value={kind} options={kinds} onValue={k => set({ value: ofKind(k, f.value) }, "")} />
      {kind === "string" && <Typed label="Value" value={f.value as string} onValue={value => set({ value }, "value")} />}
      {kind === "number" && <Typed label="Value" numeric value={String(f.value)} check={isNumber} wrong="A number such as 42 or 0.5" onValue={v => set({ value: parse(v) }, "value")} />}
      {kind === "boolean" && <Choice label="Value" value={String(f.value)} options={[["true", "true"], ["false", "false"]]} onValue={v => set({ value: v === "true" }, "")} />}
      <div class="actions">
        <Button aria-pressed={not} onClick={() => onEdit(not ? f : { not: f }, "")}>Not</Button>
        {parent !== "and" && <Button onClick={() => wrap("and")}>And …</Button>}
        {parent !== "or" && <Button onClick={() => wrap("or")}>Or …</Button>}
        <Button onClick={() => onEdit(undefined)}>Remove</Button>
      </div>
    </div>
  </div>;
}
