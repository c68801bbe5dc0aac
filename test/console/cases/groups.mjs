// Groups: what the pages show is what the API says; a reset hits only what its preview showed.
import { connect } from "node:net";

export const name = "groups";

const hostile = "<img src=x onerror=alert(1)> فاتورة " + "n".repeat(200);
const query = group => `group=${encodeURIComponent(group)}`;

export async function run(t) {
  await seed(t);
  await list(t);
  await reset(t);
  await moved(t);
  await members(t);
  await transactions(t);
  await huge(t);
  await remove(t);
  await narrow(t);
}

async function seed(t) {
  t.equal((await t.api("PUT", "/topic?topic-name=shop", { partitions: 3 })).status, 201, "create a topic");
  for (const [p, n] of [[0, 30], [1, 60], [2, 90]]) {
    const lines = Array.from({ length: n }, (_, i) => JSON.stringify({ key: `k${i}`, value: `v${i}` })).join("\n");
    t.equal((await t.api("POST", `/records?topic-name=shop&partition=${p}`, lines, { "Content-Type": "application/x-ndjson" })).status, 201, "records");
  }
  await commit(t, "mail", [10, 60]);
  await commit(t, hostile, [5]);
}

async function commit(t, group, offsets) {
  const r = await t.api("PUT", `/offsets?${query(group)}`, { offsets: offsets.map((offset, partition) => ({ topic: "shop", partition, offset })) });
  t.equal(r.status, 200, `commit: ${r.text}`);
}

const committed = async (t, group) => (await t.api("GET", `/offsets?${query(group)}`)).json.offsets.map(o => o.offset);

/** cells returns the texts of a table's rows. */
const cells = (t, table) => t.page.getByRole("table", { name: table, exact: true }).locator("tbody tr").evaluateAll(rows => rows.map(r => [...r.cells].map(c => c.textContent)));

async function list(t) {
  const { page } = t;
  await t.open("#/groups");
  await page.getByRole("link", { name: "mail", exact: true }).waitFor();
  const groups = (await t.api("GET", "/groups?members=true")).json.groups;
  const shown = await cells(t, "Groups");
  t.equal(shown.map(r => r[0]), groups.sort((a, b) => b.lag - a.lag).map(g => g.group), "the groups by lag");
  t.equal(shown.find(r => r[0] === "mail")[4], String(groups.find(g => g.group === "mail").lag), "the lag of a group");
  await t.axe("groups");
  await t.picture("groups");

  await page.getByRole("link", { name: hostile }).click();
  await page.getByRole("heading", { name: hostile }).waitFor();
  await page.getByRole("table", { name: "Offsets", exact: true }).waitFor();
  t.equal((await cells(t, "Offsets"))[0].slice(0, 6), ["shop", "0", "5", "0", "30", "25"], "the offset of a group");
  await t.axe("one group");

  t.allow(/404/); // the broker does not know the group
  await t.open("#/groups/nobody");
  await page.getByText("neither committed offsets nor members").waitFor();
  await t.axe("a group without offsets");
}

async function reset(t) {
  const { page } = t;
  await t.open("#/groups/mail");
  await page.getByRole("link", { name: "Reset offsets" }).click();
  const preview = page.getByRole("button", { name: "Preview" });
  await preview.waitFor();
  t.equal(await page.getByLabel("Topic").inputValue(), "shop", "the topic of the group");
  for (const [to, value, want] of [
    ["earliest", "", [["10", "0", "10 read again"], ["60", "0", "60 read again"], ["none", "0", "90 left to read"]]],
    ["latest", "", [["10", "30", "20 skipped"], ["60", "60", "nothing changes"], ["none", "90", "0 left to read"]]],
    ["offset", "40", [["10", "30", "20 skipped (40 is beyond the end)"], ["60", "40", "20 read again"], ["none", "40", "50 left to read"]]],
    ["shift", "-20", [["10", "0", "10 read again (-10 is below the start)"], ["60", "40", "20 read again"], ["none", "–", "nothing changes (has no offset to shift)"]]],
  ]) {
    await page.getByLabel("To", { exact: true }).selectOption(to);
    if (value) await page.getByLabel(to === "shift" ? "Shift by" : "Offset", { exact: true }).fill(value);
    await preview.click();
    await page.getByRole("table").waitFor();
    t.equal((await cells(t, "Preview of the reset")).map(r => r.slice(1, 4)), want, `preview to ${to} ${value}`);
    t.equal(await committed(t, "mail"), [10, 60], "a preview changes something");
  }
  t.ok(page.url().includes("to=shift&offset=-20"), "the choices are not in the address");
  await t.axe("preview of a reset");
  await t.picture("group-reset");

  // A time: the broker finds the offsets.
  const now = new Date(Date.now() + 3_600_000);
  await page.getByLabel("To", { exact: true }).selectOption("time");
  await page.getByLabel("Time").fill(new Date(now.getTime() + 3_600_000).toISOString().slice(0, 16)); // the browser is in Berlin
  await preview.click();
  await page.getByRole("table").waitFor();
  t.equal((await cells(t, "Preview of the reset")).map(r => r[2]), ["30", "60", "90"], "a time after the last record");

  await page.getByLabel("To", { exact: true }).selectOption("offset");
  await page.getByLabel("Offset", { exact: true }).fill("1x");
  await page.getByText("want a whole number").waitFor();
  await page.getByLabel("Offset", { exact: true }).fill("3");
  await page.getByLabel("Partitions").fill("0, 7");
  await page.keyboard.press("Enter");
  t.ok((await page.getByRole("alert").textContent()).includes("none with the number 7"), "a wrong partition");

  // By the keyboard: earliest is earliest.
  await page.getByLabel("Partitions").fill("0");
  await page.getByLabel("To", { exact: true }).selectOption("earliest");
  await preview.focus();
  await page.keyboard.press("Enter");
  await page.getByRole("button", { name: "Reset 1 partition" }).focus();
  await page.keyboard.press("Enter");
  await page.getByText("1 partition reset.").first().waitFor();
  t.equal(await committed(t, "mail"), [0, 60], "after a reset to the earliest record");
}

