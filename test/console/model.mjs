// Checks the model of the trigger builder, without a browser: node model.mjs BUNDLE SCHEMA SEED TREES.
// BUNDLE exports the model, SCHEMA is driplang's JSON Schema. Prints each fault; the exit code is 1 after one.

import { readFileSync } from "node:fs";
import { isDeepStrictEqual } from "node:util";

const [bundle, schemaFile, seed, trees] = process.argv.slice(2);
globalThis.document = { baseURI: "http://localhost/console/" };
const m = await import(bundle);
const schema = JSON.parse(readFileSync(schemaFile, "utf8"));

let faults = 0;
function check(good, what, ...values) {
  if (good) return;
  console.log(what, ...values.map(v => JSON.stringify(v)));
  if (++faults === 10) process.exit(1);
}
const equal = (got, want, what) => check(isDeepStrictEqual(got, want), what, "got", got, "want", want);

// A generator of random numbers that a seed starts: mulberry32.
let state = 0;
function random() {
  state = (state + 0x6D2B79F5) | 0;
  let t = Math.imul(state ^ (state >>> 15), 1 | state);
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
  return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
}
const below = n => Math.floor(random() * n), pick = list => list[below(list.length)];
const is = () => pick(["=", "!=", "<", "<=", ">", ">="]), time = () => pick(["7d", "1d12h", "2 weeks", "1.5h"]);

function frozen(x) {
  if (x && typeof x === "object" && !Object.isFrozen(x)) Object.values(Object.freeze(x)).forEach(frozen);
  return x;
}

function filter(depth) {
  const kind = depth ? below(5) : 0, list = () => Array.from({ length: 2 + below(2) }, () => filter(depth - 1));
  return kind === 1 ? { and: list() } : kind === 2 ? { or: list() } : kind === 3 ? { not: filter(depth - 1) }
    : { property: pick(["a", "user.plan", 'x."y z"']), is: is(), value: pick(["free", 3, -0.5, true, null, ""]) };
}

function named() { return { event: pick(["a", "b", "c d", "é/~0"]), ...(below(3) ? {} : { where: filter(2) }) }; }

function tree(depth) {
  const kind = depth ? below(9) : below(2), list = () => Array.from({ length: 2 + below(3) }, () => tree(depth - 1)), one = () => tree(depth - 1);
  return [named, () => ({ count: named(), is: is(), n: below(1001) }), () => ({ not: one() }), () => ({ within: one(), for: time() }), () => ({ after: one(), by: time() }),
    () => ({ and: list() }), () => ({ or: list() }), () => ({ then: list() }), () => ({ not: one() })][kind]();
}

// valid checks a value against the parts of JSON Schema that the schema of driplang uses.
function valid(value, s) {
  if (s.$ref) return valid(value, s.$ref.split("/").slice(1).reduce((x, k) => x[k], schema));
  if (s.oneOf && s.oneOf.filter(k => valid(value, k)).length !== 1) return false;
  if (s.enum && !s.enum.includes(value)) return false;
  const type = value === null ? "null" : Array.isArray(value) ? "array" : Number.isInteger(value) ? "integer" : typeof value;
  if (s.type && ![s.type].flat().some(t => t === type || t === "number" && type === "integer")) return false;
  if (type === "string") return value.length >= (s.minLength ?? 0) && value.length <= (s.maxLength ?? Infinity) && (!s.pattern || new RegExp(s.pattern).test(value));
  if (type === "integer" || type === "number") return value >= (s.minimum ?? -Infinity) && value <= (s.maximum ?? Infinity);
  if (type === "array") return value.length >= (s.minItems ?? 0) && value.every(v => valid(v, s.items));
  if (type !== "object") return true;
  return (s.required ?? []).every(k => k in value) && Object.entries(value).every(([k, v]) => s.properties?.[k] ? valid(v, s.properties[k]) : s.additionalProperties !== false);
}

