// Fields are checked while a person types, by the rules of the broker. Hints are for the person who reads them.
export const name = "checks";

const topic = "checks", secret = "whsec_" + Buffer.alloc(24, 7).toString("base64");

export async function run(t) {
  t.allow(/40[049]|412/);
  await t.api("PUT", `/topic?topic-name=${topic}`, { settings: { "timestamp-type": "append" } });
  await t.api("PUT", "/topic?topic-name=checks-plain", {});
  await t.api("POST", `/event?topic-name=${topic}`, ["signed_up", "project made"].map(event => JSON.stringify({ event, entity_id: "u1", data: { plan: "pro" } })).join("\n"), { "Content-Type": "application/x-ndjson" });
  await builder(t);
  await roles(t);
  await parity(t);
}

/** builder: each field of a trigger says what is wrong with it, and the buttons say why they wait. */
async function builder(t) {
  const { page } = t, start = page.getByRole("button", { name: "Start", exact: true }), why = page.getByText("It cannot be saved yet:");
  const hint = text => page.locator("small").filter({ hasText: text });
  await t.open(`#/triggers?edit=yes&text=yes&topic=${topic}&expr=${encodeURIComponent("signed_up THEN (NOT \"project made\" WITHIN 7 days)")}`);
  await why.filter({ hasText: "ID: missing" }).waitFor();
  await t.until(() => start.isDisabled(), "the button waits for the ID");
  t.equal([await start.isDisabled(), await page.getByLabel("ID", { exact: true }).getAttribute("aria-invalid")], [true, null], "a form that is not filled in yet");
  for (const [field, value, words] of [
    ["ID", "two words", '"two words" must have 1 to 128 of the characters A-Z a-z 0-9 . _ -'],
    ["Topic of the events", "a/b", 'topic name "a/b": want 1 to 249 of A-Z a-z 0-9 . _ - and neither . nor .. alone'],
    ["Topic of the events", "checks-plain", 'topic "checks-plain" must have timestamp-type=append: triggers use the append times of events'],
    ["Topic of the events", "firings", 'topic "firings" does not hold events'],
  ]) {
    const before = await page.getByLabel(field, { exact: true }).inputValue();
    await page.getByLabel(field, { exact: true }).fill(value);
    await hint(words).waitFor();
    await why.filter({ hasText: words }).waitFor();
    await page.getByLabel(field, { exact: true }).fill(before || "checked");
    await hint(words).waitFor({ state: "detached" });
  }
  await why.waitFor({ state: "detached" });
  t.equal(await start.isDisabled(), false, "a trigger without faults");
  await page.getByLabel("Fires", { exact: true }).selectOption("edge");
  await page.getByLabel("Send to").selectOption("url");
  await hint("{{.Witness.signed_up.Data.plan}}").waitFor();
  await page.getByText("More settings", { exact: true }).click();
  const wrong = [
    ["Cooldown", "1 fortnight", "unknown unit 'fortnight'"], ["URL", "ftp://x", "want https:// or http://"], ["Secrets, one a line", "whsec_***", "number 1 is masked: want the secret itself"],
    ["Template of the message", "{{.Witness.signup.Data.name}}", 'event "signup" is not in the trigger\'s expression; events: project made, signed_up'],
    ["Time zone", "Here", "time zone"], ["Messages", "two", "want a whole number"], ["Headers, one a line", "no colon", '"no colon": want a name, a colon and a value'],
    ["Messages in flight", "1.5", "want a whole number"], ["Messages in flight", "1001", "1001, want 1 to 1000"],
    ["Waits between attempts", "soon", 'number 1: invalid duration "soon"'], ["Content type", "x", 'invalid media type "x"'], ["More settings, as JSON", "{", "not JSON"],
  ];
  for (const [field, value, words] of wrong) {
    await page.getByLabel(field, { exact: true }).fill(value);
    await hint(words).waitFor().catch(async e => t.ok(false, `${field}: ${e.message}; ${await page.locator("small .bad").allInnerTexts()}`));
    if (field === "Headers, one a line" || field === "Messages" || field === "More settings, as JSON") await page.getByLabel(field, { exact: true }).fill("");
  }
  await page.getByLabel("From", { exact: true }).fill("22:00");
  await hint("invalid time of day").waitFor();
  await why.filter({ hasText: "Quiet hours, until" }).waitFor();
  t.equal(await page.locator("main").evaluate(m => m.scrollWidth <= m.clientWidth), true, "nothing is wider than the page");
  await t.axe("faults of a trigger");
  await t.picture("checks");
  await why.getByRole("button", { name: "URL" }).click();
  t.equal(await page.getByLabel("URL").evaluate(e => e === document.activeElement), true, "the reason leads to its field");
  for (const [field, value] of [["Cooldown", "1d"], ["URL", "https://mail.example.com"], ["Secrets, one a line", secret], ["Template of the message", "{{.Witness.signed_up.Data.plan}}"], ["From", ""], ["Time zone", ""], ["Waits between attempts", ""], ["Messages in flight", ""], ["Content type", ""]]) {
    await page.getByLabel(field, { exact: true }).fill(value);
  }
  await page.getByLabel("Template of the message").fill('{"plan": "{{.Witness.signed_up.Data.plan}}"}');
  await why.waitFor({ state: "detached" });
  await page.getByRole("button", { name: "Save as draft" }).click();
  await page.getByText("Stored as a draft").waitFor();
  // The kept delivery is examined with the new expression.
  await page.getByText("As text").click();
  await page.getByLabel("Expression").fill('"project made"');
  await why.filter({ hasText: 'event "signed_up" is not in the trigger\'s expression' }).waitFor();
  await t.until(() => page.getByRole("button", { name: "Save as draft" }).isDisabled(), "a draft whose template names an event that is gone");
  await page.getByLabel("Expression").fill("NOT signed_up");
  await why.filter({ hasText: "is true before anything has happened" }).waitFor();
  await page.getByRole("button", { name: "Undo" }).click();
}

