import { Record, checkOffset } from "./content.js";
import { NotBroker, SebError, errorOf, fillFault, invalid, noAnswer, repeatable } from "./errors.js";
/** Seconds of one long poll. */
const followWait = 30;
/** Milliseconds without a byte, not even a heartbeat, after which a stream is broken. */
const streamSilence = 60_000;
/** Milliseconds after which the end of a stream is a new failure, also if it had no event. */
const steady = 5_000;
/** Reads records with one request. */
export function readPage(t, o) {
    const filtered = Boolean(o.where || o.contains);
    return t.call({
        method: "GET", path: "/records", signal: o.signal, wait: filtered ? undefined : o.follow ? 1000 * followWait : 0,
        query: {
            "topic-name": o.topic, partition: o.partition, offset: o.offset, timeout: o.follow ? followWait + "s" : "0s", "max-records": 2 ** 31 - 1,
            "max-bytes": o.maxBytes, where: o.where || undefined, contains: o.contains || undefined,
        },
    }, async (answer) => {
        const list = await answer.json();
        const resume = answer.number("Seb-Resume-Offset"), end = answer.number("Seb-Next-Offset");
        if (!Array.isArray(list) || resume < 0 || end < 0)
            throw new NotBroker("not the answer of a broker: records without Seb-Resume-Offset");
        if (filtered)
            mustFilter(answer);
        return { records: list.map((r) => new Record({ ...r, partition: o.partition })), resume, end };
    });
}
function mustFilter(answer) {
    if (!answer.response.headers.has("Seb-Scanned-Records"))
        throw new NotBroker("the broker ignores filters: it may be of an older version");
}
/** Yields the records of a partition. */
export async function* read(t, topic, o) {
    const partition = o.partition ?? 0, follow = o.follow ?? false;
    let offset = (await positions(t, topic, { partition, offset: o.offset ?? "earliest", signal: o.signal }))[0];
    for (let end = Infinity; offset < end;) {
        const page = await readPage(t, { ...o, topic, partition, offset, follow, maxBytes: o.maxBytes ?? 4 << 20 }).catch(quiet(follow, o.signal));
        if (!page)
            return;
        if (!follow && end === Infinity)
            end = page.end;
        for (const r of page.records)
            if (r.offset < end)
                yield r;
        if (!follow && page.resume <= offset)
            return;
        offset = page.resume;
    }
}
/** The end of the signal ends a read that follows, which is no error. */
function quiet(follow, signal) {
    return (error) => {
        if (!follow || !signal?.aborted)
            throw error;
    };
}
/** The offsets from which to read: of one partition, or of all. */
async function positions(t, topic, o) {
    if (typeof o.offset === "number") {
        checkOffset("offset", o.offset, false);
        if (o.partition === "all")
            throw invalid('offset: want "earliest" or "latest" with partition "all"');
    }
    else if (o.offset !== "earliest" && o.offset !== "latest")
        throw invalid(`offset: want a number, "earliest" or "latest"`);
    if (o.partition !== "all")
        checkOffset("partition", o.partition, false);
    if (typeof o.offset === "number")
        return [o.offset];
    const { partitions } = await t.json({ method: "GET", path: "/topic", query: { "topic-name": topic }, signal: o.signal }, "name");
    const wanted = o.partition === "all" ? partitions : partitions.filter((p) => p.partition === o.partition);
    if (wanted.length === 0) {
        throw errorOf({ ...noAnswer("none", undefined), code: "unknown_partition", detail: `topic ${topic} has ${partitions.length} partitions` });
    }
    return wanted.map((p) => (o.offset === "earliest" ? p.start_offset : p.next_offset));
}
/** Yields the records of a partition or a topic as they arrive, over broken connections. */
export async function* stream(t, topic, o) {
    const partition = o.partition ?? "all";
    const from = await positions(t, topic, { partition, offset: o.offset ?? "latest", signal: o.signal }).catch(quiet(true, o.signal));
    if (!from)
        return;
    let last = partition === "all" ? from.map((n, p) => `${p}:${n}`).join() : ""; // the ID of the last event
    const query = { "topic-name": topic, partition, offset: partition === "all" ? "earliest" : from[0], where: o.where || undefined, contains: o.contains || undefined };
    for (let backoff = t.backoff(o.signal);;) {
        let answer, failure, opened = Infinity;
        try {
            const headers = { Accept: "text/event-stream, application/problem+json", ...(last && { "Last-Event-ID": last }) };
            answer = await t.open({ method: "GET", path: "/records", query, headers, stream: streamSilence, signal: o.signal }, async (a) => a);
            opened = performance.now();
            for await (const e of events(answer)) {
                backoff = t.backoff(o.signal);
                if (e.type === "error")
                    throw streamError(e.data);
                last = e.id || last;
                if (e.type === "message")
                    yield new Record({ partition: Number(partition), ...JSON.parse(e.data) });
            }
        }
        catch (error) {
            if (o.signal?.aborted)
                return;
            if (error instanceof SyntaxError || (error instanceof SebError && !(error.status && repeatable(error, true))))
                throw error;
            failure = error instanceof SebError ? error : errorOf(noAnswer("none", error));
        }
        finally {
            answer?.close();
        }
        if (performance.now() - opened > steady)
            backoff = t.backoff(o.signal);
        if (!(await backoff.wait(failure?.retryAfter))) {
            if (o.signal?.aborted)
                return;
            throw failure ?? errorOf(noAnswer("none", new Error("the broker ends the stream again and again")));
        }
    }
}
/** The events of an answer. One that is cut is none. */
export async function* events(answer) {
    if (!answer.response.headers.get("Content-Type")?.startsWith("text/event-stream"))
        throw errorOf(noAnswer("none", new NotBroker("not the event stream of a broker"), answer.status));
    let rest = "";
    let e = { type: "message", data: "", id: "" };
    for await (const chunk of answer.chunks()) {
        const lines = (rest + chunk).split("\n");
        rest = lines.pop();
        for (const line of lines) {
            const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line.replace(/\r$/, ""));
            if (name === "event")
                e.type = value;
            else if (name === "id")
                e.id = value;
            else if (name === "data")
                e.data += (e.data && "\n") + value;
            else if (line.trim() === "") {
                if (e.data)
                    yield e;
                e = { type: "message", data: "", id: "" };
            }
        }
    }
}
/** The error in an event of a stream. */
export function streamError(data) {
    const p = JSON.parse(data);
    const fault = noAnswer("none", undefined, p.status);
    fillFault(fault, p);
    return errorOf(fault);
}
