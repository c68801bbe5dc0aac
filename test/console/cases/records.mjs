// Records of a topic: scopes, pages in both directions, one record beside the list, and hostile values.
export const name = "records";

const topic = "records", hostile = `<script>document.title="x"</script><img src=x onerror=alert(1)>`;

export async function run(t) {
  const { page } = t, q = encodeURIComponent(topic);
  await t.api("PUT", `/topic?topic-name=${q}`, { partitions: 3, settings: { "key-index": "true" } });
  const lines = Array.from({ length: 120 }, (_, i) => JSON.stringify({ key: `k${i % 7}`, value: `{"n":${i},"big":9007199254740993,"price":1.0}`, timestamp: 1_700_000_000_000 + i * 1000, headers: { trace: `t${i}` } }));
  await t.api("POST", `/records?topic-name=${q}`, lines.join("\n"), { "Content-Type": "application/x-ndjson" });
  const records = [];
  for (const partition of [0, 1, 2]) {
    const r = await t.api("GET", `/records?topic-name=${q}&partition=${partition}&offset=earliest&max-records=1000&timeout=0s`);
    records.push(...r.json.map(x => ({ ...x, at: `${partition}:${x.offset}` })));
  }
  records.sort((a, b) => b.timestamp - a.timestamp);
  const table = page.getByRole("table", { name: `Records of ${topic}` });
  const shown = async () => (await table.getByRole("link").allTextContents()).join(" ");
  const waitFor = (want, what) => t.until(async () => await table.count() && await shown() === want.map(r => r.at).join(" "), what);

  // Newest first over all partitions, then older, then newer again.
  await t.open(`#/topics/${q}/records`);
  await waitFor(records.slice(0, 50), "the newest 50 records");
  await t.axe("newest records");
  await t.picture("records");
  await page.getByRole("link", { name: "Older" }).click();
  await waitFor(records.slice(50, 100), "the 50 before them");
  await page.getByRole("link", { name: "Older" }).click();
  await waitFor(records.slice(100), "the oldest records");
  t.ok(await page.getByText("No older records").isVisible(), "the last page says that it is the last");
  await page.getByRole("link", { name: "Newer" }).click();
  await waitFor(records.slice(50, 100), "newer records again");
  await page.goBack();
  await waitFor(records.slice(100), "the browser's way back");

  // Scopes.
  await page.getByLabel("From").selectOption("Oldest");
  await waitFor(records.slice(-50).reverse(), "the oldest records first");
  await page.getByLabel("From").selectOption("A time");
  await page.getByLabel("Time (local)").fill("2023-11-14T23:14:00"); // 22:14:00 UTC: i >= 40
  await page.getByRole("button", { name: "Read" }).click();
  await waitFor(records.slice(0, 80).reverse().slice(0, 50), "records from a time on");
  await page.getByLabel("From").selectOption("An offset");
  await page.getByRole("textbox", { name: "Offset" }).fill("9007199254740993");
  t.allow(/404/);
  await page.getByLabel("Partition").selectOption("1");
  await page.getByRole("alert").waitFor();
  t.ok((await page.getByRole("alert").textContent()).includes("9007199254740993"), "an offset beyond 2^53 is sent as it is");
  await t.axe("an offset beyond the end");
  await page.getByRole("textbox", { name: "Offset" }).fill("x");
  await page.keyboard.press("Enter");
  await page.getByText("An offset is a whole number").waitFor();

  // The history of a key, from a record and by keyboard.
  await t.open(`#/topics/${q}/records`);
  await waitFor(records.slice(0, 50), "the newest records again");
  const first = records[0], second = records[1];
  await table.getByRole("link", { name: first.at, exact: true }).focus();
  await page.keyboard.press("ArrowDown");
  await page.keyboard.press("Enter");
  const detail = page.getByRole("region", { name: `Record ${second.at}` });
  await detail.getByText("price: 1.0").waitFor();
  t.ok(await detail.getByText(`trace: ${second.headers[0].value}`).isVisible(), "headers of the record");
  t.ok((await detail.getByRole("region", { name: "Value" }).textContent()).includes("9007199254740993"), "a number beyond 2^53 in the tree");
  await t.axe("a record beside the list");
  await page.setViewportSize({ width: 320, height: 700 });
  t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page fits into 320 pixels");
  await page.setViewportSize({ width: 1280, height: 800 });
  await t.picture("record");
  await page.keyboard.press("Escape");
  await t.until(async () => !await detail.count(), "Escape closes the record");
  t.equal(await page.evaluate(() => document.activeElement.textContent), second.at, "focus returns to the list");
  await page.keyboard.press("Enter");
  await detail.getByRole("link", { name: "History of this key" }).click();
  await waitFor(records.filter(r => r.key === second.key), "the history of a key");

  await search(t, records, waitFor);
  await hostileValues(t);
  await largeValues(t);
  await stop(t, records);
  await disorder(t);
  await many(t);
  await secrets(t);
}