/** roles: what only the operator can change is told to the operator. */
async function roles(t) {
  const spec = { topic, expr: "signed_up", deliver: { url: "https://mail.example.com", secrets: [secret] } };
  t.ok((await t.api("PUT", "/triggers/checks-of-the-operator", spec)).json.warnings.some(w => /readable in the bucket/.test(w)), "the operator learns that secrets are readable");
  const { token } = (await t.api("POST", "/tokens", { id: "checks-author", read: [topic], triggers: ["*"] })).json;
  t.equal((await t.api("PUT", "/triggers/checks-of-the-author", spec, {}, token)).json.warnings, [], "warnings for the author of a trigger");
  const author = await t.login(token), blocked = "the secrets are encrypted with a key (--secrets-key-file)";
  author.allow(/40[034]/);
  for (const [world, want] of [[t, blocked], [author, "Tell the operator of the broker."]]) {
    const end = await world.change("**/triggers/checks-of-the-author?counts=true", async a => ({ json: { ...await a.json(), blocked } }));
    await world.open("#/triggers/checks-of-the-author");
    await world.page.getByText(want).waitFor();
    t.equal(await world.page.getByText("--secrets-key-file").count(), world === t ? 1 : 0, "a flag of the broker");
    await end();
  }
  await author.close();
  await t.api("DELETE", "/tokens/checks-author");
}

/** parity: what a field refuses is what the broker refuses. */
async function parity(t) {
  const { page } = t, long = n => "x".repeat(n), field = label => page.getByLabel(label, { exact: true });
  const rule = (c, rest) => t.api("POST", "/acls", { rules: [{ principal: "checks", resource: "topic", pattern: "checks", operation: "read", deny: true, ...rest, ...c }] });
  const setting = name => v => t.api("PUT", `/topic?topic-name=${topic}`, { settings: { [name]: v } });
  const times = ["7d", "1d12h", "90s", "1.5h", ".5s", "+1h", "-1s", "5", "500ms", "unlimited", "1w", "soon", "7d ", "0"];
  const check = async (label, values, ask) => {
    for (const value of values) {
      await field(label).fill(value);
      const invalid = await field(label).getAttribute("aria-invalid") === "true", { status, text } = await ask(value);
      t.equal(invalid, status === 400, `${label} ${JSON.stringify(value)} is refused (the broker: ${status} ${status === 400 ? text : ""})`);
    }
    await field(label).fill("");
  };
  await t.open("#/topics");
  await page.getByRole("button", { name: "Create a topic" }).click();
  await check("Name", ["a/b", ".", "..", "...", "é", "A.b_c-1", long(249), long(250)], v => t.api("PUT", `/topic?topic-name=${encodeURIComponent(v)}`, {}));
  await check("Partitions", ["1", "3", "10001"], v => t.api("PUT", "/topic?topic-name=checks-partitions", { partitions: Number(v) }));
  await page.keyboard.press("Escape");
  await t.open(`#/topics/${topic}/settings`);
  await check("retention-time", times, setting("retention-time"));
  await check("max-batch-bytes", ["0", "1", "16MiB", "16 MiB", "16MB", "1.5GiB", "30MiB", "31MiB", "-1", "unlimited", "x"], setting("max-batch-bytes"));
  await check("retention-bytes", ["0", "1", "-1", "unlimited", "9223372036854775807", "9223372036854775808", "1TiB"], setting("retention-bytes"));
  await t.open("#/access/new");
  await check("Name", ["A", "a b", "a_b", "seb", long(65), "a.b-1"], v => t.api("POST", "/tokens", { id: v }));
  await t.open("#/access/rules");
  await check("Principal", ["*", "a b", "a:b", "seb", "A_b", "é", long(64), long(65)], principal => rule({ principal }));
  for (const resource of ["topic", "group", "trigger"]) {
    await page.getByLabel("Resource").first().selectOption(resource);
    await check("Pattern", ["*", "a*", "a*b", "\\*", "\\x", "a\\\\*", "a b", "é", "a\u00a0b", "a\tb", ".*", ".", "..*", long(249), long(250), long(249) + "*", "é".repeat(125)], pattern => rule({ resource, pattern }));
  }
  await check("Only from", ["1.2.3.4", "1.2.3", "01.2.3.4", "::1", "1::2::3", "::ffff:1.2.3.4", "host", "*"], host => rule({ host }));
}
