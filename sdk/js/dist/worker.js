import { LeasedMessage, messageOf, spanMillis } from "./content.js";
import { SebError, errorOf, invalid, noAnswer, notSent, repeatable } from "./errors.js";
import { growth, sleep, timerMax } from "./transport.js";
/** Thrown by a handler: the message comes again after some seconds instead of the backoff of the queue. */
export class RetryAfter extends Error {
    seconds;
    constructor(seconds, reason = `again after ${seconds}s`) {
        super(messageOf(reason), { cause: reason });
        this.seconds = seconds;
    }
}
/** Thrown by a handler: the message goes to the dead-letter queue at once. */
export class GiveUp extends Error {
    constructor(reason = "dead") {
        super(messageOf(reason), { cause: reason });
    }
}
/** Why the signal of a handler is aborted. */
export class LeaseEnded extends Error {
    why;
    constructor(why) {
        super({ lost: "the lease of the message is lost: another worker may have it", over: "the lease of the message is over", stopped: "the worker stops" }[why]);
        this.why = why;
    }
}
const leaseMax = 1000, settleMax = 1000;
/** Messages whose handlers have returned and whose outcome is not stored, before no more are leased. */
const unsettledMax = settleMax;
const reasonMax = 512, delayMax = 365 * 86_400;
/** Milliseconds. */
const leaseWait = 20_000, busyWait = 250, callMax = 120_000, settlePause = 500;
export async function work(source, handler, o) {
    const concurrency = o.concurrency ?? 1, visibility = spanMillis(o.visibility), grace = spanMillis(o.grace);
    if (!Number.isInteger(concurrency) || concurrency < 1 || concurrency > 10_000)
        throw invalid(`concurrency: ${concurrency} is not between 1 and 10000`);
    if (o.visibility !== undefined && !(visibility >= 1000 && visibility <= 43_200_000))
        throw invalid(`visibility: ${o.visibility} is not between 1s and 12h`);
    if (!(grace >= 0))
        throw invalid(`grace: ${o.grace} is no time`);
    const tell = (error) => {
        try {
            o.onError?.(error);
        }
        catch { } // it must not end the work
    };
    const w = new Worker(source, handler, { ...o, concurrency, grace, tell, millis: visibility });
    if (visibility === 0 && !(await w.askVisibility()))
        return;
    return w.run();
}
/** One work. */
class Worker {
    source;
    handler;
    o;
    #held = new Set();
    #pending = []; // finished: to be settled
    #running = 0;
    #settling = 0;
    #leasing = false;
    #extending = false;
    #empty = false;
    #stopping = false;
    #failed;
    #unsettled = 0; // messages whose settlement was given up
    #scheduled = false;
    #timers = [];
    #stopLeasing = new AbortController();
    #finish = () => { };
    constructor(source, handler, o) {
        this.source = source;
        this.handler = handler;
        this.o = o;
    }
    /** Asks for the visibility of the queue. It returns false if the work is over before. */
    async askVisibility() {
        for (let failures = 1; !this.o.signal?.aborted; failures++) {
            try {
                this.o.millis = spanMillis(await this.source.visibility({ signal: this.o.signal }));
                return true;
            }
            catch (error) {
                if (this.o.signal?.aborted)
                    break;
                if (judge(error) !== "again")
                    throw error;
                this.o.tell(error);
                await sleep(spread(failures), this.o.signal);
            }
        }
        return false;
    }
    async run() {
        const stop = () => this.#wake();
        this.o.signal?.addEventListener("abort", stop, { once: true });
        const tick = setInterval(() => this.#extend(), this.o.millis / 6);
        await new Promise((resolve) => {
            this.#finish = resolve;
            this.#step();
        });
        clearInterval(tick);
        this.#timers.forEach((timer) => clearTimeout(timer));
        this.o.signal?.removeEventListener("abort", stop);
        if (this.#unsettled > 0) {
            const text = `${this.#unsettled} settlements are not stored, so their messages come again`;
            const cause = new Error(this.#failed === undefined ? `${text}: the broker refused them` : text, { cause: this.#failed });
            throw errorOf({ ...noAnswer("rejected", cause), ...(this.#failed instanceof SebError && { ...this.#failed, cause }) });
        }
        if (this.#failed !== undefined)
            throw this.#failed;
    }
    /** Lets step run when what happens at the same time has been noted, so that one request serves all of it. */
    #wake() {
        if (this.#scheduled)
            return;
        this.#scheduled = true;
        queueMicrotask(() => {
            this.#scheduled = false;
            this.#step();
        });
    }
    #step() {
        if (!this.#stopping && (this.o.signal?.aborted || this.#failed !== undefined || this.#empty)) {
            this.#stopping = true;
            this.#stopLeasing.abort();
            if (this.o.grace > 0)
                this.#timers.push(setTimeout(() => this.#held.forEach((h) => h.says ?? h.abort.abort(new LeaseEnded("stopped"))), Math.min(this.o.grace, timerMax)));
        }
        this.#lease();
        this.#settle();
        if (this.#stopping && !this.#leasing && !this.#extending && this.#running === 0 && this.#pending.length === 0 && this.#settling === 0)
            this.#finish();
    }
    /** Leases messages for the slots that are free, unless it does already. */
    #lease() {
        const free = Math.min(leaseMax, this.o.concurrency - this.#running);
        if (this.#stopping || this.#leasing || free === 0 || this.#pending.length + this.#settling >= unsettledMax)
            return;
        this.#leasing = true;
        const idle = this.#held.size === 0;
        const wait = !this.o.untilEmpty ? leaseWait : idle ? 0 : busyWait;
        void this.#leaseOnce(free, wait).then((list) => {
            this.#empty = !!this.o.untilEmpty && idle && list.length === 0;
            const now = performance.now();
            list.forEach((m) => this.#start(m, now));
        }, (error) => {
            if (!this.#stopping)
                this.#failed ??= error;
        }).then(() => {
            this.#leasing = false;
            this.#wake();
        });
    }
    /** Leases messages. It repeats what may succeed. */
    async #leaseOnce(max, wait) {
        const { signal } = this.#stopLeasing;
        for (let failures = 1;; failures++) {
            const began = performance.now();
            const bound = within(wait + callMax, signal);
            try {
                const list = await this.source.lease({ max, wait: `${wait}ms`, visibility: `${Math.round(this.o.millis)}ms`, signal: bound.signal });
                // A broker that stops, or has too many connections, does not wait.
                if (list.length > 0 || signal.aborted || performance.now() - began >= wait / 2)
                    return list;
            }
            catch (error) {
                if (signal.aborted)
                    return [];
                if (!bound.signal.aborted && judge(error) !== "again")
                    throw error;
                this.o.tell(error);
            }
            finally {
                bound.end();
            }
            await sleep(spread(failures), signal);
            if (signal.aborted)
                return [];
        }
    }
    /** Starts the handler of a message. */
    #start(message, at) {
        const h = { message, at, abort: new AbortController(), lost: false };
        this.#held.add(h);
        this.#running++;
        let over;
        const { millis } = this.o;
        if (this.o.extend === false)
            over = setTimeout(() => h.abort.abort(new LeaseEnded("over")), millis - Math.min(millis / 10, 1000));
        void (async () => {
            let says = { receipt: message.receipt, do: "done" };
            try {
                await this.handler(new LeasedMessage(message), h.abort.signal);
            }
            catch (error) {
                const { reason } = h.abort.signal;
                says = outcome(says.receipt, error, reason instanceof LeaseEnded && reason.why === "stopped");
            }
            clearTimeout(over);
            this.#running--;
            h.says = says;
            if (h.lost)
                this.#forget(h, new LeaseEnded("lost"));
            else
                this.#pending.push(h);
            this.#wake();
        })();
    }
    /** Drops a message that is settled, or whose settlement is refused. */
    #forget(h, error) {
        this.#held.delete(h);
        if (error)
            this.o.tell(new Error(`message ${h.message.id}: ${h.says?.do}: ${messageOf(error)}`, { cause: error }));
    }
    /** Says what became of messages, unless it does already. */
    #settle() {
        if (this.#settling > 0 || this.#pending.length === 0)
            return;
        const batch = this.#pending.splice(0, settleMax);
        this.#settling = batch.length;
        const last = this.#stopping; // then it is not repeated
        void this.#settleOnce(batch, last).then(() => {
            this.#settling = 0;
            this.#wake();
        });
    }
    async #settleOnce(batch, last) {
        const bound = within(callMax);
        let results = [], failed, again = false;
        try {
            results = await this.source.settle(batch.map((h) => h.says), { signal: bound.signal });
            again = results.some((r) => r.code && judge(refusal(r)) === "again");
        }
        catch (error) {
            failed = error;
            again = bound.signal.aborted || judge(error) === "again";
            this.o.tell(error);
        }
        finally {
            bound.end();
        }
        again &&= !last;
        if (again)
            await sleep(settlePause, this.#stopLeasing.signal);
        if (failed === undefined)
            batch.forEach((h, i) => this.#settled(h, results[i], again));
        else if (again)
            this.#pending.unshift(...batch);
        else {
            batch.forEach((h) => this.#forget(h));
            this.#unsettled += batch.length;
            this.#failed ??= failed;
        }
    }
    /** Notes the result of a settlement. again: one that may succeed is repeated. */
    #settled(h, r, again) {
        if (!r.code)
            return this.#forget(h);
        const error = refusal(r), judged = judge(error);
        if (judged === "again" && again)
            this.#pending.unshift(h);
        else if (judged === "no dead letter" && h.says.do === "dead") {
            h.says.do = "retry";
            this.#pending.unshift(h);
        }
        else if (judged === "lost")
            this.#forget(h, new LeaseEnded("lost"));
        else { // it comes again when its lease is over
            this.#unsettled++;
            this.#forget(h, error);
        }
    }
    /** Keeps the messages of handlers that run, and those that are not settled yet. */
    #extend() {
        if (this.#extending)
            return;
        const now = performance.now();
        const due = [...this.#held].filter((h) => !h.lost && now - h.at >= this.o.millis / 3 && (h.says || this.o.extend !== false));
        if (due.length === 0)
            return;
        this.#extending = true;
        void (async () => {
            for (let i = 0; i < due.length; i += settleMax)
                await this.#extendSome(due.slice(i, i + settleMax), now);
        })().catch((error) => this.o.tell(error)).then(() => {
            this.#extending = false;
            this.#wake();
        });
    }
    async #extendSome(some, now) {
        const bound = within(callMax);
        const delay = `${Math.round(this.o.millis)}ms`;
        const results = await this.source.settle(some.map((h) => ({ receipt: h.message.receipt, do: "extend", delay })), { signal: bound.signal }).finally(bound.end);
        some.forEach((h, i) => {
            const r = results[i];
            if (!r.code)
                h.at = now;
            else if (judge(refusal(r)) === "lost" && !h.says) { // else its settlement says so
                h.lost = true;
                h.abort.abort(new LeaseEnded("lost"));
            }
        });
    }
}
/** A signal that ends after some milliseconds or with another one. */
function within(ms, outer) {
    const abort = new AbortController();
    const stop = () => abort.abort(outer?.reason ?? new Error("the broker does not answer"));
    const timer = setTimeout(stop, ms);
    if (outer?.aborted)
        stop();
    outer?.addEventListener("abort", stop);
    return { signal: abort.signal, end: () => {
            clearTimeout(timer);
            outer?.removeEventListener("abort", stop);
        } };
}
/** A random pause: what failed together is not repeated together. */
function spread(failures) {
    return growth(100, 5_000, failures) * (0.5 + Math.random());
}
function refusal(r) {
    return errorOf({ ...noAnswer("rejected", undefined), code: r.code ?? "", detail: r.detail ?? "" });
}
const overloads = ["over_budget", "queue_full", "queue_limit", "quota_exceeded", "producers_full", "store_unavailable", "not_leader", "fenced", "not_yet", "shutting_down", "clock_wrong", "outcome_unknown", "corrupt_data", "internal"];
/** What an error means for a worker. */
function judge(error) {
    if (!(error instanceof SebError))
        return "final";
    if (["stale_receipt", "unknown_receipt", "unknown_message"].includes(error.code))
        return "lost";
    if (error.code === "no_dead_letter_queue")
        return "no dead letter";
    if (error.code && !error.status)
        return overloads.includes(error.code) ? "again" : "final"; // of one message
    if (error.status === 0)
        return notSent(error.cause)?.again === false ? "final" : "again";
    return repeatable(error, true) || error.status >= 500 ? "again" : "final";
}
/** The settlement after a handler has thrown. stopped: because the worker stops. */
function outcome(receipt, error, stopped) {
    const reason = reasonOf(error);
    if (error instanceof GiveUp)
        return { receipt, do: "dead", reason };
    if (error instanceof RetryAfter) {
        const seconds = Math.min(Math.max(0, Number(error.seconds) || 0), delayMax);
        return { receipt, do: "retry", reason, delay: `${Math.round(1000 * seconds)}ms` };
    }
    return { receipt, do: "retry", reason, ...(stopped && { delay: "0s" }) };
}
/** The text of an error as the broker takes it: 512 bytes of UTF-8, cut between characters. */
function reasonOf(error) {
    const to = new Uint8Array(reasonMax);
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(to.subarray(0, new TextEncoder().encodeInto(messageOf(error), to).written));
}