/** stop ends a search that is under way: what was found stays, and the search can go on. */
async function stop(t, records) {
  const { page } = t;
  let release;
  const held = new Promise(done => { release = done; });
  let asked = 0;
  await page.route(/\/records\?.*contains=/, async route => {
    if (++asked > 1) await held; // the second partition
    await route.continue();
  });
  await t.open("#/topics/records/records?contains=" + encodeURIComponent(`"n":`));
  await page.getByText(/^\d+ records found, looked at \d+ of 120\.$/).waitFor();
  const found = Number((await page.getByText(/records found/).textContent()).match(/^\d+/)[0]);
  t.ok(found > 0 && found < 50, `the first hits are shown while the search runs: ${found}`);
  await t.axe("a search under way");
  await page.getByRole("button", { name: "Stop" }).click();
  release();
  await page.getByText("Stopped.").waitFor();
  await page.unroute(/\/records\?.*contains=/);
  const shown = await page.getByRole("table", { name: "Records of records" }).getByRole("link").count();
  await page.getByRole("link", { name: "Search older" }).click();
  const rest = Math.min(50, records.length - shown);
  await t.until(async () => await page.getByRole("table", { name: "Records of records" }).getByRole("link").count() === rest && !(await page.getByText("Stopped.").count()), "the search goes on where it stopped");
}

/** many partitions are not read at once. */
async function many(t) {
  const { page } = t;
  await t.api("PUT", "/topic?topic-name=records-many", { partitions: 101 });
  const lines = Array.from({ length: 2000 }, (_, i) => JSON.stringify({ key: `k${i}`, value: `v${i}` }));
  await t.api("POST", "/records?topic-name=records-many", lines.join("\n"), { "Content-Type": "application/x-ndjson" });
  await t.open("#/topics/records-many/records");
  await page.getByText("more than 100 partitions: choose one").waitFor();
  await page.getByLabel("Partition").selectOption("100");
  await page.getByRole("table", { name: "Records of records-many" }).waitFor();
  t.ok((await page.getByRole("table").getByRole("link").allTextContents()).every(at => at.startsWith("100:")), "records of one partition");
  await t.open("#/topics/records-many/live");
  await page.getByText("A stream has at most 100 partitions").waitFor();
  await page.getByLabel("Partition").selectOption("7");
  await page.getByText("Waiting for records.").waitFor();
  await t.api("POST", "/records?topic-name=records-many&partition=7", { value: "one" });
  await page.getByText("1 record received").waitFor();
}

/** times that are not in the order of offsets do not change the order of a partition. */
async function disorder(t) {
  const { page } = t, topic = "records-disorder", lines = [3, 1, 2].map(n => JSON.stringify({ value: `v${n}`, timestamp: 1_700_000_000_000 + n }));
  await t.api("POST", `/records?topic-name=${topic}`, lines.join("\n"), { "Content-Type": "application/x-ndjson" });
  for (const [query, want] of [["", ["0:2", "0:1", "0:0"]], ["?from=oldest", ["0:0", "0:1", "0:2"]], ["?contains=v", ["0:2", "0:1", "0:0"]]]) {
    await t.open(`#/topics/${topic}/records${query}`);
    const table = page.getByRole("table", { name: `Records of ${topic}` });
    await t.until(async () => await table.count() && (await table.getByRole("link").allTextContents()).join() === want.join(), `the order of offsets${query}`);
  }
}

