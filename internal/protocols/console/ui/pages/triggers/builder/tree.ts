// The model of the builder: an expression in driplang's JSON form, and nothing else. Each edit is a
// function of a tree and the path of a box; it returns the new tree and the box to select.

import type { Exact } from "../../../lib/api";

/** Comparison compares a property or a count. */
export type Comparison = "=" | "!=" | "<" | "<=" | ">" | ">=";

/** Value is a constant in a filter. */
export type Value = string | number | bigint | Exact | boolean | null;

/** Filter is a condition on the data of an event. */
export type Filter = { property: string; is: Comparison; value: Value } | { and: Filter[] } | { or: Filter[] } | { not: Filter };

/** Named is an event. Without a name it is an unfinished box. */
export interface Named { event: string; where?: Filter }

/** Counted is a number of events. */
export interface Counted { count: Named; is: Comparison; n: number }

/** List is an operator with two or more operands. */
export type List = { and: Tree[] } | { or: Tree[] } | { then: Tree[] };

/** Tree is an expression. */
export type Tree = Named | Counted | List | { not: Tree } | { within: Tree; for: string } | { after: Tree; by: string };

/** Op is the key of a List. */
export type Op = "and" | "or" | "then";

/** Path has the keys and indexes that lead to a part of a tree. */
export type Path = readonly (string | number)[];

/** Edit is the result of an edit. */
export interface Edit { tree: Tree; select: Path }

/** hole is an unfinished box. */
export const hole: Named = { event: "" };

