// The builder of triggers: templates, boxes and text, the sentence, the preview, drafts, versions, and two pages at a time.
export const name = "builder";

const hostile = `"<img src=x onerror=alert(1)> فاتورة" THEN ${"n".repeat(249)}`, topic = "b-events", expr = "b_signup  then (not b_used within 7 days)";

export async function run(t) {
  t.allow(/404/); // the default topic of events, if it does not exist yet
  await seed(t);
  await templates(t);
  await text(t);
  await undo(t);
  await preview(t);
  await sampled(t);
  await draft(t);
  await resume(t);
  await versions(t);
  await delivery(t);
  await twoPages(t);
  await gone(t);
  await viewer(t);
  await narrow(t);
}

const get = async (t, path) => (await t.api("GET", path)).json;
const put = async (t, id, spec) => t.equal((await t.api("PUT", `/triggers/${id}`, { topic, ...spec })).status < 300, true, `the trigger ${id}`);
const send = async (t, ...events) => t.equal((await t.api("POST", `/event?topic-name=${topic}`, events.map(([event, entity_id]) => JSON.stringify({ event, entity_id })).join("\n"), { "Content-Type": "application/x-ndjson" })).status, 201, "events");
const button = (t, name, exact = true) => t.page.getByRole("button", { name, exact });
const dialog = t => t.page.getByRole("dialog");
const event = t => t.page.getByLabel("Event", { exact: true });
const expression = t => t.page.getByLabel("Expression");
const said = (t, text) => t.page.getByRole("region", { name: "In words" }).getByText(text, { exact: true }).waitFor();

async function seed(t) {
  const events = [];
  for (let i = 0; i < 40; i++) events.push(["b_signup", `u${i}`], ...(i % 4 ? [["b_used", `u${i}`]] : []));
  await send(t, ...events);
}

/** fresh opens a new trigger, without what an earlier one left. */
async function fresh(t) {
  await t.open("#/triggers");
  await t.page.getByRole("heading", { name: "Triggers", level: 1 }).waitFor();
  await t.open("#/triggers?edit=yes");
  await button(t, "Discard them").or(button(t, "write it as text")).waitFor();
  if (await button(t, "Discard them").isVisible()) await button(t, "Discard them").click();
  await button(t, "write it as text").waitFor();
}

/** templates: each begins with unfinished boxes; the names are typed one after the other. */
async function templates(t) {
  const { page } = t;
  for (const [name, fire, names, want] of [
    ["Someone did A but not B in time", "once", ["b_signup", "b_used"], "b_signup THEN (NOT (b_used WITHIN 7d))"],
    ["Someone did A, then B", "once", ["b_signup", "b_used"], "b_signup THEN (b_used WITHIN 1d)"],
    ["Someone did A several times", "once", ["b_used"], "count(b_used) >= 3"],
    ["Something came back", "reset", ["b_used", "b_used", "b_used"], "b_used THEN (NOT (b_used WITHIN 30d)) THEN b_used"],
    ["Each time A happens", "reset", ["b_used"], "b_used"],
    ["Empty", "once", ["b_used"], "b_used"],
  ]) {
    await fresh(t);
    await page.getByRole("button", { name }).press("Enter");
    await page.getByText(`${names.length} ${names.length === 1 ? "box is" : "boxes are"} not finished`).first().waitFor();
    await t.until(() => event(t).evaluate(e => e === document.activeElement), `${name}: the focus is in the first box`);
    if (names.length === 2) await t.axe(`the template ${name}`);
    for (const n of names) {
      await page.keyboard.type(n);
      await page.keyboard.press("Enter");
    }
    const { sentence } = (await t.api("POST", "/drip/parse", { expr: want })).json;
    await said(t, sentence);
    await page.getByText("As text").click();
    t.equal(await expression(t).inputValue(), want, `the text of ${name}`);
    t.equal(await page.getByLabel("Fires", { exact: true }).inputValue(), fire, `how ${name} fires`);
    await page.getByText("As text").click();
  }
  // What is not finished is not saved.
  await fresh(t);
  await page.getByRole("button", { name: "Someone did A, then B" }).click();
  await page.getByLabel("ID", { exact: true }).fill("b-open");
  await page.getByText("It cannot be saved yet:").filter({ hasText: "2 boxes are not finished: choose their events." }).waitFor();
  t.equal(await button(t, "Start").isDisabled(), true, "the button of an unfinished trigger");
  t.ok((await button(t, "Start").evaluate(e => document.getElementById(e.getAttribute("aria-describedby")).textContent)).includes("2 boxes"), "the button says why");
  t.equal((await t.api("GET", "/triggers/b-open")).status, 404, "an unfinished trigger");
}

