// Entities: finding one, its time line, and erasing it.
export const name = "entities";

export async function run(t) {
  const { page } = t, entity = `e"<img src=x onerror=alert(1)> عربى`, id = encodeURIComponent(entity);
  for (const [trigger, expr] of [["ent-no-x", "ent_created THEN (NOT ent_x WITHIN 7 days)"], ["ent-bought", "ent_purchase[amount > 100]"], ["ent-ended", "ent_created THEN (NOT ent_purchase WITHIN 7 days)"]]) {
    const r = await t.api("PUT", `/triggers/${trigger}`, { expr });
    if (r.status > 201) throw new Error(`PUT /triggers/${trigger}: ${r.text}`);
  }
  for (const [event, data] of [["ent_created", { plan: "pro" }], ["ent_login"], ["ent_purchase", { amount: 120 }], ["ent_login"]]) await t.api("POST", "/event", { event, entity_id: entity, data });
  await t.api("POST", "/event", { event: "ent_login", entity_id: "ent-other" });
  const state = await t.until(async () => {
    const r = (await t.api("GET", `/entities/${id}`)).json;
    const keys = (await t.api("GET", `/keys?topic-name=events&prefix=${id}`)).json;
    return r.triggers.length === 2 && r.triggers.find(x => x.trigger === "ent-bought").fired && keys.keys?.length === 1 && r;
  }, "the triggers and the index know the entity");

  let asked = 0;
  page.on("request", r => { if (/\/triggers\/[^/]+\/entities\//.test(r.url())) asked++; });

  // Find it by the beginning of its name.
  await t.open("#/entities");
  await page.getByRole("table", { name: "Entities" }).waitFor();
  await t.axe("entities");
  await t.picture("entities");
  await page.getByLabel("Entity", { exact: true }).fill(`e"<img`);
  await page.getByRole("button", { name: "List" }).click();
  await t.until(async () => await page.getByRole("table", { name: "Entities" }).getByRole("link").count() === 1, "one entity with the prefix");
  await page.getByRole("link", { name: entity }).click();

  // The time line shows what the API says.
  const known = page.getByRole("table", { name: "Triggers and this entity" });
  await known.waitFor();
  const names = await known.locator("td:first-child").allTextContents();
  t.equal(names.slice(0, 2), state.triggers.map(x => x.trigger), "triggers with state come first");
  t.ok(names.indexOf("ent-ended") >= 2, `a trigger without state is listed: ${names}`);
  t.ok((await known.textContent()).includes(state.triggers.find(x => x.trigger === "ent-no-x").waits), "what the trigger waits for");
  const drawing = page.getByRole("img", { name: "Time line with 4 events, 2 triggers and 1 firings" });
  await drawing.waitFor();
  t.ok((await drawing.textContent()).includes("ent_x must not come"), "the wait is a bar");
  t.ok((await drawing.textContent()).includes("7 d"), "idle time is marked with its length");
  t.equal(await drawing.locator("circle").count(), 4, "events in the drawing");
  t.equal(await drawing.getByText("◆").count(), 1, "firings in the drawing");
  const events = page.getByRole("table", { name: "Events of this entity" });
  t.equal(await events.locator("td.key").allTextContents(), ["ent_login", "ent_purchase", "ent_login", "ent_created"], "events, newest first");
  t.equal(await page.locator("main img").count(), 0, "markup in the name of an entity");
  await t.axe("time line");
  await t.picture("entity");
  await page.setViewportSize({ width: 320, height: 700 });
  t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "the page fits into 320 pixels");
  await page.setViewportSize({ width: 1280, height: 800 });

  // Why a trigger did not fire is read when a person asks, also if it has no state of the entity.
  t.equal(asked, 0, "explanations without a question");
  const explained = async (region, of) => {
    const { why, history } = (await t.api("GET", `/triggers/ent-ended/entities/${encodeURIComponent(of)}`)).json;
    await region.getByText(why, { exact: true }).waitFor();
    if (history.steps.length) t.equal(await region.getByRole("table", { name: "What each event did" }).locator("td:nth-child(3)").allTextContents(), history.steps.map(s => s.text), "steps");
    await region.getByText("Events that the expression does not mention: " + history.others.map(o => `${o.event} (${o.count})`).join(", ")).waitFor();
    return why;
  };
  await known.getByRole("link", { name: "Why not? ent-ended" }).click();
  const region = page.getByRole("region", { name: "Why ent-ended" });
  t.ok(/ent_created .*ent_purchase at .* ends it/.test(await explained(region, entity)), "the sentence says what ended the wait");
  t.equal(await region.getByRole("link").allTextContents(), ["ent_created", "ent_purchase"], "events that the expression mentions");
  t.equal(asked, 1, "explanations after one question");
  await t.axe("why not");
  await t.picture("entity-why");
  await page.setViewportSize({ width: 320, height: 700 });
  t.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), "an explanation fits into 320 pixels");
  await region.evaluate(e => e.scrollIntoView());
  await t.picture("entity-why-narrow");
  await page.setViewportSize({ width: 1280, height: 800 });
  await t.open(`#/triggers/ent-ended/entities/${id}`);
  await explained(page.getByRole("main"), entity);
  await t.axe("the entity of a trigger");
  await t.picture("trigger-entity-why");
  await page.getByRole("link", { name: "all about the entity" }).click();
  await known.waitFor();

  // Erase it: the name must be typed.
  await page.getByRole("button", { name: "Erase" }).click();
  const dialog = page.getByRole("dialog");
  const erase = dialog.getByRole("button", { name: "Erase" });
  t.ok(await erase.isDisabled(), "nothing is erased without the name");
  await t.axe("erase");
  await dialog.getByRole("textbox").fill(entity);
  await erase.click();
  await t.until(async () => (await known.getByRole("row").filter({ hasText: "ent-bought" }).locator("td:nth-child(2)").textContent()) === "–", "the triggers forget the entity");
  t.equal((await t.api("GET", `/entities/${id}`)).json.triggers, [], "triggers after the entity was erased");
  await t.axe("an erased entity");

  // An entity without events that matter.
  await t.open("#/entities/ent-other?why=ent-ended");
  t.ok(/no event so far matters/.test(await explained(region, "ent-other")), "the sentence says that no event matters");
  await t.axe("an entity that no trigger knows");

  // A topic without an index says why there are no events.
  t.allow(/40[0-9]/);
  await t.api("PUT", "/topic?topic-name=ent-plain", { settings: { "timestamp-type": "append" } });
  await t.open(`#/entities/ent-nobody?topic=ent-plain`); // no trigger of another page knows it
  await page.getByRole("alert").waitFor();
  t.ok(await page.getByRole("link", { name: "Keys of ent-plain" }).isVisible(), `a topic without an index: ${await page.getByRole("alert").textContent()}`);
  await page.getByText("No trigger reads this topic.").getByRole("link", { name: "Make one" }).waitFor();
  await t.axe("an entity without an index");
  for (const trigger of ["ent-no-x", "ent-bought", "ent-ended"]) await t.api("DELETE", `/triggers/${trigger}`);
}
