// The build for web pages: it has no calls that manage a broker, and no webhooks.
import { Client as DataClient } from "./client.js";
export * from "./exports.js";
let warned = false;
/** The client without the calls that manage topics, triggers and queues. */
export class Client extends DataClient {
    constructor(addresses, options = {}) {
        super(addresses, options);
        if (!options.token || warned)
            return;
        warned = true;
        console.warn("sebbroker: everyone who opens this page can read its token. Use one that may only do what every visitor may do, with a quota.");
    }
}
