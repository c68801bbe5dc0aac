// Triggers: the list, one trigger, the editor with errors at their place, and the state of an entity.
export const name = "triggers";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const hostile = "<img src=x onerror=alert(1)> فاتورة";

export async function run(t) {
  await make(t);
  await refused(t);
  await change(t);
  await list(t);
  await entity(t);
  await pause(t);
  await remove(t);
  await viewer(t);
  await narrow(t);
}

const get = async (t, path) => (await t.api("GET", path)).json;

/** make makes a trigger with the keyboard alone. */
async function make(t) {
  const { page } = t;
  t.allow(/404/); // the default topic of events, if it does not exist yet
  t.equal((await t.api("POST", "/event?topic-name=t-events", { event: "t_signup", entity_id: "u0" })).status, 201, "an event");
  // The engine knows the names of events once a trigger follows the topic.
  const warnings = await t.until(async () => {
    const all = (await t.api("PUT", "/triggers/t-first", { expr: "t_signup THEN (NOT t_used WITHIN 7 days)", topic: "t-events" })).json.warnings;
    return all.length > 0 && all;
  }, "a warning about an unknown name");
  await t.open("#/triggers");
  await page.getByRole("link", { name: "New trigger" }).focus();
  await page.keyboard.press("Enter");
  await t.axe("templates");
  await page.getByRole("button", { name: "write it as text" }).press("Enter");
  const expr = page.getByLabel("Expression");
  await t.until(() => expr.evaluate(e => e === document.activeElement), "the focus is in the text");
  await page.keyboard.type("t_signup THEN (NOT t_used WITHIN 7 days)");
  await page.getByText("7 days after t_signup, unless t_used happens in that time.").waitFor();
  await page.getByLabel("ID", { exact: true }).fill("t-no-x");
  await page.getByLabel("Topic of the events").fill("t-events");
  await page.getByLabel("Send to").selectOption("url");
  await page.getByLabel("URL").fill("https://mail.example.com/hook");
  await page.getByLabel("Secrets, one a line").fill(secret);
  await page.getByText("More settings", { exact: true }).press("Enter");
  await page.getByLabel("Headers, one a line").fill("Authorization: Bearer hidden-value");
  await page.getByLabel("More settings, as JSON").fill('{"retries": ["5s"]}');
  await t.axe("a new trigger");
  await t.picture("trigger-edit");
  await page.getByRole("button", { name: "Start", exact: true }).press("Enter");
  await page.getByRole("dialog").getByText("0 entities qualify already.").waitFor();
  await t.axe("the start of a trigger");
  await page.getByRole("dialog").getByRole("button", { name: "Start" }).press("Enter");
  await page.getByText("Started: version 1.").waitFor();
  for (const w of warnings) t.ok(await page.getByText(w).isVisible(), `not shown: ${w}`);
  await t.axe("a stored trigger");
  const got = await get(t, "/triggers/t-no-x");
  t.equal([got.text, got.topic, got.fire, got.deliver.retries], ["t_signup THEN (NOT t_used WITHIN 7 days)", "t-events", "once", ["5s"]], "the stored trigger");
  // The same page changes it further.
  await page.getByLabel("Fires", { exact: true }).selectOption("edge");
  await page.getByLabel("Cooldown").fill("2d");
  await save(t, 2);
  t.equal((await get(t, "/triggers/t-no-x")).cooldown, "2d", "the cooldown");
}

