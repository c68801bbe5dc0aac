export { Client } from "./admin.js";
export * from "./exports.js";
export { WebhookError, verify } from "./webhook.js";
