// The broker's page: facts, the check of the bucket, log time, and the format of the bucket.

export const name = "broker";

export async function run(t) {
  const { page } = t;
  await t.open("#/broker");
  const status = (await t.api("GET", "/status")).json, level = (await t.api("GET", "/upgrade")).json;
  await page.getByText(`${status.role}, epoch ${status.epoch}`).waitFor();
  await page.getByText(status.store.name).first().waitFor();
  await page.getByText(`${level.level} of ${level.highest_level}`).waitFor();
  if (status.kafka) await page.getByText(status.kafka.address).waitFor();
  await page.getByText("has the same time").waitFor();
  const licences = await page.getByRole("link", { name: "their licences" }).getAttribute("href");
  const answer = await page.request.get(licences);
  t.ok(answer.ok() && (await answer.text()).includes("MIT"), `${licences}: status ${answer.status()}`);
  await t.axe("broker");
  await t.picture("broker");

  await check(t);
  await progress(t);
  await clock(t);
  await upgrade(t, level);
}

/** check runs a check of the bucket: first its size, then the result. */
async function check(t) {
  const { page } = t, card = page.getByRole("region", { name: "Check of the bucket" }), dialog = page.getByRole("dialog");
  await t.api("POST", "/event", { event: "checked", entity_id: "u1" });
  await card.getByRole("button", { name: /^Check/ }).click();
  await dialog.getByText(/^The bucket has \d/).waitFor();
  const estimate = (await t.api("GET", "/fsck?estimate=true")).json.estimate;
  t.ok(estimate.objects > 0 && (await dialog.textContent()).includes(`${estimate.objects.toLocaleString("en-US")} object`), `the dialog has not ${estimate.objects} objects: ${await dialog.textContent()}`);
  await t.axe("start a check");
  await dialog.getByRole("button", { name: "Start" }).click();
  await card.getByText("The check found no damage.").waitFor();
  const done = (await t.api("GET", "/fsck")).json;
  t.equal([done.state, done.damages], ["done", 0], "the check");
  await card.getByText(`${done.summary.records.toLocaleString("en-US")} in ${done.summary.partitions} partition`).waitFor();
  await t.axe("a check is done");
  await t.picture("broker");
}

/** progress: a check of a large bucket that finds damage takes hours; here the answer is changed. Its cancellation is the broker's. */
async function progress(t) {
  const { page } = t, card = page.getByRole("region", { name: "Check of the bucket" });
  let state = "running", cancelled = 0;
  const end = await t.change("**/fsck", async (answer, request) => {
    if (request.method() === "DELETE") { cancelled++; state = "cancelled"; }
    const hostile = "log/<img src=x onerror=alert(1)>";
    return { json: {
      ...await answer.json(), state, listed: { objects: 41200, bytes: 64e9 }, checked: { objects: 100, bytes: 15e7 }, damages: 1, kinds: { "damage: commit": 1, "orphan: pack": 120 },
      findings: [{ severity: "damage", kind: "commit", key: hostile, text: "checksum mismatch", lost: [{ topic: "orders", partition: 0, from: 5, to: 9 }] }, { severity: "orphan", kind: "pack", key: "packs/1" }],
    } };
  });
  await page.reload();
  await card.getByText("100 of 41,200 objects read").waitFor();
  await card.getByText("orders partition 0: offsets 5 to before 9 are lost").waitFor();
  await card.getByText("The first 2 of 121.").waitFor();
  t.equal(await page.locator("main img").count(), 0, "images in the page");
  await t.axe("a check runs");
  await t.picture("broker-check");
  await card.getByRole("button", { name: "Cancel the check" }).click();
  await card.getByText("The check was cancelled; so far it found 1 damage.").waitFor();
  t.equal(cancelled, 1, "cancellations");
  await end();
}

/** clock: a browser whose clock is wrong by a year. */
async function clock(t) {
  const { page } = t;
  await page.clock.install({ time: Date.now() + 365 * 86400e3 });
  await page.reload();
  await page.getByText(/^is 365 d ahead/).waitFor();
  await t.axe("a wrong clock");
}

/** upgrade: a bucket of an older program asks before it is raised. The tests of formats make such buckets; here the answer is changed. */
async function upgrade(t, level) {
  const { page } = t, dialog = page.getByRole("dialog");
  let raised = 0;
  await t.change("**/upgrade", async (answer, request) => {
    if (request.method() === "POST") raised++;
    return { json: raised ? await answer.json() : { ...level, level: level.level - 1 } };
  });
  await page.reload();
  await page.getByText(`${level.level - 1} of ${level.highest_level}`).waitFor();
  const button = page.getByRole("button", { name: `Raise to ${level.highest_level}` });
  await button.click();
  await t.axe("raise the format level");
  await page.keyboard.press("Escape");
  t.equal(raised, 0, "requests before the confirmation");
  await button.click();
  await dialog.getByRole("button", { name: "Raise" }).click();
  await page.getByText(`${level.level} of ${level.highest_level}`).waitFor();
  t.equal(raised, 1, "requests after the confirmation");
}
