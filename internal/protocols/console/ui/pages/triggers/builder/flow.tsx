// The builder's drawing with the panel of the selected box. The focus and the keys are here.

import { useLayoutEffect, useRef } from "preact/hooks";
import { announce } from "../../../lib/parts";
import { Arrow, Steps, type Drawn } from "./box";
import { Panel, type EventName } from "./panel";
import { boxAt, boxes, boxOf, get, inner, insert, isFlow, move, open, pathOf, placeOf, pointerOf, remove, type Direction, type Edit, type Path, type Tree } from "./tree";
import { groupName, unfinishedName } from "./words";

export type { EventName } from "./panel";

/** End is a box behind the expression: what happens when it is true. */
export interface End { title: string; detail: string; onOpen(): void }

/** FlowProps: faults and warnings are by the JSON Pointer of a part; names are the known events; entity is the word for what the events are of. */
export interface FlowProps {
  tree: Tree; selected?: Path; onSelect(path?: Path): void; onEdit(tree: Tree, select?: Path, merge?: string): void;
  faults: Record<string, string>; warnings: Record<string, string>; names: EventName[]; entity: string; end: End[];
}

/** Flow draws an expression. */
export function Flow(p: FlowProps) {
  const all = useRef<HTMLDivElement>(null), wanted = useRef<{ at: string; field?: string } | undefined>(undefined), last = useRef<string | undefined>(undefined), seen = useRef<string | undefined>(undefined);
  const selected = p.selected && get(p.tree, p.selected) !== undefined ? boxAt(p.tree, p.selected) : undefined, at = selected && pointerOf(selected);
  const button = (pointer: string) => all.current!.querySelector<HTMLElement>(`[data-at="${pointer}"]`);
  // After an edit the focus goes where the edit wants it. If the box that had it is gone, it goes to the nearest one.
  useLayoutEffect(() => {
    const w = wanted.current, lost = last.current;
    if (w && w.at === at) {
      wanted.current = undefined;
      const box = button(at)!, field = w.field && w.field !== "look" && all.current!.querySelector<HTMLElement>(w.field === "time" ? ".panel .times input, .panel .times select" : ".panel input, .panel select");
      box.scrollIntoView({ block: "nearest", inline: "nearest" });
      (field || box).focus();
      if (w.field === "look") all.current!.querySelector(".panel")!.scrollIntoView({ block: "nearest" });
      if (field instanceof HTMLInputElement) field.select();
    } else if (at !== seen.current && at !== undefined) button(at)!.scrollIntoView({ block: "nearest", inline: "nearest" });
    else if (lost !== undefined && document.activeElement === document.body) button(pointerOf(boxAt(p.tree, pathOf(lost)) ?? boxes(p.tree)[0]!))?.focus({ preventScroll: true });
    seen.current = at;
  });
  const focus = (path: Path, field?: string) => {
    wanted.current = { at: pointerOf(path), field };
    p.onSelect(path);
  };
  const change = (e: Edit | undefined, said: string, field?: string) => {
    if (!e) return announce("It cannot go there");
    wanted.current = { at: pointerOf(e.select), field };
    p.onEdit(e.tree, e.select);
    announce(said);
  };
  const add = (e: Edit) => change(e, `${placeWords(e.tree, e.select)} added: ${nameOf(e.tree, e.select)}`, open(boxOf(e.tree, e.select)) ? "first" : undefined);
  const choose = (path: Path, field?: string) => field || open(boxOf(p.tree, path)) ? focus(path, field ?? "first") : pointerOf(path) === at ? p.onSelect() : focus(path, "look");
  const drop = (path: Path) => change(remove(p.tree, path), `${nameOf(p.tree, path)} deleted`);
  const go = (path: Path, to: Direction) => {
    const e = move(p.tree, path, to);
    change(e, e ? `${nameOf(e.tree, e.select)} is now ${placeWords(e.tree, e.select).toLowerCase()}` : "");
  };
  const press = (e: KeyboardEvent) => {
    const here = (e.target as HTMLElement).dataset.at;
    if (here === undefined || e.altKey) return;
    const path = pathOf(here), command = e.ctrlKey || e.metaKey, by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[e.key];
    if (by && command) go(path, e.shiftKey ? by > 0 ? "in" : "out" : by > 0 ? "right" : "left");
    else if (command) return;
    else if (by || e.key === "Home" || e.key === "End") step(here, by ?? (e.key === "End" ? Infinity : -Infinity));
    else if (e.key === "Enter") focus(path, "first");
    else if (e.key === "+") add(insert(p.tree, path, "after"));
    else if (e.key === "Delete" || e.key === "Backspace") drop(path);
    else if (e.key === "Escape" && at !== undefined) p.onSelect();
    else return;
    e.preventDefault();
  };
  const step = (here: string, by: number) => {
    const buttons = [...all.current!.querySelectorAll<HTMLElement>("[data-at]")], i = buttons.findIndex(b => b.dataset.at === here);
    buttons[Math.max(0, Math.min(buttons.length - 1, i + by))]!.focus();
  };
  // onward leaves a field: to the next unfinished box, or back to this one.
  const onward = () => {
    const order = boxes(p.tree), i = order.findIndex(b => pointerOf(b) === at), next = [...order.slice(i + 1), ...order.slice(0, i)].find(b => open(boxOf(p.tree, b)));
    if (next && !open(boxOf(p.tree, selected!))) focus(next, "first");
    else focus(selected!);
  };
  const d: Drawn = { tree: p.tree, selected: at, faults: byBox(p.tree, p.faults), warnings: byBox(p.tree, p.warnings), choose, add, change };
  const paths = isFlow(p.tree) ? inner(boxOf(p.tree, [])) : [[]];
  return <div class="flow" ref={all}>
    <div class="drawing" onKeyDown={press} onFocusIn={e => { last.current = (e.target as HTMLElement).dataset.at; }} onFocusOut={e => { if (e.relatedTarget) last.current = undefined; }}>
      <Steps d={d} label={`Steps, for each ${p.entity}`} paths={paths}>
        {p.end.map((end, i) => <li key={"end" + i}>
          <Arrow onAdd={i ? undefined : () => add(insert(p.tree, isFlow(p.tree) ? paths.at(-1)! : [], "after"))} />
          <button type="button" class="box end" title={end.title} onClick={end.onOpen}><bdi class="event">{end.title}</bdi><span class="how">{end.detail}</span></button>
        </li>)}
      </Steps>
    </div>
    {isFlow(p.tree) && [d.faults, d.warnings].map((m, i) => m.has("") && <p class={i ? "said" : "said bad"} key={i}>{m.get("")}</p>)}
    <p class="keys">Arrow keys go from box to box, Enter edits, + adds, Delete deletes, Ctrl and an arrow moves.</p>
    {selected && <Panel tree={p.tree} path={selected} title={`${placeWords(p.tree, selected)}: ${nameOf(p.tree, selected)}`} names={p.names} faults={p.faults}
      onEdit={p.onEdit} change={change} add={add} drop={drop} go={go} onward={onward} leave={() => focus(selected)} />}
  </div>;
}

/** byBox sorts messages from the parts of an expression to the boxes that show them. Those of steps as a whole have the pointer "". */
function byBox(tree: Tree, messages: Record<string, string>): Map<string, string> {
  const found = new Map<string, string>();
  for (const [pointer, text] of Object.entries(messages)) {
    const box = pointerOf(boxAt(tree, pathOf(pointer)) ?? []), before = found.get(box);
    found.set(box, before ? `${before} ${text}` : text);
  }
  return found;
}

/** nameOf says what a box is in few words. */
function nameOf(tree: Tree, path: Path): string {
  const b = boxOf(tree, path);
  return b.named ? b.named.event || unfinishedName : groupName(b);
}

/** placeWords says where a box is: Step 2 of 3. */
function placeWords(tree: Tree, path: Path): string {
  const p = placeOf(tree, path);
  return p ? `${p.op === "then" ? "Step" : "Part"} ${p.index + 1} of ${p.size}` : path.length ? "Part" : "Step 1";
}
