// The overview: the start on an empty broker, its charts, and what needs attention.
import { execFileSync } from "node:child_process";

export const name = "overview";

const hostile = "<img src=x onerror=alert(1)> it's فاتورة";

export async function run(t) {
  await first(t);
  await charts(t);
  await attention(t);
  await costs(t);
  await viewer(t);
  await requests(t);
}

/** first sends the first event by keyboard. Other cases may have made topics: then the page is told that there are none. */
async function first(t) {
  const { page } = t;
  let empty = (await t.api("GET", "/status")).json.topics > 0;
  const end = await t.change("**/status", async answer => ({ json: { ...await answer.json(), ...(empty ? { topics: 0 } : {}) } }));
  await page.reload();
  await page.getByRole("heading", { name: "Send the first event" }).waitFor();
  await t.axe("the start");
  await t.picture("first");

  await page.getByLabel("Event", { exact: true }).fill(hostile);
  await page.getByLabel("Entity").fill("o'brien");
  await page.getByLabel("Data").fill("{");
  await page.getByText("This is not JSON").waitFor();
  t.ok(await page.getByRole("button", { name: "Send" }).isDisabled(), "an invalid document cannot be sent");
  await t.axe("invalid data");
  const data = `{"n": 9007199254740993, "text": "it's"}`;
  await page.getByLabel("Data").fill(data);
  await page.getByLabel("Entity").focus();
  await page.keyboard.press("Enter");
  const note = page.locator("main").getByText(/^Stored at offset \d+ after \d+/);
  await note.waitFor();
  const offset = /offset (\d+)/.exec(await note.textContent())[1];
  const stored = (await t.api("GET", `/record?topic-name=events&offset=${offset}`)).text;
  t.ok(stored.includes("9007199254740993"), `a large number arrives as it was typed: ${stored}`);
  t.equal([JSON.parse(stored).event, JSON.parse(stored).entity_id], [hostile, "o'brien"], "the stored event");
  await commands(t, hostile, "o'brien", data);
  await t.axe("the first event is stored");
  await t.picture("first-stored");

  empty = false;
  const link = page.getByRole("link", { name: "See it in the topic" });
  t.equal(await link.getAttribute("href"), "#/topics/events/records", "the link to the event");
  await page.getByRole("button", { name: "Show the overview" }).click();
  await page.getByRole("heading", { name: "Needs attention" }).waitFor();
  await end();
  t.equal(await page.locator("main img").count(), 0, "images in the page");
}

/** commands runs the lines for a terminal in a shell in which the programs print their words. */
async function commands(t, event, entity, data) {
  const text = name => t.page.getByLabel(name, { exact: true }).textContent();
  const words = command => execFileSync("sh", ["-c", `KEY=secret; for f in curl seb kcat; do eval "$f() { printf '%s\\\\0' \\"\\$@\\"; }"; done\n${command}`], { encoding: "utf8" }).split("\0");
  const curl = words(await text("The event with curl")), document = JSON.parse(curl[curl.indexOf("-d") + 1]);
  t.equal([curl[0], curl[2], document.event, document.entity_id], [t.base + "/event", "Authorization: Bearer secret", event, entity], "the words of curl");
  t.equal(words(await text("The event with seb")).slice(0, 5), ["event", event, entity, "--data", data], "the words of seb");
  const status = (await t.api("GET", "/status")).json, kcat = words(await text("The event with kcat"));
  if (status.kafka) t.equal(kcat[kcat.indexOf("-b") + 1], status.kafka.address, "the address for Kafka clients");
  t.ok(kcat.includes("sasl.password=secret") && kcat.includes("events"), `the words of kcat: ${kcat}`);
}

async function charts(t) {
  const { page } = t;
  await t.open("#/overview");
  const answer = page.waitForResponse(r => r.url().endsWith("/stats?window=6h"));
  await page.getByRole("radio", { name: "6 hours" }).focus();
  await page.keyboard.press("Space");
  const stats = await (await answer).json();
  t.equal(new URL(page.url()).hash, "#/overview?window=6h", "the window is in the address");
  const chart = page.getByRole("img", { name: "Chart of Memory" });
  await chart.locator("canvas").waitFor();
  await page.getByRole("button", { name: "Table of Memory" }).click();
  const rows = page.getByRole("table", { name: "Memory, newest first" }).locator("tbody tr");
  await rows.first().waitFor();
  const values = stats.series.memory.values.filter(v => v !== null);
  t.ok(values.length > 0 && await rows.count() === Math.min(values.length, 200), `${await rows.count()} rows for ${values.length} values`);
  const shown = await rows.first().locator("td").nth(1).textContent(), newest = (await chart.getAttribute("aria-label")).split("the state ")[1];
  t.equal(shown, newest, "the newest value in the table and in the name of the chart");
  t.ok(Math.abs(parseFloat(shown) * { KiB: 2 ** 10, MiB: 2 ** 20 }[shown.split(" ")[1]] / values.at(-1) - 1) < 0.01, `${shown} is not ${values.at(-1)} bytes`);
  await t.axe("charts and a table");
  await t.picture("overview");

  // The chart has the colours of the theme: its lines are drawn again.
  const drawn = () => chart.locator("canvas").evaluate(c => { const d = c.getContext("2d").getImageData(0, 0, c.width, c.height).data; let sum = 0; for (let i = 0; i < d.length; i += 4) if (d[i + 3] > 200) sum += d[i] + d[i + 2]; return sum; });
  const light = await drawn();
  await page.getByLabel("Colours").selectOption("dark");
  await t.until(async () => await drawn() !== light, "the chart is drawn again in dark colours");
  await page.getByLabel("Colours").selectOption("");
  await page.setViewportSize({ width: 320, height: 800 });
  await t.until(() => chart.locator("canvas").evaluate(c => c.getBoundingClientRect().right <= innerWidth), "the chart fits into a narrow page");
  t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "a page of 320 pixels does not scroll sideways");
  await t.axe("narrow");
  await page.setViewportSize({ width: 1280, height: 800 });
}

