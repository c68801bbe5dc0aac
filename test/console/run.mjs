// Runs the cases of the console in a browser against a broker that runs already. test/console starts both.
//
// The browser resolves seb.example to the broker's machine: a name that is not localhost.
//
// Environment: BASE, KEY: the broker; CONTROL: an address that kills and starts it; MODULES: the folder of node_modules;
// BROWSER: the program; ONLY: names of cases, separated by commas; PICTURES: a folder for pictures, if wanted; UPDATE: write golden texts.
// Prints one line for each case, and "FAIL" with each fault. The exit code is 1 after a fault.

import { createRequire } from "node:module";
import { mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

const { BASE, KEY, CONTROL, MODULES, BROWSER, ONLY, PICTURES, UPDATE } = process.env;
const require = createRequire(join(MODULES, "x.js"));
const { chromium } = require("playwright-core");
const axeSource = readFileSync(require.resolve("axe-core/axe.min.js"), "utf8");

/** named is the broker under a name, over plain HTTP: a context without the features of a secure one. */
const named = BASE.replace("127.0.0.1", "seb.example");

/** Faults of the present case. */
let faults = [];
const fault = text => { faults.push(text); };

const browser = await chromium.launch({
  executablePath: BROWSER,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--js-flags=--expose-gc",
    "--host-resolver-rules=MAP seb.example 127.0.0.1"],
});

/** api sends a request as the root key, or with another one. */
async function api(method, path, body, headers = {}, key = KEY) {
  const text = body === undefined || typeof body === "string" || body instanceof Uint8Array;
  const r = await fetch(BASE + path, {
    method, body: text ? body : JSON.stringify(body),
    headers: { Authorization: "Bearer " + key, Accept: "application/json", ...(text ? {} : { "Content-Type": "application/json" }), ...headers },
  });
  const answer = await r.text();
  let json;
  try { json = JSON.parse(answer); } catch { /* not JSON */ }
  return { status: r.status, text: answer, json, headers: r.headers };
}

