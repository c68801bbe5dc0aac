// The conditions on the data of an event.

import { useId, useLayoutEffect, useRef } from "preact/hooks";
import { Exact, parse } from "../../../lib/api";
import { Button, Choice, Text } from "../../../lib/parts";
import { Typed, type EventName } from "./panel";
import type { Comparison, Filter, Value } from "./tree";
import { compared } from "./words";

/** Edited is a change of a filter; undefined: it is gone. field: where it is typed, or "" if another control of a condition changes it. */
type Edited = (f: Filter | undefined, field?: string) => void;

const fresh: Filter = { property: "", is: "=", value: "" };

interface Props { pointer: string; faults: Record<string, string>; properties: EventName["properties"] }

/** Conditions edits the filter of an event. The focus goes to a new condition, or to the first one if its own is gone. */
export function Conditions({ where, onEdit, ...rest }: Props & { where?: Filter; onEdit: Edited }) {
  const list = useId(), ref = useRef<HTMLFieldSetElement>(null), moved = useRef(false);
  useLayoutEffect(() => {
    if (!moved.current) return;
    moved.current = false;
    const empty = [...ref.current!.querySelectorAll("input")].find(i => i.list && !i.value);
    if (empty || document.activeElement === document.body) (empty ?? ref.current!.querySelector<HTMLElement>("input, button")!).focus();
  }, [where]);
  const edit: Edited = (f, field) => { moved.current = field === undefined; onEdit(f, field); };
  return <fieldset class="conditions" ref={ref}><legend>Conditions on its data</legend>
    {where ? <Condition f={where} list={list} {...rest} onEdit={edit} /> : <Button onClick={() => edit(fresh)}>Add a condition</Button>}
    <datalist id={list}>{rest.properties.map(p => <option value={p.path} key={p.path}>{p.types.join(", ")}</option>)}</datalist>
  </fieldset>;
}

type One = Props & { f: Filter; parent?: "and" | "or"; list: string; onEdit: Edited };

const listOf = (op: string, all: Filter[]): Filter => op === "and" ? { and: all } : { or: all };

/** Condition edits one condition, or a list of them. */
function Condition(p: One) {
  const { f, onEdit, ...rest } = p, not = "not" in f, inner = not ? f.not : f, negated = (k: Filter, is = not): Filter => is ? { not: k } : k;
  const set: Edited = (k, field) => onEdit(k && negated(k), field), pointer = p.pointer + (not ? "/not" : "");
  if ("property" in inner) {
    const beside = (op: "and" | "or") => parent !== op && <Button onClick={() => onEdit(listOf(op, [f, fresh]))}>{op === "and" ? "And …" : "Or …"}</Button>, parent = p.parent;
    return <div class="row">
      <Is {...rest} f={inner} not={not} onEdit={set} />
      <div class="actions">
        <Button aria-pressed={not} onClick={() => onEdit(negated(inner, !not), "")}>Not</Button>{beside("and")}{beside("or")}<Button onClick={() => onEdit(undefined)}>Remove</Button>
      </div>
    </div>;
  }
  if ("not" in inner) return <div class="list"><p>not</p><Condition {...rest} parent={undefined} f={inner} pointer={pointer} onEdit={set} /></div>;
  const op = "and" in inner ? "and" : "or", all = "and" in inner ? inner.and : inner.or;
  const replace = (i: number, k: Filter | undefined, field?: string) => {
    const next = k ? all.with(i, k) : all.toSpliced(i, 1);
    set(next.length === 1 ? next[0] : listOf(op, next), field && i + field);
  };
  return <div class="list">
    <Choice label="Which" value={op + not} options={[["andfalse", "all of these"], ["orfalse", "any of these"], ["andtrue", "not all of these"], ["ortrue", "none of these"]]}
      onValue={v => onEdit(negated(listOf(v.slice(0, v[0] === "a" ? 3 : 2), all), v.endsWith("true")), "")} />
    {all.map((k, i) => <Condition {...rest} key={i} f={k} parent={op} pointer={`${pointer}/${op}/${i}`} onEdit={(next, field) => replace(i, next, field)} />)}
    <Button onClick={() => set(listOf(op, [...all, fresh]))}>Add a condition</Button>
  </div>;
}

const kinds = [["string", "text"], ["number", "number"], ["boolean", "yes or no"], ["null", "nothing"]] as const;

/** kindOf is the kind of a value, as the broker names the types of properties. */
function kindOf(v: Value): string { return v === null ? "null" : typeof v === "bigint" || v instanceof Exact ? "number" : typeof v; }

function ofKind(kind: string, old: Value): Value {
  return kind === "string" ? String(old ?? "") : kind === "number" ? isNumber(String(old)) ? parse(String(old)) : 0 : kind === "boolean" || null;
}

const isNumber = (text: string) => /^-?(0|[1-9]\d*)(\.\d+)?(e[+-]?\d+)?$/i.test(text);

/** Is edits a comparison. */
function Is({ f, not, list, pointer, faults, properties, onEdit }: Omit<One, "f"> & { f: Extract<Filter, { property: string }>; not: boolean }) {
  const set = (change: Partial<typeof f>, field = "") => onEdit({ ...f, ...change }, field), kind = kindOf(f.value), number = kind === "number";
  const name = (property: string) => {
    // A known property suggests the kind of its values, as long as there is no value.
    const type = f.value === "" && properties.find(p => p.path === property)?.types.find(t => kinds.some(([k]) => k === t));
    set({ property, value: type ? ofKind(type, "") : f.value }, "property");
  };
  return <>
    <Text label={not ? "Not: property" : "Property"} error={Object.entries(faults).find(([at]) => (at + "/").startsWith(pointer + "/"))?.[1]} placeholder={`such as ${properties[0]?.path ?? "plan"}`} list={list} value={f.property} onValue={name} />
    <Choice label="Comparison" value={f.is} options={compared} onValue={is => set({ is: is as Comparison })} />
    <Choice label="Kind" value={kind} options={kinds} onValue={k => set({ value: ofKind(k, f.value) })} />
    {kind === "boolean" ? <Choice label="Value" value={String(f.value)} options={[["true", "true"], ["false", "false"]]} onValue={v => set({ value: v === "true" })} />
      : kind !== "null" && <Typed key={kind} label="Value" inputMode={number ? "decimal" : undefined} value={String(f.value)} check={v => !number || isNumber(v)} wrong="A number such as 42 or 0.5"
        onValue={v => set({ value: number ? parse(v) : v }, "value")} />}
  </>;
}