/** A group that moved after the preview is not hit, and the preview is made again. */
async function moved(t) {
  const { page } = t;
  await t.open("#/groups/mail/reset?topic=shop&to=shift&offset=-20");
  await commit(t, "mail", [25, 50]);
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("button", { name: "Reset 2 partitions" }).waitFor();
  await commit(t, "mail", [28]);
  t.allow(/504/); // the outcomes differ
  await page.getByRole("button", { name: "Reset 2 partitions" }).click();
  await page.getByText("the group moved to 28 meanwhile").waitFor();
  t.equal(await committed(t, "mail"), [28, 30], "after a reset of a group that moved");
  // Only what was not reset is in the new preview.
  t.equal((await cells(t, "Preview of the reset")).map(r => r.slice(0, 3)), [["0", "28", "8"]], "the preview after a conflict");
  await t.axe("a conflict");
  await page.getByRole("button", { name: "Reset 1 partition" }).click();
  await page.getByRole("table").waitFor({ state: "detached" });
  t.equal(await committed(t, "mail"), [8, 30], "after the second reset");
}

/** An offset beyond 2^53 is shown and compared exactly. */
async function huge(t) {
  const { page } = t;
  t.equal((await t.api("PUT", "/offsets?group=huge&topic-name=shop&partition=0", '{"offset":9007199254740993}', { "Content-Type": "application/json" })).status, 200, "commit");
  await t.open("#/groups/huge");
  await page.getByText("9,007,199,254,740,993").waitFor();
  await t.open("#/groups/huge/reset?topic=shop&to=shift&offset=-9007199254740986&partitions=0");
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByRole("table").waitFor();
  t.equal((await cells(t, "Preview of the reset"))[0].slice(1, 4), ["9,007,199,254,740,993", "7", "23 read again"], "the preview of a large offset");
  await page.getByRole("button", { name: "Reset 1 partition" }).click();
  await page.getByText("1 partition reset.").first().waitFor();
  t.equal(await committed(t, "huge"), [7], "after the reset of a large offset");
}

/** A group with members is refused in the broker's words. */
async function members(t) {
  const { page } = t;
  await commit(t, "busy", [10]);
  const member = await join(t, "busy");
  await t.open("#/groups/busy");
  await t.until(async () => (await cells(t, "Members with their partitions").catch(() => []))[0]?.[0] === "tester", "the member is shown");
  await t.axe("a group with a member");
  await page.getByRole("link", { name: "Reset offsets" }).click();
  await page.getByRole("button", { name: "Preview" }).click();
  await page.getByText("The group has 1 member.").waitFor();
  t.allow(/409/);
  await page.getByRole("button", { name: /^Reset \d/ }).click();
  await page.getByRole("alert").filter({ hasText: "consumer group has members" }).waitFor();
  t.equal(await committed(t, "busy"), [10], "after a refused reset");
  member.destroy();
}

