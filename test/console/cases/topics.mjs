// Topics: the list, a new topic, and the partitions, settings and groups of one.

export const name = "topics";

export async function run(t) {
  const topic = "ledger-" + Date.now();
  await create(t, topic);
  await list(t, topic);
  await partitions(t, topic);
  await settings(t, topic);
  await groups(t, topic);
  await remove(t, topic);
  await viewer(t);
}

const of = async (t, topic) => (await t.api("GET", `/topic?topic-name=${topic}`)).json;
const field = (t, label) => t.page.getByRole("textbox", { name: label, exact: true });

/** create makes a topic by keyboard. Errors are the broker's, at their fields. */
async function create(t, topic) {
  const { page } = t, dialog = page.getByRole("dialog");
  await t.open("#/topics");
  await page.getByRole("button", { name: "Create a topic" }).focus();
  await page.keyboard.press("Enter");
  await t.axe("create a topic");
  t.allow(/40[09]/);
  await page.keyboard.type("a/<b>");
  await page.keyboard.press("Enter");
  const refused = await t.api("PUT", `/topic?topic-name=${encodeURIComponent("a/<b>")}`, {});
  await dialog.getByText(refused.json.detail.replace(/^topic-name: /, "")).waitFor();
  t.equal(await field(t, "Name").getAttribute("aria-invalid"), "true", "the name is marked");
  await field(t, "Name").fill(topic);
  await field(t, "retention-time").fill("soon");
  await page.keyboard.press("Enter");
  await dialog.getByText(`"soon" is not a time span`).waitFor();
  await t.axe("an invalid setting of a new topic");
  await t.picture("topics-create");
  await field(t, "retention-time").fill("7d");
  await field(t, "Partitions").fill("2");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: topic }).waitFor();
  const made = await of(t, topic);
  t.equal([made.partitions.length, made.settings["retention-time"]], [2, "168h0m0s"], "the new topic");

  await t.open("#/topics");
  await page.getByRole("button", { name: "Create a topic" }).click();
  await field(t, "Name").fill(topic);
  await page.keyboard.press("Enter");
  await dialog.getByRole("alert").getByText("Topic exists").waitFor();
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  t.equal(await page.evaluate(() => document.activeElement?.textContent), "Create a topic", "the focus after Escape");
}

async function list(t, topic) {
  const { page } = t, long = "x".repeat(240) + String(Date.now()).slice(-9);
  await t.api("PUT", `/topic?topic-name=${long}`, {});
  await t.api("POST", `/records?topic-name=${topic}&partition=1`, Array.from({ length: 30 }, (_, i) => JSON.stringify({ value: `v${i}` })).join("\n"), { "Content-Type": "application/x-ndjson" });
  await page.reload();
  await page.getByLabel("Filter by name").fill(topic.toUpperCase());
  await page.getByText("1 topic", { exact: true }).waitFor();
  t.equal(new URL(page.url()).hash, `#/topics?find=${topic.toUpperCase()}`, "the filter is in the address");
  const cells = await page.getByRole("table", { name: "Topics" }).locator("tbody tr").evaluateAll(rows => rows.map(r => [...r.cells].map(c => c.textContent)));
  const bytes = (await of(t, topic)).partitions.reduce((sum, p) => sum + p.bytes, 0);
  t.equal([cells.length, ...cells[0].slice(0, 4), cells[0][5]], [1, topic, "2", "30", `${bytes} B`, "delete"], "the row of the topic");
  await t.axe("topics");
  await page.getByLabel("Filter by name").fill("<b>none");
  await page.getByText("No topic has this in its name.").waitFor();
  await page.getByLabel("Filter by name").fill(long);
  await page.setViewportSize({ width: 320, height: 800 });
  t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "a long name does not widen a narrow page");
  await page.setViewportSize({ width: 1280, height: 800 });
  await page.getByLabel("Filter by name").fill("");
  await t.picture("topics");
}

async function partitions(t, topic) {
  const { page } = t, dialog = page.getByRole("dialog");
  await t.open(`#/topics/${topic}/partitions`);
  const cells = async () => page.getByRole("table", { name: "Partitions" }).locator("tbody tr").evaluateAll(rows => rows.map(r => [...r.cells].slice(0, 4).map(c => c.textContent)));
  await page.getByRole("button", { name: "Trim partition 1" }).click();
  t.equal(await cells(), [["0", "0", "0", "0"], ["1", "0", "30", "30"]], "the partitions");
  await t.axe("trim");
  await field(t, "New start offset").fill("99");
  t.allow(/404/);
  await page.keyboard.press("Enter");
  await dialog.getByText("want a whole number from 0 to 30").waitFor();
  await field(t, "New start offset").fill("12");
  await dialog.getByText("This deletes 12 offsets.").waitFor();
  await page.keyboard.press("Enter");
  await t.until(async () => (await cells())[1]?.join() === "1,12,30,18", "the trimmed partition is shown");
  t.equal((await of(t, topic)).partitions[1].start_offset, 12, "the start offset");

  await page.getByRole("button", { name: "Add partitions" }).click();
  await t.axe("add partitions");
  await page.keyboard.press("Enter");
  await t.until(async () => (await cells()).length === 3, "the added partition is shown");
  t.equal((await of(t, topic)).partitions.length, 3, "partitions");
  await t.axe("partitions");
  await t.picture("topics-partitions");
}

