// A value of a record: a tree of its JSON, its text, or its bytes. Each is rendered in pieces, so
// that a large value opens at once.

import { useMemo, useState } from "preact/hooks";
import { Exact } from "./api";
import { Button, Note } from "./parts";
import { bytes as size, count } from "./format";

/** Value is a value that was read. text is undefined if it is not UTF-8. */
export interface Value { data?: Uint8Array; text?: string; length: number }

/** ofText and ofBytes make a Value. */
export function ofText(text: string, length: number): Value { return { text, length }; }
export function ofBytes(data: Uint8Array): Value {
  try {
    return { data, text: new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(data), length: data.length };
  } catch {
    return { data, length: data.length };
  }
}

// A tree of more text than this takes seconds to parse.
const treeMax = 8 << 20;

/** jsonOf parses JSON with the numbers as they are written, such as 1.0 or 2^60; undefined: it is no object or array. */
export function jsonOf(text: string | undefined): object | undefined {
  if (text === undefined || text.length > treeMax || !/^\s*[[{]/.test(text)) return undefined;
  try {
    return JSON.parse(text, ((_: string, v: unknown, context?: { source?: string }) =>
      typeof v === "number" && context?.source !== undefined && String(v) !== context.source ? new Exact(context.source) : v) as (key: string, v: unknown) => unknown);
  } catch {
    return undefined;
  }
}

const views = { tree: "Tree", text: "Text", hex: "Bytes" } as const;
export type View = keyof typeof views;

/** ValueView shows a value. Without a chosen view it is a tree if it can be, else text, else bytes. */
export function ValueView({ value, view, onView }: { value: Value; view?: string; onView: (v: View) => void }) {
  const json = useMemo(() => jsonOf(value.text), [value]);
  const can: View[] = [...(json ? ["tree" as const] : []), ...(value.text !== undefined ? ["text" as const] : []), "hex"];
  const shown = can.find(v => v === view) ?? can[0]!;
  return <>
    <div class="views" role="group" aria-label="View of the value">{can.map(v =>
      <button type="button" class="quiet" key={v} aria-pressed={v === shown} onClick={() => onView(v)}>{views[v]}</button>)}</div>
    {value.text === undefined && <Note>These bytes are not valid UTF-8.</Note>}
    <div class="valuebox" role="region" aria-label="Value" tabIndex={0}>
      {shown === "tree" ? <div class="tree"><Node value={json} open={2} /></div> : shown === "text" ? <Pieces text={value.text!} key={value.text} /> : <Hex value={value} />}
    </div>
  </>;
}

const step = 100, stringMax = 500;

/** Node is a value of JSON. Objects and arrays within `open` levels are open if they are short. */
function Node({ name, value, open }: { name?: string; value: unknown; open: number }) {
  const nested = typeof value === "object" && value !== null && !(value instanceof Exact);
  const members = nested ? Object.keys(value).length : 0;
  const [isOpen, setOpen] = useState(open > 0 && (name === undefined || members <= 30)), [shown, show] = useState(step);
  const label = name !== undefined && <><span class="name"><bdi>{name}</bdi></span>: </>;
  if (!nested) return <span>{label}<Scalar value={value} /></span>;
  const [left, right] = Array.isArray(value) ? "[]" : "{}";
  if (!members) return <span>{label}{left}{right}</span>;
  return <>
    <button type="button" class="fold" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>{label}{left}{!isOpen && <span class="dim"> {count(members)} {right}</span>}</button>
    {isOpen && <>
      <ul>{Object.keys(value).slice(0, shown).map(k => <li key={k}><Node name={k} value={(value as Record<string, unknown>)[k]} open={open - 1} /></li>)}
        {members > shown && <li><Button kind="quiet" onClick={() => show(shown + 10 * step)}>{count(shown)} of {count(members)} shown. Show more</Button></li>}</ul>
      {right}
    </>}
  </>;
}

function Scalar({ value }: { value: unknown }) {
  const [all, showAll] = useState(false);
  if (typeof value !== "string") return <span class="scalar">{value instanceof Exact ? value.source : String(value)}</span>;
  const text = JSON.stringify(all ? value : value.slice(0, stringMax));
  return <span class="string" dir="auto">{text}{!all && value.length > stringMax && <Button kind="quiet" onClick={() => showAll(true)}>… all {count(value.length)} characters</Button>}</span>;
}

const piece = 64 << 10;

/** Pieces shows a long text a piece at a time. */
function Pieces({ text }: { text: string }) {
  const [shown, show] = useState(piece);
  return <>
    <pre class="wrap" dir="auto">{text.slice(0, shown)}</pre>
    {text.length > shown && <Button kind="quiet" onClick={() => show(shown + 4 * piece)}>{count(shown)} of {count(text.length)} characters shown. Show more</Button>}
  </>;
}

const hexStep = 2048;

/** Hex shows bytes, 8 in a line, with their characters. */
function Hex({ value }: { value: Value }) {
  const [shown, show] = useState(hexStep);
  const data = useMemo(() => value.data ?? new TextEncoder().encode(value.text), [value]);
  return <>
    <pre>{hexOf(data.subarray(0, shown))}</pre>
    {data.length > shown && <Button kind="quiet" onClick={() => show(shown + 8 * hexStep)}>{size(shown)} of {size(data.length)} shown. Show more</Button>}
  </>;
}

function hexOf(data: Uint8Array): string {
  let out = "";
  for (let at = 0; at < data.length; at += 8) {
    const line = data.subarray(at, at + 8);
    out += at.toString(16).padStart(8, "0") + "  " + Array.from(line, b => b.toString(16).padStart(2, "0")).join(" ").padEnd(25) +
      Array.from(line, b => b >= 32 && b < 127 ? String.fromCharCode(b) : "·").join("") + "\n";
  }
  return out;
}
