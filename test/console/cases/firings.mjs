// Firings: filters and pages in the address, one firing in detail, and its delivery again.
import { createServer } from "node:http";

export const name = "firings";

const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const hostile = "<b>x</b> فاتورة";

export async function run(t) {
  const hook = await receiver();
  try {
    await seed(t, hook);
    await pages(t);
    await dead(t);
    await again(t, hook);
    await narrow(t);
  } finally {
    hook.close();
  }
}

const get = async (t, path) => (await t.api("GET", path)).json;
const ids = t => t.page.getByRole("table", { name: "Firings", exact: true }).locator("tbody tr td:first-child a").evaluateAll(links => links.map(a => a.getAttribute("href").split("/").pop()));

/** receiver answers webhooks with a status that the case sets. */
async function receiver() {
  const server = createServer((q, a) => {
    server.ids.push(q.headers["webhook-id"]);
    a.writeHead(server.status).end("no mailbox <img src=x onerror=alert(1)>");
  });
  Object.assign(server, { status: 410, ids: [] });
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  return server;
}

async function seed(t, hook) {
  const topic = "f-events";
  const put = (id, spec) => t.api("PUT", `/triggers/${id}`, { topic, ...spec });
  t.equal((await put("f-all", { expr: "f_a", fire: "edge" })).status, 201, "a trigger");
  t.equal((await put("f-hook", { expr: "f_b", deliver: { url: `http://127.0.0.1:${hook.address().port}/`, secrets: [secret] } })).status, 201, "a trigger");
  const lines = Array.from({ length: 230 }, (_, i) => JSON.stringify({ event: "f_a", entity_id: `e${i}` })).concat(JSON.stringify({ event: "f_b", entity_id: hostile, data: { note: hostile } }));
  t.equal((await t.api("POST", `/event?topic-name=${topic}`, lines.join("\n"), { "Content-Type": "application/x-ndjson" })).status, 201, "events");
  await t.until(async () => (await get(t, "/firings?trigger=f-hook")).firings[0]?.state === "dead", "a dead delivery");
  await t.until(async () => (await get(t, "/triggers/f-all?counts=true")).firings.states.delivered === 230, "firings");
}

/** pages: each firing is on exactly one page, as the API lists them. */
async function pages(t) {
  const { page } = t;
  await t.open("#/firings?trigger=f-all");
  const seen = [];
  for (let n = 1; ; n++) {
    const want = n === 3 ? 30 : 100;
    await t.until(async () => { const shown = await ids(t); return shown.length === want && !seen.includes(shown[0]); }, `page ${n}`);
    seen.push(...await ids(t));
    if (n === 1) {
      await t.axe("firings");
      await t.picture("firings");
    }
    if (!await page.getByRole("link", { name: "Older" }).count()) break;
    await page.getByRole("link", { name: "Older" }).click();
  }
  t.equal(seen, (await get(t, "/firings?trigger=f-all&order=newest&limit=1000")).firings.map(f => f.id), "the firings of all pages");
  await page.goBack();
  await t.until(async () => (await ids(t))[0] === seen[100], "back to the second page");
  await page.getByRole("link", { name: "Newest" }).click();
  await t.until(async () => (await ids(t))[0] === seen[0], "the newest firings");

  await page.getByLabel("Entity", { exact: true }).fill("e7");
  await page.keyboard.press("Enter");
  await t.until(async () => (await ids(t)).length === 1, "the firings of an entity");
  t.ok(page.url().includes("entity=e7"), "the entity is not in the address");
  await page.getByLabel("Order", { exact: true }).selectOption("oldest");
  await page.getByLabel("State", { exact: true }).selectOption("carried");
  await page.getByText("No firing matches.").waitFor();
  await t.axe("no firings");
}

async function dead(t) {
  const { page } = t;
  await t.open("#/firings");
  await page.getByRole("link", { name: "Dead deliveries" }).click();
  const want = (await get(t, "/firings?state=dead&order=newest")).firings.map(f => f.id).join();
  await t.until(async () => (await ids(t)).join() === want, "the dead deliveries");
  await page.getByRole("row").filter({ hasText: hostile }).getByRole("link").first().click();
  await page.getByRole("heading", { name: `f-hook for ${hostile}` }).waitFor();
  const f = (await get(t, "/firings?trigger=f-hook")).firings[0];
  for (const text of [f.id, f.outcome.reason, "no mailbox <img src=x onerror=alert(1)>", `event at offset ${f.offsets[0]} of partition 0`]) {
    t.ok(await page.getByText(text, { exact: true }).first().isVisible(), `not shown: ${text}`);
  }
  t.ok(await page.getByRole("table", { name: "Events that made the expression true" }).getByText("f_b").isVisible(), "the matched event");
  await t.axe("one firing");
  await t.picture("firing");
}

async function again(t, hook) {
  const { page } = t;
  const id = page.url().split("/").pop(), before = hook.ids.length;
  hook.status = 204;
  await page.getByRole("button", { name: "Deliver again" }).click();
  await t.axe("deliver again");
  await page.keyboard.press("Escape");
  await page.getByRole("dialog").waitFor({ state: "detached" });
  t.equal(hook.ids.length, before, "messages without a confirmation");
  t.equal((await t.api("POST", "/triggers/f-hook/resume")).status, 200, "resume"); // 410 paused it
  await page.getByRole("button", { name: "Deliver again" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("dialog").getByRole("button", { name: "Deliver again" }).click();
  await t.until(async () => (await get(t, `/firings/${id}`)).state === "delivered", "the delivery");
  t.equal(hook.ids.slice(before), [id], "the messages");
  await page.getByRole("button", { name: "Load again" }).click();
  await page.getByText("delivered", { exact: true }).first().waitFor();
  t.allow(/404/);
  await t.open("#/firings/00000000000000000000000000000000");
  await page.getByRole("alert").waitFor();
}

async function narrow(t) {
  await t.page.setViewportSize({ width: 320, height: 700 });
  const id = (await get(t, "/firings?trigger=f-hook")).firings[0].id;
  for (const hash of ["#/firings", `#/firings/${id}`]) {
    await t.open(hash);
    await t.page.getByRole("table").first().waitFor();
    t.ok(await t.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} is wider than 320 px`);
  }
}
