// Queues: the list, a new queue, its numbers and charts, its messages, a letter and its way back.

export const name = "queues";

export async function run(t) {
  const queue = "mails";
  await first(t);
  await create(t, queue);
  await seed(t, queue);
  await list(t, queue);
  await numbers(t, queue);
  await messages(t, queue);
  await letters(t, queue);
  await send(t, queue);
  await settings(t, queue);
  await schedules(t, queue);
  await states(t, queue);
  await narrow(t, queue);
  await viewer(t, queue);
  await remove(t, queue);
}

const of = async (t, queue) => (await t.api("GET", `/queues/${queue}`)).json;
const field = (t, label) => t.page.getByRole("textbox", { name: label, exact: true });
const settle = (t, queue, list) => t.api("POST", `/queues/${queue}/settle`, { messages: list });
const lease = async (t, queue, max) => (await t.api("POST", `/queues/${queue}/lease`, { max, visibility: "1h" })).json.messages;
const open = (t, queue, part = "numbers") => t.open(`#/queues/${queue}/${part}`);

/** fact is the text of a fact by its term. */
const fact = (t, term) => t.page.locator("dt", { hasText: new RegExp(`^${term}$`) }).locator("xpath=following-sibling::dd[1]").textContent();

/** cells returns the texts of a table's rows. */
const cells = (t, table) => t.page.getByRole("table", { name: table, exact: true }).locator("tbody tr").evaluateAll(rows => rows.map(r => [...r.cells].map(c => c.textContent)));

/** first: without queues the page says how to make one. */
async function first(t) {
  const end = await t.change("**/queues?*", () => ({ json: { queues: [] } }));
  await t.open("#/queues");
  await t.page.getByText("There are no queues yet.").waitFor();
  await t.page.getByText("seb queue work mails -- cat").waitFor();
  await t.axe("no queues");
  await t.picture("queues-none");
  await end();
}

async function create(t, queue) {
  const { page } = t, dialog = page.getByRole("dialog");
  await page.getByRole("button", { name: "Create a queue" }).click();
  await field(t, "Name").fill(queue);
  await field(t, "visibility").fill("soon");
  await dialog.getByText(`"soon" is not a time span`).waitFor();
  await t.axe("create a queue");
  await field(t, "visibility").fill("1m");
  await t.picture("queues-create");
  t.allow(/400/);
  await field(t, "max-deliveries").fill("many");
  await dialog.getByRole("button", { name: "Create" }).click();
  await dialog.getByText(/"many" is not a number/).waitFor();
  await field(t, "max-deliveries").fill("2");
  await dialog.getByRole("button", { name: "Create" }).click();
  await page.getByRole("heading", { name: queue, level: 1 }).waitFor();
  const made = await of(t, queue);
  t.equal([made.priorities, made.settings], [1, { "dead-letter": queue + ".dead", "max-deliveries": "2", visibility: "1m0s" }], "the new queue");
}

/** seed makes two letters, and a message in each state. */
async function seed(t, queue) {
  const r = await t.api("POST", `/queues/${queue}/messages`, { messages: [
    ...["grace", "linus", "retry", "leased", "done"].map(to => ({ value: JSON.stringify({ to }), key: to, headers: [{ key: "source", value: "shop" }] })),
    ...[1, 2, 3].map(n => ({ value: JSON.stringify({ to: "ready", n }) })), { value: "later", delay: "1d" }, { value: "<img src=x onerror=alert(1)>", delay: "2d" },
  ] });
  t.equal(r.status, 200, r.text);
  const [grace, linus, retry, , done] = await lease(t, queue, 5);
  await settle(t, queue, [
    { receipt: grace.receipt, do: "dead", reason: "mailbox full" }, { receipt: linus.receipt, do: "retry", delay: "0s", reason: "timeout after 30 s" },
    { receipt: retry.receipt, do: "retry", delay: "2h", reason: "connection refused" }, { receipt: done.receipt, do: "done" },
  ]);
  await t.api("POST", `/queues/${queue}/pause`);
  await t.api("POST", `/queues/${queue}/resume`);
  const again = await t.until(async () => (await lease(t, queue, 1)).find(m => m.deliveries === 2), "the second delivery");
  await settle(t, queue, [{ receipt: again.receipt, do: "retry", reason: "no such mailbox: linus" }]);
  await t.until(async () => (await of(t, queue)).dead === 2, "two dead letters");
}

