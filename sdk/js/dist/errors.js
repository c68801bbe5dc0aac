/** A call has failed. Errors of writes are a RejectedError or an OutcomeUnknownError. */
export class SebError extends Error {
    constructor(fault) {
        const { cause, ...rest } = fault;
        super(sentence(fault), cause === undefined ? undefined : { cause });
        Object.assign(this, rest);
    }
}
/** Nothing is stored, and nothing of the call can appear later. */
export class RejectedError extends SebError {
}
/** The write may take effect once, or never. */
export class OutcomeUnknownError extends SebError {
}
for (const [name, kind] of Object.entries({ SebError, RejectedError, OutcomeUnknownError })) {
    Object.defineProperty(kind.prototype, "name", { value: name });
}
export function errorOf(fault) {
    const kind = { none: SebError, rejected: RejectedError, unknown: OutcomeUnknownError }[fault.outcome];
    return new kind(fault);
}
/** The fault of a call without a valid answer. */
export function noAnswer(outcome, cause, status = 0) {
    return { outcome, status, code: "", detail: "", retryAfter: 0, cause };
}
/** The error for an argument that is wrong. write: of a call that writes. */
export function invalid(text, write = false) {
    return errorOf(noAnswer(write ? "rejected" : "none", new TypeError(text)));
}
/** A 2xx answer that no broker sends: a proxy may have sent it. */
export class NotBroker extends Error {
}
/** Tells from the error of fetch whether the request cannot have been sent, or the peer refused or is not trusted. */
export function notSent(error) {
    for (let e = error; e; e = (e.cause ?? e.errors?.[0])) {
        const code = String(e.code ?? "");
        if (/CERT|SELF_SIGNED|UNABLE_TO_(GET|VERIFY)|WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG/.test(code) ||
            /invalid peer certificate|bad port|port \d+ (is|are) blocked|TLS handshake failed|corrupt message/i.test(e.message ?? ""))
            return { again: false };
        if (["connect", "getaddrinfo"].includes(e.syscall ?? "") || /^(ECONNREFUSED|UND_ERR_CONNECT_TIMEOUT|ConnectionRefused|FailedToOpenSocket)$/.test(code) ||
            /tcp connect error|dns error/i.test(e.message ?? ""))
            return { again: true };
    }
    return undefined;
}
/** The message of an error. That of fetch itself says nothing, but its cause does. */
function reasonOf(error) {
    let e = error;
    for (let inner = e; inner && (!inner.message || inner.message === "fetch failed");)
        e = inner = (inner.cause ?? inner.errors?.[0]);
    return firstLine(e?.message || String(e?.code ?? error));
}
/** One line: the reason, and the outcome of a write. */
function sentence(f) {
    let text = "";
    if (f.code)
        text = f.code.replaceAll("_", " ");
    else if (f.status)
        text = `answer ${f.status}`;
    if (text && f.detail)
        text += ": " + f.detail;
    if (f.cause !== undefined)
        text += (text && ": ") + reasonOf(f.cause);
    if (f.outcome === "unknown" && f.code !== "outcome_unknown")
        text += " (outcome unknown: it may appear once, or never)";
    if (["not_found", "method_not_allowed"].includes(f.code) || (f.status === 404 && !f.code)) {
        text += " (the address does not know this call: it may be a broker of an older version)";
    }
    return text;
}
/** Reads the fault of an answer without a 2xx status. */
export function faultOf(status, headers, body, write) {
    const f = { outcome: "none", status, code: "", detail: "", retryAfter: retryAfter(headers.get("Retry-After")) };
    let p;
    if (headers.get("Content-Type")?.startsWith("application/problem+json")) {
        try {
            p = JSON.parse(body);
        }
        catch { } // the first line tells more
    }
    if (p && typeof p === "object")
        fillFault(f, p);
    else
        f.detail = firstLine(body);
    if (write) {
        // The broker's rejections have a code. A 5xx status without one comes from a proxy, which may have forwarded the request.
        f.outcome = f.code !== "outcome_unknown" && (status < 500 || (status === 503 && f.code !== "")) ? "rejected" : "unknown";
    }
    return f;
}
/** Fills in what a problem says. */
export function fillFault(f, p) {
    f.code = String(p.code ?? "");
    f.detail = String(p.detail ?? "");
    const more = {
        nextOffset: p.next_offset, startOffset: p.start_offset, committed: p.committed_offset, leader: p.leader,
        line: p.line, column: p.column, pointer: p.pointer, results: p.results, offsets: p.offsets,
    };
    Object.assign(f, Object.fromEntries(Object.entries(more).filter(([, v]) => v !== undefined && v !== null)));
}
function retryAfter(text) {
    if (!text)
        return 0;
    if (/^\d{1,4}$/.test(text))
        return Number(text) <= 3600 ? Math.max(Number(text), 0.001) : 0;
    const at = Date.parse(text);
    return Number.isNaN(at) ? 0 : Math.max((at - Date.now()) / 1000, 0.001);
}
export function firstLine(body) {
    return body.slice(0, 300).trim().split("\n", 1)[0].trim();
}
/** Reports whether another broker may serve the request that failed. */
export function elsewhere(f, aborted) {
    if (["not_leader", "fenced", "shutting_down", "not_yet", "store_unavailable"].includes(f.code))
        return true;
    return !aborted && (f.status === 0 || (f.status >= 200 && f.status < 300 && !(f.cause instanceof NotBroker)));
}
/** Reports whether sending a request again is safe and can succeed. free: the call is a read, or idempotent. */
export function repeatable(f, free) {
    if (f.code === "fenced" && f.retryAfter === 0)
        return false;
    if (f.code === "key_index_behind")
        return false; // the broker has already waited
    if (f.status === 0)
        return notSent(f.cause)?.again !== false && (free || f.outcome === "rejected");
    if (f.status >= 200 && f.status < 300)
        return free && !(f.cause instanceof NotBroker); // the answer ended early
    if (!free)
        return f.outcome === "rejected" && !f.results?.length && f.retryAfter > 0 && (f.status === 429 || f.status === 503);
    return [408, 429, 502, 503, 504].includes(f.status);
}
