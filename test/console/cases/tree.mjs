// What a screen reader and the Tab key find on pages that do not depend on data: the accessibility tree and the order of
// focus, as golden texts. After a change of the pages: go test ./test/console -run TestPages -only tree -update, and read
// the difference.
export const name = "tree";

const topic = "tree-topic";
const screens = {
  "topic-records": `#/topics/${topic}/records`, "topic-live": `#/topics/${topic}/live`, "topic-keys": `#/topics/${topic}/keys`,
  "topic-produce": `#/topics/${topic}/produce`, "topic-settings": `#/topics/${topic}/settings`, "topic-groups": `#/topics/${topic}/groups`,
  "trigger-new": "#/triggers?edit=yes", "trigger-text": "#/triggers?edit=yes&text=yes&expr=tree%20THEN%20(NOT%20leaf%20WITHIN%207%20days)", "dry-run": "#/dry-run", evaluate: "#/evaluate", entity: "#/entities/tree-unknown",
  "group-reset": "#/groups/tree-unknown/reset", "no-page": "#/no-such-page",
};

export async function run(t) {
  await t.api("PUT", `/topic?topic-name=${topic}`, {});
  await t.api("POST", "/event", { event: "tree", entity_id: "tree" });
  for (const [file, hash] of Object.entries(screens)) {
    // Other cases leave triggers.
    const end = file === "entity" && await t.change("**/triggers?*", () => ({ json: { triggers: [{ id: "tree", topic: "events" }] } }));
    if (file === "group-reset") t.allow(/404/); // of a group that does not exist
    await t.open(hash);
    // The page is complete when its tree no longer changes.
    let before = "";
    await t.until(async () => {
      const now = await tree(t.page);
      const same = now === before && !/Loading|connecting|not finished/.test(now) && (file !== "trigger-text" || /not decided yet/.test(now) && /"Start" \[disabled\]/.test(now)); // its stories and its check
      before = now;
      return same;
    }, `${file} is complete`);
    t.golden(file, before + "\n\nTab:\n" + (await tabs(t.page)).join("\n") + "\n");
    if (end) await end();
  }
  await t.page.getByRole("button", { name: "Log out" }).click();
  await t.page.getByLabel("API key or token").waitFor();
  t.golden("login", await tree(t.page) + "\n\nTab:\n" + (await tabs(t.page)).join("\n") + "\n");
}

/** tree is the accessibility tree of the content, without what changes: times. */
async function tree(page) {
  return (await page.locator("main").ariaSnapshot()).replace(/\d{2}\/\d{2}\/\d{4}, \d{2}:\d{2}:\d{2}(\.\d+)?/g, "TIME").replace(/\d{4}-\d{2}-\d{2}T[\d:.]+Z?/g, "TIME");
}

/** tabs are the controls in the order in which Tab reaches them, from the beginning of the page. */
async function tabs(page) {
  await page.evaluate(() => { document.activeElement?.blur(); document.body.tabIndex = -1; document.body.focus(); document.body.removeAttribute("tabindex"); });
  const found = [];
  for (let i = 0; i < 60; i++) {
    await page.keyboard.press("Tab");
    const at = await page.evaluate(() => {
      const e = document.activeElement;
      if (!e || e === document.body) return "";
      const name = e.getAttribute("aria-label") ?? (e.labels?.[0]?.textContent || (e.tagName === "SELECT" ? "" : e.textContent)) ?? "";
      return `${e.tagName.toLowerCase()} ${name.trim().replace(/\s+/g, " ").slice(0, 60)}`;
    });
    if (!at || at === found[0]) break;
    found.push(at);
  }
  return found;
}