/** attention: a group without members that is far behind, and a delivery that was given up. */
async function attention(t) {
  const { page } = t, topic = "behind", group = "late " + hostile, trigger = "gone" + Date.now();
  await t.api("PUT", `/topic?topic-name=${topic}`, {});
  await t.api("POST", `/records?topic-name=${topic}`, Array.from({ length: 1200 }, (_, i) => JSON.stringify({ value: `v${i}` })).join("\n"), { "Content-Type": "application/x-ndjson" });
  t.equal((await t.api("PUT", `/offsets?group=${encodeURIComponent(group)}`, { offsets: [{ topic, partition: 0, offset: 0 }] })).status, 200, "commit an offset");
  const put = await t.api("PUT", `/triggers/${trigger}`, { expr: "paid", fire: "edge", backfill: "none", deliver: { url: "http://127.0.0.1:1/", secrets: ["whsec_" + btoa("0123456789abcdef0123456789abcdef")], retries: [] } });
  t.ok(put.status < 300, `make a trigger: ${put.text}`);
  await t.api("POST", "/event", { event: "paid", entity_id: "u1" });
  await t.until(async () => (await t.api("GET", "/triggers?counts=true")).json.triggers.find(x => x.id === trigger)?.firings?.states.dead, "a dead delivery");
  // Its last commit is some seconds ago. The page takes the broker's clock from the answer.
  const end = await t.change("**/groups?*", answer => ({ headers: { ...answer.headers(), date: new Date(Date.parse(answer.headers().date) + 3600_000).toUTCString() } }));
  // The broker warns of a transaction only after a minute.
  const old = await t.change("**/status", async answer => {
    const s = await answer.json();
    return { json: { ...s, warnings: [...s.warnings ?? [], 'the transaction of "pay-1" has been open for 2m0s: triggers wait for it'] } };
  });
  await page.reload();
  const warning = page.getByRole("listitem").filter({ hasText: 'The transaction of "pay-1" has been open for 2m0s: triggers wait for it.' });
  t.equal(await warning.getByRole("link", { name: "Transactions" }).getAttribute("href"), "#/groups", "the page that shows the transaction");
  await page.getByText(`Group ${group} is 1,200 records behind and has no member.`).waitFor();
  await page.getByText(`Trigger ${trigger}: 1 delivery was given up.`).waitFor();
  await page.getByText(/dead deliver/).waitFor();
  t.equal(await page.locator("main img").count(), 0, "images in the page");
  await t.axe("needs attention");
  await page.getByRole("listitem").filter({ hasText: group }).getByRole("link", { name: "Group" }).click();
  await page.getByRole("heading", { name: group }).waitFor();
  await end();
  await old();
  await t.api("DELETE", `/triggers/${trigger}`);
  await t.api("DELETE", `/groups?group=${encodeURIComponent(group)}`);
}

async function costs(t) {
  const { page } = t;
  await t.open("#/overview");
  const cost = (await t.api("GET", "/cost")).json, card = page.getByRole("region", { name: "Cost of the bucket" });
  await card.getByText(cost.prices).first().waitFor();
  if (cost.prices === "free") return;
  if (cost.put_budget) await card.getByText(`Budget ${cost.put_budget.budget}: `).waitFor();
  await card.getByText("By kind of request", { exact: true }).click();
  t.equal(await card.getByRole("row").count(), cost.requests.length + 2, "rows of costs");
}

/** viewer may read topics only: the overview says so and asks for nothing. */
async function viewer(t) {
  const id = "reader" + Date.now(), { token } = (await t.api("POST", "/tokens", { id, read: ["orders.*"] })).json;
  const v = await t.login(token);
  await v.open("#/overview");
  await v.page.getByText("may not read the state").waitFor();
  await v.axe("overview without rights");
  await t.api("DELETE", `/tokens/${id}`);
}

/** requests counts those from the login until the overview is there with a day of charts. */
async function requests(t) {
  const v = await t.fresh(), paths = [];
  v.page.on("request", r => { const path = new URL(r.url()).pathname; if (paths.length || path === "/console/login") paths.push(path); });
  await v.page.goto(t.base + "/console/#/overview?window=24h");
  await v.page.reload(); // with the address
  await v.page.getByLabel("API key or token").fill(t.key);
  await v.page.keyboard.press("Enter");
  await v.page.getByRole("img", { name: "Chart of Memory" }).locator("canvas").waitFor();
  await v.page.waitForLoadState("networkidle");
  t.ok(paths.length > 3 && paths.length <= 12, `${paths.length} requests: ${paths.join(" ")}`);
}
