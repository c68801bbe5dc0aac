// Access: tokens, rules and quotas, as an owner of the root key, and as a viewer.

export const name = "access";

export async function run(t) {
  const { page } = t, id = "shop" + Date.now(), old = id.replace("shop", "old");
  await t.api("POST", "/tokens", { id: old, read: ["orders.*"], expires_at: new Date(Date.now() + 3 * 86400e3).toISOString() });
  await t.open("#/access");
  const row = name => page.getByRole("row").filter({ has: page.getByRole("link", { name, exact: true }) });
  await row(old).getByText("expires in 3 days").waitFor();
  t.ok(await row(old).getByText("read topic orders.*").isVisible(), "the list says what a token may do");
  await t.axe("tokens");
  await t.picture("access-tokens");

  await create(t, id);
  await rotate(t, id);
  await rules(t, id);
  await quotas(t, id);
  await revoke(t, id);
  await viewer(t);
}

/** create makes a token by keyboard alone. Its secret is shown once. */
async function create(t, id) {
  const { page } = t;
  await page.getByRole("link", { name: "Create a token" }).focus();
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Create a token" }).waitFor();
  await t.axe("new token");
  await page.getByLabel("Name").focus();
  await page.keyboard.type(id);
  await page.getByLabel("Write topics").focus();
  await page.keyboard.press("Space");
  await page.getByLabel("Patterns of topics (write)").fill("orders.*, <b>bad</b>");
  await t.picture("access-new");
  await page.keyboard.press("Enter");
  const refused = await t.api("POST", "/tokens", { id, write: ["orders.*", "<b>bad</b>"] }), words = await page.locator("small .bad").innerText();
  t.ok(refused.json.detail.endsWith(words) && words, `the words at the field: ${words}; the broker's: ${refused.json.detail}`);
  await page.getByLabel("Patterns of topics (write)").fill("orders.*");
  await page.keyboard.press("Enter");
  const secret = (await page.locator(".copied code").innerText()).trim();
  t.equal((await t.api("GET", "/topics", undefined, {}, secret)).status, 200, "the secret works");
  await page.getByText("The broker does not store it").waitFor();
  await t.axe("secret");
  await page.getByRole("link", { name: `Go to ${id}` }).click();
  await page.getByText("write topic orders.*").waitFor();
  t.ok(!(await page.content()).includes(secret), "the secret is not shown again");
}

async function rotate(t, id) {
  const { page } = t;
  await page.getByRole("button", { name: "Rotate" }).click();
  await page.getByLabel("Overlap").selectOption("1h");
  await t.axe("rotate");
  await page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
  await page.getByText("two secrets").waitFor();
  const secret = (await page.locator(".copied code").innerText()).trim();
  t.equal((await t.api("GET", `/tokens/${id}`, undefined, {}, secret)).json.secrets.length, 2, "secrets after the rotation");
  await page.getByText("in 1 hour").waitFor();
}

async function rules(t, id) {
  const { page } = t, hostile = `<img src=x onerror=alert(1)> العربية*`;
  await t.open("#/access/rules");
  await page.getByLabel("Principal", { exact: true }).fill(id);
  await page.getByLabel("Pattern", { exact: true }).fill(hostile);
  await page.getByLabel("Resource").first().selectOption("group");
  await page.getByRole("button", { name: "Add" }).click();
  await page.getByLabel("Principal or pattern contains").fill(id);
  const rule = page.getByRole("row", { name: `${id} may read group ${hostile}` });
  await rule.waitFor();
  t.equal(new URL(page.url()).hash, `#/access/rules?find=${id}`, "the filter is in the address");
  t.equal((await t.api("GET", `/acls?principal=${id}`)).json.rules.length, await page.getByRole("row").count() - 1, "rules of the token");
  t.equal(await page.locator("main img").count(), 0, "images in the page");
  await t.axe("rules");
  await t.picture("access-rules");
  await rule.getByRole("button", { name: "Remove" }).click();
  await t.axe("remove a rule");
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await rule.waitFor({ state: "detached" });
  t.equal((await t.api("GET", `/acls?principal=${id}`)).json.rules.map(r => r.operation), ["write"], "rules after the removal");
  await pages(t, id);
}

