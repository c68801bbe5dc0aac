// Tests of the JavaScript SDK beside a real broker, which POST CONTROL kills and starts again.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { describe, test } from "node:test";
import { setTimeout as sleep } from "node:timers/promises";
import { Client, GiveUp, LeaseEnded, RetryAfter, SebError, WebhookError, verify } from "sebbroker";

const { SEB_ADDRESS: BASE, SEB_API_KEY: KEY, CONTROL, VECTORS } = process.env;
const client = new Client(BASE, { token: KEY });
const collect = async (from) => {
  const all = [];
  for await (const x of from) all.push(x);
  return all;
};

/** Resolves when probe returns a value. */
async function until(what, probe) {
  for (const end = Date.now() + 60_000; Date.now() < end; await sleep(20)) {
    const got = await probe();
    if (got) return got;
  }
  assert.fail(`not within a minute: ${what}`);
}

// Alone, because other calls may have an unknown outcome meanwhile.
test("records are stored once and streamed once while the broker is killed", async (t) => {
  await client.createTopic("killed", { partitions: 3 });
  const stop = new AbortController(), streamed = [];
  t.after(() => stop.abort());
  const streaming = (async () => {
    for await (const r of client.stream("killed", { signal: stop.signal, offset: "earliest" })) streamed.push(r.value);
  })();
  const writer = async (w) => {
    for (let i = 0; i < 60; i++) {
      await client.produce("killed", [0, 1].map((n) => ({ key: `${w}-${n}-${i % 5}`, value: `${w} ${n} ${i}` })));
      if (w === 0 && (i === 15 || i === 40)) await fetch(CONTROL, { method: "POST" });
    }
  };
  await Promise.all([0, 1, 2].map(writer));
  const want = Array.from({ length: 360 }, (_, i) => `${i % 3} ${Math.floor(i / 3) % 2} ${Math.floor(i / 6)}`).sort();
  const got = (await Promise.all([0, 1, 2].map((partition) => collect(client.read("killed", { partition }))))).flat();
  assert.deepEqual(got.map((r) => r.value).sort(), want);
  await until("all records are streamed", () => streamed.length >= want.length);
  stop.abort();
  await streaming;
  assert.deepEqual(streamed.sort(), want);
});

