// What ends a session, and a broker that is killed under the page.
export const name = "session";

export async function run(t) {
  await revoked(t);
  await expired(t);
  await killed(t);
  await wrongClock(t);
  await readable(t);
}

/** A revoked token ends the next request of the page and its streams; the login says why. */
async function revoked(t) {
  const made = await t.api("POST", "/tokens", { id: "visitor", metrics: true, read: ["*"] });
  t.equal(made.status, 201, "create a token");
  await t.api("POST", "/records?topic-name=visited", "v", { "Content-Type": "text/plain" });
  const other = await t.login(made.json.token);
  other.allow(/401/);
  t.ok((await other.page.locator(".who").textContent()).includes("visitor"), "the page does not name the token");
  const session = await other.page.evaluate(() => localStorage.getItem("seb-session"));
  // A stream of the page, opened by the page's own means.
  const stream = other.page.evaluate(async half => {
    const r = await fetch("../records?topic-name=visited&offset=0", { headers: { Accept: "text/event-stream", "Seb-Session": half } });
    const reader = r.body.getReader();
    await reader.read();
    globalThis.streaming = true;
    for (;;) if ((await reader.read()).done) return "ended";
  }, session).catch(() => "ended");
  await other.until(() => other.page.evaluate(() => globalThis.streaming), "the stream begins");
  t.equal((await t.api("DELETE", "/tokens/visitor")).status, 204, "revoke");
  t.equal(await stream, "ended", "the stream after the revocation");
  // The overview asks every 5 s: the page finds out by itself.
  await other.page.getByLabel("API key or token").waitFor();
  t.ok(await other.page.getByText(/has been revoked/).isVisible(), "the login does not say why the session ended");
  await other.axe("login after a revocation");
  await other.close();
}

/** A session of which one half is lost under the page. */
async function expired(t) {
  const other = await t.login(t.key);
  other.allow(/401/);
  await other.page.context().clearCookies();
  await other.page.getByLabel("API key or token").waitFor();
  t.ok(await other.page.getByText(/log in again/).isVisible(), "the login does not say that the session is incomplete");
  await other.enter(t.key);
  await other.close();
}

/** A killed broker: the page says so, keeps what it shows, and goes on with the same session. */
async function killed(t) {
  const { page } = t;
  t.allow(/ERR_CONNECTION|Failed to fetch|ERR_EMPTY|ERR_INCOMPLETE|ERR_FAILED/);
  await t.open("#/overview");
  await page.getByText("leader, epoch").first().waitFor();
  await t.control("kill");
  const banner = page.getByRole("alert").filter({ hasText: "does not answer" }).first();
  await banner.waitFor();
  t.ok(await page.getByText("leader, epoch").first().isVisible(), "the page forgets what it showed");
  await t.axe("broker killed");
  await t.control("start");
  await t.until(async () => !(await page.locator(".banner").isVisible()), "the page goes on");
  const epoch = (await t.api("GET", "/status")).json.epoch;
  await page.getByText(`leader, epoch ${epoch}`).first().waitFor();
}

/** A browser clock that is a year wrong changes nothing that the broker decides. */
async function wrongClock(t) {
  for (const shift of [-365, 365]) {
    const other = await t.fresh();
    await other.page.clock.setSystemTime(new Date(Date.now() + shift * 86_400_000));
    await other.enter(t.key);
    await other.open("#/overview");
    await other.page.getByText("leader, epoch").first().waitFor();
    await other.page.reload();
    await other.page.getByText("leader, epoch").first().waitFor();
    await other.close();
  }
}

/** Over plain HTTP under a name the login says that the key can be read; the pages work there too. */
async function readable(t) {
  const other = await t.fresh();
  await other.page.goto(other.named + "/console/");
  await other.page.getByText("the key crosses the network readable").waitFor();
  await other.axe("login over plain HTTP");
  await other.picture("login-readable");
  await other.enter(t.key, other.named);
  await other.page.getByText("leader, epoch").first().waitFor();
  await other.close();
  t.ok(!(await t.page.getByText("crosses the network").isVisible()), "a page of the same machine warns");
}