async function settings(t, topic) {
  const { page } = t, dialog = page.getByRole("dialog");
  await page.getByRole("link", { name: "Settings", exact: true }).click();
  await field(t, "retention-time").waitFor();
  t.equal(await field(t, "retention-time").inputValue(), "168h0m0s", "the present value");
  for (const s of (await t.api("GET", "/settings")).json.settings) t.ok(await page.getByLabel(s.name, { exact: true }).count() === (s.name === "queue" ? 0 : 1), `a field for ${s.name}, unless it makes a queue`);
  await t.axe("settings");
  t.allow(/400/);
  await field(t, "max-batch-bytes").fill("40MiB");
  await page.keyboard.press("Enter");
  await page.getByText("40MiB is not between 0 and 31457280 bytes").waitFor();
  await t.axe("an invalid setting");
  await t.picture("topics-settings");
  await field(t, "max-batch-bytes").fill("2MiB");
  await page.keyboard.press("Enter");
  await t.until(async () => (await of(t, topic)).settings["max-batch-bytes"], "the setting is stored");

  await field(t, "retention-time").fill("");
  await page.keyboard.press("Enter");
  await dialog.getByText("can delete records permanently").waitFor();
  await t.axe("a setting that deletes records");
  t.ok("retention-time" in (await of(t, topic)).settings, "nothing changes before the confirmation");
  await dialog.getByRole("button", { name: "Save" }).click();
  await dialog.waitFor({ state: "detached" });
  t.equal((await of(t, topic)).settings, { "max-batch-bytes": "2097152" }, "the settings");
}

async function groups(t, topic) {
  const { page } = t, group = "<b>readers</b> قارئ";
  await page.getByRole("navigation", { name: "Parts of the topic" }).getByRole("link", { name: "Groups" }).click();
  await page.getByText(`seb consume ${topic} --group mail`).waitFor();
  await t.axe("no groups of a topic");
  await t.api("PUT", `/offsets?group=${encodeURIComponent(group)}`, { offsets: [{ topic, partition: 1, offset: 20 }] });
  const row = page.getByRole("row").filter({ has: page.getByRole("link", { name: group }) });
  await row.waitFor();
  t.equal((await row.getByRole("cell").allTextContents()).slice(0, 4), [group, "10", "1", "0"], "the group and its lag");
  await t.axe("groups of a topic");
  await t.api("DELETE", `/groups?group=${encodeURIComponent(group)}`);
}

/** remove deletes a topic that a trigger reads. */
async function remove(t, topic) {
  const { page } = t, dialog = page.getByRole("dialog"), trigger = "uses-" + topic;
  await t.api("PUT", `/topic?topic-name=${topic}`, { settings: { "timestamp-type": "append" } });
  const put = await t.api("PUT", `/triggers/${trigger}`, { expr: "paid", fire: "edge", topic });
  t.ok(put.status < 300, `make a trigger: ${put.text}`);
  await page.getByRole("button", { name: "Delete" }).click();
  const confirm = dialog.getByRole("button", { name: "Delete the topic" });
  t.ok(await confirm.isDisabled(), "nothing is typed");
  await dialog.getByLabel(`Type ${topic} to confirm`).fill(topic);
  await t.axe("delete a topic");
  t.allow(/409/);
  await page.keyboard.press("Enter");
  await dialog.getByRole("alert").waitFor();
  t.ok((await dialog.getByRole("alert").textContent()).includes(trigger), "the error names the trigger");
  await dialog.getByLabel("Delete it although triggers use it").check();
  await t.axe("delete a topic that triggers use");
  await confirm.click();
  await page.getByRole("heading", { name: "Topics" }).waitFor();
  t.equal((await t.api("GET", `/topic?topic-name=${topic}`)).status, 404, "the deleted topic");
  t.allow(/404/);
  await t.open(`#/topics/${topic}/partitions`);
  await page.getByRole("alert").waitFor();
  await t.axe("a topic that does not exist");
  await t.api("DELETE", `/triggers/${trigger}`);
}

/** viewer sees what a topic has, and no button that changes it. */
async function viewer(t) {
  const id = "looks" + Date.now(), { token } = (await t.api("POST", "/tokens", { id, preset: "viewer" })).json;
  await t.api("PUT", "/topic?topic-name=seen", {});
  const v = await t.login(token);
  await v.open("#/topics");
  await v.page.getByRole("link", { name: "seen", exact: true }).waitFor();
  t.equal(await v.page.getByRole("button", { name: "Create" }).count(), 0, "buttons to create topics");
  await v.open("#/topics/seen/partitions");
  await v.page.getByRole("table", { name: "Partitions" }).waitFor();
  t.equal(await v.page.getByRole("main").getByRole("button", { name: /Trim|Add|Delete/ }).count(), 0, "buttons that change a topic");
  await v.open("#/topics/seen/settings");
  await v.page.getByText("may not change settings").waitFor();
  await v.axe("settings of a viewer");
  await t.api("DELETE", `/tokens/${id}`);
}