/** save saves a trigger that exists and sees its version. */
async function save({ page }, version) {
  await page.getByRole("button", { name: "Save", exact: true }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Save" }).click();
  await page.getByText(`Stored: version ${version}.`).waitFor();
}

/** refused: errors are the broker's, at their line and column. */
async function refused(t) {
  const { page } = t, draft = page.getByRole("button", { name: "Save as draft" });
  t.allow(/40[04]|412/);
  await t.open("#/triggers?edit=yes&expr=a%0ATHEN");
  await page.getByText(/^Line 2, column 5: .*found end of expression/).waitFor();
  await page.getByLabel("ID", { exact: true }).fill("t-bad");
  const expr = page.getByLabel("Expression");
  await page.getByText("It cannot be saved yet:").filter({ hasText: "The expression has an error." }).waitFor();
  t.equal([await draft.isDisabled(), await expr.getAttribute("aria-invalid")], [true, "true"], "a draft with an error");
  await t.axe("an invalid expression");
  await t.picture("trigger-error");
  await expr.fill('{"and": [{"event": "a"}, {"or": 1}]}');
  await page.getByText(/^At \/and\/1\/or of the JSON form/).waitFor();
  await expr.fill('{"and": ');
  await page.getByText(/not JSON/).waitFor();
  await expr.fill("a");
  await page.getByLabel("Send to").selectOption("url");
  await page.getByLabel("URL").fill("ftp://x");
  await page.getByLabel("Secrets, one a line").fill("whsec_***");
  const words = (await t.api("PUT", "/triggers/t-bad", { expr: "a", deliver: { url: "ftp://x", secrets: ["whsec_***"] } })).json.detail;
  for (const fault of words.replace(/^deliver: /, "").split("; ")) await page.locator("small").getByText(fault.replace(/^\w+: /, ""), { exact: true }).waitFor();
  await t.until(() => draft.isDisabled(), "the button waits for the delivery");
  t.equal(await page.getByLabel("URL").getAttribute("aria-invalid"), "true", "the URL is marked");
  t.equal((await t.api("GET", "/triggers/t-bad")).status, 404, "a refused trigger");
  // A new trigger replaces none.
  await page.getByLabel("Send to").selectOption("");
  await page.getByLabel("ID", { exact: true }).fill("t-no-x");
  await page.locator("small").getByText('there is a trigger "t-no-x" already, version 2').waitFor();
  await t.until(() => draft.isDisabled(), "the button waits for another ID");
  t.equal((await get(t, "/triggers/t-no-x")).version, 2, "the version of a trigger that a new one would have replaced");
}

/** change: an existing trigger fills the form, without its secrets. */
async function change(t) {
  const { page } = t;
  await t.open("#/triggers/t-no-x");
  await page.getByText("to https://mail.example.com/hook").waitFor();
  await page.getByText("All settings of the delivery").click();
  await page.getByRole("region", { name: "Delivery", exact: true }).last().waitFor();
  t.ok(!(await page.content()).includes(secret) && !(await page.content()).includes("hidden-value"), "a secret is shown");
  await t.axe("one trigger");
  await page.getByRole("link", { name: "Edit" }).click();
  // The delivery stays with its secrets.
  await page.getByText("As text").click();
  await page.getByLabel("Expression").fill("t_signup THEN t_used");
  await save(t, 3);
  t.equal((await get(t, "/triggers/t-no-x")).deliver, { url: "https://mail.example.com/hook", headers: { Authorization: "***" }, secrets: ["whsec_***"], retries: ["5s"] }, "the kept delivery");
  await page.getByLabel("Expression").fill("t_signup THEN (NOT t_used WITHIN 7 days)");
  await page.getByLabel("Send to").selectOption("url");
  t.equal(await page.getByLabel("URL").inputValue(), "https://mail.example.com/hook", "the URL in the form");
  t.equal(await page.getByLabel("Secrets, one a line").inputValue(), "", "the secrets in the form");
  await page.getByLabel("Send to").selectOption("topic");
  await page.getByLabel("Topic of the messages").fill("t-mails");
  await page.getByLabel("Waits between attempts").fill("none");
  await save(t, 4);
  t.equal((await get(t, "/triggers/t-no-x")).deliver, { topic: "t-mails", retries: [] }, "the delivery");
  await t.open("#/triggers");
  await t.open("#/triggers/t-no-x?edit=yes");
  await page.getByLabel("Send to").selectOption("topic");
  t.equal(await page.getByLabel("Waits between attempts").inputValue(), "none", "a single attempt is not the default");
}

async function list(t) {
  const { page } = t;
  t.equal((await t.api("PUT", "/triggers/t-welcome", { expr: `t_signup[note = "${hostile}"] OR t_signup`, topic: "t-events", deliver: { topic: "t-mails" } })).status, 201, "a trigger");
  for (const entity_id of ["u1", "u2", hostile]) t.equal((await t.api("POST", "/event?topic-name=t-events", { event: "t_signup", entity_id, data: { note: hostile } })).status, 201, "an event");
  await t.until(async () => (await get(t, "/triggers/t-welcome?counts=true")).firings.states.delivered === 3, "three firings are delivered");
  await t.open("#/triggers");
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: "t-welcome" }) });
  const { day, week, states } = (await get(t, "/triggers/t-welcome?counts=true")).firings;
  t.equal([day, states], [4, { delivered: 3, historic: 1 }], "the firings of the trigger");
  await t.until(async () => (await row.getByRole("cell").allTextContents()).slice(3, 7).join() === [day, week, 0, 0].join(), "the counts of the trigger");
  t.ok((await row.textContent()).includes(hostile), "the expression");
  await t.axe("triggers");
  await t.picture("triggers");
  await row.getByRole("link", { name: "t-welcome" }).click();
  await page.getByRole("link", { name: "delivered 3" }).waitFor();
  await page.getByRole("table", { name: "Newest firings of the trigger" }).getByRole("link", { name: hostile }).waitFor();
  await t.axe("a trigger that fired");
  await t.picture("trigger");
}

