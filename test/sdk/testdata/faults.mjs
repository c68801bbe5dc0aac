// Tests of the JavaScript SDK with servers that are no brokers, or broken ones.

import assert from "node:assert/strict";
import { execFile } from "node:child_process";
import { readFileSync } from "node:fs";
import { createServer } from "node:http";
import { createServer as createTLS } from "node:https";
import { createServer as createSocket } from "node:net";
import { describe, test } from "node:test";
import { inspect, promisify } from "node:util";
import { Client, OutcomeUnknownError, RejectedError, SebError } from "sebbroker";

const { CERT, CERT_KEY, CA } = process.env;

/** A server for one test. handler gets the number of the request, from 1. */
async function serve(t, handler, server = createServer()) {
  let n = 0;
  server.on("request", (request, response) => handler(request, response, ++n));
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  t.after(() => (server.closeAllConnections(), server.close()));
  return { url: `http://127.0.0.1:${server.address().port}`, port: server.address().port, requests: () => n };
}

const send = (response, status, type, body, headers = {}) => response.writeHead(status, { "Content-Type": type, ...headers }).end(body);
const stored = (response) => send(response, 201, "application/json", '{"topic":"t","partition":0,"first_offset":7,"count":1}');
const produce = (url, o) => new Client(url, { retryTime: 0.3, ...o }).produce("t", [{ value: "x" }]);
const collect = async (from) => {
  const all = [];
  for await (const x of from) all.push(x);
  return all;
};

