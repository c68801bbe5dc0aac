// Every expression of test/driplangtest/cases.json in the builder: drawn without a fault, and stored as it was. What is not
// valid, or what triggers refuse, is shown as such.
import { readFileSync } from "node:fs";
import { blank, boxes, button, kept, panel, parse } from "../builder.mjs";

export const name = "builder-expressions";

const { cases } = JSON.parse(readFileSync(new URL("../../driplangtest/cases.json", import.meta.url), "utf8"));
const all = [...new Set(cases.map(c => c.expr))];

export async function run(t) {
  t.allow(/400|404/);
  const seen = { stored: 0, refused: 0, invalid: 0 };
  for (const [i, expr] of all.entries()) {
    const parsed = await parse(t, expr);
    if (parsed.status !== 200) {
      await invalid(t, expr, parsed.json);
      seen.invalid++;
      continue;
    }
    // Blanks that a printer would not write show whether the text stays.
    const text = `  ${expr.replace(/ (AND|OR|THEN) /g, "  $1  ")} `, put = await t.api("PUT", `/triggers/x-${i}`, { expr: text, topic: "x-events", status: "paused" });
    if (put.status < 300) await stored(t, `x-${i}`, text, parsed.json);
    else await refused(t, expr, put.json, parsed.json);
    seen[put.status < 300 ? "stored" : "refused"]++;
  }
  for (const [what, n] of Object.entries(seen)) t.ok(n > 1, `${n} expressions are ${what}`);
  await numbers(t);
}

/** numbers edits a trigger with numbers that JavaScript rounds: an edit beside them keeps them. */
async function numbers(t) {
  const where = "[id = 12345678901234567890 AND ratio = 0.30000000000000000001 AND huge < 1e+400 AND n = 5]", { page } = t;
  await t.api("PUT", "/triggers/x-numbers", { expr: "a" + where, topic: "x-events", status: "paused" });
  await t.open("#/triggers/x-numbers?edit=yes");
  await boxes(t).first().focus();
  await page.keyboard.press("Enter");
  await panel(t).getByRole("combobox", { name: "Event" }).fill("b");
  await panel(t).getByLabel("Value").nth(3).fill("6.00000000000000000001");
  await t.picture("builder-numbers");
  await button(t, "Save as draft").click();
  await page.getByText(/^Stored as a draft/).waitFor();
  t.equal((await t.api("GET", "/triggers/x-numbers")).json.text, "b" + where.replace("= 5", "= 6.00000000000000000001"), "the numbers after an edit");
}

/** shown checks that the drawing has the whole expression, and no fault. */
async function shown(t, expr, parsed) {
  const state = await t.until(async () => { const k = await kept(t); return JSON.stringify(k?.tree) === JSON.stringify(parsed.expr) && k; }, `the boxes of ${expr}`);
  const names = await t.page.locator(".drawing .event:not(.end .event)").allTextContents();
  t.equal([...new Set(names)].sort(), parsed.names.toSorted(), `the events that are drawn of ${expr}`);
  await t.page.getByRole("region", { name: "In words" }).getByText(parsed.sentence, { exact: true }).waitFor();
  t.equal(await t.page.locator(".said.bad, .faulty").count(), 0, `faults in the drawing of ${expr}`);
  return state;
}

async function stored(t, id, text, parsed) {
  await t.open("#/triggers");
  await t.open(`#/triggers/${id}?edit=yes&text=yes`);
  await boxes(t).first().waitFor();
  t.equal((await shown(t, text, parsed)).shown, text, "the text as it is stored");
  const sent = t.page.waitForRequest(r => r.method() === "PUT" && r.url().endsWith(`/triggers/${id}`));
  await button(t, "Save as draft").click();
  t.equal((await sent).postDataJSON().expr, text, "the text that is sent");
  await t.page.getByText(/^Stored as a draft/).waitFor();
  t.equal((await t.api("GET", `/triggers/${id}`)).json.text, text, "the text that is stored then");
}

async function refused(t, expr, problem, parsed) {
  await blank(t, "&text=yes&expr=" + encodeURIComponent(expr));
  await shown(t, expr, parsed);
  await t.page.getByLabel("ID", { exact: true }).fill("x-refused");
  await t.page.getByText("It cannot be saved yet:").filter({ hasText: (problem.message ?? problem.detail).replace(/^expr: /, "") }).waitFor();
  await t.until(() => button(t, "Save as draft").isDisabled(), `the button waits for ${expr}`);
  t.equal((await t.api("GET", "/triggers/x-refused")).status, 404, "a trigger that is refused");
}

async function invalid(t, expr, problem) {
  await blank(t, "&text=yes&expr=" + encodeURIComponent(expr));
  t.ok(problem.line > 0 && problem.column > 0, `the error of ${expr} has no place: ${JSON.stringify(problem)}`);
  await t.page.getByText(`Line ${problem.line}, column ${problem.column}:`).waitFor();
}
