// 10,000 topics, queues, groups, tokens, keys and quotas: each list is usable within a second of the click, its search finds the
// last one, and no answer and no page holds more than a page of them.

export const name = "lists-many", byHand = true;

const many = 10_000, id = i => `many-${String(i).padStart(5, "0")}`, last = id(many - 1);

/** fill sends a request for each number, 50 at a time. */
async function fill(t, what, send) {
  const began = Date.now();
  let next = 0;
  await Promise.all(Array.from({ length: 50 }, async () => {
    while (next < many) {
      const r = await send(id(next++));
      t.ok(r.status < 300, r.text);
    }
  }));
  console.log(`${many} ${what} made in ${((Date.now() - began) / 1000).toFixed(1)} s`);
}

export async function run(t) {
  const { page } = t;
  await fill(t, "topics", name => t.api("PUT", `/topic?topic-name=${name}`, {}));
  await fill(t, "queues", name => t.api("PUT", `/queues/queue-${name}`, { settings: { "dead-letter": "none" } }));
  await fill(t, "groups", name => t.api("PUT", `/offsets?group=${name}`, { offsets: [{ topic: name, partition: 0, offset: 0 }, { topic: id(0), partition: 0, offset: 0 }] }));
  await fill(t, "tokens", name => t.api("POST", "/tokens", { id: name, read: [name] }));
  await fill(t, "quotas", name => t.api("PUT", `/quotas/${name}`, { requests: 100 }));
  await t.api("PUT", "/topic?topic-name=keys", { settings: { "cleanup-policy": "compact" } });
  await t.api("POST", "/records?topic-name=keys", Array.from({ length: many }, (_, i) => JSON.stringify({ key: id(i), value: "v" })).join("\n"), { "Content-Type": "application/x-ndjson" });
  let largest = 0;
  page.on("response", async r => { if (!r.url().includes("/console/")) largest = Math.max(largest, (await r.body().catch(() => "")).length); });
  for (const [hash, label, table, begin] of [
    ["#/topics", "Filter by name", "Topics"], ["#/queues", "Filter by name", "Queues"], ["#/groups", "Name contains", "Groups"], [`#/topics/${id(0)}/groups`, "Name contains", "Groups"], ["#/access", "Name contains", "Tokens and users"],
    ["#/access/rules", "Principal or pattern contains", "Rules"], ["#/access/quotas", "Name contains", "Quotas"], ["#/topics/keys/keys", "Keys that begin with", "Keys of keys", true],
  ]) {
    await t.open("#/broker");
    await page.waitForLoadState("networkidle");
    largest = 0;
    const rows = page.getByRole("table", { name: table }).locator("tbody tr"), began = Date.now();
    await t.open(hash);
    await rows.nth(99).waitFor();
    const shown = Date.now();
    await page.getByRole("link", { name: begin ? "More keys" : "Next page" }).click();
    await rows.filter({ hasText: id(begin || /topics$|queues/.test(hash) ? 150 : 120) }).first().waitFor();
    const next = Date.now();
    await t.picture("many" + hash.replace(/\W+/g, "-") + "-page");
    t.ok(await rows.count() <= 101, `${hash}: ${await rows.count()} rows`);
    await page.getByLabel(label).fill(begin ? last : last.slice(-5));
    if (begin) await page.keyboard.press("Enter");
    await t.until(async () => await rows.count() <= 2 && (await rows.first().textContent()).includes(last), `${hash} finds ${last}`);
    const found = Date.now(), heap = await page.evaluate(() => { gc(); return performance.memory.usedJSHeapSize; });
    await page.waitForLoadState("networkidle");
    console.log(`${hash}: shown after ${shown - began} ms, next page ${next - shown} ms, found ${found - next} ms, largest answer ${largest} bytes, heap ${(heap / 1e6).toFixed(1)} MB`);
    t.ok(largest < 200_000, `${hash}: an answer of ${largest} bytes`);
    await t.axe(`${hash} with many`);
    await t.picture("many" + hash.replace(/\W+/g, "-"));
  }
  await t.open("#/overview");
  await page.getByText("Needs attention").waitFor();
  await t.picture("many-overview");
}
