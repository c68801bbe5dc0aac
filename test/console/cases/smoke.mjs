// The login and the first page. `make test` runs this case.
export const name = "smoke";

export async function run(t) {
  const { page } = t;
  await t.open("#/overview");
  await page.getByText("leader, epoch").waitFor();
  const status = (await t.api("GET", "/status")).json;
  t.ok(await page.getByText(`leader, epoch ${status.epoch}`).isVisible(), "the overview has another epoch than the broker");
  await t.axe("overview");

  await page.reload();
  await page.getByText("leader, epoch").waitFor(); // the session outlives the page
  await page.getByRole("button", { name: "Log out" }).click();
  await page.getByLabel("API key or token").waitFor();
  await t.axe("login");
  t.equal((await page.context().cookies()).length, 0, "cookies after the logout");
  t.equal(await page.evaluate(() => localStorage.getItem("seb-session")), null, "half of the session after the logout");
  await t.picture("login");

  t.allow(/401/);
  await page.getByLabel("API key or token").fill("wrong");
  await page.keyboard.press("Enter");
  const alert = page.getByRole("alert");
  await alert.waitFor();
  t.ok((await alert.textContent()).includes("API key"), `a wrong key: ${await alert.textContent()}`);
  await t.axe("login with a wrong key");
}
