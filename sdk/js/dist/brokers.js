import { invalid } from "./errors.js";
/** Milliseconds for which a broker that did not answer is not preferred. */
const avoidTime = 10_000;
/** Milliseconds after which a broker that failed is asked again without a pause, if all others failed later. */
const againAfter = 1_000;
const brokersMax = 64;
/** The addresses of the brokers of one bucket. Requests go to one of them: the leader, as far as it is known. */
export class Brokers {
    list;
    #current = 0;
    #avoid = new Map(); // until when
    #seen;
    constructor(addresses) {
        const given = typeof addresses === "string" ? addresses.split(",") : addresses;
        this.list = [...new Set(given.map(checkAddress))];
        if (this.list.length === 0 || this.list.length > brokersMax)
            throw invalid(`broker addresses: ${this.list.length}, want 1 to ${brokersMax}`);
    }
    /** A single address may be that of a load balancer, so requests go to no other address then. */
    get several() {
        return this.list.length > 1;
    }
    pick() {
        return this.list[this.#current];
    }
    /**
     * Notes that a broker did not answer, or does not serve requests now. The next request goes to the one whose
     * last failure is the oldest. Returns whether that has not failed within againAfter.
     */
    failed(base) {
        if (!this.several)
            return false;
        const now = performance.now();
        const until = (address) => this.#avoid.get(address) ?? 0;
        this.#avoid.set(base, now + avoidTime);
        if (this.pick() === base) { // else another request has moved on
            const others = this.list.map((_, i) => this.list[(this.#current + 1 + i) % this.list.length]).slice(0, -1);
            const best = others.reduce((a, b) => (until(a) <= now || until(a) <= until(b) ? a : b));
            this.#current = this.list.indexOf(best);
        }
        return until(this.pick()) < now + avoidTime - againAfter;
    }
    /** Notes what the head of an answer tells about the brokers. */
    answered(headers) {
        const at = position(headers.get("Seb-Position"));
        if (at && (!this.#seen || before(this.#seen, at)))
            this.#seen = at;
        const leader = headers.get("Seb-Leader");
        if (!leader || performance.now() < (this.#avoid.get(leader) ?? 0))
            return;
        const i = this.list.indexOf(leader);
        if (this.several && i >= 0)
            this.#current = i;
    }
    /** The position that the next read must include, or "". */
    after() {
        return this.#seen?.text ?? "";
    }
    /** Drops a position that an answer does not include, although it had to: the bucket is another one now. */
    forget(text) {
        if (this.#seen?.text === text)
            this.#seen = undefined;
    }
    /** Drops the position that a read named if its answer does not include it. */
    include(headers, after) {
        const got = position(headers.get("Seb-Position")), wanted = position(after);
        if (got && wanted && before(got, wanted))
            this.forget(after);
    }
}
function position(text) {
    const m = /^0:(\d{1,10}):(\d{1,20})$/.exec(text ?? "");
    return m ? { epoch: Number(m[1]), slot: Number(m[2]), text: m[0] } : undefined;
}
function before(p, q) {
    return p.epoch < q.epoch || (p.epoch === q.epoch && p.slot < q.slot);
}
/** Returns an address without trailing slashes. Its errors contain no possible password. */
function checkAddress(address) {
    let url;
    const text = String(address).trim();
    try {
        url = new URL(text);
    }
    catch {
        throw invalid("broker address: want http://host:port, or several");
    }
    if (url.username || url.password || text.includes("@"))
        throw invalid("broker address: want http://host:port, without user and password");
    if (!["http:", "https:"].includes(url.protocol) || /[?#]/.test(text))
        throw invalid("broker address: want http://host:port or https://host:port, without query");
    return text.replace(/\/+$/, "");
}
