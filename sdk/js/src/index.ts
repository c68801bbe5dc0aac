export { Client, type DryRunOptions, type FiringQuery, type MessageQuery, type PutTriggerOptions } from "./admin.js";
export * from "./exports.js";
export { WebhookError, verify, type Verified, type VerifyOptions, type WebhookFiring } from "./webhook.js";
