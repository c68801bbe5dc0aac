// Random edits with the builder's own controls: undo leads back to the start, redo to the end, a reload loses nothing, and
// the text is always that of the boxes. CONSOLE_SEEDS=200 for more seeds, CONSOLE_SEED=7 for one of them.
import { readFileSync } from "node:fs";
import { blank, boxes, button, drawn, kept, panel, parse } from "../builder.mjs";

export const name = "builder-edits";

const { CONSOLE_SEED, CONSOLE_SEEDS } = process.env;
const { cases } = JSON.parse(readFileSync(new URL("../../driplangtest/cases.json", import.meta.url), "utf8"));
const starts = [...new Set(cases.filter(c => !c.error).map(c => c.expr))];

let state = 0;
const below = n => { state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x6d2b79f5 | 0; return ((state ^ (state >>> 12)) >>> 0) % n; };
const pick = list => list[below(list.length)];

export async function run(t) {
  t.allow(/400|404/); // an edit may give an expression that is not valid
  const first = Number(CONSOLE_SEED ?? 1), last = CONSOLE_SEED ? first : Number(CONSOLE_SEEDS ?? 3);
  const seen = { edits: 0, valid: 0, invalid: 0, unfinished: 0 };
  for (let seed = first; seed <= last; seed++) {
    state = Math.imul(seed, 0x9e3779b9);
    await one(t, seen).catch(e => { throw new Error(`again: CONSOLE_SEED=${seed} go run ./test/cmd/console -only ${name}: ${e.message}`, { cause: e }); });
  }
  if (!CONSOLE_SEED) t.ok(seen.valid > seen.edits / 4, `few edits give an expression: ${JSON.stringify(seen)}`);
  console.log(`seeds ${first} to ${last}: ${JSON.stringify(seen)}`);
}

async function one(t, seen) {
  const { page } = t;
  if (below(2)) {
    await blank(t, "&text=yes&expr=" + encodeURIComponent(pick(starts)));
    await t.until(async () => (await kept(t))?.at === 1, "the expression of the address");
  } else {
    await blank(t);
    await page.getByRole("listitem").getByRole("button").nth(below(6)).click();
    await page.getByText("As text").click();
  }
  const begin = await settled(t), states = [];
  states[begin.at] = begin;
  for (let n = 10 + below(11), did; n > 0; n--) {
    try {
      did = await edit(t);
      const now = await settled(t);
      states.length = now.at + 1;
      states[now.at] = now;
      seen.edits++, seen[now.kind]++;
    } catch (e) {
      throw new Error(`${did ?? "an edit"} of ${JSON.stringify(states.at(-1)?.tree)}: ${e.message}`, { cause: e });
    }
  }
  const same = async (i, what) => {
    const now = await settled(t);
    const view = s => JSON.stringify([s.at, s.tree, s.shown]);
    if (view(now) !== view(states[i])) throw new Error(`${what}: got ${view(now)}, want ${view(states[i])}`);
  };
  const end = states.length - 1, reload = begin.at + below(end - begin.at + 1);
  for (let i = end; i >= begin.at; i--) {
    await same(i, `after ${end - i} undos`);
    if (i === reload) {
      await page.reload();
      await boxes(t).first().waitFor();
      await same(i, "after a reload");
    }
    if (i > begin.at) await step(t, "Undo", "Control+z");
  }
  for (let i = begin.at + 1; i <= end; i++) {
    await step(t, "Redo", pick(["Control+y", "Control+Shift+z"]));
    await same(i, `after ${i - begin.at} redos`);
  }
  t.equal(await button(t, "Redo").isDisabled(), true, "a redo too many");
}

async function step(t, name, keys) {
  if (below(2)) return button(t, name).click();
  await boxes(t).first().focus();
  await t.page.keyboard.press(keys);
}

/** settled waits for the broker's answer about the present tree, and compares the text with it. */
async function settled(t) {
  await drawn(t);
  let now = await kept(t);
  const open = JSON.stringify(now.tree).match(/"(event|property)":""/);
  if (open) return { ...now, kind: "unfinished" };
  const asked = await parse(t, now.tree), valid = asked.status === 200;
  now = await t.until(async () => {
    const k = await kept(t);
    if (JSON.stringify(k.tree) !== JSON.stringify(now.tree)) throw new Error("the tree changes by itself");
    return valid ? k.text !== undefined && k.shown === k.text && k : await t.page.locator(".said.bad, section [role=alert], .panel [aria-invalid=true]").count() > 0 && k;
  }, valid ? `the text of ${JSON.stringify(now.tree)}` : `a fault of ${JSON.stringify(now.tree)}: ${asked.text}`);
  if (!valid) return { ...now, kind: "invalid" };
  const read = await parse(t, now.text.trim().startsWith("{") ? JSON.parse(now.text) : now.text);
  // The broker has one notation of durations.
  if (JSON.stringify(read.json?.expr) !== JSON.stringify(asked.json.expr)) throw new Error(`the text ${now.text} is ${JSON.stringify(read.json)}, want ${JSON.stringify(asked.json.expr)}`);
  return { ...now, kind: "valid" };
}

const values = {
  Event: ["signup", "use_x", "<img src=x onerror=alert(1)>", "فاتورة", "and", 'a "b"', "a/~b", ""], Property: ["plan", "user.age", 'odd "name"', ""], "Not: property": ["plan"],
  Value: ["pro", "3", "-0.5", "12345678901234567890", "true"], Times: ["0", "1", "5", "1000"], other: ["2", "3", "1.5", "10"],
};

/** edit does one thing, and returns what it was. Unfinished boxes are mostly finished first. */
async function edit(t) {
  const { page } = t, n = await boxes(t).count(), box = boxes(t).nth(below(n)), open = page.locator(".drawing").getByRole("button", { name: /choose an event|not finished/ });
  if (n > 10) return press(t, box, "Delete");
  if (await open.count() && below(4)) return finish(t, open.first());
  const kind = below(10);
  if (kind < 3) return press(t, box, pick(["+", "Delete", "Backspace", "Control+ArrowLeft", "Control+ArrowRight", "Control+Shift+ArrowRight", "Control+Shift+ArrowLeft"]));
  if (kind === 3) {
    const adds = page.locator(".drawing").getByRole("button", { name: /Add (a step here|to this group)/ });
    await adds.nth(below(await adds.count())).click();
    return "an arrow's button";
  }
  await press(t, box, "Enter"); // selects it: the focus is in its panel
  const fields = panel(t).locator("input"), lists = panel(t).locator("select"), buttons = panel(t).getByRole("button"), inputs = await fields.count();
  if (kind < 6 && inputs) return fill(fields.nth(below(inputs)));
  if (kind < 8) {
    const list = lists.nth(below(await lists.count())), index = below(await list.locator("option").count());
    await list.selectOption({ index });
    return `option ${index} of a list`;
  }
  const one = buttons.nth(below(await buttons.count())), label = await one.textContent();
  await one.click();
  return label;
}

/** finish fills what a box still needs. */
async function finish(t, box) {
  await press(t, box, "Enter");
  return fill(panel(t).getByRole("combobox", { name: /^(Event|Property|Not: property)$/ }).and(t.page.locator("input:placeholder-shown")).first(), true);
}

async function fill(field, full) {
  const label = await field.evaluate(e => e.labels[0].textContent), value = pick((values[label] ?? values.other).filter(v => v || !full));
  await field.fill(value);
  return `${label}: ${value}`;
}

async function press(t, box, key) {
  await box.focus();
  await t.page.keyboard.press(key);
  return key;
}
