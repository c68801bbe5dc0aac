// Opens page.html in Chromium, and kills the broker while the page streams its events.

import assert from "node:assert/strict";
import { createRequire } from "node:module";

const { MODULES, BROWSER, PAGE, SEB_ADDRESS: BASE, SEB_API_KEY: KEY, CONTROL, PICTURE } = process.env;
const { chromium } = createRequire(MODULES + "/")("playwright-core");
const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox"] });
try {
  const page = await browser.newPage({ viewport: { width: 600, height: 400 } });
  const said = [];
  page.on("console", (m) => said.push(`${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => said.push(`error: ${e}`));
  await page.goto(`${PAGE}/?base=${encodeURIComponent(BASE)}&key=${KEY}`);
  const item = (n) => page.locator("li", { hasText: `purchase of ${10 * n}` }).waitFor();
  await item(1);
  await page.click("button");
  await item(2);
  await fetch(CONTROL, { method: "POST" });
  await page.click("button");
  await item(3);
  if (PICTURE) await page.screenshot({ path: PICTURE });
  assert.equal(await page.locator("li").count(), 3);
  assert.equal((await page.locator("p").textContent()).trim(), "click é 255 no admin calls");
  assert.deepEqual(said.filter((s) => s.startsWith("error: ") && !s.includes("Failed to load resource")), []);
  assert.equal(said.filter((s) => s.startsWith("warning: ") && s.includes("read its token")).length, 1, said.join("\n"));
} finally {
  await browser.close();
}
