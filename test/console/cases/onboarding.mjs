// The triggers of docs/guide/onboarding.md made by clicks: on a month of events, with a receiver that verifies the messages.
// The pictures of the guide: go run ./test/cmd/console -only onboarding -pictures docs/guide/console
import { createHmac } from "node:crypto";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { blank, button, dialog, panel } from "../builder.mjs";

export const name = "onboarding";

const minute = 60_000, day = 24 * 60 * minute;
const random = (seed => () => (seed = seed * 1103515245 + 12345 & 0x7fffffff) / 0x7fffffff)(11);
const between = (from, to) => from + (to - from) * random(), pick = list => list[Math.floor(random() * list.length)];
const names = ["Ada", "Björn", "Chloé", "Dana", "Eşref", "Фёдор", "Grace"];

export async function run(t) {
  t.allow(/ERR_CONNECTION|Failed to load resource/); // while the broker is replaced
  await t.control("past", month(Date.now()).map(e => JSON.stringify(e)).join("\n"));
  await t.page.evaluate(() => localStorage.clear()); // another broker, so another session
  await t.enter();
  const mail = await receiver(t);
  await firstProject(t, mail);
  for (const trigger of others) {
    await make(t, mail, trigger);
    await start(t);
  }
  await same(t, mail);
  await fire(t, mail);
  mail.close();
}

/**
 * month is what the users of a service did in 30 days before now. Some signed up 3 or 7 days ago, or filled a cart a day
 * ago, less some minutes, so that their time ends during the test.
 */
function month(now) {
  const all = [], put = (at, entity, event, data) => { if (at < now - 1000) all.push({ at: Math.floor(at), entity, value: { event, entity_id: entity, ...(data ? { data } : {}) } }); };
  for (let i = 0; i < 150; i++) {
    const u = `u${1001 + i}`, soon = i % 10 === 3 ? 2 * minute + i * 3000 : 0;
    const since = now - (soon ? (i % 20 === 3 ? 3 : 7) * day - soon : between(0.2, 30) * day);
    put(since, u, "user_created", { name: pick(names), plan: random() < 0.3 ? "pro" : "free" });
    if (!soon && random() < 0.6) put(since + between(0, 6) * day, u, "project_created");
    for (let at = since + between(0, 1) * day, n = 1 + 8 * random(); n > 0; n--, at += between(0.3, 4) * day) put(at, u, "login");
    if (soon) put(now - day + soon, u, "cart_filled", { items: 1 + Math.floor(5 * random()) });
    else if (random() < 0.5) {
      const at = since + between(0.2, 5) * day;
      put(at, u, "cart_filled", { items: 1 + Math.floor(5 * random()) });
      if (random() < 0.6) put(at + between(0.01, 1.4) * day, u, "purchase", { amount: 20 + Math.floor(200 * random()), currency: random() < 0.8 ? "EUR" : "USD" });
    }
    if (random() < 0.15) {
      const at = since + between(1, 8) * day;
      put(at, u, "payment_failed", { amount: 9 });
      if (random() < 0.7) put(at + between(0.02, 4) * day, u, "payment_made", { amount: 9 });
    }
  }
  put(now - 20 * day, "eve", "user_created", { name: "Eve", plan: "free" });
  put(now - 9 * day, "eve", "login");
  return all.sort((a, b) => a.at - b.at);
}

/** receiver gets the messages, and verifies their signatures with the secret that the page has made. */
async function receiver(t) {
  const mails = [], server = createServer((q, r) => {
    let body = "";
    q.on("data", part => { body += part; });
    q.on("end", () => {
      const id = q.headers["webhook-id"], want = createHmac("sha256", Buffer.from(it.secret.replace("whsec_", ""), "base64")).update(`${id}.${q.headers["webhook-timestamp"]}.${body}`).digest("base64");
      const good = q.headers["webhook-signature"] === "v1," + want;
      t.ok(good, `the signature of ${id}`);
      if (good) mails.push(JSON.parse(body));
      r.statusCode = good ? 204 : 401;
      r.end();
    });
  });
  await new Promise(done => server.listen(0, "127.0.0.1", done));
  server.unref();
  const it = {
    url: `http://127.0.0.1:${server.address().port}/hook`, secret: "", close: () => server.close(),
    /** got waits for a mail of a trigger, to an entity if one is given. */
    got: (trigger, entity, state = "fired") => t.until(() => mails.find(m => m.trigger === trigger && m.state === state && (!entity || m.entity === entity)), `a mail of ${trigger}`, 10 * minute),
  };
  return it;
}

const file = id => readFileSync(new URL(`../../../examples/onboarding/triggers/${id}.yaml`, import.meta.url), "utf8");
const member = (text, name) => new RegExp(`^${name}: (.*)$`, "m").exec(text)?.[1];
const template = text => text.slice(text.indexOf("template: |\n") + 12).replace(/^ {4}/gm, "");

