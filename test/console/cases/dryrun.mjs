// Dry run and evaluate: what an expression would have done, and its value step by step.
export const name = "dryrun";

const hostile = "<img src=x onerror=alert(1)> فاتورة";

export async function run(t) {
  await seed(t);
  await all(t);
  await sampled(t);
  await cancel(t);
  await refused(t);
  await evaluate(t);
  await narrow(t);
}

const facts = t => t.page.locator("section.card").filter({ has: t.page.getByRole("heading", { name: "Result" }) }).locator("dd").allTextContents();

async function seed(t) {
  const lines = [];
  for (let i = 0; i < 900; i++) {
    lines.push({ event: "d_signup", entity_id: i ? `e${i}` : hostile }, { event: "d_login", entity_id: `only${i}` });
    if (i % 3 === 0) lines.push({ event: "d_used", entity_id: i ? `e${i}` : hostile });
  }
  const sent = await t.api("POST", "/event?topic-name=d-events", lines.map(l => JSON.stringify(l)).join("\n"), { "Content-Type": "application/x-ndjson" });
  t.equal(sent.status, 201, `events: ${sent.text}`);
  t.equal((await t.api("PUT", "/triggers/d-used", { expr: "d_signup THEN d_used", topic: "d-events", backfill: "none" })).status, 201, "a trigger");
}

const run_ = t => t.page.getByRole("button", { name: "Run", exact: true });

async function all(t) {
  const { page } = t;
  await t.open("#/triggers/d-used");
  await page.getByRole("link", { name: "Dry run" }).click();
  await run_(t).waitFor();
  t.equal(await page.getByLabel("Expression").inputValue(), "d_signup THEN d_used", "the expression of the trigger");
  await t.axe("before a dry run");
  await run_(t).focus();
  await page.keyboard.press("Enter");
  await page.getByText("300 firings for 300 entities").waitFor();
  const r = (await t.api("POST", "/triggers/dry-run", { expr: "d_signup THEN d_used", topic: "d-events" })).json;
  t.equal([r.firings, r.fired, r.entities, r.entities_seen], [300, 300, 900, 1800], "the result of the API");
  const shown = (await facts(t)).join(" | ");
  for (const text of ["900 with an event that matters, of 1,800 with any event", "1,200 that matter, of 2,100 read", "300 entities"]) t.ok(shown.includes(text), `not shown: ${text}, in ${shown}`);
  const samples = page.getByRole("table", { name: "Samples of firings" });
  t.equal(await samples.locator("tbody tr").count(), 20, "samples");
  t.equal(await samples.getByRole("link", { name: "explain" }).count() > 0 || await samples.getByRole("link", { name: /Explain/ }).count() > 0, true, "samples lead to the entity");
  t.ok(await page.getByRole("img", { name: /Firings on 1 day/ }).isVisible(), "the days");
  await page.getByText("As a table").click();
  t.equal(await page.getByRole("table", { name: "Firings by day" }).locator("tbody td").allTextContents(), [Object.keys(r.days)[0], "300"], "the days as a table");
  t.ok(page.url().includes("expr=d_signup"), "the expression is not in the address");
  await t.axe("a dry run");
  await t.picture("dry-run");
}

async function sampled(t) {
  const { page } = t;
  await page.getByLabel("Entities", { exact: true }).selectOption("16");
  await page.getByLabel("Firings before").fill("2099-01-01T00:00");
  await run_(t).click();
  await page.getByText("One of 16 entities was evaluated.").waitFor();
  const r = (await t.api("POST", "/triggers/dry-run?sample=16", { expr: "d_signup THEN d_used", topic: "d-events" })).json, e = r.estimate.firings;
  const shown = (await facts(t))[0];
  t.ok(shown.includes(`firings about ${e.value} (${e.low} to ${e.high})`), `the estimate: ${shown}, want ${JSON.stringify(e)}`);
  await page.getByText(`${r.firings} firings for ${r.fired} entities`).first().waitFor();
  await t.axe("a sampled dry run");
  await t.picture("dry-run-sample");
  // A range without firings.
  await page.getByLabel("Firings since").fill("2098-01-01T00:00");
  await run_(t).click();
  await page.getByText("About 0 firings for about 0 entities").waitFor();
  await t.axe("a dry run without firings");
}

/** cancel: while the answer is awaited the run can be stopped, and the broker is free at once. */
async function cancel(t) {
  const { page } = t;
  let go;
  const held = new Promise(done => { go = done; });
  await page.route("**/triggers/dry-run*", async route => { await held; await route.continue().catch(() => {}); });
  await run_(t).click();
  await page.getByText("Waiting for the broker").waitFor();
  await t.axe("a dry run that runs");
  await page.getByRole("button", { name: "Cancel" }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("and there is no result").waitFor();
  go();
  await page.unroute("**/triggers/dry-run*");
  await run_(t).click();
  await page.getByText("One of 16 entities was evaluated.").waitFor();
}

async function refused(t) {
  const { page } = t;
  t.allow(/400/);
  await page.getByLabel("Expression").fill("d_signup THEN (");
  await run_(t).click();
  await page.getByText(/^Line 1, column \d+$/).waitFor();
  await t.axe("a refused dry run");
}

async function evaluate(t) {
  const { page } = t;
  await t.open("#/evaluate");
  await page.getByRole("button", { name: "Evaluate" }).click();
  const steps = page.getByRole("table", { name: "The value at each event and deadline" });
  await steps.waitFor();
  t.equal(await steps.locator("tbody tr").evaluateAll(rows => rows.map(r => [...r.cells].slice(1).map(c => c.textContent))), [
    ["signup (event 0)", "begins it", "pending"], ["login (event 1)", "not in the expression", "pending"],
    ["a deadline passes", "makes it true: first_project did not come until 2026-03-08T12:00:00Z", "true"],
  ], "the steps of the example");
  await t.axe("evaluate");
  await t.picture("evaluate");

  await page.getByLabel("Events, a JSON object in each line").fill(`{"at":"2026-03-01T12:00:00Z","event":"signup","data":{"name":"${hostile}"}}\n{"at":"2026-03-02T12:00:00Z","event":"first_project"}`);
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.getByText("first_project (event 1)").waitFor();
  t.equal(await steps.locator("tbody tr:last-child td").nth(3).textContent(), "false", "the value after an event that must not come");
  // The address has all of it.
  const address = page.url();
  await t.open("#/overview");
  await page.goto(address);
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.getByText("first_project (event 1)").waitFor();
  await page.getByRole("link", { name: "Make this trigger" }).waitFor();

  await page.getByLabel("Events, a JSON object in each line").fill('{"event":"a"}\n{"event"');
  await page.getByRole("button", { name: "Evaluate" }).click();
  t.ok((await page.getByRole("alert").textContent()).includes("Events, line 2: not JSON"), "a line that is no JSON");
  t.allow(/400/);
  await page.getByLabel("Expression").fill("a THEN");
  await page.getByLabel("Events, a JSON object in each line").fill("");
  await page.getByRole("button", { name: "Evaluate" }).click();
  await page.getByText("Line 1, column 7").waitFor();
  await t.axe("an invalid evaluation");
}

async function narrow(t) {
  await t.page.setViewportSize({ width: 320, height: 700 });
  for (const hash of ["#/dry-run?trigger=d-used", "#/evaluate"]) {
    await t.open(hash);
    await t.page.getByLabel("Expression").waitFor();
    t.ok(await t.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} is wider than 320 px`);
  }
}