async function list(t, queue) {
  const { page } = t;
  await t.open("#/overview");
  await page.getByText(`Queue ${queue}.dead has 2 messages that failed too often.`).waitFor();
  await t.open("#/queues");
  await page.getByLabel("Filter by name").fill(queue);
  await page.getByText("2 queues", { exact: true }).waitFor();
  const q = await of(t, queue), rows = await cells(t, "Queues");
  t.equal(rows[0].slice(0, 6), [queue, q.ready, q.leased, q.delayed, q.retry, 2].map(String), "the row of the queue");
  t.equal([rows[1][0], rows[1][1], rows[1][5]], [queue + ".dead", "2", "–"], "the row of its dead-letter queue");
  await t.axe("queues");
  await t.picture("queues");
  await page.getByRole("link", { name: `2 dead letters of ${queue}` }).click();
  await page.getByRole("heading", { name: queue + ".dead", level: 1 }).waitFor();
  await t.open("#/topics?find=" + queue);
  await page.getByRole("link", { name: `Queue ${queue}`, exact: true }).click();
  await page.getByRole("heading", { name: queue, level: 1 }).waitFor();
}

/** numbers are those of the API; the charts have those of an hour. */
async function numbers(t, queue) {
  const { page } = t;
  const end = await t.change(`**/queues/${queue}/stats?*`, async answer => {
    const s = await answer.json(), n = 360, at = i => 1 + Math.sin(i / 25), end = Math.floor(Date.now() / 10_000) * 10;
    const series = (unit, f) => ({ unit, values: Array.from({ length: n }, (_, i) => i < 20 ? null : f(i)) });
    return { json: { ...s, step_seconds: 10, reason: undefined, times: Array.from({ length: n }, (_, i) => end - (n - 1 - i) * 10), series: {
      ready: series("messages", i => Math.round(40 * at(i))), leased: series("messages", i => 8 + i % 3), delayed: series("messages", () => 2), retry: series("messages", i => i > 200 ? 5 : 1),
      dead: series("messages", i => i > 200 ? 2 : 0), oldest: series("s", i => 30 * at(i)), sent: series("messages/s", i => 20 * at(i)), done: series("messages/s", i => 18 * at(i + 10)), failed: series("messages/s", i => i % 40 === 0 ? 1 : 0),
    } } };
  });
  await open(t, queue);
  const q = await of(t, queue);
  for (const [term, n] of [["Ready", q.ready], ["Leased", q.leased], ["Delayed", q.delayed], ["Retry", q.retry], ["Dead", q.dead], ["Sent", q.sent]]) {
    t.ok((await fact(t, term)).startsWith(`${n} `), `${term}: ${await fact(t, term)}, want ${n}`);
  }
  for (const chart of ["Messages by state", "Messages per second", "Oldest ready message", "Dead letters"]) await page.getByRole("img", { name: `Chart of ${chart}` }).waitFor();
  await page.locator(".plot canvas").nth(3).waitFor();
  await t.axe("the numbers of a queue");
  await t.picture("queue");
  await end();
  await t.until(async () => !(await t.api("GET", `/queues/${queue}/stats?window=6h`)).json.reason, "the first sample");
  await page.getByRole("radio", { name: "6 hours" }).check({ force: true });
  await page.getByRole("img", { name: "Chart of Messages by state" }).waitFor();
  await page.getByRole("link", { name: "2", exact: true }).first().click();
  t.ok(new URL(page.url()).hash.startsWith(`#/queues/${queue}/messages`), `a number leads to its messages: ${page.url()}`);
}

/** tries are those of the open message, without their times. */
const tries = async t => (await t.page.locator("ol.stories li").allTextContents()).map(text => text.replace(/^\S+ \S+, /, ""));

