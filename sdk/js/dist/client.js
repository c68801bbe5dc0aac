import { Consumer, commitOffsets, offsets } from "./consumer.js";
import { encode, escaped, spanMillis, spanText, toJSON } from "./content.js";
import { NotBroker, invalid } from "./errors.js";
import { Producers, acknowledged } from "./produce.js";
import { read, stream } from "./read.js";
import { Transport } from "./transport.js";
import { work } from "./worker.js";
/**
 * A client of the brokers of one bucket: produce, read, events, and the work on queues. Objects of the broker have
 * the members of the HTTP API.
 *
 * Every write returns when it is durable, or throws: RejectedError (not stored, and cannot appear later), or
 * OutcomeUnknownError. Offsets are numbers, so they are exact up to 2^53.
 */
export class Client {
    transport;
    #producers;
    /**
     * addresses: one, such as "http://127.0.0.1:51313", or several of brokers of one bucket, as a list or separated by
     * commas. A call goes to the next broker if one does not answer. It sends no request.
     */
    constructor(addresses, options = {}, agent) {
        this.transport = new Transport(addresses, options, agent);
        this.#producers = new Producers(this.transport);
    }
    /** Appends records to a topic, and returns their positions per partition once they are durable. */
    produce(topic, records, o = {}) {
        return this.#producers.produce(topic, records, o);
    }
    /**
     * Stores all items or none, and returns the position of each once they are durable. The outcome of an error is that of
     * all items.
     */
    produceAll(items, o = {}) {
        return this.#producers.produceAll(items, o);
    }
    /** The records of a partition, to its end or on. Failed requests are repeated without a gap or a repetition. */
    read(topic, o = {}) {
        return read(this.transport, topic, o);
    }
    /** The records of a partition or a whole topic as they arrive, until signal is aborted. It resumes over broken connections. */
    stream(topic, o = {}) {
        return stream(this.transport, topic, o);
    }
    /** Begins to read a topic for a consumer group. Close the consumer. */
    consumer(group, topic, o = {}) {
        return Consumer.open(this.transport, group, topic, o);
    }
    /** The committed offsets of a group in a topic, or in all. */
    offsets(group, topic, o = {}) {
        return offsets(this.transport, group, topic, o.signal);
    }
    /** Stores offsets of a group, each of the next record to read. */
    commitOffsets(group, list, o = {}) {
        return commitOffsets(this.transport, group, list, o);
    }
    /** Describes a topic. */
    topic(name, o = {}) {
        return this.get("/topic", "name", o, { "topic-name": name });
    }
    /** Appends an event. With an id it is repeated after an unknown outcome, because triggers ignore the second one. */
    event(event, o = {}) {
        return this.#events([event], "application/json", o, (stored) => {
            if (!(stored.offset >= 0))
                throw new NotBroker("not the answer of a broker: an event without position");
            return stored;
        });
    }
    /** Appends events in one request. If all have an id, they are repeated after an unknown outcome. */
    events(events, o = {}) {
        return this.#events(events, "application/x-ndjson", o, (p) => acknowledged(p, events.length));
    }
    async #events(events, kind, o, result) {
        if (events.length === 0)
            throw invalid("no events", true);
        return this.transport.call({
            method: "POST", path: "/event", query: { "topic-name": o.topic }, headers: { "Content-Type": kind }, body: events.map((e, i) => toJSON(`event ${i}`, e)).join("\n"),
            write: true, idempotent: events.every((e) => e?.id), signal: o.signal,
        }, async (answer) => result(await answer.json("topic")));
    }
    /** Describes a queue. */
    queue(name, o = {}) {
        return this.get(queuePath(name), "name", o);
    }
    /** Sends up to 10,000 messages, and returns a result for each once they are durable. One with a code was refused. */
    async sendMessages(queue, messages, o = {}) {
        const body = { messages: messages.map((m, i) => encode(`message ${i}`, m)) };
        return this.#results(queuePath(queue, "/messages"), body, messages.length, o);
    }
    /** Leases messages. Settle them with their receipts; work does both. */
    async lease(queue, o = {}) {
        const body = { max: o.max, wait: o.wait && spanText(o.wait), visibility: o.visibility && spanText(o.visibility) };
        const out = await this.sendJSON("POST", queuePath(queue, "/lease"), "messages", body, { idempotent: true, wait: spanMillis(o.wait) || 0, signal: o.signal });
        return out.messages;
    }
    /** Says what became of leased messages, and returns a result for each. One with a code was refused. */
    settle(queue, settlements, o = {}) {
        return this.#results(queuePath(queue, "/settle"), { messages: settlements }, settlements.length, { idempotent: true, wait: 0, signal: o.signal });
    }
    async #results(path, body, count, how) {
        const { messages } = await this.sendJSON("POST", path, "messages", body, how, (out) => {
            if (out.messages.length !== count)
                throw new NotBroker(`not the answer of a broker: ${out.messages.length} results for ${count} messages`);
        });
        return messages;
    }
    /**
     * Calls handler for each message of a queue until options.signal is aborted. A message is done when handler has
     * returned and that is durable. If it throws, the message comes again after the backoff of the queue, until it goes
     * to the dead-letter queue; see RetryAfter and GiveUp. A message may be given more than once.
     *
     * Leases are extended while handlers run. work waits for a broker that restarts, for as long as it takes. It throws
     * an error that no repetition can change, such as unknown_topic.
     */
    work(queue, handler, o = {}) {
        return work({
            visibility: async (c) => (await this.queue(queue, c)).effective_settings["visibility"],
            lease: (r) => this.lease(queue, r),
            settle: (list, c) => this.settle(queue, list, c),
        }, handler, o);
    }
    get(path, member, o, query) {
        return this.transport.json({ method: "GET", path, query, signal: o.signal }, member);
    }
    /** Sends a change with a body in JSON. member: one that each answer of a broker has. */
    async sendJSON(method, path, member, body, how, check) {
        const headers = { "Content-Type": "application/json", ...how.headers };
        return this.transport.call({ method, path, body: toJSON("body", body), write: true, ...how, headers }, async (answer) => {
            const value = await answer.json(member);
            check?.(value);
            return value;
        });
    }
}
export function queuePath(name, rest = "") {
    return "/queues/" + escaped(name) + rest;
}
