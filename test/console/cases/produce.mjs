// Sending records and events, and the keys of a topic.
export const name = "produce";

export async function run(t) {
  await records(t);
  await events(t);
  await keys(t);
}

async function records(t) {
  const { page } = t, topic = "produce";
  await t.api("PUT", `/topic?topic-name=${topic}`, { partitions: 2 });
  await t.open(`#/topics/${topic}/produce`);
  const form = page.getByRole("form", { name: "Send a record" });
  await form.getByLabel("Value is").selectOption("JSON");
  await form.getByLabel("Value", { exact: true }).fill("{");
  await form.getByText("This is not JSON").waitFor();
  t.ok(await form.getByRole("button", { name: "Send", exact: true }).isDisabled(), "JSON that is wrong cannot be sent");
  await t.axe("produce, JSON that is wrong");
  const value = `{"big": 9007199254740993, "price": 1.0, "html": "<b>عربى</b>"}`;
  await form.getByLabel("Value", { exact: true }).fill(value);
  await form.getByLabel("Key").fill("k1");
  await form.getByLabel("Partition").selectOption("1");
  await form.getByRole("button", { name: "Add a header" }).click();
  await form.getByLabel("Name of header 1").fill("trace");
  await form.getByLabel("Value of header 1").fill("t1");
  await page.keyboard.press("Control+Enter");
  await form.getByRole("link", { name: "record 1:0" }).waitFor();
  const stored = (await t.api("GET", `/records?topic-name=${topic}&partition=1&offset=0&timeout=0s`)).json[0];
  t.equal([stored.key, stored.value, stored.headers], ["k1", value, [{ key: "trace", value: "t1" }]], "the record as it is stored");
  t.equal(await form.locator("time").getAttribute("datetime"), new Date(stored.timestamp).toISOString(), "the time of the record");
  await t.axe("produce, stored");
  await t.picture("produce");

  // Send again, from the record.
  await form.getByRole("link", { name: "record 1:0" }).click();
  await page.getByRole("link", { name: "Send again" }).click();
  await page.getByRole("form", { name: "Send a record" }).waitFor();
  t.equal(await form.getByLabel("Value", { exact: true }).inputValue(), value, "the copied value");
  await form.getByRole("button", { name: "Send", exact: true }).click();
  await form.getByRole("link", { name: /record \d:\d/ }).waitFor();
  const place = (await form.getByRole("link", { name: /record/ }).textContent()).replace("record ", "").split(":");
  const again = (await t.api("GET", `/records?topic-name=${topic}&partition=${place[0]}&offset=${place[1]}&timeout=0s`)).json[0];
  t.equal([again.key, again.value, again.headers], ["k1", value, [{ key: "trace", value: "t1" }]], "the copy as it is stored");

  // Bytes, a tombstone, and an error at its field.
  await form.getByLabel("Value is").selectOption("Bytes in base64");
  await form.getByLabel("Value", { exact: true }).fill("%%%");
  await form.getByText("want base64").waitFor();
  await form.locator("textarea[aria-invalid]").waitFor();
  await t.axe("produce, refused");
  await form.getByLabel("Value is").selectOption("None (tombstone)");
  await form.getByLabel("Key").focus();
  await page.keyboard.press("Control+Enter");
  await form.getByRole("link", { name: /record \d:\d/ }).waitFor();
}

async function events(t) {
  const { page } = t;
  await t.api("POST", "/event", { event: "user_created", entity_id: "p1" });
  await t.open("#/topics/events/produce");
  const form = page.getByRole("form", { name: "Send an event" });
  await form.getByLabel("Event").fill("purchase");
  await form.getByLabel("Entity").fill("<img src=x onerror=alert(1)>");
  await form.getByLabel("Data").fill(`{"amount": 9007199254740993}`);
  await page.keyboard.press("Control+Enter");
  const link = form.getByRole("link", { name: /record 0:/ });
  await link.waitFor();
  const offset = (await link.textContent()).split(":")[1];
  const stored = (await t.api("GET", `/records?topic-name=events&partition=0&offset=${offset}&timeout=0s`)).json[0];
  t.equal(stored.value, `{"event":"purchase","entity_id":"<img src=x onerror=alert(1)>","data":{"amount":9007199254740993}}`, "the event as it is stored");
  await t.axe("produce, an event");
  await t.picture("produce-event");
  t.allow(/400/);
  await form.getByLabel("Event").fill("x".repeat(300));
  await page.keyboard.press("Control+Enter");
  await form.locator("input[aria-invalid]").waitFor();
  t.ok(/256/.test(await form.locator("input[aria-invalid] + small").textContent()), "the broker's error is at its field");
}

async function keys(t) {
  const { page } = t, topic = "produce-keys";
  const lines = Array.from({ length: 130 }, (_, i) => JSON.stringify({ key: `user-${String(i).padStart(3, "0")}`, value: `v${i}` }));
  lines.push(JSON.stringify({ key: "<b>x</b>", value: "1" }), JSON.stringify({ key: "user-001", value: "newest" }), JSON.stringify({ key_base64: "/wBr", value: "binary" }));
  await t.api("POST", `/records?topic-name=${topic}`, lines.join("\n"), { "Content-Type": "application/x-ndjson" });
  await t.open(`#/topics/${topic}/keys`);
  await page.getByText("This topic has no key index").waitFor();
  await t.axe("no key index");
  t.allow(/409/); // the index begins a moment later, and the page waits for it
  await page.getByRole("button", { name: "Switch the key index on" }).click();
  const table = page.getByRole("table", { name: `Keys of ${topic}` });
  await table.waitFor();
  t.equal(await page.getByRole("alert").count(), 0, "errors while the index begins");
  await t.until(async () => { // the index follows the log with a delay
    if (await table.getByRole("row").count() === 101) return true;
    await page.getByRole("button", { name: "List" }).click();
    return false;
  }, "the first hundred keys");
  t.ok(await table.getByText("<b>x</b>", { exact: true }).isVisible(), "markup in a key is text");
  await t.axe("keys");
  await t.picture("keys");
  await page.getByRole("link", { name: "More keys" }).click();
  await table.getByText("user-129", { exact: true }).waitFor();
  t.ok(await table.getByText("/wBr", { exact: true }).isVisible(), "a key that is not UTF-8");
  await page.getByRole("link", { name: "History of /wBr" }).click();
  await page.getByRole("table", { name: `Records of ${topic}` }).getByText("binary").waitFor();
  await page.goBack();
  await page.getByLabel("Keys that begin with").fill("user-001");
  await page.keyboard.press("Enter");
  await t.until(async () => await table.getByRole("row").count() === 2, "one key with the prefix");
  await table.getByRole("link", { name: "0:131" }).click();
  await page.getByRole("region", { name: "Record 0:131" }).getByText("newest").waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("link", { name: "History of user-001" }).click();
  const history = page.getByRole("table", { name: `Records of ${topic}` });
  await history.waitFor();
  t.equal(await history.locator("td.value").allTextContents(), ["newest", "v1"], "the history of a key, newest first");
}