/** pages: a long list comes in pages, which have all of it. Its search looks at all pages. */
async function pages(t, id) {
  const { page } = t, rules = Array.from({ length: 250 }, (_, i) => ({ principal: id, resource: "topic", pattern: `page-${1000 + i}`, operation: "read" }));
  await t.api("POST", "/acls", { rules });
  await t.open("#/access/rules");
  const search = page.getByLabel("Principal or pattern contains"), seen = [];
  await search.fill("PAGE-");
  const rows = () => page.getByRole("table", { name: "Rules" }).locator("tbody tr td:first-child").allTextContents();
  for (const last of ["page-1099", "page-1199", "page-1249"]) {
    await page.getByText(`${id} may read topic ${last}`, { exact: true }).waitFor();
    seen.push(...(await rows()).map(r => r.match(/page-\d+/)[0]));
    if (last !== "page-1249") await page.getByRole("link", { name: "Next page" }).click();
  }
  t.equal(seen, rules.map(r => r.pattern), "the rules of all pages");
  t.equal(await page.getByRole("link", { name: "Next page" }).count(), 0, "a page after the last");
  await page.getByText("50 rules on this page").waitFor();
  await t.axe("the last page");
  await search.fill("page-1123");
  await page.getByText("1 rule", { exact: true }).waitFor();
  await search.fill("page-0");
  await page.getByText("No rule has this in its name.").waitFor();
  t.equal(await search.evaluate(e => e === document.activeElement), true, "the focus stays in the search");
  await t.api("DELETE", `/acls?principal=${id}&operation=read`);
}

async function quotas(t, id) {
  const { page } = t;
  await t.open("#/access/quotas");
  await page.getByLabel("Principal").fill(id);
  await page.getByLabel("Sent to the broker").fill("much");
  await page.getByText(`"much": want a number`).waitFor();
  await t.axe("an invalid quota");
  await page.getByLabel("Sent to the broker").fill("1.5MiB");
  await page.getByRole("button", { name: "Set" }).click();
  const row = page.getByRole("row").filter({ hasText: id });
  await row.getByText("1.5 MiB/s").waitFor();
  t.equal((await t.api("GET", "/quotas")).json.quotas.find(q => q.principal === id), { principal: id, produce_bytes: 1572864 }, "the quota");
  await row.getByRole("button", { name: "Change" }).click();
  t.equal(await page.getByLabel("Sent to the broker").inputValue(), "1572864", "the form has the quota");
  await t.axe("quotas");
  await t.picture("access-quotas");
  await row.getByRole("button", { name: "Remove" }).click();
  await page.getByRole("dialog").getByRole("button", { name: "Remove" }).click();
  await row.waitFor({ state: "detached" });
}

async function revoke(t, id) {
  const { page } = t;
  await t.open(`#/access/tokens/${id}`);
  await page.getByRole("button", { name: "Revoke" }).click();
  const dialog = page.getByRole("dialog"), confirm = dialog.getByRole("button", { name: "Revoke" });
  await t.axe("revoke");
  await page.keyboard.press("Escape");
  await dialog.waitFor({ state: "detached" });
  t.equal(await page.evaluate(() => document.activeElement?.textContent), "Revoke", "the focus after Escape");
  await page.keyboard.press("Enter");
  t.ok(await confirm.isDisabled(), "nothing is typed");
  await page.getByLabel(`Type ${id} to confirm`).fill(id);
  await page.keyboard.press("Enter");
  await page.getByRole("heading", { name: "Access" }).waitFor();
  t.equal((await t.api("GET", `/tokens/${id}`)).status, 404, "the revoked token");
}

/** viewer sees the own token alone, and nothing that changes another. Each page works. */
async function viewer(t) {
  const id = "viewer" + Date.now();
  await t.api("POST", "/event", { event: "seen", entity_id: "u1" }); // makes the topic of events
  const { token } = (await t.api("POST", "/tokens", { id, preset: "viewer" })).json;
  const v = await t.login(token);
  await v.open("#/access");
  await v.page.getByText("this session", { exact: true }).waitFor();
  t.equal(await v.page.getByRole("row").count(), 2, "rows that a viewer sees");
  t.equal(await v.page.getByRole("link", { name: /Create|Rules|Quotas/ }).count(), 0, "links that a viewer may not use");
  await v.axe("tokens of a viewer");
  // The own token can be rotated. The session goes on, so that the new secret can be read.
  await v.page.getByRole("link", { name: id }).click();
  await v.page.getByRole("button", { name: "Rotate" }).click();
  t.equal(await v.page.getByLabel("Overlap").locator("option").allInnerTexts(), ["1 hour", "24 hours", "7 days"], "overlaps of the own token");
  await v.page.getByRole("dialog").getByRole("button", { name: "Rotate" }).click();
  await v.page.getByText("two secrets").waitFor();
  const next = (await v.page.locator(".copied code").innerText()).trim();
  t.equal((await t.api("GET", "/topics", undefined, {}, next)).status, 200, "the new secret of the own token");
  t.equal(await v.page.getByRole("button", { name: "Revoke" }).count(), 0, "a viewer revokes");
  for (const link of await v.page.getByRole("navigation", { name: "Pages" }).getByRole("link").all()) {
    await link.click();
    await v.page.waitForLoadState("networkidle");
    t.equal(await v.page.getByRole("alert").allInnerTexts(), [], `errors of ${await link.innerText()} for a viewer`);
  }
  v.allow(/401/);
  await t.api("DELETE", `/tokens/${id}`);
  await v.open("#/access");
  await v.page.reload();
  await v.page.getByRole("button", { name: "Log in" }).waitFor();
}