/** secrets of webhooks are shown only on demand. */
async function secrets(t) {
  const { page } = t;
  const r = await t.api("PUT", "/triggers/records-secret", { expr: "records_secret", deliver: { url: "https://hooks.example.com/x", secrets: ["whsec_" + Buffer.from("records-secret-records-secret").toString("base64")] } });
  if (r.status > 201) throw new Error(r.text);
  await t.open("#/topics/triggers/records");
  const table = page.getByRole("table", { name: "Records of triggers" });
  await table.getByText("hidden").first().waitFor();
  const at = await table.getByRole("link").first().textContent();
  await table.getByRole("link").first().click();
  await page.getByText("The value is hidden.").waitFor();
  t.equal(await page.getByRole("link", { name: "Send again" }).count(), 0, "a hidden value is not copied");
  await t.axe("hidden values");
  await t.open("#/topics/triggers/produce?copy=" + at);
  await page.getByRole("form", { name: "Send a record" }).waitFor();
  t.equal(await page.getByLabel("Value", { exact: true }).inputValue(), "", "a hidden value in the form");
  await t.open("#/topics/triggers/records");
  t.ok(!(await page.locator("main").textContent()).includes("hooks.example.com"), "a hidden value in the list");
  await page.getByRole("button", { name: "Show the values" }).click();
  await table.getByText("hooks.example.com").waitFor();
  await t.api("DELETE", "/triggers/records-secret");
}

async function search(t, records, waitFor) {
  const { page } = t;
  await t.open("#/topics/records/records");
  await page.getByLabel("Where").fill("n >= 20 AND n < 30");
  await page.keyboard.press("Enter");
  const found = records.filter(r => { const n = Number(JSON.parse(r.value).n); return n >= 20 && n < 30; });
  await waitFor(found, "the records that match where");
  await page.getByText("10 records found, looked at 120 of 120. All looked at.").waitFor();
  await t.axe("a search");
  t.equal(await page.evaluate(() => document.activeElement.labels?.[0]?.textContent), "Where", "the focus stays in the form");
  await page.getByLabel("Contains").fill(`"n":25`);
  await page.getByRole("button", { name: "Read" }).click();
  await waitFor(found.filter(r => r.value.includes(`"n":25`)), "the records that match both");
  t.ok((await page.evaluate(() => location.hash)).includes("contains="), "the filter is in the address");
  t.allow(/400/);
  await page.getByLabel("Where").fill("n >=");
  await page.keyboard.press("Enter");
  await page.locator("input[aria-invalid]").waitFor();
  t.ok(/where/.test(await page.locator("input[aria-invalid] + small").textContent()), "the error of a filter is at its field");
  await t.axe("a filter that is wrong");
  await page.getByLabel("Where").fill("");
  await page.getByLabel("Contains").fill("nothing has this");
  await page.keyboard.press("Enter");
  await page.getByText("No record matches in what was looked at.").waitFor();
}