async function entity(t) {
  const { page } = t;
  await t.open("#/triggers/t-no-x");
  await page.getByLabel("Entity", { exact: true }).fill(hostile);
  await page.keyboard.press("Enter");
  const table = page.getByRole("table", { name: "Awaited events" });
  await table.waitFor();
  const state = await get(t, `/triggers/t-no-x/entities/${encodeURIComponent(hostile)}`);
  t.ok(await page.getByRole("main").getByText(state.why, { exact: true }).isVisible(), "why");
  t.equal(await table.locator("tbody tr").evaluateAll(rows => rows.map(r => [...r.cells].slice(0, 2).map(c => c.textContent))), [["t_used", "must not come"], ["t_signup", "starts it again"]], "the awaited events");
  await t.axe("an entity of a trigger");
  await t.picture("trigger-entity");
  await t.open("#/triggers/t-no-x/entities/nobody");
  await page.getByRole("main").getByText('there is no event of "nobody"').waitFor();
}

async function pause(t) {
  const { page } = t;
  await t.open("#/triggers/t-no-x");
  for (const [name, status] of [["Pause", "paused"], ["Resume", "active"]]) {
    await page.getByRole("button", { name, exact: true }).click();
    await page.getByRole("dialog").waitFor();
    await t.axe(name);
    await page.getByRole("dialog").getByRole("button", { name, exact: true }).click();
    await page.getByText(status === "paused" ? "paused" : "running", { exact: true }).waitFor();
    t.equal((await get(t, "/triggers/t-no-x")).status, status, name);
  }
}

async function remove(t) {
  const { page } = t;
  await page.getByRole("button", { name: "Delete" }).click();
  const dialog = page.getByRole("dialog");
  t.ok(await dialog.getByRole("button", { name: "Delete trigger" }).isDisabled(), "a trigger is deleted without its name");
  await dialog.getByLabel("Type t-no-x to confirm").fill("t-no-x");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Triggers", level: 1 }).waitFor();
  t.equal((await t.api("GET", "/triggers/t-no-x")).status, 404, "the trigger after its deletion");
  await t.open("#/triggers/t-no-x");
  await page.getByRole("link", { name: "Firings of a trigger with this name" }).waitFor();
  await t.axe("an unknown trigger");
}

/** viewer: a token that only reads has no buttons that change something. */
async function viewer(t) {
  const made = await t.api("POST", "/tokens", { id: "t-viewer", preset: "viewer" });
  t.equal(made.status, 201, `a token: ${made.text}`);
  const other = await t.login(made.json.token);
  await other.open("#/triggers/t-welcome");
  await other.page.getByRole("heading", { name: "Definition" }).waitFor();
  for (const name of ["Pause", "Delete"]) t.equal(await other.page.getByRole("button", { name }).count(), 0, `a viewer sees ${name}`);
  t.equal(await other.page.getByRole("link", { name: "Edit" }).count(), 0, "a viewer sees Edit");
  await other.close();
}

async function narrow(t) {
  await t.page.setViewportSize({ width: 320, height: 700 });
  for (const hash of ["#/triggers", "#/triggers/t-welcome", "#/triggers/t-welcome?edit=yes", `#/triggers/t-welcome/entities/${encodeURIComponent(hostile)}`]) {
    await t.open(hash);
    await t.page.locator("main .card").first().waitFor();
    t.ok(await t.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} is wider than 320 px`);
  }
}