// full gives the unfinished boxes a name, since the schema has no unfinished ones.
const full = t => JSON.parse(JSON.stringify(t).replaceAll('"event":""', '"event":"x"'));

/** nodes returns the paths of all operators and events. */
function nodes(t, path = []) {
  const inside = Object.entries(t).filter(([k]) => ["not", "within", "after", "and", "or", "then"].includes(k))
    .flatMap(([k, v]) => Array.isArray(v) ? v.flatMap((x, i) => nodes(x, [...path, k, i])) : nodes(v, [...path, k]));
  return [path, ...inside];
}

/** bijection: a view is all of a tree, and each part of a tree is shown by one box. */
function bijection(t) {
  equal(m.build(m.view(t)), t, "build(view(tree))");
  const all = m.boxes(t), shown = new Set(all.map(m.pointerOf));
  check(shown.size === all.length, "a box twice", t);
  for (const path of all) {
    const b = m.boxOf(t, path);
    equal(m.build(b), m.get(t, path), "build(boxOf(tree, path))");
    equal(m.get(t, b.at), b.core, "the core of a box");
    equal(m.boxAt(t, path), path, "boxAt(a box)");
    equal(m.pathOf(m.pointerOf(path)), path, "pathOf(pointerOf(path))");
  }
  for (const path of nodes(t)) {
    const at = m.boxAt(t, path);
    if (at === undefined) equal([path, "then" in t], [[], true], "a part that no box shows");
    else check(shown.has(m.pointerOf(at)) && at.every((k, i) => k === path[i]), "the box of a part", t, path, at);
  }
  equal(m.unfinished(t), 0, "unfinished boxes");
}

const edits = [
  (t, p) => m.insert(t, p, "before"), (t, p) => m.insert(t, p, "after", tree(1)), (t, p) => m.group(t, p, pick(["and", "or", "then"])), (t, p) => m.replace(t, p, tree(2)),
  (t, p) => m.negate(t, p), (t, p) => m.setAbsent(t, p, below(2) === 1), (t, p) => m.setTime(t, p, pick(["within", "after"]), below(3) ? time() : undefined),
  (t, p) => m.boxOf(t, p).op && m.setOp(t, p, pick(["and", "or", "then"])), (t, p) => m.boxOf(t, p).named && m.setNamed(t, p, pick([{ event: "z" }, { event: "" }, { where: filter(1) }, { where: undefined }])),
  (t, p) => m.boxOf(t, p).named && m.setCount(t, p, below(3) ? { is: is(), n: below(1001) } : undefined), (t, p) => m.duplicate(t, p),
  ...["left", "right", "in", "out"].map(to => (t, p) => m.move(t, p, to)), (t, p) => m.simplify(t, p), (t, p) => m.remove(t, p), (t, p) => m.remove(t, p), (t, p) => m.remove(t, p),
];

const count = t => nodes(t).filter(p => "event" in m.get(t, p) || "count" in m.get(t, p)).length;

/** edited does random edits, and then as many undos and redos. */
function edited() {
  const trees = [frozen(below(4) ? tree(3) : m.hole)];
  let history = { entries: [{ tree: trees[0], text: "start" }], at: 0 };
  while (trees.length < 50) {
    const t = trees.at(-1), path = pick(m.boxes(t)), edit = count(t) > 30 ? m.remove : pick(edits), e = edit(t, path);
    if (!e) continue;
    frozen(e.tree);
    check(valid(full(e.tree), schema), `after ${edit}: no expression`, t, path, e);
    check(m.boxes(e.tree).some(p => isDeepStrictEqual(p, e.select)), `after ${edit}: selects no box`, t, path, e);
    if (/\.move|duplicate/.test(edit)) equal(count(e.tree), count(t) + (/dup/.test(edit) ? count(m.get(t, path)) : 0), `${edit} of ${JSON.stringify(t)} at ${path}: events`);
    if (/\.move/.test(edit)) equal(m.get(e.tree, e.select), m.get(t, path), `${edit} of ${JSON.stringify(t)} at ${path}: what is selected`);
    trees.push(e.tree);
    history = m.push(history, { tree: e.tree });
  }
  for (let i = trees.length - 1; i >= 0; i--) {
    check(history.entries[history.at].tree === trees[i], `after ${trees.length - 1 - i} undos`, trees);
    history = m.step(history, -1) ?? (equal(i, 0, "undos"), history);
  }
  for (const t of trees.slice(1)) {
    history = m.step(history, 1);
    check(history.entries[history.at].tree === t, "after a redo", trees);
  }
  check(!m.step(history, 1), "a redo too many");
  for (let t = trees.at(-1); ;) {
    const e = m.remove(t, pick(m.boxes(t)));
    if (isDeepStrictEqual(t, m.hole)) break;
    check(count(e.tree) < count(t) || isDeepStrictEqual(e.tree, m.hole), "a box is deleted", t, e);
    t = e.tree;
  }
}