/** pointerOf returns the JSON Pointer of a path. */
export function pointerOf(path: Path): string { return path.map(k => "/" + String(k).replace(/~/g, "~0").replace(/\//g, "~1")).join(""); }

/** pathOf returns the path of a JSON Pointer. */
export function pathOf(pointer: string): Path {
  return pointer.split("/").slice(1).map(k => /^\d+$/.test(k) ? Number(k) : k.replace(/~1/g, "/").replace(/~0/g, "~"));
}

/** get returns the part of a tree at a path, or undefined. */
export function get(tree: unknown, path: Path): any { return path.reduce<any>((part, key) => part?.[key], tree); }

/** put returns a tree with another part at a path. */
export function put<T>(tree: T, path: Path, part: unknown): T {
  if (!path.length) return part as T;
  const [key, ...rest] = path, copy: any = Array.isArray(tree) ? [...tree] : { ...tree };
  copy[key!] = put(copy[key!], rest, part);
  return copy;
}

// splice changes elements of a list in a tree.
function splice(tree: Tree, list: Path, index: number, removed: number, ...added: Tree[]): Tree { return put(tree, list, get(tree, list).toSpliced(index, removed, ...added)); }

/** opOf returns the operator of a List, or undefined. */
export function opOf(tree: Tree): Op | undefined { return (["and", "or", "then"] as const).find(op => op in tree); }

/** Wrap is an operator with one operand. */
export type Wrap = { op: "not" } | { op: "within" | "after"; time: string };

/** View is a tree as wraps, the outermost first, around a core. */
export interface View { wraps: Wrap[]; core: Tree }

function wrapOf(tree: Tree): Wrap | undefined {
  return "not" in tree ? { op: "not" } : "within" in tree ? { op: "within", time: tree.for } : "after" in tree ? { op: "after", time: tree.by } : undefined;
}

/** view takes the wraps off a tree. With `box`, as many as one box shows: no operator twice. */
export function view(tree: Tree, box = false): View {
  const wraps: Wrap[] = [];
  for (let core = tree; ;) {
    const wrap = wrapOf(core);
    if (!wrap || box && wraps.some(w => w.op === wrap.op)) return { wraps, core };
    wraps.push(wrap);
    core = get(core, [wrap.op]);
  }
}

/** build is the reverse of view. */
export function build({ wraps, core }: View): Tree {
  return wraps.reduceRight<Tree>((x, w) => w.op === "not" ? { not: x } : w.op === "within" ? { within: x, for: w.time } : { after: x, by: w.time }, core);
}

/** Box is what one box shows: the wraps at a path, and the core that they are around. */
export interface Box extends View { path: Path; at: Path; absent: boolean; within?: string; after?: string; named?: Named; count?: Counted; op?: Op }

/** boxOf returns the box at a path. */
export function boxOf(tree: Tree, path: Path): Box {
  const { wraps, core } = view(get(tree, path), true), count = "count" in core ? core : undefined;
  const wrap = (op: string) => wraps.find(w => w.op === op) as { time: string } | undefined;
  return {
    wraps, core, path, at: [...path, ...wraps.map(w => w.op)], absent: !!wrap("not"), within: wrap("within")?.time, after: wrap("after")?.time,
    named: count ? count.count : "event" in core ? core : undefined, count, op: opOf(core),
  };
}

/** inner returns the paths of the boxes inside a box. */
export function inner(b: Box): Path[] {
  return b.op ? (get(b.core, [b.op]) as Tree[]).map((_, i) => [...b.at, b.op!, i]) : b.named ? [] : [b.at];
}

/** isFlow reports whether the tree is drawn as steps, without a box around them. */
export function isFlow(tree: Tree): tree is { then: Tree[] } { return "then" in tree; }

const begins = (path: Path, start: Path) => start.every((key, i) => key === path[i]);

/** boxAt returns the path of the box that shows the part at a path, or undefined if none does. */
export function boxAt(tree: Tree, path: Path): Path | undefined {
  for (let box = boxOf(tree, []); ;) {
    const next = inner(box).find(p => begins(path, p));
    if (!next) return box.path.length || !isFlow(tree) ? box.path : undefined;
    box = boxOf(tree, next);
  }
}

/** boxes returns the paths of all boxes in reading order. */
export function boxes(tree: Tree, path: Path = []): Path[] {
  return [...(path.length || !isFlow(tree) ? [path] : []), ...inner(boxOf(tree, path)).flatMap(p => boxes(tree, p))];
}

/** open reports whether a box is unfinished: without the name of an event, or of a property. */
export function open({ named }: Box): boolean { return !!named && (!named.event || !!named.where && nameless(named.where)); }

function nameless(f: Filter): boolean { return "property" in f ? !f.property : "not" in f ? nameless(f.not) : ("and" in f ? f.and : f.or).some(nameless); }

/** unfinished returns how many boxes are unfinished. */
export function unfinished(tree: Tree): number { return boxes(tree).filter(p => open(boxOf(tree, p))).length; }

/** Place is where a box is in a list. */
export interface Place { list: Path; op: Op; index: number; size: number }

/** placeOf returns the place of the part at a path; undefined: it is in no list. */
export function placeOf(tree: Tree, path: Path): Place | undefined {
  const index = path.at(-1), list = path.slice(0, -1);
  return typeof index === "number" ? { list, op: list.at(-1) as Op, index, size: get(tree, list).length } : undefined;
}

/** isGuard reports whether a box is an absence without an end before another step. It is on the arrow, since it has no instant. */
export function isGuard(tree: Tree, b: Box): boolean {
  const p = placeOf(tree, b.path);
  return p?.op === "then" && p.index < p.size - 1 && !b.within && !b.after && b.absent !== (b.count?.is[0] === "<") && !!(b.named ?? b.op);
}

// select returns an edit that selects the box at a path, or the nearest one.
function select(tree: Tree, path: Path): Edit { return { tree, select: boxAt(tree, path) ?? boxes(tree)[0]! }; }

/** insert adds a part next to a box: in its list, or else in a THEN. */
export function insert(tree: Tree, path: Path, side: "before" | "after", part: Tree = hole): Edit {
  const p = placeOf(tree, path), old = get(tree, path) as Tree, after = side === "after";
  if (!p && !isFlow(old)) return { tree: put(tree, path, { then: after ? [old, part] : [part, old] }), select: [...path, "then", after ? 1 : 0] };
  const list = p ? p.list : [...path, "then"], index = p ? p.index + (after ? 1 : 0) : after ? get(tree, list).length : 0;
  return { tree: splice(tree, list, index, 0, part), select: [...list, index] };
}

/** group makes a list of a box and an unfinished one. The time of the box becomes that of the list. */
export function group(tree: Tree, path: Path, op: Op): Edit {
  const { wraps, core, absent } = boxOf(tree, path), times = wraps.filter(w => w.op !== "not"), first = absent ? { not: core } : core;
  return { tree: put(tree, path, build({ wraps: times, core: { [op]: [first, hole] } as List })), select: [...path, ...times.map(w => w.op), op, 1] };
}

/** setOp changes the operator of a group. */
export function setOp(tree: Tree, path: Path, op: Op): Edit {
  const b = boxOf(tree, path);
  return select(put(tree, b.at, { [op]: get(b.core, [b.op!]) }), path);
}

/** replace puts another part in the place of a box. */
export function replace(tree: Tree, path: Path, part: Tree): Edit { return select(put(tree, path, part), path); }

/** negate adds a NOT around a part, or takes it off. */
export function negate(tree: Tree, path: Path): Edit {
  const old = get(tree, path) as Tree;
  return select(put(tree, path, "not" in old ? old.not : { not: old }), path);
}

function rewrap(tree: Tree, path: Path, change: (wraps: Wrap[]) => Wrap[]): Edit {
  const { wraps, core } = boxOf(tree, path);
  return select(put(tree, path, build({ wraps: change(wraps), core })), path);
}

/** setAbsent sets whether a box says that something does not happen. */
export function setAbsent(tree: Tree, path: Path, absent: boolean): Edit {
  return rewrap(tree, path, wraps => [...(absent ? [{ op: "not" } as Wrap] : []), ...wraps.filter(w => w.op !== "not")]);
}

/** setTime sets or clears a time of a box. A new one is where text without parentheses has it: NOT x AFTER 1h WITHIN 2h. */
export function setTime(tree: Tree, path: Path, op: "within" | "after", time?: string): Edit {
  return rewrap(tree, path, wraps => {
    if (time === undefined) return wraps.filter(w => w.op !== op);
    if (wraps.some(w => w.op === op)) return wraps.map(w => w.op === op ? { op, time } : w);
    return wraps.toSpliced(op === "after" ? wraps.length : wraps[0]?.op === "not" ? 1 : 0, 0, { op, time });
  });
}

/** setNamed changes the event of a box. */
export function setNamed(tree: Tree, path: Path, change: Partial<Named>): Edit {
  const b = boxOf(tree, path), { event, where } = { ...b.named!, ...change }, named: Named = where ? { event, where } : { event };
  return { tree: put(tree, b.at, b.count ? { ...b.count, count: named } : named), select: path };
}

/** setCount sets how often an event must happen; undefined: once. */
export function setCount(tree: Tree, path: Path, count?: { is: Comparison; n: number }): Edit {
  const b = boxOf(tree, path);
  return { tree: put(tree, b.at, count ? { count: b.named!, is: count.is, n: count.n } : b.named!), select: path };
}

// item returns the path of the element of a list that a path is in, or [].
function item(path: Path): Path { return path.slice(0, path.findLastIndex(key => typeof key === "number") + 1); }

/** remove deletes a box. A list of one becomes its element; the last box becomes an unfinished one. */
export function remove(tree: Tree, path: Path): Edit {
  const here = item(path), p = placeOf(tree, here);
  if (!p) return { tree: hole, select: [] };
  const host = p.list.slice(0, -1), next = splice(tree, p.list, p.index, 1);
  return p.size === 2 ? select(put(tree, host, get(next, [...p.list, 0])), host) : select(next, [...p.list, Math.max(0, p.index - 1)]);
}

/** duplicate adds a copy after a box. */
export function duplicate(tree: Tree, path: Path): Edit { return insert(tree, path, "after", get(tree, path)); }

/** Direction of a move: in a list, or into or out of a group. */
export type Direction = "left" | "right" | "in" | "out";

/** move moves a box; undefined: it cannot go there. */
export function move(tree: Tree, path: Path, to: Direction): Edit | undefined {
  const p = placeOf(tree, path);
  if (!p) return undefined;
  const part = get(tree, path) as Tree;
  if (to === "in") return moveIn(tree, path, p, part);
  if (to === "out") return p.op === "then" && p.list.length === 1 ? undefined : insert(remove(tree, path).tree, item(p.list.slice(0, -1)), "after", part);
  const index = p.index + (to === "left" ? -1 : 1);
  return index < 0 || index >= p.size ? undefined : { tree: splice(splice(tree, p.list, p.index, 1), p.list, index, 0, part), select: [...p.list, index] };
}

// moveIn moves a box into the group after it, or else before it.
function moveIn(tree: Tree, path: Path, p: Place, part: Tree): Edit | undefined {
  for (const index of [p.index + 1, p.index - 1]) {
    const b = index >= 0 && index < p.size ? boxOf(tree, [...p.list, index]) : undefined;
    if (!b?.op) continue;
    const list = [...b.at, b.op], after = index > p.index, end = after ? 0 : get(tree, list).length;
    // The group moves up in its list, or is all that is left of it.
    const group = p.size === 2 ? p.list.slice(0, -1) : [...p.list, after ? p.index : index];
    return { tree: remove(splice(tree, list, end, 0, part), path).tree, select: [...group, ...list.slice(p.list.length + 1), end] };
  }
  return undefined;
}

/** simplify takes off a double NOT, or a list that is in one of its kind; undefined: there is none at this box. */
export function simplify(tree: Tree, path: Path): Edit | undefined {
  const part = get(tree, path) as Tree, p = placeOf(tree, path);
  if ("not" in part && "not" in part.not) return select(put(tree, path, part.not.not), path);
  return p && p.op in part ? select(splice(tree, p.list, p.index, 1, ...get(part, [p.op])), path) : undefined;
}