/** text: boxes and text are one expression. A text stays as it is until it is changed. */
async function text(t) {
  const { page } = t;
  t.allow(/400/);
  await put(t, "b-text", { expr });
  await t.open("#/triggers/b-text?edit=yes&text=yes");
  await said(t, "7 days after b_signup, unless b_used happens in that time.");
  t.equal(await expression(t).inputValue(), expr, "the text as it is stored");
  await page.getByLabel("Fires", { exact: true }).selectOption("reset");
  await save(t, 2);
  t.equal((await get(t, "/triggers/b-text")).text, expr, "the text after another change");
  // Typing changes the boxes; with an error they stay, and say so.
  await expression(t).fill("b_signup then b_used then b_paid");
  await page.getByRole("button", { name: "b_paid happens" }).waitFor();
  await expression(t).fill("b_signup then (");
  await page.getByText(/^Line 1, column 16/).waitFor();
  await page.getByText("The text has an error, so the boxes show the last text without one.").waitFor();
  await page.getByRole("button", { name: "b_paid happens" }).waitFor();
  t.equal(await expression(t).evaluate(e => e === document.activeElement), true, "the focus stays where a person types");
  await t.axe("a text with an error");
  // Names are only ever text.
  const { sentence } = (await t.api("POST", "/drip/parse", { expr: hostile })).json;
  await expression(t).fill(hostile);
  await said(t, sentence);
  t.equal(await page.locator("main img").count(), 0, "a name became an element");
  await t.axe("a hostile name");
  // An edit of a box keeps the notation of the rest.
  await expression(t).fill(expr);
  await page.getByRole("button", { name: "b_used does not happen" }).click();
  await page.getByLabel("For", { exact: true }).fill("3");
  await said(t, "3 days after b_signup, unless b_used happens in that time.");
  await t.until(async () => /^b_signup  then \(not b_used within 3 ?d/.test(await expression(t).inputValue()), "the text after an edit of a box");
  await t.axe("boxes and text");
  await t.picture("builder-text");
}

/** save saves a trigger that exists and sees its version. */
async function save(t, version) {
  await button(t, "Save").click();
  await dialog(t).getByRole("button", { name: "Save" }).click();
  await t.page.getByText(`Stored: version ${version}.`).waitFor();
}

/** undo: one history of boxes and text, which survives a reload together with the settings. */
async function undo(t) {
  const { page } = t;
  await fresh(t);
  await button(t, "write it as text").click();
  await page.keyboard.type("b_signup");
  await said(t, "b_signup happens.");
  await page.getByRole("button", { name: "b_signup happens" }).click();
  await event(t).fill("b_used");
  await said(t, "b_used happens.");
  await page.getByLabel("ID", { exact: true }).fill("b-undo");
  await page.getByLabel("Send to").selectOption("topic");
  await page.getByLabel("Topic of the messages").fill("b-mails");
  await expression(t).fill("b_used THEN (");
  await page.getByText(/^Line 1, column 14/).waitFor();
  await page.reload();
  await page.getByText("You have changes here that are not saved.").waitFor();
  t.equal(await expression(t).inputValue(), "b_used THEN (", "a text with an error after a reload");
  t.equal([await page.getByLabel("ID", { exact: true }).inputValue(), await page.getByLabel("Topic of the messages").inputValue()], ["b-undo", "b-mails"], "the settings after a reload");
  for (const want of ["b_used happens.", "b_signup happens."]) {
    await button(t, "Undo").click();
    await said(t, want);
  }
  await button(t, "Redo").click();
  await said(t, "b_used happens.");
  t.equal(await expression(t).inputValue(), "b_used", "the text after undo and redo");
  await button(t, "Discard them").click();
  await button(t, "write it as text").waitFor();
}

/** preview: the dry run begins with a click, follows the edits, and can be cancelled. */
async function preview(t) {
  const { page } = t, card = page.getByRole("region", { name: "What it would have done" }), runs = [];
  await t.open(`#/triggers?edit=yes&topic=${topic}&expr=b_signup%20THEN%20b_used`);
  await said(t, "b_signup happens, and then b_used happens.");
  page.on("request", r => { if (r.url().includes("/dry-run")) runs.push(r); });
  t.equal(runs.length, 0, "a dry run without a click");
  await button(t, "Try on past events").click();
  await card.getByText("30 of 40 entities would have got it").waitFor();
  const r = (await t.api("POST", "/triggers/dry-run", { expr: "b_signup THEN b_used", topic })).json;
  t.equal([r.fired, r.entities], [30, 40], "the result of the API");
  t.ok(new URL(runs[0].url()).searchParams.get("since"), "the range of the dry run");
  await card.getByRole("img", { name: /Firings on 1 day/ }).waitFor();
  t.equal(await card.getByRole("table", { name: "Samples of firings" }).locator("tbody tr").count(), 20, "who got it");
  t.ok(await card.getByRole("table", { name: "Entities without a firing" }).getByRole("link").first().isVisible(), "who did not");
  await t.axe("a preview");
  await t.picture("builder-preview");
  // A new start reads the events that came since.
  await button(t, "Stop trying").click();
  await send(t, ["b_used", "u0"]);
  await button(t, "Try on past events").click();
  await card.getByText("31 of 40 entities would have got it").waitFor();
  // An edit runs it again; one that is not answered yet ends with the next edit.
  let go;
  const held = new Promise(done => { go = done; });
  await page.route("**/triggers/dry-run*", async route => { await held; await route.continue().catch(() => {}); });
  const before = runs.length;
  await page.getByText("As text").click();
  await expression(t).fill("b_signup");
  await t.until(() => runs.length === before + 1, "a dry run of the edit");
  await card.getByText("Of the expression before the last edit:").waitFor();
  await t.axe("a preview that runs");
  const cancelled = page.waitForEvent("requestfailed", r => r === runs[before]);
  await expression(t).fill("b_used");
  await cancelled;
  await button(t, "Cancel").click();
  await button(t, "Try on past events").waitFor();
  go();
  await page.unroute("**/triggers/dry-run*");
  await page.getByLabel("Firings in").selectOption("all");
  await button(t, "Try on past events").click();
  await card.getByText("31 of 31 entities would have got it").waitFor();
  t.equal(new URL(runs.at(-1).url()).searchParams.get("since"), null, "the range of all events");
  t.ok(page.url().includes("range=all"), "the range is in the address");
  // The dry run of an unfinished expression waits.
  await page.getByRole("button", { name: "b_used happens" }).click();
  await event(t).fill("");
  await card.getByText("Waits until the boxes are finished.").waitFor();
}

/** sampled: of a large topic a part of the entities is evaluated first. */
async function sampled(t) {
  const { page } = t, end = await t.change("**/events/names*", async answer => ({ json: { ...await answer.json(), records: 250_001 } }));
  await t.open(`#/triggers?edit=yes&topic=${topic}&expr=b_signup`);
  await button(t, "Try on past events").click();
  await page.getByText(/^About \d+ of about \d+ entities would have got it \(\d+ to \d+\)$/).waitFor();
  const r = (await t.api("POST", "/triggers/dry-run?sample=16", { expr: "b_signup", topic })).json.estimate;
  await page.getByText(`About ${r.fired.value} of about ${r.entities.value} entities would have got it (${r.fired.low} to ${r.fired.high})`).waitFor();
  await t.axe("a preview of a sample");
  await button(t, "Evaluate all entities").click();
  await page.getByText("40 of 40 entities would have got it").waitFor();
  await end();
}

/** draft: a draft sends nothing. Its start can send to those for whom it became true meanwhile. */
async function draft(t) {
  const { page } = t;
  for (const [id, yes] of [["b-no", false], ["b-yes", true]]) {
    await fresh(t);
    await page.getByRole("button", { name: "Empty" }).click();
    await t.until(() => event(t).evaluate(e => e === document.activeElement), "the focus is in the box");
    await page.keyboard.type(id);
    await page.getByLabel("ID", { exact: true }).fill(id);
    await page.getByLabel("Topic of the events").fill(topic);
    await page.getByLabel("Send to").selectOption("topic");
    await page.getByLabel("Topic of the messages").fill(`${id}-mails`);
    await button(t, "Save as draft").click();
    await page.getByText("Stored as a draft, which sends nothing until you start it: version 1.").waitFor();
    t.ok(page.url().includes(`#/triggers/${id}?edit=yes`), `the address of the draft: ${page.url()}`);
    t.equal((await get(t, `/triggers/${id}`)).status, "paused", "the status of a draft");
    await send(t, [id, "during"]);
    await t.until(async () => (await get(t, `/firings?trigger=${id}`)).firings[0]?.state === "suppressed", "the draft suppresses a firing");
    // The draft is the same after a reload.
    await page.reload();
    await button(t, "Start").click();
    await dialog(t).getByText("1 entity qualifies already.").waitFor();
    t.equal(await dialog(t).getByRole("table").count(), 0, "a table of changes, without a change");
    await t.axe("the start of a draft");
    if (yes) {
      await t.picture("builder-start");
      await dialog(t).getByRole("radio", { name: /^They get the message too/ }).check();
    }
    await dialog(t).getByRole("button", { name: "Start" }).click();
    await page.getByText("Started: version 2.").waitFor();
    t.equal((await get(t, `/triggers/${id}`)).status, "active", "the status after the start");
    await send(t, [id, "later"]);
    const delivered = await t.until(async () => {
      const all = (await get(t, `/firings?trigger=${id}&state=delivered`)).firings.map(f => f.entity);
      return all.includes("later") && all;
    }, "a firing after the start");
    t.equal(delivered.sort(), yes ? ["during", "later"] : ["later"], `the messages of ${id}`);
  }
}

/** resume: a paused trigger that has sent messages goes on, and does not send them again. */
async function resume(t) {
  const { page } = t;
  await t.api("POST", "/triggers/b-yes/pause");
  await send(t, ["b-yes", "paused"]);
  await t.until(async () => (await get(t, "/firings?trigger=b-yes&state=suppressed&entity=paused")).firings.length === 1, "a firing of the pause");
  await t.open("#/triggers/b-yes");
  await page.getByText("paused", { exact: true }).first().waitFor();
  await t.open("#/triggers/b-yes?edit=yes");
  await button(t, "Save and resume").click();
  await dialog(t).getByText("What became true during the pause stays suppressed.").waitFor();
  await dialog(t).getByText("This makes no new version").waitFor();
  await dialog(t).getByRole("button", { name: "Start" }).click();
  await page.getByText("Started: version 2.").waitFor();
  await send(t, ["b-yes", "after"]);
  await t.until(async () => (await get(t, "/firings?trigger=b-yes&state=delivered&entity=after")).firings.length === 1, "a firing after the pause");
  t.equal((await get(t, "/firings?trigger=b-yes&state=delivered")).firings.map(f => f.entity).sort(), ["after", "during", "later"], "the messages after the pause");
}

/** versions: before a trigger is saved, the page says what changes, in words. */
async function versions(t) {
  const { page } = t;
  await put(t, "b-version", { expr });
  await t.open("#/triggers/b-version?edit=yes");
  await page.getByRole("button", { name: "b_used does not happen" }).click();
  await page.getByLabel("For", { exact: true }).fill("3");
  await said(t, "3 days after b_signup, unless b_used happens in that time.");
  await page.getByLabel("Fires", { exact: true }).selectOption("edge");
  await page.getByLabel("Cooldown").fill("2d");
  await button(t, "Save").click();
  const changed = (element, word) => dialog(t).locator(element, { hasText: word }).first().innerText(); // the sentence comes after the fields
  t.equal([await changed("del", "removed"), await changed("ins", "added")].map(s => s.replace(/\s+/g, " ").trim()), ["removed: 7", "added: 3"], "the changed word");
  const rows = dialog(t).getByRole("table").locator("tbody tr");
  t.equal(await rows.evaluateAll(all => all.map(r => [...r.cells].map(c => c.textContent))), [["Fires", "Once for each entity", "Each time it becomes true"], ["Cooldown", "none", "2d"]], "the changed settings");
  await dialog(t).getByText("This makes version 2, because of: the expression, fires, cooldown. It reads the older events again, and fires from now on.").waitFor();
  await dialog(t).getByText("0 entities qualify already.").waitFor();
  await t.axe("what changes");
  await t.picture("builder-version");
  await page.keyboard.press("Escape");
  t.equal((await get(t, "/triggers/b-version")).version, 1, "the version before it is confirmed");
  t.equal(await button(t, "Save").evaluate(e => e === document.activeElement), true, "the focus after the dialog");
  await save(t, 2);
  t.ok(await page.locator("div[tabindex]").filter({ hasText: "Stored: version 2." }).evaluate(e => e === document.activeElement), "the focus is on what was saved");
  // A change of the delivery makes no version.
  await page.getByLabel("Send to").selectOption("topic");
  await page.getByLabel("Topic of the messages").fill("b-mails");
  await button(t, "Save").click();
  await dialog(t).getByText("This makes no new version").waitFor();
  await dialog(t).getByRole("button", { name: "Save" }).click();
  await page.getByText("Stored: version 2.").waitFor();
  t.equal((await get(t, "/triggers/b-version")).deliver, { topic: "b-mails" }, "the delivery");
  await t.api("PUT", "/queues/b-jobs", {});
  await page.getByLabel("Send to").selectOption("queue");
  await page.getByLabel("Queue", { exact: true }).fill("b-jobs");
  await page.getByLabel("Delay").fill("5m");
  await page.getByLabel("Template of the message").fill("Hello {{.Entity}}");
  await button(t, "Save").click();
  await dialog(t).getByRole("button", { name: "Save" }).click();
  await page.getByText("Stored: version 2.").waitFor();
  t.equal((await get(t, "/triggers/b-version")).deliver, { template: "Hello {{.Entity}}", queue: "b-jobs", delay: "5m" }, "the delivery to a queue");
}

/** delivery: each member has a field, and what has none stays as JSON. */
async function delivery(t) {
  const { page } = t;
  const deliver = {
    url: "https://mail.example.com/hook", headers: { "X-One": "1" }, template: "Hello {{.Entity}}", content_type: "text/plain",
    quiet_hours: { from: "22:00", to: "08:00", zone: "Europe/Berlin" }, frequency_cap: { count: 2, per: "7d" }, retries: ["5s", "1h"], concurrency: 50,
  };
  await t.open(`#/triggers?edit=yes&topic=${topic}&expr=b_used`);
  await page.getByLabel("ID", { exact: true }).fill("b-deliver");
  await page.getByLabel("Send to").selectOption("url");
  await page.getByLabel("URL").fill(deliver.url);
  await button(t, "Make a secret").click();
  t.ok(/^whsec_[A-Za-z0-9+/]{43}=$/.test(await page.getByLabel("Secrets, one a line").inputValue()), "a new secret");
  await page.getByLabel("Template of the message").fill(deliver.template);
  await page.getByText("More settings", { exact: true }).click();
  await page.getByLabel("Headers, one a line").fill("X-One: 1");
  await page.getByLabel("Content type", { exact: true }).fill("text/plain");
  await page.getByLabel("From", { exact: true }).fill("22:00");
  await page.getByLabel("Until").fill("08:00");
  await page.getByLabel("Messages", { exact: true }).fill("2");
  await page.getByLabel("In", { exact: true }).fill("7d");
  await page.getByLabel("Waits between attempts").fill("5s, 1h");
  await page.getByLabel("Messages in flight").fill("50");
  await t.axe("all fields of a delivery");
  await t.picture("builder-delivery");
  await button(t, "Save as draft").click();
  await page.getByText("Stored as a draft").waitFor();
  const stored = (await get(t, "/triggers/b-deliver")).deliver;
  t.equal(Object.fromEntries(Object.entries(stored).sort()), Object.fromEntries(Object.entries({ ...deliver, headers: { "X-One": "***" }, secrets: ["whsec_***"] }).sort()), "the delivery");
  await page.getByLabel("Send to").selectOption("url");
  t.equal([await page.getByLabel("Headers, one a line").inputValue(), await page.getByLabel("Until").inputValue(), await page.getByLabel("Time zone").inputValue(), await page.getByLabel("Waits between attempts").inputValue(), await page.getByLabel("Messages in flight").inputValue()],
    ["X-One: ***", "08:00", "Europe/Berlin", "5s, 1h", "50"], "the fields of a stored delivery");
}

/** twoPages: a page does not save over what another one has saved, without saying so. */
async function twoPages(t) {
  const { page } = t, other = await t.login(t.key);
  t.allow(/412/);
  await put(t, "b-two", { expr: "b_signup" });
  for (const p of [t, other]) {
    await p.open("#/triggers/b-two?edit=yes&text=yes");
    await said(p, "b_signup happens.");
  }
  await expression(other).fill("b_used");
  await said(other, "b_used happens.");
  await save(other, 2);
  await expression(t).fill("b_signup THEN b_used");
  await said(t, "b_signup happens, and then b_used happens.");
  await button(t, "Save").click();
  await dialog(t).getByRole("button", { name: "Save" }).click();
  const card = page.getByRole("region", { name: "It was changed elsewhere" });
  await card.getByText("has stored version 2 of b-two").waitFor();
  t.equal((await get(t, "/triggers/b-two")).text, "b_used", "the stored text");
  await card.locator("ins").first().waitFor(); // the difference
  await t.axe("a trigger that was changed elsewhere");
  await t.picture("builder-conflict");
  await button(t, "Take the stored one").click();
  await said(t, "b_used happens.");
  await button(t, "Back to mine").click();
  await said(t, "b_signup happens, and then b_used happens.");
  await save(t, 3);
  // The other page now has an old one. It survives a reload, and can be saved over the new one.
  await expression(other).fill("b_used THEN b_signup");
  await said(other, "b_used happens, and then b_signup happens.");
  await other.page.reload();
  await other.page.getByText("has stored version 3 of b-two").waitFor();
  await button(other, "Save mine over it").click();
  await other.page.getByText("Stored: version 4.").waitFor();
  t.equal((await get(t, "/triggers/b-two")).text, "b_used THEN b_signup", "the text after it was saved over");
  // Without work of its own a page shows what is stored.
  await t.open("#/triggers/b-two");
  await page.getByText("b_used THEN b_signup").waitFor();
  await t.open("#/triggers/b-two?edit=yes&text=yes");
  await said(t, "b_used happens, and then b_signup happens.");
  t.equal(await card.count(), 0, "a conflict without work");
  await other.close();
}

/** gone: a trigger that was deleted meanwhile can be made again. */
async function gone(t) {
  const { page } = t;
  t.allow(/404|412/);
  await expression(t).fill("b_used");
  await said(t, "b_used happens.");
  t.equal((await t.api("DELETE", "/triggers/b-two")).status < 300, true, "the deletion");
  await button(t, "Save").click();
  await dialog(t).getByRole("button", { name: "Save" }).click();
  await page.getByText("The trigger b-two was deleted since you began.").waitFor();
  await button(t, "Save mine again").click();
  await page.getByText(/^Stored: version \d+\./).waitFor();
  t.equal((await get(t, "/triggers/b-two")).text, "b_used", "the trigger that was made again");
}

/** viewer: without the right to change triggers there is no dry run and nothing to save. */
async function viewer(t) {
  const { token } = (await t.api("POST", "/tokens", { id: "b-viewer", preset: "viewer" })).json, other = await t.login(token), refused = [];
  other.page.on("response", r => { if (r.status() === 403) refused.push(r.url()); });
  await other.open("#/triggers/b-text?edit=yes");
  await other.page.getByText("Your key has no right to change triggers").waitFor();
  await said(other, "7 days after b_signup, unless b_used happens in that time.");
  for (const name of ["Save", "Save as draft", "Start", "Try on past events"]) t.equal(await button(other, name).count(), 0, `a viewer sees ${name}`);
  t.equal(refused, [], "requests that a viewer may not make");
  await other.close();
}

/** narrow: nothing is lost at 320 px, which is also a page of 640 px at 200 %. */
async function narrow(t) {
  await t.page.setViewportSize({ width: 320, height: 700 });
  for (const hash of ["#/triggers?edit=yes", "#/triggers/b-text?edit=yes&text=yes", "#/triggers/b-deliver?edit=yes"]) {
    await t.open(hash);
    await t.page.locator("main .card").first().waitFor();
    t.ok(await t.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} is wider than 320 px`);
    await t.axe(`${hash} at 320 px`);
  }
  await t.page.getByLabel("Send to").selectOption("keep"); // the work on the delivery was kept, without its secrets
  await button(t, "Save as draft").click();
  await t.page.getByText("Stored as a draft").waitFor();
}