/** reach makes a tree by edits of an unfinished box. */
function reach(want) {
  let t = m.hole;
  const make = (part, p) => {
    if ("not" in part) t = m.negate(t, p).tree;
    else if ("within" in part) t = m.setTime(t, p, "within", part.for).tree;
    else if ("after" in part) t = m.setTime(t, p, "after", part.by).tree;
    else {
      const op = m.opOf(part), event = part.count ?? part;
      if (op) {
        t = m.group(t, p, op).tree;
        for (let i = 2; i < part[op].length; i++) t = m.insert(t, [...p, op, i - 1], "after").tree;
        part[op].forEach((k, i) => make(k, [...p, op, i]));
        return;
      }
      t = m.setNamed(t, p, event).tree;
      if (part.count) t = m.setCount(t, p, part).tree;
      return;
    }
    const key = Object.keys(part)[0];
    make(part[key], [...p, key]);
  };
  make(want, []);
  equal(t, want, "made by edits");
}

/** entries: typing in a field is one entry, and the history has bounds. */
function entries() {
  const at = (h, ...want) => equal([h.at, ...h.entries.map(e => e.tree.event)], want, "the entries");
  let h = { entries: [{ tree: { event: "" } }], at: 0 };
  for (const event of ["a", "ab", "abc"]) h = m.push(h, { tree: { event }, merge: "x" });
  at(h, 1, "", "abc");
  h = m.push(h, { tree: { event: "d" }, merge: "y" });
  at(h, 2, "", "abc", "d");
  h = m.push(m.step(h, -1), { tree: { event: "abcd" }, merge: "x" });
  at(h, 2, "", "abc", "abcd");
  h = m.push(m.step(m.step(h, -1), 1), { tree: { event: "e" }, merge: "x" });
  at(h, 3, "", "abc", "abcd", "e");
  for (let i = 0; i < 300; i++) h = m.push(h, { tree: { event: String(i) } });
  equal([h.entries.length, h.at, h.entries[0].tree.event, h.entries[199].tree.event], [200, 199, "100", "299"], "300 entries");
  for (let i = 0; i < 40; i++) h = m.push(h, { tree: { event: "w".repeat(100_000) } });
  const size = h.entries.reduce((n, e) => n + JSON.stringify(e).length, 0);
  check(size <= 1 << 20 && size > 900_000 && h.at === h.entries.length - 1, "large entries", size, h.at, h.entries.length);
  h = m.push(h, { tree: { event: "w".repeat(2_000_000) } });
  equal([h.entries.length, h.at], [1, 0], "an entry that is too large");
}

entries();
for (let i = 0; i < Number(trees); i++) {
  state = Number(seed) + i;
  const t = frozen(tree(1 + below(5)));
  check(valid(t, schema), "the test's own tree", t);
  bijection(t);
  if (i % 4 === 0) reach(t);
}
for (let i = 0; i < 200; i++) {
  state = Number(seed) + i;
  edited();
}
process.exit(faults ? 1 : 0);
