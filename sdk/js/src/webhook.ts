import { fromBase64, toBase64 } from "./content.js";

/** A webhook is not valid: its headers, its time, its signature, or the secret to verify it. */
export class WebhookError extends Error {
  constructor(readonly code: "bad_headers" | "timestamp" | "signature" | "bad_secret", text: string) {
    super("webhook: " + text);
  }
}

export interface VerifyOptions {
  /** Seconds between the message's timestamp and the clock, in both directions; default (also 0) 300, negative: any. */
  tolerance?: number;
  /** The clock; default: the current time. */
  now?: Date;
}

/** A verified message. */
export interface Verified {
  /** The same for all attempts of a message. Store the IDs, and skip those already seen. */
  id: string;
  /** The time of this attempt, in whole seconds. */
  sentAt: Date;
}

/** The JSON body of a message of a trigger without a template. */
export interface WebhookFiring {
  type: "trigger.fired" | "trigger.retracted" | (string & {});
  timestamp: string;
  version: number;
  id: string;
  attempt: number;
  data: {
    trigger: string;
    trigger_version: number;
    entity: string;
    witness: { event: string; time: string; offset: number; data?: { [name: string]: unknown } }[];
  };
}

type HeaderSource = Headers | { [name: string]: string | readonly string[] | undefined };

const encoder = new TextEncoder();

/** Verifies a message by Standard Webhooks. body must be the exact bytes of the request. It throws a WebhookError. */
export async function verify(body: string | Uint8Array, headers: HeaderSource, secrets: string | readonly string[], o: VerifyOptions = {}): Promise<Verified> {
  const keys = (typeof secrets === "string" ? [secrets] : secrets).map(keyOf);
  if (keys.length < 1 || keys.length > 8) throw new WebhookError("bad_secret", `${keys.length} secrets given, want 1 to 8`);
  const id = header(headers, "webhook-id"), seconds = header(headers, "webhook-timestamp"), signatures = header(headers, "webhook-signature");
  if (!/^[!-\-/-~]{1,256}$/.test(id)) throw new WebhookError("bad_headers", "webhook-id: want 1 to 256 printable characters of ASCII without spaces and full stops");
  if (signatures.length > 4096) throw new WebhookError("bad_headers", "webhook-signature: more than 4096 bytes");
  if (!/^(0|[1-9]\d{0,11})$/.test(seconds)) throw new WebhookError("bad_headers", "webhook-timestamp: not a number of seconds");
  const apart = Math.abs((o.now?.getTime() ?? Date.now()) / 1000 - Number(seconds)), tolerance = o.tolerance || 300;
  if (tolerance >= 0 && !(apart <= tolerance)) throw new WebhookError("timestamp", `timestamp ${Math.round(apart)} s from the clock, limit ${tolerance} s`);
  const given = signatures.split(" ").filter((s) => s.startsWith("v1,") && base64.test(s.slice(3))).map((s) => fromBase64(s.slice(3)));
  const prefix = encoder.encode(`${id}.${seconds}.`), data = typeof body === "string" ? encoder.encode(body) : body;
  const signed = new Uint8Array(prefix.length + data.length);
  signed.set(prefix);
  signed.set(data, prefix.length);
  let found = false;
  for (const raw of keys) {
    const key = await crypto.subtle.importKey("raw", raw as BufferSource, { name: "HMAC", hash: "SHA-256" }, false, ["verify"]);
    // subtle.verify compares in constant time.
    for (const sum of given) found = (await crypto.subtle.verify("HMAC", key, sum as BufferSource, signed)) || found;
  }
  if (!found) throw new WebhookError("signature", "no signature matches");
  return { id, sentAt: new Date(1000 * Number(seconds)) };
}

const base64 = /^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/;

/** The key of a secret such as whsec_… Errors do not contain it. */
function keyOf(secret: string): Uint8Array {
  const encoded = secret.startsWith("whsec_") ? secret.slice(6) : "";
  const key = base64.test(encoded) ? fromBase64(encoded) : new Uint8Array();
  if (key.length < 24 || key.length > 64 || toBase64(key) !== encoded) throw new WebhookError("bad_secret", "secret: want whsec_ and the base64 of 24 to 64 bytes");
  return key;
}

function header(headers: HeaderSource, name: string): string {
  let values: string[];
  if (headers instanceof Headers) values = [headers.get(name) ?? ""]; // several are joined by a comma, which no value may have
  else values = Object.entries(headers).flatMap(([k, v]) => (k.toLowerCase() === name ? (typeof v === "string" ? [v] : [...(v ?? [])]) : []));
  if (values.length !== 1 || !values[0]) throw new WebhookError("bad_headers", `want one non-empty header ${name}, got ${values.filter(Boolean).length}`);
  return values[0];
}
