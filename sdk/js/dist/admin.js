import { Client as DataClient, queuePath } from "./client.js";
import { escaped, toJSON } from "./content.js";
import { invalid } from "./errors.js";
import { events, streamError } from "./read.js";
/** The client, with the calls that manage topics, triggers and queues. */
export class Client extends DataClient {
    constructor(addresses, options = {}) {
        super(addresses, options, "sebbroker-js");
    }
    /** All topics, sorted by name. */
    topics(o = {}) {
        return this.#listed("/topics", "topics", o);
    }
    /** Creates a topic; topic_exists if there is one. */
    createTopic(name, spec = {}, o = {}) {
        return this.sendJSON("PUT", "/topic", "name", spec, { query: { "topic-name": name }, headers: { "If-None-Match": "*" }, signal: o.signal });
    }
    /** Deletes a topic and all its records. */
    deleteTopic(name, o = {}) {
        return this.#delete("/topic", o, { "topic-name": name });
    }
    /** Creates the trigger with this ID, or replaces its definition. expr is text, or an object in the JSON form. */
    putTrigger(id, spec, o = {}) {
        if (o.ifTag !== undefined && !/^[!#-~]*$/.test(o.ifTag))
            throw invalid("ifTag: want the tag of a trigger", true);
        const headers = { ...(o.ifTag && { "If-Match": `"${o.ifTag}"` }), ...(o.ifNew && { "If-None-Match": "*" }) };
        return this.sendJSON("PUT", triggerPath(id), "version", spec, { idempotent: true, headers, signal: o.signal });
    }
    trigger(id, o = {}) {
        return this.get(triggerPath(id), "id", o);
    }
    /** All triggers, sorted by ID. */
    triggers(o = {}) {
        return this.#listed("/triggers", "triggers", o);
    }
    /** Deletes a trigger and drops its undelivered firings. */
    deleteTrigger(id, o = {}) {
        return this.#delete(triggerPath(id), o);
    }
    /** Suppresses new firings, and holds undelivered ones. */
    pauseTrigger(id, o = {}) {
        return this.#post(triggerPath(id, "/pause"), "id", { idempotent: true, ...o });
    }
    resumeTrigger(id, o = {}) {
        return this.#post(triggerPath(id, "/resume"), "id", { idempotent: true, ...o });
    }
    /** The state of a trigger for an entity. */
    explain(id, entity, o = {}) {
        return this.get(triggerPath(id, "/entities/" + escaped(entity)), "trigger", o);
    }
    /** Evaluates a trigger on all events that the log still has. It changes nothing, and may take minutes. */
    async dryRun(spec, o = {}) {
        return this.transport.call({
            method: "POST", path: "/triggers/dry-run", query: { since: o.since?.toISOString(), until: o.until?.toISOString(), sample: o.sample },
            headers: { "Content-Type": "application/json", Accept: "text/event-stream, application/problem+json" }, body: toJSON("trigger", spec), signal: o.signal,
        }, async (answer) => {
            for await (const e of events(answer)) {
                if (e.type === "progress")
                    o.onProgress?.(JSON.parse(e.data));
                else if (e.type === "result")
                    return JSON.parse(e.data);
                else if (e.type === "error")
                    throw streamError(e.data);
            }
            throw new Error("the answer ended early");
        });
    }
    /** Firings in the order of their seq, and next for the following page; null: there are no more now. */
    firings(q = {}, o = {}) {
        return this.get("/firings", "firings", o, { ...q });
    }
    firing(id, o = {}) {
        return this.get(firingPath(id), "id", o);
    }
    /** Delivers a firing again, whatever its state. */
    resendFiring(id, o = {}) {
        return this.#post(firingPath(id, "/resend"), "id", o);
    }
    /** All queues, sorted by name. */
    queues(o = {}) {
        return this.#listed("/queues", "queues", o);
    }
    /** Creates a queue, with a dead-letter queue of its name and .dead unless the settings name another one or none. */
    createQueue(name, spec = {}, o = {}) {
        return this.sendJSON("PUT", queuePath(name), "name", spec, { headers: { "If-None-Match": "*" }, signal: o.signal });
    }
    /** Merges settings into those of a queue that exists. */
    async updateQueue(name, spec, o = {}) {
        await this.queue(name, o);
        return this.sendJSON("PUT", queuePath(name), "name", spec, { signal: o.signal });
    }
    /** Deletes a queue and its messages. */
    deleteQueue(name, o = {}) {
        return this.#delete(queuePath(name), o);
    }
    /** Keeps messages from workers. */
    pauseQueue(name, o = {}) {
        return this.#post(queuePath(name, "/pause"), "name", { idempotent: true, ...o });
    }
    resumeQueue(name, o = {}) {
        return this.#post(queuePath(name, "/resume"), "name", { idempotent: true, ...o });
    }
    /** The figures of a queue over the last hours. */
    queueStats(name, window = "1h", o = {}) {
        return this.get(queuePath(name, "/stats"), "series", o, { window });
    }
    /** Messages without leasing them, the newest first, and next for the before of the following page. */
    messages(queue, q = {}, o = {}) {
        return this.get(queuePath(queue, "/messages"), "messages", o, { state: q.state, before: q.before, limit: q.limit, "max-value-bytes": q.maxValueBytes });
    }
    /** Ends a message that no worker has. */
    cancelMessage(queue, id, o = {}) {
        return this.#delete(queuePath(queue, "/messages/" + escaped(id)), o);
    }
    /** Ends all messages of a queue, and returns how many there were. */
    async purgeQueue(queue, o = {}) {
        return (await this.#post(queuePath(queue, "/purge"), "purged", o)).purged;
    }
    /** Moves up to 1,000 messages, mostly of a dead-letter queue, to another queue. Continue with next as after. */
    redrive(queue, r = {}, o = {}) {
        return this.sendJSON("POST", queuePath(queue, "/redrive"), "moved", r, { signal: o.signal });
    }
    /** All schedules of a queue, sorted by name. */
    schedules(queue, o = {}) {
        return this.#listed(queuePath(queue, "/schedules"), "schedules", o);
    }
    schedule(queue, name, o = {}) {
        return this.get(schedulePath(queue, name), "name", o);
    }
    /** Makes or replaces a schedule, which sends a message at times. */
    putSchedule(queue, name, spec, o = {}) {
        return this.sendJSON("PUT", schedulePath(queue, name), "name", spec, { query: { "dry-run": o.dryRun }, signal: o.signal });
    }
    deleteSchedule(queue, name, o = {}) {
        return this.#delete(schedulePath(queue, name), o);
    }
    #post(path, member, how) {
        return this.transport.json({ method: "POST", path, write: true, idempotent: how.idempotent, signal: how.signal }, member);
    }
    #delete(path, o, query) {
        return this.transport.nothing({ method: "DELETE", path, query, write: true, signal: o.signal });
    }
    /** All elements of a list, page by page. */
    async #listed(path, member, o) {
        const all = [];
        for (let after;;) {
            const page = await this.get(path, member, o, { limit: 1000, after });
            all.push(...page[member]);
            if (!page.next)
                return all;
            after = page.next;
        }
    }
}
function triggerPath(id, rest = "") {
    return "/triggers/" + escaped(id) + rest;
}
function firingPath(id, rest = "") {
    return "/firings/" + escaped(id) + rest;
}
function schedulePath(queue, name) {
    return queuePath(queue, "/schedules/" + escaped(name));
}