/** An open transaction is shown, and aborted after a question. */
async function transactions(t) {
  const { page } = t, odd = hostile.slice(0, 100);
  t.equal((await t.api("PUT", "/topic?topic-name=pay", { partitions: 1 })).status, 201, "create a topic");
  await t.open("#/groups");
  await page.getByRole("link", { name: "mail", exact: true }).waitFor();
  t.equal(await page.getByText("Open transactions").count(), 0, "the part without a transaction");
  await t.control(`transaction?topic=pay&id=${encodeURIComponent(odd)}`);
  await t.control("transaction?topic=pay&id=pay-1");
  await t.until(async () => (await cells(t, "Open transactions").catch(() => [])).length === 2, "the transactions are shown");
  const row = (await cells(t, "Open transactions")).find(r => r[0] === "pay-1");
  t.equal([row[2], row[3]], ["10 min", "pay/0 offset 0"], "the timeout, and where readers wait");
  t.equal(await page.locator("main img").count(), 0, "images in the page");
  await t.axe("open transactions");
  await t.picture("transactions");

  await page.getByRole("button", { name: "Abort pay-1" }).click();
  await page.getByRole("dialog").waitFor();
  await t.axe("abort a transaction");
  await t.picture("transaction-abort");
  await page.keyboard.press("Escape");
  t.equal((await t.api("GET", "/transactions?transactional-id=pay-1")).json.state, "open", "after Escape");
  await page.getByRole("button", { name: "Abort pay-1" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Abort" }).click();
  await page.getByRole("dialog").waitFor({ state: "detached" });
  await t.until(async () => (await cells(t, "Open transactions")).length === 1, "the aborted one is gone");
  t.equal((await t.api("GET", "/transactions?transactional-id=pay-1")).json.state, "aborted_by_broker", "after the abort");

  // A viewer sees it, and has no button.
  const { json: { token } } = await t.api("POST", "/tokens", { id: "watcher", preset: "viewer" }), viewer = await t.login(token);
  await viewer.open("#/groups");
  await viewer.page.getByText("Open transactions").first().waitFor();
  t.equal(await viewer.page.getByRole("button", { name: /^Abort/ }).count(), 0, "buttons of a viewer");
  t.equal((await t.api("POST", `/transactions/abort?transactional-id=${encodeURIComponent(odd)}`)).status, 200, "abort the other one");
}

/** join makes a member of a group over the Kafka protocol. */
async function join(t, group) {
  const port = Number((await t.api("GET", "/status")).json.kafka.address.split(":").pop());
  const socket = connect(port, "127.0.0.1");
  const i16 = n => { const b = Buffer.alloc(2); b.writeInt16BE(n); return b; }, i32 = n => { const b = Buffer.alloc(4); b.writeInt32BE(n); return b; };
  const text = s => Buffer.concat([i16(Buffer.byteLength(s)), Buffer.from(s)]), bytes = b => Buffer.concat([i32(b.length), b]);
  const ask = (key, version, ...body) => new Promise((done, fail) => {
    socket.once("data", done).once("error", fail);
    socket.write(bytes(Buffer.concat([i16(key), i16(version), i32(1), text("tester"), ...body])));
  });
  await ask(17, 1, text("PLAIN")); // SaslHandshake
  await ask(36, 0, bytes(Buffer.from(`\0seb\0${t.key}`))); // SaslAuthenticate
  const answer = await ask(11, 1, text(group), i32(30_000), i32(30_000), text(""), text("consumer"), i32(1), text("range"), bytes(Buffer.from([0, 1, 0, 0, 0, 0, 0, 0, 0, 0]))); // JoinGroup
  t.equal(answer.readInt16BE(8), 0, "join a group");
  return socket;
}

async function remove(t) {
  const { page } = t;
  await t.open("#/groups/mail");
  await page.getByRole("button", { name: "Delete group" }).click();
  const dialog = page.getByRole("dialog");
  t.ok(await dialog.getByRole("button", { name: "Delete group" }).isDisabled(), "a group is deleted without its name");
  await t.axe("delete a group");
  await page.keyboard.press("Escape");
  await t.until(() => page.getByRole("button", { name: "Delete group" }).evaluate(b => b === document.activeElement), "the focus returns");
  await page.getByRole("button", { name: "Delete group" }).click();
  await dialog.getByLabel("Type mail to confirm").fill("mail");
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Groups", level: 1 }).waitFor();
  t.equal((await t.api("GET", "/groups?group=mail")).status, 404, "the group after its deletion");
}

/** Nothing is wider than a narrow window. */
async function narrow(t) {
  await t.page.setViewportSize({ width: 320, height: 700 });
  for (const hash of ["#/groups", `#/groups/${encodeURIComponent(hostile)}`, "#/groups/busy/reset?topic=shop&to=latest"]) {
    await t.open(hash);
    await t.page.getByRole("region").or(t.page.getByRole("button", { name: "Preview" })).first().waitFor();
    t.ok(await t.page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${hash} is wider than 320 px`);
  }
  await t.page.setViewportSize({ width: 1280, height: 800 });
}