async function messages(t, queue) {
  const { page } = t;
  await open(t, queue, "messages");
  const table = `Messages of ${queue}`;
  for (const [state, body] of [["retry", '{"to":"retry"}'], ["leased", '{"to":"leased"}'], ["done", '{"to":"done"}'], ["delayed", "later"]]) {
    await page.getByLabel("State").selectOption(state);
    await t.until(async () => (await cells(t, table)).flat().includes(body), `${state}: ${body}`);
    t.ok((await cells(t, table)).every(r => r[2] === state), `only ${state}`);
  }
  await page.getByLabel("State").selectOption("retry");
  await page.getByRole("row", { name: /"to":"retry"/ }).getByRole("link").click();
  const detail = page.getByRole("region", { name: /^Message 0-/ });
  await detail.getByText("connection refused").waitFor();
  t.equal(await tries(t), ["seb: connection refused"], "the try of the message");
  t.equal([await fact(t, "Headers"), await fact(t, "Key"), await fact(t, "Deliveries")], ["source: shop", "retry", "1"], "its attributes");
  await t.axe("a message");
  await t.picture("queue-message");
  await page.reload();
  await detail.getByText("connection refused").waitFor();
  await page.keyboard.press("Escape");

  await page.getByLabel("State").selectOption("delayed");
  await page.getByRole("row", { name: /onerror/ }).getByRole("link").click();
  await detail.getByRole("button", { name: "Cancel the message" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel the message" }).click();
  await t.until(async () => (await of(t, queue)).delayed === 1, "the message is cancelled");
  await detail.waitFor({ state: "detached" });
  t.equal(await page.locator("img").count(), 0, "images on the page");
}

/** letters: each has its tries. A preview counts what a filter finds, and only that is moved back. */
async function letters(t, queue) {
  const { page } = t, dead = queue + ".dead";
  await open(t, dead, "messages");
  await t.until(async () => (await cells(t, `Messages of ${dead}`)).length === 2, "two letters");
  t.equal((await cells(t, `Messages of ${dead}`)).map(r => [r[2], r[3]]), [[queue, "no such mailbox: linus"], [queue, "mailbox full"]], "letters with their reasons");
  await page.getByRole("row", { name: /linus/ }).getByRole("link").click();
  await page.getByText("timeout after 30 s").waitFor();
  t.equal(await tries(t), ["seb: timeout after 30 s", "seb: no such mailbox: linus"], "the tries of the letter");
  t.ok(/^mails, as message 0-\d, after 2 deliveries$/.test(await fact(t, "Came from")), await fact(t, "Came from"));
  await t.axe("a letter");
  await t.picture("queue-letter");

  await page.getByRole("link", { name: "Move back" }).click();
  await field(t, "Reason contains").fill("mailbox");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("heading", { name: "2 letters would be moved, 0 not" }).waitFor();
  await field(t, "Body contains").fill("linus");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("heading", { name: "1 letter would be moved, 1 not" }).waitFor();
  t.equal((await cells(t, "Some of the letters")).map(r => [r[2], r[3]]), [[queue, "no such mailbox: linus"]], "the preview");
  t.equal((await of(t, queue)).dead, 2, "letters after a preview");
  await t.axe("the preview of a move");
  await t.picture("queue-redrive");
  await page.getByRole("button", { name: "Move 1 letter" }).click();
  await page.getByText("1 letter was moved, 1 did not match or are with workers.").waitFor();
  t.equal((await of(t, queue)).dead, 1, "letters after the move");
  t.allow(/404/);
  await field(t, "To").fill("no-such-queue");
  await field(t, "Body contains").fill("");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("alert").getByText("There is no queue no-such-queue.").waitFor();
}

async function send(t, queue) {
  const { page } = t;
  await open(t, queue, "send");
  await field(t, "Body").fill('{"to":"ada"}');
  await field(t, "Delay").fill("2 hours");
  await page.getByText('"2 hours" is not a time span').waitFor();
  await t.axe("an invalid delay");
  await field(t, "Delay").fill("2h");
  await field(t, "Dedup ID").fill("welcome-ada");
  await page.getByText(`seb queue send ${queue} --delay 2h --dedup welcome-ada '{"to":"ada"}'`).waitFor();
  await field(t, "Body").press("Control+Enter");
  await page.getByText("Stored as").waitFor();
  await t.axe("a message was sent");
  await t.picture("queue-send");
  await page.getByRole("button", { name: "Send", exact: true }).click();
  await page.getByText("Nothing was stored").waitFor();
  await page.getByRole("link", { name: /^message 0-/ }).click();
  await page.getByRole("region", { name: /^Message 0-/ }).getByText("delayed: was sent for later").waitFor();
}

async function settings(t, queue) {
  const { page } = t;
  await open(t, queue, "settings");
  await field(t, "visibility").fill("5m");
  await t.axe("the settings of a queue");
  await t.picture("queue-settings");
  await page.getByRole("button", { name: "Save visibility" }).click();
  await t.until(async () => (await of(t, queue)).settings.visibility === "5m0s", "the setting is saved");
  await field(t, "expire").fill("7d");
  await page.getByRole("button", { name: "Save expire" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Cancel" }).click();
}

async function schedules(t, queue) {
  const { page } = t;
  await open(t, queue, "schedules");
  await page.getByText("There are none.").waitFor();
  await t.axe("no schedules");
  const r = await t.api("PUT", `/queues/${queue}/schedules/morning`, { cron: "0 9 * * MON", zone: "Europe/Copenhagen", value: "report" });
  t.ok(r.status < 300, r.text);
  await page.reload();
  await t.until(async () => (await cells(t, "Schedules").catch(() => [])).length === 1, "the schedule");
  t.equal((await cells(t, "Schedules"))[0].slice(0, 3), ["morning", "0 9 * * MON", "Europe/Copenhagen"], "the schedule");
  await t.axe("schedules");
  await t.picture("queue-schedules");
  await page.getByRole("button", { name: "Delete", exact: true }).last().click();
  await page.getByRole("dialog").getByRole("button", { name: "Delete the schedule" }).click();
  await page.getByText("There are none.").waitFor();
}

/** states: a queue says that it is paused, full, or waits for keys. */
async function states(t, queue) {
  const { page } = t;
  await open(t, queue);
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("The queue is paused: workers get no messages.").waitFor();
  t.equal((await of(t, queue)).effective_settings.paused, "true", "paused");
  const end = await t.change(`**/queues/${queue}`, async answer => ({ json: { ...await answer.json(), full: true, look_ahead_full: true } }));
  await page.reload();
  await page.getByText("The queue is full").waitFor();
  await page.getByText("The queue waits: it has looked ahead").waitFor();
  await t.axe("a queue that is paused and full");
  await t.picture("queue-states");
  await end();
  await page.getByRole("button", { name: "Resume" }).click();
  await page.getByRole("button", { name: "Pause" }).waitFor();
  t.equal((await of(t, queue)).effective_settings.paused, "false", "resumed");
}

async function narrow(t, queue) {
  const { page } = t;
  await page.setViewportSize({ width: 320, height: 800 });
  for (const hash of ["#/queues", `#/queues/${queue}/numbers`, `#/queues/${queue}/messages`, `#/queues/${queue}.dead/redrive`, `#/queues/${queue}/send`]) {
    await t.open(hash);
    await page.waitForLoadState("networkidle");
    t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} scrolls sideways at 320 px`);
    await t.picture("narrow" + hash.replace(/\W+/g, "-").replace(/-\d+/, ""));
  }
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** viewer: a person who may only look sees no way to change anything. */
async function viewer(t, queue) {
  const made = await t.api("POST", "/tokens", { id: "looks-at-queues", preset: "viewer" });
  const other = await t.login(made.json.token);
  await other.open(`#/queues/${queue}/numbers`);
  await other.page.locator("dt", { hasText: "Ready" }).waitFor();
  for (const button of ["Pause", "Purge", "Delete"]) t.equal(await other.page.getByRole("button", { name: button, exact: true }).count(), 0, `a viewer has ${button}`);
  t.equal(await other.page.getByRole("link", { name: "Send", exact: true }).count(), 0, "a viewer has Send");
  await other.open(`#/queues/${queue}.dead/messages`);
  await other.page.getByRole("row", { name: /grace|linus/ }).first().getByRole("link").click();
  await other.page.getByText("Came from").last().waitFor();
  t.equal(await other.page.getByRole("button", { name: "Cancel the message" }).count(), 0, "a viewer can cancel");
  t.equal(await other.page.getByRole("link", { name: "Move back" }).count(), 0, "a viewer can move letters");
  await other.axe("a letter for a viewer");
  await other.close();
}

/** remove empties and deletes the queue, each after its name was typed. */
async function remove(t, queue) {
  const { page } = t, dialog = page.getByRole("dialog");
  await open(t, queue);
  await page.getByRole("button", { name: "Purge" }).click();
  const end = dialog.getByRole("button", { name: /^End \d+ messages$/ });
  t.ok(await end.isDisabled(), "the name must be typed");
  await dialog.getByLabel(`Type ${queue} to confirm`).fill(queue);
  await t.axe("purge a queue");
  await t.picture("queue-purge");
  await end.click();
  await t.until(async () => { const q = await of(t, queue); return q.ready + q.leased + q.delayed + q.retry === 0; }, "the queue is empty");
  await page.getByRole("button", { name: "Delete", exact: true }).click();
  await dialog.getByLabel(`Type ${queue} to confirm`).fill(queue);
  await dialog.getByRole("button", { name: "Delete the queue" }).click();
  await page.getByRole("heading", { name: "Queues", level: 1 }).waitFor();
  t.equal((await t.api("GET", `/queues/${queue}`)).status, 404, "the queue is gone");
}