const box = (t, words) => t.page.getByRole("button", { name: words });
/** select shows the panel of a box. */
const select = async (t, words) => { if (await box(t, words).getAttribute("aria-expanded") === "false") await box(t, words).click(); };
const choose = (t, label, option) => panel(t).getByLabel(label, { exact: true }).selectOption({ label: option });
const inWords = (t, words) => t.page.getByRole("region", { name: "In words" }).getByText(words, { exact: true }).waitFor();

/** make makes a trigger until it can be saved. Only names, numbers, the address and the template of the mail are typed. */
async function make(t, mail, { id, from, events, edit, settings }, shown = () => {}) {
  const { page } = t;
  await blank(t);
  await shown("templates");
  await page.getByRole("button", { name: from }).click();
  for (const [i, event] of events.entries()) {
    await t.until(() => page.getByLabel("Event", { exact: true }).evaluate(e => e === document.activeElement && !e.value), "the focus is in an unfinished box");
    await page.keyboard.type(event);
    if (i === 0) await shown("first-box");
    await page.keyboard.press("Enter");
  }
  await edit?.(t);
  await shown("made");
  await page.getByLabel("ID", { exact: true }).fill(id);
  await settings?.(t);
  await page.getByLabel("Send to").selectOption("url");
  await page.getByLabel("URL").fill(mail.url);
  if (!mail.secret) {
    await button(t, "Make a secret").click();
    mail.secret = await page.getByLabel("Secrets, one a line").inputValue();
  } else await page.getByLabel("Secrets, one a line").fill(mail.secret);
  await page.getByLabel("Template of the message").fill(template(file(id)));
}

/** start starts it, without a message to those for whom it is true already. */
async function start(t, shown = () => {}) {
  await button(t, "Start").click();
  await dialog(t).getByText(/\d+ (entity qualifies|entities qualify) already\./).waitFor();
  await shown("start");
  await dialog(t).getByRole("button", { name: "Start" }).click();
  await t.page.getByText(/^Started: version \d+\./).waitFor();
}

const within = (words, label, n) => async t => {
  await select(t, words);
  await panel(t).getByLabel(label, { exact: true }).fill(n);
};

const others = [
  { id: "welcome", from: "Empty one box", events: ["user_created"] },
  {
    id: "first-project-again", from: "Someone did A but not B in time", events: ["user_created", "project_created"], edit: async t => {
      await within("project_created does not happen", "For", "3")(t);
      await button(t, "Add after").click();
      await t.page.getByRole("region", { name: "Step 3 of 3" }).waitFor();
      await panel(t).getByLabel("Event", { exact: true }).fill("project_created");
      await choose(t, "What", "does not happen");
      await choose(t, "Time", "for");
      await panel(t).getByLabel("For", { exact: true }).fill("4");
    },
  },
  { id: "abandoned-cart", from: "Someone did A but not B in time", events: ["cart_filled", "purchase"], edit: within("purchase does not happen", "For", "1"), settings: t => fires(t, "reset") },
  { id: "came-back", from: "Something came back", events: ["login", "login", "login"], edit: within("login does not happen", "For", "7") },
  {
    id: "large-order", from: "Each time A happens", events: ["purchase"], edit: async t => {
      const all = t.page.getByRole("group", { name: "Conditions on its data" }), field = (label, i = 0) => all.getByLabel(label, { exact: true }).nth(i);
      await button(t, "Add a condition").click();
      await field("Property").fill("amount");
      await field("Comparison").selectOption({ label: "is at least" });
      await field("Value").fill("100");
      await all.getByRole("button", { name: "And …" }).click();
      await field("Property", 1).fill("currency");
      await field("Value", 1).fill("EUR");
    }, settings: t => t.page.getByLabel("Cooldown").fill("3 days"),
  },
  {
    id: "payment", from: "Someone did A but not B in time", events: ["payment_failed", "payment_made"], edit: async t => {
      await select(t, "payment_made does not happen");
      await choose(t, "Time", "without an end");
    }, settings: async t => {
      await fires(t, "edge");
      await t.page.getByLabel("Send a second message when it is no longer true").check();
    },
  },
  {
    id: "regular", from: "Someone did A, then B", events: ["user_created", "login"], edit: async t => {
      await select(t, "login happens");
      await choose(t, "What", "happens … times");
      await panel(t).getByLabel("Times", { exact: true }).fill("5");
      await panel(t).getByLabel("Within", { exact: true }).fill("7");
    },
  },
];

const fires = (t, how) => t.page.getByLabel("Fires", { exact: true }).selectOption(how);

