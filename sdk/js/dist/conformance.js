// The conformance command: it reads calls from stdin and writes their results to stdout, one JSON object per line.
// `go run ./test/cmd/sdk` drives it beside the SDKs for other languages.
import { appendFileSync, readFileSync } from "node:fs";
import { request } from "node:https";
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { Client, GiveUp, RetryAfter, SebError, WebhookError, verify } from "sebbroker";
let client;
const stops = new Set();
/** fetch with a certificate authority of a file, for which Node's own fetch has no option. */
function trusting(file) {
    const ca = readFileSync(file);
    return (url, init) => new Promise((resolve, reject) => {
        const headers = new Headers(init?.headers);
        const sent = request(String(url), { ca, method: init?.method, headers: Object.fromEntries(headers), signal: init?.signal ?? undefined }, (answer) => {
            const body = [204, 304].includes(answer.statusCode) ? null : Readable.toWeb(answer);
            resolve(new Response(body, { status: answer.statusCode, headers: answer.headers }));
        });
        sent.on("error", reject);
        sent.end(init?.body);
    });
}
const bytes = (encoded) => new Uint8Array(Buffer.from(encoded, "base64"));
/** Data in the form of the API: text, or base64 under another name. */
function apiForm(name, data) {
    return data instanceof Uint8Array ? { [name]: null, [name + "_base64"]: Buffer.from(data).toString("base64") } : { [name]: data };
}
const apiRecord = (r) => ({
    offset: r.offset, timestamp: r.timestamp, ...apiForm("key", r.key), ...apiForm("value", r.value),
    ...(r.headers.length > 0 && { headers: r.headers.map((h) => ({ key: h.key, ...apiForm("value", h.value) })) }),
});
const placed = (r) => ({ partition: r.partition, offset: r.offset, ...apiForm("value", r.value) });
async function take(from, max, form) {
    const records = [];
    if (max > 0)
        for await (const r of from)
            if (records.push(form(r)) >= max)
                break;
    return { records };
}
async function consume(a) {
    const consumer = await client.consumer(a["group"], a["topic"], { follow: a["follow"] });
    try {
        const taken = await take(consumer, a["max"], placed);
        consumer.done();
        return taken;
    }
    finally {
        await consumer.close();
    }
}
async function act(action) {
    const [what, rest = ""] = [action.split(":", 1)[0], action.slice(action.indexOf(":") + 1)];
    if (what === "fail")
        throw new Error(rest);
    if (what === "retry")
        throw new RetryAfter(Number(rest));
    if (what === "dead")
        throw new GiveUp(rest);
    if (what === "sleep")
        await new Promise((resolve) => setTimeout(resolve, 1000 * Number(rest)));
}
async function work(a) {
    const stop = new AbortController();
    stops.add(stop);
    let done = 0;
    try {
        await client.work(a["queue"], async (m) => {
            if (a["log"])
                appendFileSync(a["log"], `${m.id} ${m.deliveries} ${m.value}\n`);
            await act(a["script"]?.[String(m.value)] ?? "ok");
            done++;
        }, { concurrency: a["concurrency"], visibility: a["visibility"], untilEmpty: a["until_empty"], grace: a["grace"], signal: stop.signal, onError: (e) => console.error(String(e)) });
        return { done };
    }
    finally {
        stops.delete(stop);
    }
}
function recordsOf(list) {
    return list.map((r) => ({
        value: r["value_base64"] !== undefined ? bytes(r["value_base64"]) : r["value"], key: r["key_base64"] !== undefined ? bytes(r["key_base64"]) : r["key"],
        headers: r["headers"], timestamp: r["timestamp"],
    }));
}
const calls = {
    open: async (a) => {
        client = new Client(a["addresses"], { token: a["token"], retryTime: a["retry_time"], ...(a["ca"] && { fetch: trusting(a["ca"]) }) });
        return {};
    },
    produce: async (a) => ({ results: await client.produce(a["topic"], recordsOf(a["records"]), { partition: a["partition"], expectedOffset: a["expected_offset"] }) }),
    read: (a) => take(client.read(a["topic"], { partition: a["partition"], offset: a["offset"] }), a["max"], apiRecord),
    consume,
    stream: (a) => take(client.stream(a["topic"], { partition: a["partition"], offset: a["offset"] }), a["max"], placed),
    event: async (a) => (a["many"] ? { results: await client.events(a["events"], { topic: a["topic"] }) } : client.event(a["events"][0], { topic: a["topic"] })),
    topic_create: async (a) => (await client.createTopic(a["topic"], { partitions: a["partitions"] }), {}),
    topic_get: (a) => client.topic(a["topic"]),
    trigger_put: (a) => client.putTrigger(a["id"], a["spec"]),
    trigger_get: (a) => client.trigger(a["id"]),
    trigger_delete: async (a) => (await client.deleteTrigger(a["id"]), {}),
    explain: (a) => client.explain(a["id"], a["entity"]),
    firings: (a) => client.firings({ trigger: a["trigger"], limit: a["limit"] }),
    queue_create: (a) => client.createQueue(a["queue"], { settings: a["settings"] }),
    queue_get: (a) => client.queue(a["queue"]),
    send: async (a) => ({ messages: await client.sendMessages(a["queue"], a["messages"]) }),
    lease: async (a) => ({ messages: await client.lease(a["queue"], { max: a["max"], wait: a["wait"], visibility: a["visibility"] }) }),
    settle: async (a) => ({ messages: await client.settle(a["queue"], a["messages"]) }),
    work,
    stop: async () => (stops.forEach((s) => s.abort()), {}),
    verify: async (a) => {
        const now = a["now"] === undefined ? undefined : new Date(1000 * a["now"]);
        const got = await verify(bytes(a["body_base64"]), a["headers"], a["secrets"], { tolerance: a["tolerance"], now });
        return { id: got.id, sent_at: got.sentAt.getTime() / 1000 };
    },
};
/** The answer to a call that has failed. Anything else than an error of the SDK is a bug. */
function failure(e) {
    if (e instanceof WebhookError)
        return { error: { outcome: "none", code: e.code, status: 0, detail: e.message } };
    if (!(e instanceof SebError))
        return { crash: e instanceof Error ? e.stack : String(e) };
    return { error: { outcome: e.outcome, code: e.code, status: e.status, detail: e.detail || e.message, ...(e.results && { results: e.results }) } };
}
createInterface({ input: process.stdin }).on("line", (line) => {
    if (!line.trim())
        return;
    const { id, call, args } = JSON.parse(line);
    const run = calls[call] ?? (() => Promise.reject(new Error(`unknown call ${call}`)));
    void Promise.resolve().then(() => run(args ?? {})).then((result) => ({ result }), failure).then((out) => process.stdout.write(JSON.stringify({ id, ...out }) + "\n"));
}).on("close", () => process.exit(0));
