// "Signed up, and did not use X within 7 days" by keyboard, from the page of a new trigger to the stored one.
export const name = "builder-keys";

const most = 50, want = "user_created THEN (NOT use_x WITHIN 7 days)";

export async function run(t) {
  t.allow(/404/); // the topic of events, if it does not exist yet
  const { page } = t;
  await t.open("#/triggers");
  await page.getByRole("link", { name: "New trigger" }).press("Enter");
  await page.getByRole("heading", { name: "New trigger", level: 1 }).waitFor();
  let keys = 0;
  const press = async (key, times = 1) => { for (; times > 0; times--, keys++) await page.keyboard.press(key); };
  const type = async text => { for (const letter of text) await press(letter); };
  const tabTo = async target => { for (let i = 0; ; i++) {
    if (await target.evaluate(e => e === document.activeElement)) return;
    if (i === most) throw new Error("Tab does not reach it");
    await press("Tab");
  } };
  await press("Tab");
  if (await page.getByRole("link", { name: "Skip to the content" }).evaluate(e => e === document.activeElement)) await press("Enter");
  await tabTo(page.getByRole("button", { name: "Someone did A but not B in time" }));
  await press("Enter");
  await t.until(() => page.getByLabel("Event", { exact: true }).evaluate(e => e === document.activeElement), "the focus is in the first box");
  await type("user_created");
  await press("Enter");
  await t.until(() => page.getByRole("region", { name: "Step 2 of 2" }).isVisible(), "the second box");
  await type("use_x");
  await press("Enter");
  await press("Escape"); // closes the panel
  await page.getByText("7 days after user_created, unless use_x happens in that time.", { exact: true }).waitFor();
  await tabTo(page.getByLabel("ID", { exact: true }));
  await type("no-x");
  await press("Enter");
  await page.getByText("Stored as a draft").waitFor();
  t.ok(keys <= most, `${keys} keys, at most ${most}`);
  console.log(`figure: keys of the example, with the letters of both names and of the ID: ${keys}`);
  const { expr } = (await t.api("GET", "/triggers/no-x")).json;
  t.equal(expr, (await t.api("POST", "/drip/parse", { expr: want })).json.expr, "the expression");
}
