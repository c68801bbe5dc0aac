// The live tail: nothing is lost at a high rate, the page stays smooth and small, and a stream that breaks off resumes where it
// was. CONSOLE_TAIL_SECONDS sets how long the load lasts (20), CONSOLE_TAIL_RATE the records per second (10,000).
export const name = "tail";

const seconds = Number(process.env.CONSOLE_TAIL_SECONDS ?? 20), rate = Number(process.env.CONSOLE_TAIL_RATE ?? 10_000);

export async function run(t) {
  await behaviour(t);
  await revoked(t);
  await slow(t);
  await load(t);
}

/** revoked: the stream of a token ends with the token, and the login comes back. */
async function revoked(t) {
  const { token } = (await t.api("POST", "/tokens", { id: "tail-viewer", preset: "viewer" })).json;
  const viewer = await t.login(token);
  await viewer.open("#/topics/tail-behaviour/live");
  await viewer.page.getByText("Waiting for records.").waitFor();
  t.equal(await viewer.page.getByRole("link", { name: "Produce" }).count(), 0, "a viewer does not send records");
  viewer.allow(/401/);
  await t.api("DELETE", `/tokens/tail-viewer`);
  await viewer.page.getByLabel("API key or token").waitFor({ timeout: 60_000 });
}

/** produce appends records with their numbers, over the partitions of a topic. */
async function produce(t, topic, from, count, value = "") {
  const lines = Array.from({ length: count }, (_, i) => `{"key":"k${(from + i) % 64}","value":"{\\"n\\":${from + i}${value}}"}`).join("\n");
  const r = await t.api("POST", `/records?topic-name=${topic}`, lines, { "Content-Type": "application/x-ndjson" });
  if (r.status !== 201) throw new Error(`POST /records: ${r.status} ${r.text}`);
}

const received = page => page.getByText(/^[\d,]+ records? received/).first().textContent().then(s => Number(s.match(/^[\d,]+/)[0].replaceAll(",", "")));

async function behaviour(t) {
  const { page } = t, topic = "tail-behaviour", hostile = `,\\"x\\":\\"<img src=x onerror=alert(1)>\\"`;
  await t.api("PUT", `/topic?topic-name=${topic}`, { partitions: 3 });
  await produce(t, topic, 0, 10);
  await t.open(`#/topics/${topic}/live`);
  await page.getByText("Waiting for records.").waitFor();
  await t.axe("tail without records");
  await produce(t, topic, 10, 100, hostile);
  await t.until(async () => await received(page) === 100, "100 records, and none from before");
  const table = page.getByRole("table", { name: `Newest records of ${topic}` });
  t.ok((await table.textContent()).includes("<img src=x onerror=alert(1)>"), "markup is text");
  await t.axe("tail with records");
  await t.picture("live");

  // A record opens beside the list, and the list is held.
  await table.getByRole("link").nth(2).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("region", { name: /^Record / }).waitFor();
  await produce(t, topic, 110, 10);
  await page.getByText(/held$/).waitFor();
  await t.until(async () => await received(page) === 110, "records come while the list is held");
  await t.axe("tail with a record");
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Older" }).click();
  await page.getByText("21 to 60 of 110, held").waitFor();
  await page.getByRole("button", { name: "Show the newest" }).click();
  await page.getByText(/following$/).waitFor();

  // Pause: nothing is lost, or what is skipped is counted.
  await page.getByRole("button", { name: "Pause" }).click();
  await page.getByText("paused", { exact: true }).waitFor();
  await produce(t, topic, 120, 30);
  await t.axe("tail, paused");
  await page.getByRole("button", { name: "Resume where it stopped" }).click();
  await t.until(async () => await received(page) === 140, "the records of the pause");
  await page.getByRole("button", { name: "Pause" }).click();
  await produce(t, topic, 150, 25);
  await page.getByRole("button", { name: "Resume at the newest" }).click();
  await page.getByText("25 offsets skipped").waitFor();
  await t.axe("tail, skipped");
  t.equal(await received(page), 140, "records after a skip");

  // A broker that is killed: the page says so, and resumes where it was.
  t.allow(/Failed to load resource|net::ERR/);
  await t.control("kill");
  await page.getByText("no connection, trying again").waitFor();
  await t.axe("tail without a broker");
  await t.control("start");
  await produce(t, topic, 175, 40);
  await t.until(async () => await received(page) === 180, "the records after the broker is back", 60_000);

  await page.getByLabel("Where").fill("n >= 1000");
  await page.keyboard.press("Enter");
  await page.getByText("Waiting for records.").waitFor();
  await produce(t, topic, 990, 20);
  await t.until(async () => await received(page) === 10, "only the records that match");
  t.allow(/400/);
  await page.getByLabel("Where").fill("n >=");
  await page.keyboard.press("Enter");
  await page.getByRole("alert").waitFor();
  await t.axe("tail, a filter that is wrong");
}

