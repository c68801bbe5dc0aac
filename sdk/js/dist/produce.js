import { encode, partitionOf, checkOffset, toJSON } from "./content.js";
import { NotBroker, SebError, errorOf, invalid } from "./errors.js";
/** One idempotent producer of one partition. At most one request uses it at a time. */
class Producer {
    // A number below 2^53, so that collisions are negligible.
    id = randomID();
    epoch = 0;
    sequence = 0;
    headers() {
        return { "Seb-Producer-Id": String(this.id), "Seb-Producer-Epoch": String(this.epoch), "Seb-Sequence": String(this.sequence) };
    }
    /** Advances the sequence after a request for some records. */
    settle(error, records) {
        if (error === undefined) {
            this.sequence = (this.sequence + records) % 2 ** 31;
        }
        else if (!(error instanceof SebError) || error.outcome !== "rejected" || error.code === "sequence_gap" || error.code === "producer_fenced") {
            // The next sequence is unknown. The new epoch also fences a request that may still be in progress.
            this.nextEpoch();
        }
    }
    nextEpoch() {
        this.sequence = 0;
        if (++this.epoch > 32767)
            Object.assign(this, new Producer());
    }
}
function randomID() {
    const [high, low] = crypto.getRandomValues(new Uint32Array(2));
    return (high % 2 ** 21) * 2 ** 32 + low || 1;
}
/** Bounds the idle producers. All are dropped then, which is safe: a new producer is always allowed. */
const idleProducersMax = 4096;
/** Milliseconds for which a partition count is kept. */
const partitionCountTTL = 30_000;
/** Bounds the partitions that one call writes to at once. */
const partitionWritesMax = 16;
/** Appends records, with idempotent producers. */
export class Producers {
    transport;
    #idle = new Map();
    #partitions = new Map();
    constructor(transport) {
        this.transport = transport;
    }
    async produce(topic, records, o) {
        if (records.length === 0)
            throw invalid("no records", true);
        if (o.expectedOffset !== undefined)
            checkOffset("expectedOffset", o.expectedOffset, true);
        if (o.partition !== undefined)
            checkOffset("partition", o.partition, true);
        const lines = records.map((r, i) => toJSON(`record ${i}`, encode(`record ${i}`, r)));
        const keyed = o.partition === undefined && records.some((r) => (r.key ?? null) !== null || "key_base64" in r);
        if (!keyed)
            return this.#append(topic, lines, { ...o, partition: o.partition ?? 0 });
        if (!this.transport.idempotent || o.expectedOffset !== undefined)
            return this.#post(topic, lines, o, {}); // the broker chooses
        const n = await this.#partitionsOf(topic, o);
        const parts = new Map();
        records.forEach((r, i) => {
            const p = partitionOf(r.key, n);
            if (!parts.get(p)?.push(lines[i]))
                parts.set(p, [lines[i]]);
        });
        return this.#appendAll(topic, [...parts].sort(([a], [b]) => a - b), o);
    }
    async #partitionsOf(topic, o) {
        const known = this.#partitions.get(topic);
        if (known && performance.now() < known.till)
            return known.n;
        try {
            const t = await this.transport.json({ method: "GET", path: "/topic", query: { "topic-name": topic }, signal: o.signal }, "name");
            if (this.#partitions.size >= idleProducersMax)
                this.#partitions.clear();
            this.#partitions.set(topic, { n: t.partitions.length, till: performance.now() + partitionCountTTL });
            return t.partitions.length;
        }
        catch (error) {
            if (!(error instanceof SebError))
                throw error;
            if (error.code === "unknown_topic")
                return 1; // it is created with one partition
            throw errorOf({ ...error, cause: error.cause, outcome: "rejected" });
        }
    }
    /** Appends to several partitions, and joins the results. */
    async #appendAll(topic, parts, o) {
        const results = [];
        const errors = [];
        let next = 0;
        const writer = async () => {
            while (next < parts.length) {
                const i = next++;
                const [partition, lines] = parts[i];
                try {
                    results[i] = (await this.#append(topic, lines, { ...o, partition }))[0];
                }
                catch (error) {
                    if (!(error instanceof SebError))
                        throw error;
                    errors.push(error);
                    const code = error.outcome === "unknown" ? "outcome_unknown" : error.code || "store_unavailable";
                    results[i] = { partition, count: lines.length, code: code };
                }
            }
        };
        await Promise.all(Array.from({ length: Math.min(parts.length, partitionWritesMax) }, writer));
        const first = errors.find((e) => e.outcome === "unknown") ?? errors[0];
        if (!first)
            return results;
        if (errors.some((e) => e.code === "unknown_partition" || e.code === "unknown_topic"))
            this.#partitions.delete(topic);
        if (parts.length === 1)
            throw first;
        // As in the broker's answers, "rejected" applies to all records.
        const unknown = errors.length < parts.length || first.outcome === "unknown";
        throw errorOf({ ...first, cause: first.cause, outcome: unknown ? "unknown" : "rejected", results });
    }
    /** Appends to one partition, with a producer that no other request uses. */
    async #append(topic, lines, o) {
        if (!this.transport.idempotent)
            return this.#post(topic, lines, o, {});
        return this.#with(`${o.partition} ${topic}`, (p) => this.#post(topic, lines, o, { headers: p.headers(), idempotent: true, wait: 0 }), (p) => p.settle(undefined, lines.length));
    }
    /** Sends a request of a producer that no other request uses. */
    async #with(name, send, stored) {
        const list = this.#idle.get(name) ?? [];
        const producer = list.pop() ?? new Producer();
        if (list.length === 0)
            this.#idle.delete(name);
        try {
            const result = await send(producer);
            stored(producer);
            return result;
        }
        catch (error) {
            producer.settle(error, 0);
            throw error;
        }
        finally {
            this.#give(name, producer);
        }
    }
    async produceAll(items, o) {
        if (items.length === 0)
            throw invalid("no items", true);
        const lines = items.map((x, i) => toJSON(`item ${i}`, Object(x) === x && "event" in x ? x : encode(`item ${i}`, x)));
        const post = (how) => this.transport.call({
            method: "POST", path: "/records", query: { atomic: true }, body: lines.join("\n"), write: true, signal: o.signal, ...how,
            headers: { "Content-Type": "application/x-ndjson", ...how.headers },
        }, async (answer) => {
            const stored = (await answer.json("records")).records ?? [];
            const valid = stored.length === items.length && stored.every((r) => r.id !== undefined || Number.isSafeInteger(r.offset));
            if (!valid)
                throw new NotBroker(`not the answer of a broker: ${stored.length} of ${items.length} items acknowledged`);
            return stored;
        });
        if (!this.transport.idempotent)
            return post({});
        // The epoch is the number of the request, whose partitions need not be those of the request before.
        return this.#with("", (p) => post({ headers: p.headers(), idempotent: true, wait: 0 }), (p) => p.nextEpoch());
    }
    #give(name, producer) {
        if (this.#idle.size >= idleProducersMax)
            this.#idle.clear();
        const list = this.#idle.get(name);
        if (!list)
            this.#idle.set(name, [producer]);
        else if (list.length < idleProducersMax)
            list.push(producer);
    }
    #post(topic, lines, o, how) {
        const expected = o.expectedOffset;
        return this.transport.call({
            method: "POST", path: "/records", query: { "topic-name": topic, partition: o.partition, "expected-offset": expected },
            body: lines.join("\n"), write: true, signal: o.signal, ...how, headers: { "Content-Type": "application/x-ndjson", ...how.headers },
            // The end offset only grows. If it is beyond the expected offset, no earlier attempt can succeed any more, and one
            // that did would have been recognized.
            settled: (f) => expected !== undefined && f.code === "offset_mismatch" && (f.nextOffset ?? -1) > expected,
        }, async (answer) => acknowledged(await answer.json("topic"), lines.length));
    }
}
/** The positions of the records. It throws unless the answer covers all of them. */
export function acknowledged(p, records) {
    const list = p.partition !== undefined && p.first_offset !== undefined ? [{ partition: p.partition, first_offset: p.first_offset, count: p.count }] : p.results ?? [];
    const whole = (n, min) => Number.isSafeInteger(n) && n >= min;
    const valid = list.every((r) => !("code" in r && r.code) && whole(r.first_offset, 0) && whole(r.count, 1) && whole(r.partition, 0));
    const sum = list.reduce((n, r) => n + r.count, 0);
    if (!valid || sum !== records)
        throw new NotBroker(`not the answer of a broker: ${sum} of ${records} records acknowledged`);
    return list;
}
