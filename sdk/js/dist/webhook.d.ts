/** A webhook is not valid: its headers, its time, its signature, or the secret to verify it. */
export declare class WebhookError extends Error {
    readonly code: "bad_headers" | "timestamp" | "signature" | "bad_secret";
    constructor(code: "bad_headers" | "timestamp" | "signature" | "bad_secret", text: string);
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
        witness: {
            event: string;
            time: string;
            offset: number;
            data?: {
                [name: string]: unknown;
            };
        }[];
    };
}
type HeaderSource = Headers | {
    [name: string]: string | readonly string[] | undefined;
};
/** Verifies a message by Standard Webhooks. body must be the exact bytes of the request. It throws a WebhookError. */
export declare function verify(body: string | Uint8Array, headers: HeaderSource, secrets: string | readonly string[], o?: VerifyOptions): Promise<Verified>;
export {};