/** firstProject makes the trigger of the guide, and keeps the pictures. */
async function firstProject(t, mail) {
  const { page } = t, when = page.getByRole("region", { name: "When" });
  // shoot keeps a picture with a part of the page at the top.
  const shoot = async (what, top) => {
    await (top ?? page.locator("body")).evaluate(e => scrollBy(0, e.getBoundingClientRect().top - 14));
    await t.picture(`onboarding-${what}`);
  };
  await make(t, mail, {
    id: "first-project", from: "Someone did A but not B in time", events: ["user_created", "project_created"], edit: async () => {
      await within("project_created does not happen", "For", "3")(t);
      await inWords(t, "3 days after user_created, unless project_created happens in that time.");
    },
  }, async what => {
    if (what === "made") {
      await shoot("absence", when);
      await page.getByRole("region", { name: "For example" }).getByRole("listitem").nth(2).waitFor();
      await shoot("words", page.getByRole("region", { name: "In words" }));
    } else await shoot(what, what === "templates" ? undefined : when);
  });
  await shoot("builder", when);
  const r = (await t.api("POST", "/triggers/dry-run", { expr: "user_created THEN (NOT project_created WITHIN 3 days)" })).json, past = page.getByRole("region", { name: "What it would have done" });
  await past.getByRole("combobox").selectOption("all");
  await button(t, "Try on past events").click();
  await past.getByText(/^\d+ of \d+ entities would have got it$/).waitFor();
  t.ok(r.entities > 140 && r.fired > 20 && Object.keys(r.days).length > 10, `the month has few events: ${JSON.stringify(r.days)}`);
  await shoot("preview", past);
  await button(t, "Save as draft").click();
  await page.getByText("Stored as a draft, which sends nothing until you start it: version 1.").waitFor();
  await start(t, async () => t.picture("onboarding-start"));
  // The three days of a user end soon.
  const { entity, to } = await mail.got("first-project");
  t.equal(to, `${entity}@example.com`, "the address of the mail");
  await t.until(async () => (await t.api("GET", `/firings?trigger=first-project&state=delivered&entity=${entity}`)).json.firings.length === 1, "the firing is delivered");
  await t.open(`#/triggers/first-project/entities/${entity}`);
  await page.getByRole("table", { name: "Firings for this entity" }).getByText("delivered").waitFor();
  await page.locator("dd").filter({ hasText: /^yes/ }).waitFor();
  await t.axe("the entity of a firing");
  await shoot("fired");
}

/** same compares the triggers with those of the files, which are stored beside them. */
async function same(t, mail) {
  for (const id of ["first-project", ...others.map(o => o.id)]) {
    const text = file(id), other = `${id}.file`, put = await t.api("PUT", `/triggers/${other}`, {
      expr: member(text, "expr"), fire: member(text, "fire"), cooldown: member(text, "cooldown"), on_retract: member(text, "on_retract"), status: "paused",
      deliver: { url: mail.url, secrets: [mail.secret], template: template(text) },
    });
    t.equal(put.status, 201, `the trigger of ${id}.yaml: ${put.text}`);
    // carry_fired is about earlier versions: the one of a draft does not count.
    const of = async id => { const { expr, fire, cooldown, on_retract, topic, backfill, deliver } = (await t.api("GET", `/triggers/${id}`)).json; return { expr, fire, cooldown, on_retract, topic, backfill, deliver }; };
    t.equal(await of(id), await of(other), `${id} and its file`);
    await t.api("DELETE", `/triggers/${other}`);
  }
}

/** fire makes each of the other triggers send a mail. */
async function fire(t, mail) {
  const send = async (entity_id, event, data) => t.equal((await t.api("POST", "/event", { event, entity_id, data })).status, 201, `the event ${event}`);
  await send("ada", "user_created", { name: "Ada", plan: "pro" });
  t.equal((await mail.got("welcome", "ada")).subject, "Welcome, Ada", "the subject of the mail");
  for (let i = 0; i < 5; i++) await send("ada", "login");
  await mail.got("regular", "ada");
  await send("ada", "purchase", { amount: 99, currency: "EUR" });
  await send("ada", "purchase", { amount: 100, currency: "EUR" });
  t.equal((await mail.got("large-order", "ada")).text, "Thank you for your order of 100 EUR.\n", "the order of the mail");
  await send("ada", "payment_failed", { amount: 9 });
  await mail.got("payment", "ada");
  await send("ada", "payment_made");
  t.equal((await mail.got("payment", "ada", "retracted")).subject, "All is well", "the second mail");
  await send("eve", "login");
  await mail.got("came-back", "eve");
  // Ada has three days from now.
  await t.open("#/triggers/first-project/entities/ada");
  const explained = (await t.api("GET", "/triggers/first-project/entities/ada")).json;
  t.equal(Math.round((Date.parse(explained.next) - Date.now()) / day * 10), 30, "when the mail is due");
  await t.page.getByRole("main").getByText(explained.why, { exact: true }).waitFor();
  await t.page.getByRole("row").filter({ hasText: "project_created" }).waitFor();
  await mail.got("abandoned-cart");
  await mail.got("first-project-again");
}
