import { fromBase64, toBase64 } from "./content.js";
/** A webhook is not valid: its headers, its time, its signature, or the secret to verify it. */
export class WebhookError extends Error {
    code;
    constructor(code, text) {
        super("webhook: " + text);
        this.code = code;
    }
}
const encoder = new TextEncoder();
/** Verifies a message by Standard Webhooks. body must be the exact bytes of the request. It throws a WebhookError. */
export async function verify(body, headers, secrets, o = {}) {
    const keys = (typeof secrets === "string" ? [secrets] : secrets).map(keyOf);
    if (keys.length < 1 || keys.length > 8)
        throw new WebhookError("bad_secret", `${keys.length} secrets given, want 1 to 8`);
    const id = header(headers, "webhook-id"), seconds = header(headers, "webhook-timestamp"), signatures = header(headers, "webhook-signature");
    if (!/^[!-\-/-~]{1,256}$/.test(id))
        throw new WebhookError("bad_headers", "webhook-id: want 1 to 256 printable characters of ASCII without spaces and full stops");
    if (signatures.length > 4096)
        throw new WebhookError("bad_headers", "webhook-signature: more than 4096 bytes");
    if (!/^(0|[1-9]\d{0,11})$/.test(seconds))
        throw new WebhookError("bad_headers", "webhook-timestamp: not a number of seconds");
    const apart = Math.abs((o.now?.getTime() ?? Date.now()) / 1000 - Number(seconds)), tolerance = o.tolerance || 300;
    if (tolerance >= 0 && !(apart <= tolerance))
        throw new WebhookError("timestamp", `timestamp ${Math.round(apart)} s from the clock, limit ${tolerance} s`);
    const given = signatures.split(" ").filter((s) => s.startsWith("v1,") && base64.test(s.slice(3))).map((s) => fromBase64(s.slice(3)));
    const prefix = encoder.encode(`${id}.${seconds}.`), data = typeof body === "string" ? encoder.encode(body) : body;
    const signed = new Uint8Array(prefix.length + data.length);
    signed.set(prefix);
    signed.set(data, prefix.length);
    let found = false;
    for (const raw of keys) {
        const key = await crypto.subtle.importKey("raw", raw, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
        // subtle.verify compares in constant time.
        for (const sum of given)
            found = (await crypto.subtle.verify("HMAC", key, sum, signed)) || found;
    }
    if (!found)
        throw new WebhookError("signature", "no signature matches");
    return { id, sentAt: new Date(1000 * Number(seconds)) };
}
const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;
/** The key of a secret such as whsec_… Errors do not contain it. */
function keyOf(secret) {
    const encoded = secret.startsWith("whsec_") ? secret.slice(6) : "";
    const key = base64.test(encoded) ? fromBase64(encoded) : new Uint8Array();
    if (key.length < 24 || key.length > 64 || toBase64(key) !== encoded)
        throw new WebhookError("bad_secret", "secret: want whsec_ and the base64 of 24 to 64 bytes");
    return key;
}
function header(headers, name) {
    let values;
    if (headers instanceof Headers)
        values = [headers.get(name) ?? ""]; // several are joined by a comma, which no value may have
    else
        values = Object.entries(headers).flatMap(([k, v]) => (k.toLowerCase() === name ? (typeof v === "string" ? [v] : [...(v ?? [])]) : []));
    if (values.length !== 1 || !values[0])
        throw new WebhookError("bad_headers", `want one non-empty header ${name}, got ${values.filter(Boolean).length}`);
    return values[0];
}
