// What the cases of the trigger builder share.

export const button = (t, name) => t.page.getByRole("button", { name, exact: true });
export const dialog = t => t.page.getByRole("dialog");
export const expression = t => t.page.getByLabel("Expression");
export const boxes = t => t.page.locator(".drawing [aria-expanded]");
export const panel = t => t.page.getByRole("region", { name: /^(Step|Part)/ });

/** blank shows a page of the builder without what earlier ones left. */
export async function blank(t, query = "") {
  await t.open("#/triggers");
  await t.page.getByRole("heading", { name: "Triggers", level: 1 }).waitFor();
  await t.page.evaluate(() => sessionStorage.clear());
  await t.open("#/triggers?edit=yes" + query);
  await button(t, "write it as text").or(t.page.getByRole("region", { name: "When" })).waitFor();
}

/** kept is the page's history as it is kept for a reload: the present entry with the tree, its position, and the text that is shown. */
export function kept(t) {
  return t.page.evaluate(() => {
    const id = /^#\/triggers\/([^?]+)\?/.exec(location.hash)?.[1], expr = new URLSearchParams(location.hash.split("?")[1]).get("expr");
    const found = JSON.parse(sessionStorage.getItem("seb-builder:" + (id ?? `new ${expr ?? ""}`)) ?? "null");
    const shown = document.querySelector("details textarea")?.value, typed = JSON.parse(sessionStorage.getItem("seb-builder-work:" + (id ?? `new ${expr ?? ""}`)) ?? "{}").typed;
    return found && { at: found.at, last: found.entries.length - 1, ...found.entries[found.at], shown, typed };
  });
}

/** drawn waits until the browser has drawn, and effects have run. */
export const drawn = t => t.page.evaluate(() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done)))));

/** parse is what the broker says of an expression. */
export const parse = async (t, expr) => (await t.api("POST", "/drip/parse", { expr }));
