// Makes the pictures of docs/guide/console.md, with the data of a small shop:
// go run ./test/cmd/console -only guide -pictures docs/guide/console
import { createServer } from "node:http";

export const name = "guide";
export const byHand = true;

const random = (seed => () => (seed = seed * 1103515245 + 12345 & 0x7fffffff) / 0x7fffffff)(7);
const pick = list => list[Math.floor(random() * list.length)];
const plans = ["free", "free", "free", "team", "pro"];

export async function run(t) {
  const { page } = t;
  const must = async (...request) => {
    const r = await t.api(...request);
    if (r.status >= 300) throw new Error(`${request[0]} ${request[1]}: ${r.text}`);
    return r.json;
  };
  await t.open("#/overview");
  await page.getByRole("heading", { name: "Send the first event" }).waitFor();
  await t.picture("first");

  const mail = createServer((q, r) => { q.resume(); q.on("end", () => { r.statusCode = q.url === "/broken" ? 500 : 204; r.end(); }); });
  await new Promise(done => mail.listen(0, "127.0.0.1", done));
  const url = `http://127.0.0.1:${mail.address().port}`;
  await must("PUT", "/topic?topic-name=orders", { partitions: 4, settings: { "key-index": "true", "retention-time": "30d" } });
  await must("PUT", "/topic?topic-name=page-views", { partitions: 2, settings: { "retention-time": "7d" } });
  for (const [id, expr, path] of [
    ["no-project", "user_created THEN (NOT project_created WITHIN 7 days)", "/remind"],
    ["first-large-order", "purchase[amount > 100]", "/thanks"],
    ["came-back", "login THEN (login AFTER 30 days)", ""],
    ["three-orders", "user_created THEN (count(purchase) >= 3 WITHIN 30 days)", "/broken"],
  ]) {
    await must("PUT", `/triggers/${id}`, { expr, ...(path ? { deliver: { url: url + path, secrets: ["whsec_" + Buffer.alloc(24, 7).toString("base64")] } } : {}) });
  }
  await load(t, must, 200, 100);

  await must("PUT", "/offsets?group=mail&topic-name=orders&partition=0", { offset: 3 });
  for (const p of [1, 2, 3]) await must("PUT", `/offsets?group=mail&topic-name=orders&partition=${p}`, { offset: 5 + 4 * p });
  await must("PUT", "/offsets?group=warehouse&topic-name=orders&partition=0", { offset: 40 });
  await must("POST", "/tokens", { id: "shop", write: ["orders", "events"], read: ["orders"] });
  await must("POST", "/tokens", { id: "mail", read: ["orders"], groups: ["mail"] });
  await must("PUT", "/quotas/shop", { requests: 200, "produce-bytes": 1 << 20 }).catch(() => must("PUT", "/quotas/shop", { requests: 200 }));
  await must("POST", "/acls", { rules: [{ principal: "shop", resource: "topic", pattern: "orders.archive.*", operation: "read", deny: true }] });

  const shoot = async (hash, picture, ready) => {
    await t.open(hash);
    if (ready) await ready().catch(e => t.ok(false, `${picture}: ${e.message}`));
    await t.picture(picture);
  };
  const table = name => async () => page.getByRole("table", { name }).first().waitFor();
  await shoot("#/topics", "topics", table(/topics/i));
  await shoot("#/topics/orders/records", "records", async () => {
    const list = page.getByRole("table", { name: "Records of orders" });
    await list.getByRole("link").nth(2).click();
    await page.getByRole("region", { name: /^Record / }).getByText("Headers").waitFor();
  });
  await shoot("#/topics/orders/keys", "keys", async () => page.getByRole("link", { name: "History" }).first().waitFor());
  await shoot("#/topics/orders/produce", "produce");
  await shoot("#/topics/orders/settings", "settings");
  await shoot("#/topics/events/live", "live", async () => {
    await page.getByText("live", { exact: true }).waitFor();
    await load(t, must, 10, 1);
    await page.getByRole("table").getByRole("link").nth(12).waitFor();
  });
  await shoot("#/groups", "groups", table(/groups/i));
  await shoot("#/groups/mail", "group");
  await shoot("#/groups/mail/reset?topic=orders&to=earliest", "group-reset", async () => {
    const preview = page.getByRole("button", { name: "Preview" });
    if (await preview.isVisible()) await preview.click();
    await page.getByRole("heading", { name: "Preview" }).waitFor();
  });
  await shoot("#/triggers", "triggers", async () => page.getByRole("link", { name: "three-orders" }).waitFor());
  await shoot("#/triggers/first-large-order", "trigger", async () => page.getByRole("heading", { name: "Newest firings" }).waitFor());
  await shoot("#/firings?trigger=three-orders", "firings", async () => page.getByRole("link", { name: "three-orders" }).first().waitFor());
  await shoot("#/dry-run?expr=" + encodeURIComponent("user_created THEN (NOT project_created WITHIN 1 second)"), "dry-run", async () => {
    await page.getByRole("button", { name: "Run", exact: true }).click();
    await page.getByRole("heading", { name: /Firings by day/ }).waitFor();
    await page.evaluate(() => scrollTo(0, 0));
  });
  await shoot("#/evaluate", "evaluate", async () => {
    await page.getByRole("button", { name: "Evaluate" }).click().catch(() => {});
  });
  const entity = (await must("GET", "/firings?trigger=first-large-order&limit=1")).firings[0].entity;
  await shoot("#/entities", "entities");
  await shoot(`#/entities/${encodeURIComponent(entity)}`, "entity", async () => page.getByRole("img", { name: /Time line/ }).waitFor());
  await shoot("#/access", "tokens", async () => page.getByText("shop").first().waitFor());
  await shoot("#/access/rules", "rules");
  await shoot("#/access/quotas", "quotas");
  await shoot("#/broker", "broker");
  await shoot("#/latency", "latency", async () => page.locator("canvas").first().waitFor());
  await shoot("#/overview", "overview", async () => page.locator("canvas").nth(2).waitFor());
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("API key or token").waitFor();
  await t.picture("login");
  mail.close();
}

