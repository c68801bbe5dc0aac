// Opens a page in Chromium that subscribes to the index as riemann-dash does, by EventSource or WebSocket, and prints the service of
// each event, until it has a number of them and a second passes.
//
// usage: dash.mjs URL COUNT    (environment: MODULES, BROWSER, PAGE)
import { createRequire } from "node:module";
import { join } from "node:path";

const { MODULES, BROWSER, PAGE } = process.env;
const [url, count] = process.argv.slice(2);
const { chromium } = createRequire(join(MODULES, "x.js"))("playwright-core");
const browser = await chromium.launch({ executablePath: BROWSER, args: ["--no-sandbox", "--disable-gpu"] });
const page = await browser.newPage();
let got = 0, timer;
const end = new Promise(resolve => { timer = () => setTimeout(resolve, 1000); });
await page.exposeFunction("opened", () => { console.log("open"); });
await page.exposeFunction("event", text => {
  console.log(JSON.parse(text).service);
  if (++got === Number(count)) timer();
});
await page.goto(PAGE);
await page.evaluate(url => {
  const source = url.startsWith("ws:") ? new WebSocket(url) : new EventSource(url);
  source.onopen = () => window.opened();
  source.onmessage = m => window.event(m.data);
}, url);
await end;
await browser.close();