describe("a broker", { concurrency: true }, () => {
  test("content of records survives", async () => {
    const records = [
      { key: "k", value: "text é \u{1f600} \ufeff" }, { value: null, key: new Uint8Array([0, 255]) }, { value: new Uint8Array([255, 0, 1]) },
      { value: "", headers: [{ key: "h", value: "1" }, { key: "h", value: new Uint8Array([254]) }, { key: "n", value: null }], timestamp: 5 }, { value: "not JSON" },
    ];
    await client.createTopic("content");
    assert.deepEqual(await client.produce("content", records, { expectedOffset: 0, partition: 0 }), [{ partition: 0, first_offset: 0, count: 5 }]);
    const got = await collect(client.read("content"));
    records.forEach((r, i) => {
      assert.deepEqual([got[i].key, got[i].value], [r.key ?? null, r.value]);
      assert.deepEqual(got[i].headers, r.headers ?? []);
    });
    assert.equal(got[3].timestamp, 5);
    assert.throws(() => got[4].json(), SyntaxError);
    assert.deepEqual(await collect(client.read("content", { offset: "latest" })), []);
    assert.equal((await collect(client.read("content", { contains: "JSON" }))).length, 1);
    await assert.rejects(client.produce("content", [{ value: "x" }], { expectedOffset: 0 }), { outcome: "rejected", code: "offset_mismatch", nextOffset: 5, name: "RejectedError" });
    await assert.rejects(client.produce("content", [{ value: { a: 1 } }]), { outcome: "rejected", message: /record 0: value is object/ });
    await assert.rejects(collect(client.read("content", { offset: 2 ** 53 })), { message: /2\^53-1/ });
  });

  test("all items are stored, or none", async () => {
    await client.createTopic("all");
    await client.createQueue("all-jobs");
    const order = [{ topic: "all", value: new Uint8Array([255]), key: "k" }, { queue: "all-jobs", value: "job" }, { event: "e", entity_id: "all" }];
    for (let i = 0; i < 3; i++) {
      const stored = await client.produceAll(order);
      assert.deepEqual(stored.slice(0, 2), [{ topic: "all", partition: 0, offset: i }, { queue: "all-jobs", id: `0-${i}` }]);
      assert.equal(stored[2].topic, "events");
    }
    await assert.rejects(client.produceAll([...order, { queue: "all-jobs", value: "job", dedup: "d" }]), { outcome: "rejected", message: /record 3: dedup/ });
    await assert.rejects(client.produceAll([]), { outcome: "rejected" });
    assert.equal((await collect(client.read("all"))).length, 3);
  });

  test("keys go to the partitions of the broker's hash", async () => {
    for (const topic of ["hashed", "brokers"]) await client.createTopic(topic, { partitions: 7 });
    const records = Array.from({ length: 300 }, (_, i) => ({ key: i % 2 ? "é".repeat(i % 9) + i : new Uint8Array(i % 13).fill(200 + i), value: String(i) }));
    await client.produce("hashed", records);
    await new Client(BASE, { token: KEY, idempotent: false }).produce("brokers", records);
    for (let partition = 0; partition < 7; partition++) {
      const [a, b] = await Promise.all(["hashed", "brokers"].map((t) => collect(client.read(t, { partition }))));
      assert.deepEqual(a.map((r) => r.value), b.map((r) => r.value));
    }
  });

  test("a group continues after the records that it finished", async (t) => {
    await client.createTopic("grouped", { partitions: 2 });
    await client.produce("grouped", Array.from({ length: 20 }, (_, i) => ({ key: String(i), value: String(i) })));
    const first = await client.consumer("g", "grouped"), seen = [];
    for (let i = 0; i < 8; i++) seen.push((await first.next()).value);
    await first.close(); // the eighth is not finished
    const second = await client.consumer("g", "grouped");
    const rest = (await collect(second)).map((r) => r.value);
    await second.close();
    await second.close();
    assert.equal(rest.filter((v) => v === seen[7]).length, 1);
    assert.deepEqual([...seen.slice(0, 7), ...rest].sort(), Array.from({ length: 20 }, (_, i) => String(i)).sort());

    const stop = new AbortController();
    t.after(() => stop.abort());
    const third = await client.consumer("g", "grouped", { follow: true, signal: stop.signal });
    setTimeout(() => client.produce("grouped", [{ key: "x", value: "late" }]), 100);
    assert.equal((await third.next()).value, "late");
    stop.abort();
    assert.equal(await third.next(), undefined);
    await third.close();
    assert.equal((await client.offsets("g", "grouped")).reduce((n, o) => n + o.offset, 0), 21); // asking for the next record finishes late
    await assert.rejects(client.consumer("g", "grouped", { partitions: [9] }), { code: "unknown_partition" });
  });

  test("a worker extends leases, repeats and gives up", async (t) => {
    await client.createQueue("jobs", { settings: { visibility: "1s", backoff: "1s", "max-deliveries": 3 } });
    const values = ["long", "again", "dead", "fails", ...Array.from({ length: 50 }, (_, i) => `quick ${i}`)];
    assert.ok((await client.sendMessages("jobs", values.map((value) => ({ value })))).every((r) => r.id && !r.code));
    const stop = new AbortController(), runs = {};
    t.after(() => stop.abort());
    const working = client.work("jobs", async (m) => {
      runs[m.value] = (runs[m.value] ?? 0) + 1;
      assert.equal(m.deliveries, runs[m.value]);
      if (m.value === "long") await sleep(2500);
      if (m.value === "again" && m.deliveries < 3) throw new RetryAfter(0.1, "soon");
      if (m.value === "dead") throw new GiveUp("no such mailbox " + "é".repeat(400));
      if (m.value === "fails") throw m.deliveries === 1 ? Object.assign(new Error(), { message: Symbol("x") }) : Object.create(null);
    }, { concurrency: 60, signal: stop.signal });
    const letters = await until("two dead letters and all done", async () => {
      const { ready, leased, retry, dying } = await client.queue("jobs");
      const list = await collect(client.read("jobs.dead"));
      return ready + leased + retry + dying === 0 && list.length === 2 && list;
    });
    stop.abort();
    await working;
    assert.deepEqual(runs, { ...Object.fromEntries(values.map((v) => [v, 1])), again: 3, fails: 3 });
    const reasons = letters.map((l) => l.headers.find((h) => h.key === "seb-reason").value).sort();
    assert.equal(reasons[0], "a value without text");
    assert.match(reasons[1], /^no such mailbox é+$/);
    assert.equal(Buffer.byteLength(reasons[1]), 512);
  });

  test("the end of a lease aborts the handler, and so does the end of the grace period", async (t) => {
    await client.createQueue("lost", { settings: { visibility: "1s" } });
    await client.sendMessages("lost", [{ value: "lost" }]);
    const errors = [];
    const wait = (signal) => new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
    let reason;
    const stop = new AbortController();
    t.after(() => stop.abort());
    const working = client.work("lost", async (m, signal) => {
      if (m.value === "grace") stop.abort();
      else await client.purgeQueue("lost");
      await wait(signal).catch((e) => (reason = e));
      if (m.value === "lost") await client.sendMessages("lost", [{ value: "grace" }]);
      throw reason;
    }, { grace: 0.05, signal: stop.signal, onError: (e) => errors.push(e) });
    await until("the lease is lost", () => reason instanceof LeaseEnded && reason.why === "lost");
    await working;
    assert.equal(reason.why, "stopped");
    assert.match(String(errors[0]), /the lease of the message is lost/);
    assert.equal((await client.queue("lost")).ready, 1); // it comes again at once
    await assert.rejects(client.work("no-such-queue", () => {}), { code: "unknown_topic" });
    await assert.rejects(client.work("lost", () => {}, { concurrency: 0 }), /concurrency/);
  });

  test("triggers and events", async () => {
    const first = await client.event({ event: "signup", entity_id: "u", id: "1" });
    assert.equal(first.topic, "events");
    assert.deepEqual((await client.events([{ event: "login", entity_id: "u" }])).map((r) => r.count), [1]);
    const put = await client.putTrigger("t", { expr: "signup THEN login", backfill: "replay" }, { ifNew: true });
    await assert.rejects(client.putTrigger("t", { expr: "signup" }, { ifNew: true }), { code: "precondition_failed" });
    await client.putTrigger("t", { expr: "signup THEN login", cooldown: "1d", fire: "edge", backfill: "replay" }, { ifTag: put.tag });
    await assert.rejects(client.putTrigger("u", { expr: "signup THEN" }), { line: 1, column: 12, outcome: "rejected" });
    const [firing] = await until("it fires", async () => {
      const { firings } = await client.firings({ trigger: "t" });
      return firings.length > 0 && firings;
    });
    assert.equal((await client.firing(firing.id)).entity, "u");
    let progress = 0;
    const dry = await client.dryRun({ expr: "signup THEN login" }, { onProgress: () => progress++ });
    assert.equal(dry.firings, 1);
    assert.equal((await client.pauseTrigger("t")).status, "paused");
    assert.equal((await client.resumeTrigger("t")).status, "active");
    assert.deepEqual((await client.triggers()).map((t) => t.id), ["t"]);
    await client.deleteTrigger("t");
    await assert.rejects(client.trigger("t"), { code: "unknown_trigger", outcome: "none", name: "SebError" });
  });

  test("queues are managed", async () => {
    await client.createQueue("managed");
    await client.putSchedule("managed", "daily", { cron: "@daily", value: "x" });
    assert.deepEqual((await client.schedules("managed")).map((s) => s.name), ["daily"]);
    await client.deleteSchedule("managed", "daily");
    const [{ id }] = await client.sendMessages("managed", [{ value: new Uint8Array([255]), delay: "1h", priority: 0 }]);
    assert.equal((await client.messages("managed", { state: "delayed" })).messages[0].value_base64, "/w==");
    await client.cancelMessage("managed", id);
    assert.equal((await client.updateQueue("managed", { settings: { visibility: "45s" } })).effective_settings.visibility, "45s");
    await client.pauseQueue("managed");
    await client.sendMessages("managed", [{ value: "a" }]);
    assert.deepEqual(await client.lease("managed", { wait: 0.01 }), []);
    await client.resumeQueue("managed");
    const [m] = await client.lease("managed", { max: 1, wait: "1s", visibility: 60 });
    assert.deepEqual(await client.settle("managed", [{ receipt: m.receipt, do: "done" }]), [{}]);
    assert.equal(await client.purgeQueue("managed"), 0);
    assert.equal((await client.redrive("managed.dead")).moved, 0);
    assert.ok((await client.queueStats("managed")).series);
    assert.ok((await client.queues()).some((q) => q.name === "managed") && (await client.topics()).length > 1);
    await client.deleteQueue("managed");
    await assert.rejects(client.queue("managed"), { status: 404 });
  });

  test("webhooks", async () => {
    for (const v of JSON.parse(readFileSync(VECTORS, "utf8"))) {
      const run = () => verify(Buffer.from(v.body, "base64"), v.headers, v.secrets, { now: new Date(1000 * v.now) });
      if (v.want) await assert.rejects(run, (e) => e instanceof WebhookError && e.code === v.want, v.name);
      else assert.deepEqual(await run(), { id: v.headers["webhook-id"], sentAt: new Date(1000 * v.sent) }, v.name);
    }
    await assert.rejects(verify("", {}, "whsec_secret"), (e) => e.code === "bad_secret" && !e.message.includes("secret_"));
  });

  test("a wrong key is an error without the key", async () => {
    const other = new Client(BASE, { token: "not-the-key" });
    const errors = await Promise.all([other.topics(), other.produce("t", [{ value: "" }]), collect(other.stream("t")), other.consumer("g", "t")].map((p) => p.catch((e) => e)));
    for (const e of errors) {
      assert.ok(e instanceof SebError && e.code === "unauthorized");
      assert.ok(!(e.stack + JSON.stringify(e)).includes("not-the-key"));
    }
  });
});
