// The broker's page: facts, the command that checks the bucket, log time, and the format of the bucket.

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

  await check(t, status.store.name);
  await clock(t);
  await upgrade(t, level);
}

/** check: the page shows the command that checks the bucket, which the console cannot do. */
async function check(t, store) {
  const { page } = t, command = page.getByRole("region", { name: "The check of the bucket" });
  if (store.startsWith("mem")) return t.equal(await command.count(), 0, "commands for a bucket in memory");
  t.ok((await command.textContent()).startsWith("seb fsck --bucket ") && (await command.textContent()).includes(store), `the command is ${await command.textContent()}`);
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