describe("faults", { concurrency: true }, () => {
  test("a proxy's page is an error with its first line", async (t) => {
    const { url } = await serve(t, (_, response) => send(response, 502, "text/html", "<h1>Bad\nGateway</h1>"));
    await assert.rejects(produce(url, { retryTime: 0 }), (e) => e instanceof OutcomeUnknownError && e.status === 502 && /^answer 502: <h1>Bad \(outcome unknown/.test(e.message));
    await assert.rejects(new Client(url, { retryTime: 0 }).topics(), { name: "SebError", outcome: "none" });
  });

  test("a page with status 200 is not the answer of a broker, and not asked for again", async (t) => {
    const { url, requests } = await serve(t, (_, response) => send(response, 200, "text/html", "<title>Log in</title>"));
    await assert.rejects(produce(url), (e) => e instanceof OutcomeUnknownError && /not the answer of a broker: <title>/.test(e.message));
    await assert.rejects(new Client(url).topic("t"), /not the answer of a broker/);
    await assert.rejects(collect(new Client(url).stream("t", { offset: 0, partition: 0 })), /not the event stream/);
    await assert.rejects(new Client(url).deleteTopic("t"), OutcomeUnknownError);
    assert.equal(requests(), 4);
  });

  test("JSON of another server acknowledges nothing", async (t) => {
    const { url } = await serve(t, (_, response) => send(response, 200, "application/json", '{"status":"ok"}'));
    const client = new Client(url);
    const calls = {
      produce: () => produce(url), event: () => client.event({ event: "e", entity_id: "u" }), createTopic: () => client.createTopic("t"), putTrigger: () => client.putTrigger("t", { expr: "a" }),
      createQueue: () => client.createQueue("q"), sendMessages: () => client.sendMessages("q", [{ value: "" }]), purgeQueue: () => client.purgeQueue("q"),
      commitOffsets: () => client.commitOffsets("g", [{ topic: "t", partition: 0, offset: 1 }]), lease: () => client.lease("q"), settle: () => client.settle("q", [{ receipt: "", do: "done" }]),
    };
    for (const [name, call] of Object.entries(calls)) await assert.rejects(call, OutcomeUnknownError, name);
    for (const call of [() => client.topics(), () => client.offsets("g"), () => collect(client.read("t", { offset: 0 })), () => client.work("q", () => {})]) await assert.rejects(call, /not the answer of a broker/);
  });

  test("an answer that acknowledges other records is of unknown outcome", async (t) => {
    const { url } = await serve(t, (_, response) => send(response, 201, "application/json", '{"topic":"t","partition":0,"first_offset":7,"count":2}'));
    await assert.rejects(produce(url), (e) => e instanceof OutcomeUnknownError && /2 of 1 records/.test(e.message));
  });

  test("an answer that is cut is repeated with the same sequence", async (t) => {
    const seen = [];
    const { url } = await serve(t, (request, response, n) => {
      seen.push(["id", "epoch", "sequence"].map((h) => request.headers[`seb-producer-${h}`] ?? request.headers[`seb-${h}`]).join());
      if (n > 2) return stored(response);
      response.writeHead(201, { "Content-Type": "application/json", ...(n === 1 && { "Content-Length": 99 }) });
      response.write('{"topic":"t","par');
      if (n === 1) setTimeout(() => response.destroy(), 20);
      else response.end(); // no length, so that the end looks clean
    });
    assert.deepEqual(await produce(url, { retryTime: 5 }), [{ partition: 0, first_offset: 7, count: 1 }]);
    assert.equal(new Set(seen).size, 1);
    assert.equal(seen.length, 3);
  });

  test("an earlier attempt makes a refusal unknown", async (t) => {
    const { url } = await serve(t, (request, response, n) => (n === 1 ? request.socket.destroy() : send(response, 403, "application/problem+json", '{"code":"forbidden"}')));
    await assert.rejects(produce(url, { retryTime: 5 }), (e) => e instanceof OutcomeUnknownError && e.code === "forbidden");
  });

  test("messages are not sent again after an unknown outcome", async (t) => {
    const { url, requests } = await serve(t, (request) => request.socket.destroy());
    await assert.rejects(new Client(url).sendMessages("q", [{ value: "x" }]), OutcomeUnknownError);
    await assert.rejects(new Client(url).event({ event: "e", entity_id: "u" }), OutcomeUnknownError);
    assert.equal(requests(), 2);
  });

  test("busy brokers are asked again", async (t) => {
    const { url, requests } = await serve(t, (_, response, n) => {
      if (n > 2) return send(response, 200, "application/json", '{"messages":[{"id":"0-1"}]}');
      send(response, n === 1 ? 503 : 429, "application/problem+json", '{"code":"over_budget"}', { "Retry-After": "0" });
    });
    assert.deepEqual(await new Client(url).sendMessages("q", [{ value: "x" }]), [{ id: "0-1" }]);
    assert.equal(requests(), 3);
  });

  test("an address that does not know a call may be an older broker", async (t) => {
    const { url } = await serve(t, (_, response) => send(response, 404, "text/plain", "404 page not found"));
    await assert.rejects(new Client(url).createQueue("q"), (e) => e instanceof RejectedError && /404 page not found.*older version/.test(e.message));
  });

  test("a redirect is an error", async (t) => {
    const { url, requests } = await serve(t, (_, response) => send(response, 302, "text/plain", "", { Location: "/login" }));
    await assert.rejects(produce(url), (e) => e instanceof RejectedError && e.status === 302);
    assert.equal(requests(), 1);
  });

  test("an abort before the request is rejected, and one after it unknown", async (t) => {
    const stop = new AbortController();
    const { url, requests } = await serve(t, () => stop.abort(new Error("enough")));
    const client = new Client(url);
    await assert.rejects(client.produce("t", [{ value: "x" }], { signal: AbortSignal.abort() }), RejectedError);
    assert.equal(requests(), 0);
    await assert.rejects(client.produce("t", [{ value: "x" }], { signal: stop.signal }), (e) => e instanceof OutcomeUnknownError && /enough/.test(e.message));
    assert.equal(requests(), 1);
    assert.deepEqual(await collect(client.stream("t", { partition: 0, offset: 0, signal: AbortSignal.timeout(50) })), []);
    await assert.rejects(client.topic("t", { signal: AbortSignal.timeout(50) }), { outcome: "none" });
  });

  test("a refused connection is rejected", async () => {
    const client = new Client("http://127.0.0.1:3", { retryTime: 0.2 });
    await assert.rejects(client.produce("t", [{ value: "x" }]), (e) => e instanceof RejectedError && /ECONNREFUSED/.test(e.message));
    await assert.rejects(new Client("http://127.0.0.1:6000").topics(), /bad port/);
  });

  test("the next broker is asked if one is gone, silent or not the leader", async (t) => {
    const good = await serve(t, (request, response) => (request.url.startsWith("/topic?") ? send(response, 200, "application/json", '{"name":"t","partitions":[]}') : stored(response)));
    const follower = await serve(t, (_, response) => send(response, 503, "application/problem+json", '{"code":"not_leader"}', { "Retry-After": "1" }));
    const silent = createSocket();
    await new Promise((resolve) => silent.listen(0, "127.0.0.1", resolve));
    const sockets = [];
    silent.on("connection", (s) => sockets.push(s));
    t.after(() => (sockets.forEach((s) => s.destroy()), silent.close()));
    const timers = t.mock.method(globalThis, "setTimeout");
    for (const first of ["http://127.0.0.1:3", follower.url, `http://127.0.0.1:${silent.address().port}`]) {
      timers.mock.resetCalls();
      assert.equal((await produce([first, good.url], { retryTime: 30 }))[0].first_offset, 7);
      const longest = Math.max(0, ...timers.mock.calls.map((c) => c.arguments[1]).filter((ms) => ms <= 30_000));
      assert.ok(longest <= 5_000, `${first}: waited ${longest} ms`);
    }
  });

  test("reads include what the client has written", async (t) => {
    const after = [];
    const { url } = await serve(t, (request, response, n) => {
      after.push(request.headers["seb-after"]);
      if (request.method === "POST") return send(response, 201, "application/json", '{"topic":"t","partition":0,"first_offset":7,"count":1}', { "Seb-Position": "0:3:12" });
      send(response, 200, "application/json", '{"name":"t","partitions":[]}', { "Seb-Position": n < 4 ? "0:2:99" : "0:1:1" });
    });
    const client = new Client(url);
    await client.topic("t");
    await client.produce("t", [{ value: "x" }]);
    await client.topic("t");
    await client.topic("t");
    assert.deepEqual(after, [undefined, undefined, "0:3:12", undefined]); // the third answer is of another bucket
  });

  test("wrong arguments are errors before a request", async () => {
    for (const [address, o] of [["x"], ["ftp://h"], ["http://u:hidden@h"], [""], [[]], ["http://h?q"], ["http://h", { token: "hid\nden" }], ["http://h", { token: "hiddené" }], ["http://h", { retryTime: NaN }]]) {
      assert.throws(() => new Client(address, o), (e) => e instanceof SebError && e.outcome === "none" && !inspect(e).includes("hidden"));
    }
    const client = new Client("http://127.0.0.1:9, http://127.0.0.1:10/", { token: "hidden" });
    assert.ok(!inspect(client, { depth: 9, showHidden: true }).includes("hidden"));
    await assert.rejects(client.produce("t", []), RejectedError);
    await assert.rejects(client.produce("t", [{ value: "" }], { partition: -1 }), RejectedError);
    const cycle = {};
    cycle.self = cycle;
    for (const call of [
      () => client.sendMessages("q", [{}]), () => client.sendMessages("q", ["x"]), () => client.produce("t", [undefined]), () => client.produce("t", [{ value: "", timestamp: 1n }]),
      () => client.produceAll([null]), () => client.produceAll(["x"]), () => client.event({ event: "e", entity_id: "u", data: cycle }), () => client.putTrigger("t", cycle), () => client.dryRun(cycle),
      () => client.commitOffsets("g", [{ topic: "t", partition: 0, offset: 1n }]),
    ]) await assert.rejects(async () => call(), RejectedError, String(call));
    await assert.rejects(collect(client.stream("t", { offset: 3 })), SebError);
    await assert.rejects(client.consumer("g", "t", { start: "middle" }), SebError);
  });

  test("a name that no URL can have is refused by the broker", async (t) => {
    const seen = [];
    const { url } = await serve(t, (request, response) => (seen.push(request.url), send(response, 400, "text/plain", "no UTF-8")));
    await assert.rejects(new Client(url).produce("a\ud800b", [{ value: "x" }]), RejectedError);
    await assert.rejects(new Client(url).queue("a\ud800b"), /no UTF-8/);
    assert.match(seen[0], /topic-name=a%ED%A0%80b/);
    assert.equal(seen[1], "/queues/a%ED%A0%80b");
  });

  test("a certificate that is not trusted is an error at once", async (t) => {
    const { port, requests } = await serve(t, (_, response) => stored(response), createTLS({ cert: readFileSync(CERT), key: readFileSync(CERT_KEY) }));
    await assert.rejects(produce(`https://127.0.0.1:${port}`, { retryTime: 30 }), (e) => e instanceof RejectedError && /certificate/.test(e.message));
    assert.equal(requests(), 0);
    const program = `import { Client } from "sebbroker"; console.log(await new Client("https://127.0.0.1:${port}").produce("t", [{ value: "x" }]))`;
    const { stdout } = await promisify(execFile)(process.execPath, ["--input-type=module", "-e", program], { env: { ...process.env, NODE_EXTRA_CA_CERTS: CA } });
    assert.match(stdout, /first_offset: 7/);
  });
});

// Alone, because it sets the clock.
test("a worker keeps its leases when the clock is set back, and has no grace period that ends at once", { timeout: 60_000 }, async (t) => {
  let extend;
  const extended = new Promise((resolve) => (extend = resolve));
  const { url } = await serve(t, async (request, response, n) => {
    const body = JSON.parse(Buffer.concat(await request.toArray()));
    if (request.url.endsWith("/settle")) {
      if (body.messages[0].do === "extend") extend();
      return send(response, 200, "application/json", JSON.stringify({ messages: body.messages.map(() => ({})) }));
    }
    if (n === 1) send(response, 200, "application/json", '{"messages":[{"id":"0-1","receipt":"r","deliveries":1,"sent":"2026-01-01T00:00:00Z","value":"x"}]}');
  });
  const stop = new AbortController(), { now } = Date;
  t.after(() => (Date.now = now));
  let aborted;
  await new Client(url).work("q", async (m, signal) => {
    Date.now = () => now() - 3_600_000;
    stop.abort();
    await extended;
    ({ aborted } = signal);
  }, { visibility: 1, grace: Infinity, signal: stop.signal });
  assert.equal(aborted, false);
});
