import { Client as DataClient } from "./client.js";
import type { ClientOptions } from "./transport.js";
export * from "./exports.js";
/** The client without the calls that manage topics, triggers and queues. */
export declare class Client extends DataClient {
    constructor(addresses: string | readonly string[], options?: ClientOptions);
}