async function hostileValues(t) {
  const { page } = t, odd = "records-odd";
  const put = (body, type = "application/json") => t.api("POST", `/records?topic-name=${odd}`, typeof body === "string" ? body : JSON.stringify(body), { "Content-Type": type });
  await put({ key: hostile, value: hostile });
  await put({ key: "عربى", value: JSON.stringify({ "اسم": hostile }) });
  await put({ key_base64: "/wBr", value_base64: Buffer.from(Array.from({ length: 256 }, (_, i) => i)).toString("base64") });
  await put({ key: "gone", value: null });
  await put({ key: "", value: "" });
  await put({ value: JSON.stringify({ event: "login", entity_id: hostile }) });
  await lookAlikes(t);
  await t.open(`#/topics/${odd}/records`);
  const table = page.getByRole("table", { name: `Records of ${odd}` });
  await t.until(async () => await table.count() && await table.getByRole("link").count() === 6, "six records");
  t.ok((await table.textContent()).includes(hostile), "markup is text in the list");
  for (const at of ["0:0", "0:1", "0:2", "0:3", "0:4", "0:5"]) {
    await table.getByRole("link", { name: at }).click();
    const detail = page.getByRole("region", { name: `Record ${at}` });
    await detail.getByText("Headers").waitFor();
    if (at === "0:2") {
      await t.until(async () => (await detail.getByRole("region", { name: "Value" }).textContent()).includes("000000f0  f0 f1 f2"), "bytes that are not UTF-8 are shown as bytes");
      await t.axe("bytes");
      await t.picture("record-bytes");
    }
    if (at === "0:5") t.equal(await detail.getByRole("link", { name: "Time line of" }).getAttribute("href"), "#/entities/" + encodeURIComponent(hostile).replace(/[()']/g, c => c), "the entity of an event");
  }
  await t.axe("hostile values");
  t.equal(await page.locator("main img, main script").count(), 0, "markup of values in the page");
  t.ok((await page.title()).includes("Seb"), "the title is the page's");
}

/** lookAlikes: no key, an empty one, bytes and the time 0 do not look as a text that has the same letters. */
async function lookAlikes(t) {
  const topic = "records-alike", put = r => t.api("POST", `/records?topic-name=${topic}`, JSON.stringify(r), { "Content-Type": "application/json" });
  const pairs = [
    [{ value: "v" }, { key: "none", value: "v" }], [{ key: "", value: "v" }, { key: "empty", value: "v" }], [{ key_base64: "/wBr", value: "v" }, { key: "/wBr", value: "v" }],
    [{ key: "k", value: "" }, { key: "k", value: "empty" }], [{ key: "k", value: null }, { key: "k", value: "tombstone" }],
    [{ key: "k", value_base64: "/wA=" }, { key: "k", value: "ff 00" }],
  ];
  for (const r of pairs.flat()) await put({ ...r, timestamp: 0 });
  await t.open(`#/topics/${topic}/records?from=oldest`);
  const rows = t.page.getByRole("table", { name: `Records of ${topic}` }).getByRole("row");
  await t.until(async () => await rows.count() === 1 + 2 * pairs.length, "all records");
  const looks = await rows.evaluateAll(all => all.slice(1).map(row => [...row.cells].slice(2).map(c => c.innerHTML).join("|")));
  t.equal(new Set(looks).size, looks.length, `different records look different: ${looks.join(" ")}`);
  t.equal(await rows.nth(1).locator("time").getAttribute("datetime"), "1970-01-01T00:00:00.000Z", "the time 0");
  await t.axe("records that look alike");
  await t.picture("records-alike");
}

async function largeValues(t) {
  const { page } = t, large = "records-large";
  const put = body => t.api("POST", `/records?topic-name=${large}`, body, { "Content-Type": "application/octet-stream" });
  const text = JSON.stringify({ rows: Array.from({ length: 10_000 }, (_, i) => ({ id: i, name: `name ${i}`, text: "x".repeat(50) })) });
  await put(text.slice(0, -1).padEnd((1 << 20) - 1) + "}");
  const whole = 30 << 20;
  await put("y".repeat(whole));
  await t.open(`#/topics/${large}/records`);
  const table = page.getByRole("table", { name: `Records of ${large}` });
  await table.waitFor();
  t.ok((await table.textContent()).includes("30 MiB"), "the list says how long a cut value is");
  await table.getByRole("link", { name: "0:0" }).click();
  const value = page.getByRole("region", { name: "Value", exact: true });
  await value.getByRole("button", { name: "rows: [" }).click();
  await value.getByText("100 of 10,000 shown").waitFor();
  t.ok(await value.getByRole("listitem").count() < 300, "a large tree is rendered in pieces");
  await table.getByRole("link", { name: "0:1" }).click();
  await page.getByText("The first 1 MiB of 30 MiB").waitFor();
  await page.getByRole("button", { name: "Load all 30 MiB" }).click();
  await page.getByText(`of ${whole.toLocaleString("en-US")} characters shown`).waitFor();
}
