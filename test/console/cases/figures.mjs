// Measures what docs/reports/console.md lists. It asserts nothing about time, because machines differ:
// go run ./test/cmd/console -only figures
export const name = "figures";
export const byHand = true;

const print = (what, value) => console.log(`figure: ${what}: ${value}`);
const ms = n => `${Math.round(n)} ms`;
const median = list => list.toSorted((a, b) => a - b)[Math.floor(list.length / 2)];

export async function run(t) {
  await firstLoad(t, "on this machine", {});
  await firstLoad(t, "over 1.6 Mbit/s and 150 ms with a 4 times slower processor", { slow: true });
  await loginToOverview(t);
  await openPage(t);
  await largeValue(t);
  await search(t);
  await topics(t, 1000);
  await topics(t, 10_000);
}

/** firstLoad is a page without anything in the browser's cache. */
async function firstLoad(t, what, { slow }) {
  const paints = [], usable = [], blocked = [];
  for (let i = 0; i < 5; i++) {
    const other = await t.fresh();
    const cdp = await other.page.context().newCDPSession(other.page);
    if (slow) {
      await cdp.send("Network.enable");
      await cdp.send("Network.emulateNetworkConditions", { offline: false, latency: 150, downloadThroughput: 200_000, uploadThroughput: 93_750 });
      await cdp.send("Emulation.setCPUThrottlingRate", { rate: 4 });
    }
    await other.page.addInitScript(() => {
      globalThis.blocked = 0;
      new PerformanceObserver(list => { for (const e of list.getEntries()) globalThis.blocked += Math.max(0, e.duration - 50); }).observe({ type: "longtask", buffered: true });
    });
    const began = Date.now();
    await other.page.goto(other.base + "/console/");
    await other.page.getByLabel("API key or token").waitFor();
    usable.push(Date.now() - began);
    const figures = await other.page.evaluate(() => [performance.getEntriesByName("first-contentful-paint")[0]?.startTime ?? NaN, globalThis.blocked]);
    paints.push(figures[0]), blocked.push(figures[1]);
    await other.close();
  }
  print(`first load ${what}, median of 5`, `first paint ${ms(median(paints))}, usable ${ms(median(usable))}, blocked ${ms(median(blocked))}`);
}

async function loginToOverview(t) {
  const times = [];
  let requests = 0;
  await t.api("POST", "/event", { event: "e", entity_id: "1" }); // not the page of an empty broker
  for (let i = 0; i < 5; i++) {
    const other = await t.fresh();
    await other.page.goto(other.base + "/console/#/overview?window=24h");
    await other.page.getByLabel("API key or token").fill(t.key);
    requests = 0;
    other.page.on("request", () => requests++);
    const began = Date.now();
    await other.page.getByRole("button", { name: "Log in" }).click();
    await other.page.locator("canvas").first().waitFor();
    times.push(Date.now() - began);
    await other.close();
  }
  print("login to the overview with charts of 24 hours, median of 5", `${ms(median(times))}, ${requests} requests`);
}

/** openPage is what an open overview costs the broker. */
async function openPage(t) {
  const cpu = async () => {
    const text = (await t.api("GET", "/metrics")).text;
    return Number(/^process_cpu_seconds_total (\S+)/m.exec(text)[1]);
  };
  const over = async seconds => {
    const before = await cpu(), began = Date.now();
    await new Promise(done => setTimeout(done, seconds * 1000));
    return (await cpu() - before) / ((Date.now() - began) / 1000) * 100;
  };
  await t.page.goto("about:blank");
  const idle = await over(30);
  await t.page.goto(t.base + "/console/#/overview?window=24h");
  await t.page.locator("canvas").first().waitFor();
  print("processor of the broker over 30 s", `${idle.toFixed(2)} % of a core without a page, ${(await over(30)).toFixed(2)} % with an open overview`);
}

async function largeValue(t) {
  const { page } = t;
  const text = JSON.stringify({ rows: Array.from({ length: 10_000 }, (_, i) => ({ id: i, text: "x".repeat(80) })) });
  await t.api("POST", "/records?topic-name=figures-large", text, { "Content-Type": "application/octet-stream" });
  await t.open("#/topics/figures-large/records");
  const table = page.getByRole("table", { name: "Records of figures-large" });
  await table.waitFor();
  const times = [];
  for (let i = 0; i < 5; i++) {
    const began = Date.now();
    await table.getByRole("link", { name: "0:0" }).click();
    await page.getByRole("button", { name: "rows: [" }).waitFor();
    times.push(Date.now() - began);
    await page.keyboard.press("Escape");
    await page.getByRole("button", { name: "rows: [" }).waitFor({ state: "detached" });
  }
  print(`open a JSON value of ${text.length} bytes, median of 5`, ms(median(times)));
}

async function search(t) {
  const { page } = t, topic = "figures-search", records = 1_000_000, batch = 2000;
  for (let n = 0; n < records; n += batch) {
    const lines = Array.from({ length: batch }, (_, i) => JSON.stringify({ value: JSON.stringify({ n: n + i, plan: (n + i) % 3 ? "free" : "pro", text: "x".repeat(240) }) }));
    const r = await t.api("POST", `/records?topic-name=${topic}`, lines.join("\n"), { "Content-Type": "application/x-ndjson" });
    if (r.status >= 300) throw new Error(r.text);
  }
  await t.open(`#/topics/${topic}/records`);
  await page.getByLabel("Where").fill("n = 5");
  const began = Date.now();
  await page.getByRole("button", { name: "Read" }).click();
  await page.getByText(`1 record found, looked at ${records.toLocaleString("en-US")} of ${records.toLocaleString("en-US")}`).waitFor({ timeout: 300_000 });
  const took = Date.now() - began;
  print(`search of ${records} records of 300 B for the oldest ones`, `${(took / 1000).toFixed(1)} s, ${Math.round(records / took * 1000)} records/s`);
}

async function topics(t, n) {
  const { page } = t;
  let next = (await t.api("GET", "/topics")).json.topics.length;
  await Promise.all(Array.from({ length: 32 }, async () => {
    while (next < n) await t.api("PUT", `/topic?topic-name=figures-${String(next++).padStart(5, "0")}`, {});
  }));
  const times = [];
  for (let i = 0; i < 3; i++) {
    await t.open("#/overview");
    const began = Date.now();
    await page.evaluate(() => { location.hash = "#/topics"; });
    await page.getByRole("link", { name: "figures-00100" }).waitFor();
    times.push(Date.now() - began);
  }
  print(`list of ${n} topics usable, median of 3`, ms(median(times)));
}
