// The drawing: boxes, frames and the arrows between them, as buttons in nested lists.

import type { ComponentChildren } from "preact";
import { useId } from "preact/hooks";
import { Button } from "../../../lib/parts";
import { boxOf, inner, insert, isGuard, open, placeOf, pointerOf, setTime, type Box, type Edit, type Path, type Tree } from "./tree";
import { choose, groupName, happens, lines, timeWords, unfinishedName } from "./words";

/** Drawn is what every part of the drawing gets. faults and warnings are by the pointer of a box. */
export interface Drawn {
  tree: Tree; selected?: string; faults: Map<string, string>; warnings: Map<string, string>;
  /** choose selects a box, or gives the selection up if it is selected; with `field` the focus goes into its panel. */
  choose(path: Path, field?: "first" | "time"): void;
  /** add inserts an unfinished box; change does another edit and says what it was. */
  add(edit: Edit): void;
  change(edit: Edit, said: string): void;
}

// Where a box is: after an arrow, or itself on one.
type Where = "arrow" | "between" | "before" | "";

/** Steps draws boxes in an order, with an arrow before each but the first. children follow. */
export function Steps({ d, label, paths, children }: { d: Drawn; label: string; paths: Path[]; children?: ComponentChildren }) {
  return <ol class="steps" aria-label={label}>
    {paths.map((path, i) => {
      const b = boxOf(d.tree, path), guard = isGuard(d.tree, b), before = i > 0 && boxOf(d.tree, paths[i - 1]!);
      return <li key={i}>
        {before && <Arrow head={!guard} word={isGuard(d.tree, before) ? "" : "then"} onAdd={() => d.add(insert(d.tree, path, "before"))}
          time={guard ? "" : timeWords(b)} onTime={() => d.choose(path, "time")} />}
        <Part d={d} b={b} where={guard ? before ? "between" : "before" : before ? "arrow" : ""} />
      </li>;
    })}
    {children}
  </ol>;
}

/** Arrow leads to the next box, or with no head to an absence that is on it. The keyboard has other ways to what its buttons do. */
export function Arrow({ head = true, word, time, onAdd, onTime }: { head?: boolean; word?: string; time?: string; onAdd?: () => void; onTime?: () => void }) {
  return <div class={"arrow" + (head ? " head" : "")}>
    {word && <span class="word">{word}</span>}
    {onAdd && <Add what="a step here" onClick={onAdd} />}
    {time && <button type="button" class="time" tabIndex={-1} title={time} onClick={onTime}>{time}</button>}
  </div>;
}

function Add({ what, onClick }: { what: string; onClick: () => void }) {
  return <button type="button" class="add" tabIndex={-1} title={`Add ${what}`} onClick={onClick}>+<span class="unseen"> Add {what}</span></button>;
}

/** Part draws a box, or a frame with boxes, and its messages under it. */
function Part({ d, b, where = "" }: { d: Drawn; b: Box; where?: Where }) {
  const at = pointerOf(b.path), fault = d.faults.get(at), warning = d.warnings.get(at), id = useId(), guard = where === "between" || where === "before";
  const button = {
    type: "button" as const, "data-at": at, "aria-expanded": d.selected === at, "aria-invalid": fault ? true as const : undefined, "aria-describedby": fault || warning ? id : undefined,
    onClick: () => d.choose(b.path),
  };
  const is = { box: b.named, frame: !b.named, absent: b.absent, open: open(b), guard, selected: d.selected === at, faulty: fault }, name = Object.entries(is).flatMap(([c, on]) => on ? [c] : []).join(" ");
  const time = where === "arrow" ? "" : timeWords(b), clock = b.absent && b.within && <Clock />;
  return <div class="part">
    {b.named ? <button {...button} class={name} title={b.named.event || undefined}><Face b={b} where={where} time={time} />{clock}</button>
      : <div class={name}>
        <button {...button} class="name">{guard && b.op !== "then" ? <>with {groupName(b)} these {ends[where]}</> : <>{groupName(b)} {ends[where]}</>}{time && <span class="time">{time}</span>}{clock}</button>
        <Inside d={d} b={b} />
        {(b.op === "and" || b.op === "or") && <Add what="to this group" onClick={() => d.add(insert(d.tree, inner(b).at(-1)!, "after"))} />}
      </div>}
    {(fault || warning) && <div class={"said" + (fault ? " bad" : "")} id={id}>{fault ?? warning}{!fault && <Repair d={d} b={b} />}</div>}
  </div>;
}

const ends = { before: "before", between: "in between", arrow: "", "": "" };

/** Face is the text of a box. */
function Face({ b, where, time }: { b: Box; where: Where; time: string }) {
  const name = <bdi class="event">{b.named!.event || unfinishedName}</bdi>, what = lines(b.named!.where).map((l, i) => <span class="where" key={i} title={l}>{l !== choose && (i ? "and " : "whose ")}<bdi>{l}</bdi></span>);
  if (ends[where]) return <><span>with {b.count ? "" : "no "}</span>{name}{what}<span>{b.count ? happens({ ...b, absent: false }).replace("happens", b.absent ? "not" : "") : ""} {ends[where]}</span></>;
  return <>{name}{what}<span class="how">{happens(b)}</span>{time && <span class="time">{time}</span>}{open(b) && b.named!.event && <span class="how">not finished</span>}</>;
}

// Inside draws what a frame has in it.
function Inside({ d, b }: { d: Drawn; b: Box }) {
  const paths = inner(b);
  if (b.op === "then") return <Steps d={d} label={groupName(b)} paths={paths} />;
  return <ul class="lanes" aria-label={groupName(b)}>
    {paths.map((path, i) => <li key={i}><Part d={d} b={boxOf(d.tree, path)} /></li>)}
  </ul>;
}

// Clock marks an absence that becomes true at an instant.
function Clock() {
  return <svg class="clock" viewBox="0 0 16 16" width="14" height="14" aria-hidden="true"><circle cx="8" cy="8" r="6.5" /><path d="M8 4.5V8l2.5 1.5" /></svg>;
}

/** Repair offers a time for an absence at the end, which is true at once without one. */
function Repair({ d, b }: { d: Drawn; b: Box }) {
  const p = placeOf(d.tree, b.path);
  if (!b.absent || b.within || p?.op !== "then" || p.index !== p.size - 1) return null;
  return <Button onClick={() => d.change(setTime(d.tree, b.path, "within", "7 days"), "Now for 7 days")}>Make it “for 7 days”</Button>;
}