/** world is what a case gets: a page in a browser context of its own. */
async function world(options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, locale: "en-GB", timezoneId: "Europe/Berlin", reducedMotion: "reduce", ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(20_000);
  const allowed = []; // console errors that the case expects
  page.on("console", m => {
    if (m.type() === "error" && !allowed.some(a => a.test(m.text()))) fault(`console error: ${m.text()}`);
  });
  page.on("pageerror", e => fault(`script error: ${e.message}`));
  page.on("request", r => { if (!r.url().startsWith(BASE) && !r.url().startsWith(named) && !/^(data|blob):/.test(r.url())) fault(`request to another host: ${r.url()}`); });
  await page.addInitScript(() => document.addEventListener("securitypolicyviolation", e => console.error(`policy violation: ${e.violatedDirective} ${e.blockedURI} ${e.sample}`)));
  const t = {
    page, base: BASE, named, key: KEY, api,
    /** allow names console errors that the case causes on purpose, such as answers with status 401. */
    allow: pattern => allowed.push(pattern),
    ok: (cond, message) => { if (!cond) fault(message); },
    equal: (got, want, message) => { if (JSON.stringify(got) !== JSON.stringify(want)) fault(`${message}: got ${JSON.stringify(got)}, want ${JSON.stringify(want)}`); },
    /** until waits until fn returns something true, and returns it. */
    until: async (fn, what, ms = 20_000) => {
      const end = Date.now() + ms;
      for (;;) {
        const got = await fn();
        if (got) return got;
        if (Date.now() > end) throw new Error(`not within ${ms} ms: ${what}`);
        await new Promise(done => setTimeout(done, 50));
      }
    },
    /** open shows a page by its address, such as "#/topics". */
    open: async hash => {
      await page.evaluate(h => { location.hash = h; }, hash);
      await page.locator("main h1").first().waitFor();
    },
    /** axe checks the accessibility of the page as it is, in light, dark and forced colours. */
    axe: async state => {
      for (const look of [{ colorScheme: "light" }, { colorScheme: "dark" }, { forcedColors: "active" }]) {
        await page.emulateMedia({ colorScheme: "light", forcedColors: "none", ...look });
        // With forced colours the page's own colours are not those that are seen, and axe would judge them.
        const found = await page.evaluate(async contrast => {
          if (!globalThis.axe) globalThis.__axe();
          const r = await globalThis.axe.run(document, {
            runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], rules: { "color-contrast": { enabled: contrast } },
          });
          return r.violations.map(v => `${v.id}: ${v.nodes.map(n => `${n.target.join(" ")} (${n.failureSummary.split("\n").slice(0, 3).join(" ")})`).slice(0, 3).join("; ")}`);
        }, !look.forcedColors).catch(e => [`axe did not run: ${e.message}`]);
        for (const v of found) fault(`axe, ${state}, ${JSON.stringify(look)}: ${v}`);
      }
      await page.emulateMedia({ colorScheme: "light", forcedColors: "none" });
    },
    /** picture keeps a picture of the page in light and dark. */
    picture: async name => {
      if (!PICTURES) return;
      mkdirSync(PICTURES, { recursive: true });
      for (const colorScheme of ["light", "dark"]) {
        await page.emulateMedia({ colorScheme });
        // Chromium does not draw the borders of tables again after forced colours.
        await page.evaluate(() => { const s = document.body.style; const top = scrollY; s.display = "none"; document.body.getBoundingClientRect(); s.display = ""; scrollTo(0, top); });
        await page.waitForTimeout(150); // charts are drawn again in their new colours
        await page.screenshot({ path: join(PICTURES, `${name}-${colorScheme}.png`), animations: "disabled", caret: "hide" });
      }
      await page.emulateMedia({ colorScheme: "light" });
    },
    /**
     * change edits answers of the broker before the page gets them, for states that a test cannot make. edit
     * gets the answer and the request, and returns what is different. The result ends the changes.
     */
    change: async (pattern, edit) => {
      const handler = async route => {
        const answer = await route.fetch().catch(() => undefined); // undefined: the page has gone on
        if (!answer) return;
        try {
          const different = await edit(answer, route.request());
          await route.fulfill({ response: answer, ...different }).catch(() => {}); // the same
        } catch (e) {
          fault(`change of ${pattern}: ${e.stack}`);
        }
      };
      await page.route(pattern, handler);
      return () => page.unroute(pattern, handler);
    },
    /** golden compares a text with the file of that name, or writes it. */
    golden: (file, text) => {
      const at = new URL(`golden/${file}.txt`, import.meta.url);
      if (UPDATE) return writeFileSync(at, text);
      const want = readFileSync(at, "utf8");
      if (text !== want) fault(`golden/${file}.txt: got\n${text}\nwant\n${want}`);
    },
    /** control kills ("kill") or starts ("start") the broker, or replaces it by a new one ("past") whose topic "events" has the events of the body. */
    control: async (what, body) => {
      const r = await fetch(`${CONTROL}/${what}`, { method: "POST", body });
      if (!r.ok) throw new Error(`${what}: ${await r.text()}`);
    },
    /** fresh returns a world that is not logged in. */
    fresh: world,
    /** login returns a world that is logged in with a key. */
    login: async (key, more) => {
      const other = await world(more);
      await other.enter(key);
      return other;
    },
    enter: async (key = KEY, at = BASE) => {
      await page.goto(at + "/console/");
      await page.getByLabel("API key or token").fill(key);
      await page.getByRole("button", { name: "Log in" }).click();
      await page.getByRole("navigation", { name: "Pages" }).waitFor();
    },
    close: () => context.close(),
  };
  // Scripts of the test are not bound by the page's policy.
  await page.addInitScript({ content: `globalThis.__axe = () => { ${axeSource} };` });
  worlds.push(t);
  return t;
}
let worlds = [];

const folder = new URL("cases/", import.meta.url);
let failed = false;
for (const file of readdirSync(folder).filter(f => f.endsWith(".mjs")).sort()) {
  const { name, run, byHand } = await import(new URL(file, folder));
  if (ONLY ? !ONLY.split(",").includes(name) : byHand) continue;
  const began = Date.now();
  faults = [], worlds = [];
  try {
    const t = await world();
    await t.enter();
    await run(t);
  } catch (e) {
    fault(e.stack ?? String(e));
    if (PICTURES && worlds[0]) await worlds[0].page.screenshot({ path: join(PICTURES, `failed-${name}.png`) }).catch(() => {});
  }
  for (const t of worlds) await t.close().catch(() => {});
  console.log(`${faults.length ? "FAIL" : "ok"} ${name} ${((Date.now() - began) / 1000).toFixed(1)} s`);
  for (const f of new Set(faults)) console.log(`  FAIL ${name}: ${f}`);
  failed ||= faults.length > 0;
}
await browser.close();
process.exitCode = failed ? 1 : 0;