/** slow: a worker without processor time falls behind. It skips to the end, and the page says how much. */
async function slow(t) {
  const { page } = t, topic = "tail-slow", total = 130_000;
  await t.api("PUT", `/topic?topic-name=${topic}`, { partitions: 2 });
  const workers = await attach(page);
  await t.open(`#/topics/${topic}/live`);
  await page.getByText("Waiting for records.").waitFor();
  const busy = workers("Runtime.evaluate", { expression: "for (const end = Date.now() + 12_000; Date.now() < end;);" });
  for (let n = 0; n < total; n += 10_000) await produce(t, topic, n, 10_000);
  await busy;
  const note = page.getByText(/^[\d,]+ offsets skipped/);
  await note.waitFor();
  await produce(t, topic, total, 1000);
  const skipped = async () => Number((await note.textContent()).match(/^[\d,]+/)[0].replaceAll(",", ""));
  await t.until(async () => await received(page) + await skipped() === total + 1000, "each record is received or counted as skipped", 60_000);
}

/** attach returns a function that sends a command to the workers of a page. */
async function attach(page) {
  const cdp = await page.context().newCDPSession(page), workers = new Map(), waiting = new Map();
  let id = 0;
  cdp.on("Target.attachedToTarget", e => workers.set(e.targetInfo.targetId, e.sessionId));
  cdp.on("Target.detachedFromTarget", e => workers.delete(e.targetId));
  cdp.on("Target.receivedMessageFromTarget", e => { const m = JSON.parse(e.message); waiting.get(m.id)?.(m.result); });
  await cdp.send("Target.setAutoAttach", { autoAttach: true, waitForDebuggerOnStart: false, flatten: false });
  return (method, params) => Promise.all([...workers.values()].map(async sessionId => {
    const n = ++id, answer = new Promise(done => waiting.set(n, done));
    await cdp.send("Target.sendMessageToTarget", { sessionId, message: JSON.stringify({ id: n, method, params }) });
    return answer;
  }));
}

/** used is the size of a heap and of its buffers. */
const used = heap => heap.usedSize + (heap.backingStorageSize ?? 0);

/** heaps returns a function that measures the heaps of the page and its worker, in bytes. */
async function heaps(page) {
  const cdp = await page.context().newCDPSession(page), workers = await attach(page);
  return async () => {
    const own = await cdp.send("Runtime.getHeapUsage"), each = await workers("Runtime.getHeapUsage");
    return { page: used(own), workers: each.map(used).reduce((a, b) => a + b, 0), count: each.length };
  };
}

async function load(t) {
  const { page } = t, topic = "tail-load", value = `,\\"text\\":\\"${"x".repeat(270)}\\"`;
  await t.api("PUT", `/topic?topic-name=${topic}`, { partitions: 3, settings: { "retention-bytes": "256MiB" } });
  const heap = await heaps(page);
  await t.open(`#/topics/${topic}/live`);
  await page.getByText("Waiting for records.").waitFor();
  await page.evaluate(() => {
    const frames = globalThis.__frames = [];
    let last = performance.now();
    const next = now => { frames.push(now - last); last = now; requestAnimationFrame(next); };
    requestAnimationFrame(next);
  });
  const began = performance.now(), batch = Math.max(1, Math.round(rate / 10));
  let sent = 0, most = { page: 0, workers: 0, count: 0 }, looked = began;
  while (performance.now() - began < seconds * 1000) {
    await produce(t, topic, sent, batch, value);
    sent += batch;
    const early = began + sent / rate * 1000 - performance.now();
    if (early > 0) await new Promise(done => setTimeout(done, early));
    if (performance.now() - looked > 2000) {
      looked = performance.now();
      const now = await heap();
      most = now.page + now.workers > most.page + most.workers ? now : most;
    }
  }
  const took = (performance.now() - began) / 1000;
  await t.until(async () => await received(page) >= sent, `all of ${sent} records`, 60_000);
  t.equal(await received(page), sent, "records received by the page");
  t.equal(await page.getByText(/skipped/).count(), 0, "notes of skipped records");
  const frames = (await page.evaluate(() => globalThis.__frames)).sort((a, b) => a - b), at = q => frames[Math.min(frames.length - 1, Math.floor(q * frames.length))].toFixed(1);
  const mb = n => (n / 1e6).toFixed(1);
  console.log(`figure: live tail: ${sent} records in ${took.toFixed(1)} s (${Math.round(sent / took)} a second), all received; frames p50 ${at(0.5)} p95 ${at(0.95)} p99 ${at(0.99)} max ${at(1)} ms; ` +
    `heap at most ${mb(most.page)} MB in the page and ${mb(most.workers)} MB in its worker`);
  t.equal(most.count, 1, "workers of the page");
  t.ok(most.page + most.workers <= 60e6, `heap: ${mb(most.page + most.workers)} MB, at most 60`);
  const newest = page.getByRole("table", { name: `Newest records of ${topic}` });
  t.equal(await newest.getByRole("row").count(), 41, "rows of the list");
  await t.picture("live-load");
}
