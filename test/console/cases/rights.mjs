// What a session has no right to is not offered, and no page asks for it: a viewer, an operator, and
// tokens with little. The rest of every page works.

export const name = "rights";

export async function run(t) {
  const names = await seed(t);
  const pages = addresses(names);
  // Of all buttons and links a viewer gets none that changes something.
  await walk(t, { id: "r-viewer", preset: "viewer" }, pages, {
    absent: /^(create|new|change|edit|delete|remove|trim|add|reset|pause|resume|save|send|produce|deliver again|resend|erase|revoke|raise|upgrade|check the bucket|start|run|purge|cancel|move)\b/i,
  });
  await walk(t, { id: "r-operator", preset: "operator" }, pages, { absent: /^(create a token|revoke|raise|upgrade)\b/i });
  await walk(t, { id: "r-reader", read: [names.topic] }, pages.filter(p => p.startsWith(`#/topics/${names.topic}`) || /^#\/(overview|topics|access)$/.test(p)), { absent: /^(create|delete|trim|reset|send|produce)\b/i });
  await walk(t, { id: "r-nothing" }, ["#/overview", "#/access"], { absent: /^(create|delete|reset)\b/i });
}

/** seed makes one of everything, and returns the names. */
async function seed(t) {
  const stamp = Date.now(), topic = `rights${stamp}`, group = `g${stamp}`, trigger = `t${stamp}`, entity = `u${stamp}`, queue = `q${stamp}`;
  await t.api("PUT", `/topic?topic-name=${topic}`, { settings: { "key-index": true } });
  t.equal((await t.api("POST", `/records?topic-name=${topic}`, `{"key":"k","value":"v"}`, { "Content-Type": "application/x-ndjson" })).status, 201, "a record");
  t.equal((await t.api("PUT", `/offsets?group=${group}&topic-name=${topic}&partition=0`, { offset: 0 })).status, 200, "a group");
  t.equal((await t.api("PUT", `/triggers/${trigger}`, { expr: `hit${stamp}` })).status, 201, "a trigger");
  await t.api("POST", "/event", { event: `hit${stamp}`, entity_id: entity });
  t.equal((await t.api("PUT", `/queues/${queue}`, {})).status, 201, "a queue");
  await t.api("POST", `/queues/${queue}/messages`, { messages: [{ value: "job" }] });
  await t.api("PUT", `/queues/${queue}/schedules/morning`, { cron: "0 9 * * *", value: "job" });
  const firing = await t.until(async () => (await t.api("GET", `/firings?trigger=${trigger}`)).json.firings[0]?.id, "a firing");
  return { topic, group, trigger, entity, firing, queue };
}

function addresses({ topic, group, trigger, entity, firing, queue }) {
  return [
    "#/overview", "#/topics", ...["", "/records", "/partitions", "/settings", "/live", "/keys", "/groups", "/produce"].map(tab => `#/topics/${topic}${tab}`),
    "#/queues", ...["", "/messages", "/messages?open=0-0", "/schedules", "/settings", "/send"].map(tab => `#/queues/${queue}${tab}`), `#/queues/${queue}.dead/redrive`,
    "#/groups", `#/groups/${group}`, "#/triggers", `#/triggers/${trigger}`, `#/triggers/${trigger}/entities/${entity}`, "#/firings", `#/firings/${firing}`,
    "#/entities", `#/entities/${entity}`, "#/dry-run", "#/evaluate", "#/latency", "#/access", "#/broker",
  ];
}

/** walk opens pages as a token. No request is refused, no error is shown, and no control has a name that matches. */
async function walk(t, spec, pages, { absent }) {
  const { token } = (await t.api("POST", "/tokens", spec)).json;
  const v = await t.login(token), refused = [];
  v.page.on("response", r => { if (r.status() === 403 || r.status() === 401) refused.push(`${r.request().method()} ${new URL(r.url()).pathname}`); });
  v.allow(/403/);
  for (const address of pages) {
    refused.length = 0;
    await v.open(address);
    await v.page.waitForLoadState("networkidle").catch(() => {}); // a stream of live records stays
    await v.until(async () => await v.page.getByText(/^Loading/).count() === 0, `${address} is loaded`);
    t.equal(refused, [], `requests of ${address} that ${spec.id} may not make`);
    t.equal(await v.page.getByRole("alert").allInnerTexts(), [], `errors of ${address} for ${spec.id}`);
    const main = v.page.locator("main"), controls = [];
    // Links in tables have the names of things.
    for (const list of [main.getByRole("button"), main.locator("a:not(table a)")]) for (const c of await list.all()) if (await c.isEnabled()) controls.push((await c.innerText()).trim());
    if (address.endsWith("/live")) controls.splice(0, controls.length, ...controls.filter(c => c !== "Pause")); // of the view
    t.equal(controls.filter(c => absent.test(c)), [], `controls of ${address} that ${spec.id} may not use`);
  }
  await v.close();
  await t.api("DELETE", `/tokens/${spec.id}`);
}
