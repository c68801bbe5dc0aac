import { Brokers } from "./brokers.js";
import { escaped } from "./content.js";
import { NotBroker, SebError, elsewhere, errorOf, faultOf, firstLine, invalid, noAnswer, notSent, repeatable } from "./errors.js";
/** Milliseconds without a byte after which a request goes to the next broker, if there is one. */
const silenceMax = 5_000;
/** Sends requests to the brokers of one bucket. */
export class Transport {
    idempotent;
    #brokers;
    #fetch;
    #retryTime;
    #headers;
    constructor(addresses, o, agent) {
        this.#brokers = new Brokers(addresses);
        const token = o.token ?? "";
        const bad = [...token].findIndex((c) => c < " " || c > "~");
        if (bad >= 0)
            throw invalid(`token: not printable ASCII at position ${bad}`);
        if (token !== token.trim())
            throw invalid("token: begins or ends with a space");
        this.#retryTime = 1000 * (o.retryTime ?? 30);
        if (!(this.#retryTime >= 0))
            throw invalid("retryTime: want seconds, 0 or more");
        this.idempotent = o.idempotent ?? true;
        this.#fetch = o.fetch ?? ((url, init) => fetch(url, init));
        this.#headers = { ...(token && { Authorization: "Bearer " + token }), ...(agent && { "User-Agent": agent }) };
    }
    backoff(signal) {
        return new Backoff(this.#retryTime, signal);
    }
    /** Sends a call and decodes the answer. member: one that each such answer of a broker has. */
    json(c, member) {
        return this.call(c, (answer) => answer.json(member));
    }
    /** Sends a call whose answer is empty. */
    nothing(c) {
        return this.call(c, async (answer) => {
            if (answer.status !== 204)
                throw new NotBroker(`not the answer of a broker: status ${answer.status}, want 204`);
        });
    }
    /** Sends a call and closes the answer after read. */
    call(c, read) {
        return this.open(c, async (answer) => {
            try {
                return await read(answer);
            }
            finally {
                answer.close();
            }
        });
    }
    /** Sends a call until it has an answer, it may not be repeated, or the retry time is over. read must close the answer. */
    async open(c, read) {
        const backoff = this.backoff(c.signal);
        let unknown = false;
        for (;;) {
            const base = this.#brokers.pick();
            const after = c.method === "GET" ? this.#brokers.after() : "";
            let fault, answer;
            try {
                answer = await this.#once(c, base, after);
                return await read(answer);
            }
            catch (error) {
                if (error instanceof Faulty)
                    fault = error.fault;
                else if (error instanceof SebError)
                    throw error; // the answer had the broker's error
                else
                    fault = noAnswer(c.write ? "unknown" : "none", error, answer?.status);
            }
            const aborted = c.signal?.aborted ?? false;
            // This attempt was refused, but an earlier one may still take effect.
            if (unknown && fault.outcome === "rejected" && !c.settled?.(fault))
                fault.outcome = "unknown";
            unknown = fault.outcome === "unknown";
            let pause = fault.retryAfter;
            if (elsewhere(fault, aborted) && this.#brokers.failed(base))
                pause = 0; // that of another broker
            if (aborted || !repeatable(fault, !c.write || !!c.idempotent) || !(await backoff.wait(pause))) {
                if (fault.code === "not_yet")
                    this.#brokers.forget(after); // the bucket may be another one
                throw errorOf(fault);
            }
        }
    }
    /** Sends a call once. It throws a Faulty. */
    async #once(c, base, after) {
        if (c.signal?.aborted)
            throw new Faulty(noAnswer(c.write ? "rejected" : "none", c.signal.reason));
        // URLs drop such parts, also encoded ones: DELETE /queues/.. would be DELETE /.
        if (/\/\.\.?(\/|$)/.test(c.path))
            throw invalid(`name "." or "..": no path of HTTP can have it`, c.write);
        const query = Object.entries(c.query ?? {}).flatMap(([k, v]) => (v === undefined ? [] : [`${k}=${escaped(v)}`])).join("&");
        const watch = new Watch(c.signal, c.stream ?? (this.#brokers.several && c.wait !== undefined ? silenceMax : 0));
        let response;
        try {
            watch.start(c.wait ?? 0);
            response = await this.#fetch(base + c.path + (query && "?" + query), {
                method: c.method, body: c.body, redirect: "manual", cache: "no-store", signal: watch.signal,
                headers: { Accept: "application/json, application/problem+json", ...this.#headers, ...(after && { "Seb-After": after }), ...c.headers },
            });
        }
        catch (error) {
            watch.end();
            throw new Faulty(noAnswer(!c.write ? "none" : notSent(error) ? "rejected" : "unknown", watch.reason ?? error));
        }
        const answer = new Answer(response, watch);
        if (!response.ok) {
            const text = await answer.text().catch(() => "");
            answer.close();
            this.#brokers.answered(response.headers);
            throw new Faulty(faultOf(response.status || 302, response.headers, text, !!c.write)); // 0: a page may not see a redirect
        }
        this.#brokers.answered(response.headers);
        if (after)
            this.#brokers.include(response.headers, after);
        return answer;
    }
}
class Faulty extends Error {
    fault;
    constructor(fault) {
        super();
        this.fault = fault;
    }
}
/** Ends a request at the caller's signal, or after a time without a byte. */
class Watch {
    outer;
    silence;
    reason;
    #abort = new AbortController();
    #timer;
    constructor(outer, silence) {
        this.outer = outer;
        this.silence = silence;
        outer?.addEventListener("abort", this.#outer, { once: true });
    }
    get signal() {
        return this.#abort.signal;
    }
    #outer = () => this.#end(this.outer.reason);
    #end(reason) {
        this.reason ??= reason;
        this.#abort.abort(reason);
    }
    /** Measures from now on. more: milliseconds that are added. */
    start(more = 0) {
        clearTimeout(this.#timer);
        if (this.silence)
            this.#timer = setTimeout(() => this.#end(new Error("the broker sends nothing")), this.silence + more);
    }
    end() {
        clearTimeout(this.#timer);
        this.outer?.removeEventListener("abort", this.#outer);
    }
    abort() {
        this.end();
        this.#abort.abort();
    }
}
/** The answer to a request. */
export class Answer {
    response;
    #watch;
    #ended = false;
    constructor(response, watch) {
        this.response = response;
        this.#watch = watch;
    }
    get status() {
        return this.response.status;
    }
    /** A header that is a number, or -1. */
    number(header) {
        const n = Number(this.response.headers.get(header) ?? -1);
        return Number.isSafeInteger(n) ? n : -1;
    }
    /** The text of the body, piece by piece. */
    async *chunks() {
        const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
        const reader = this.response.body?.getReader();
        try {
            while (reader) {
                this.#watch.start();
                const { done, value } = await reader.read();
                if (done)
                    break;
                yield decoder.decode(value, { stream: true });
            }
            this.#ended = true;
        }
        catch (error) {
            throw this.#watch.reason ?? error;
        }
    }
    async text() {
        let all = "";
        for await (const chunk of this.chunks())
            all += chunk;
        return all;
    }
    /** The body as JSON. It throws unless that has a member: a proxy with JSON of its own must not acknowledge a write. */
    async json(member) {
        const text = await this.text();
        // A broker's answer in JSON that cannot be parsed ended early. Anything else is not from a broker.
        if (!this.response.headers.get("Content-Type")?.startsWith("application/json"))
            throw new NotBroker(`not the answer of a broker: ${firstLine(text)}`);
        const value = JSON.parse(text);
        if (typeof value !== "object" || value === null || (member && !(member in value)))
            throw new NotBroker(`not the answer of a broker: ${firstLine(text)}`);
        return value;
    }
    /** Releases the connection. */
    close() {
        if (this.#ended)
            this.#watch.end();
        else if (!this.response.body)
            this.#watch.end();
        else
            this.#watch.abort();
    }
}
/** The longest delay that timers take: with a longer one they end at once. */
export const timerMax = 2 ** 31 - 1;
/** Waits between attempts. The delay doubles, with jitter, up to a deadline after the first failure. */
export class Backoff {
    time;
    signal;
    #until = 0;
    #failures = 0;
    constructor(time, signal) {
        this.time = time;
        this.signal = signal;
    }
    /** Sleeps for some seconds or longer, and returns whether another attempt is allowed. */
    async wait(atLeast = 0) {
        this.#until ||= performance.now() + this.time;
        const delay = growth(50, 5_000, ++this.#failures) / 2;
        let ms = Math.max(1000 * atLeast, delay + Math.random() * delay);
        if (atLeast >= 1)
            ms = 1000 * atLeast * (1 + Math.random() / 4); // the broker knows better when it has room again
        if (performance.now() + ms > this.#until)
            return false;
        await sleep(ms, this.signal);
        return !this.signal?.aborted;
    }
}
/** A pause that doubles with each failure in a row. */
export function growth(min, max, failures) {
    return Math.min(min * 2 ** Math.min(failures - 1, 20), max);
}
/** Waits for some milliseconds, or until a signal is aborted. */
export function sleep(ms, signal) {
    return new Promise((resolve) => {
        if (signal?.aborted)
            return resolve();
        const end = () => {
            clearTimeout(timer);
            signal?.removeEventListener("abort", end);
            resolve();
        };
        const timer = setTimeout(end, ms);
        signal?.addEventListener("abort", end, { once: true });
    });
}