/** load is a shop for some seconds: each user creates an account, looks, and perhaps buys. */
async function load(t, must, users, seconds) {
  let order = 1000;
  const began = Date.now();
  for (let u = 1; u <= users; u++) {
    const id = `u${1000 + u}`, plan = pick(plans), event = (event, data) => must("POST", "/event", { event, entity_id: id, ...(data ? { data } : {}) });
    await event("user_created", { plan, country: pick(["de", "fr", "nl", "se"]) });
    for (let i = 0; i < 3; i++) await event("login");
    if (random() < 0.6) await event("project_created", { name: pick(["garden", "kitchen", "roof"]) });
    const orders = Math.floor(random() * 4), lines = [];
    for (let i = 0; i < orders; i++) {
      const amount = Math.round(random() * 24000) / 100;
      await event("purchase", { order: ++order, amount });
      lines.push(JSON.stringify({ key: id, value: JSON.stringify({ order, user: id, amount, items: [{ sku: pick(["lamp-12", "rope-5", "saw-3"]), count: 1 + i }], paid: random() < 0.9 }), headers: { source: "shop" } }));
    }
    if (lines.length) await must("POST", "/records?topic-name=orders", lines.join("\n"), { "Content-Type": "application/x-ndjson" });
    const views = Array.from({ length: 20 + 30 * random() }, () => JSON.stringify({ key: id, value: JSON.stringify({ path: pick(["/", "/lamps", "/cart"]) }) }));
    await must("POST", "/records?topic-name=page-views", views.join("\n"), { "Content-Type": "application/x-ndjson" });
    await new Promise(done => setTimeout(done, Math.max(0, began + u / users * seconds * 1000 - Date.now())));
  }
}
