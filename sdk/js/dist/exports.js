export { Consumer } from "./consumer.js";
export { Content, LeasedMessage, Record } from "./content.js";
export { OutcomeUnknownError, RejectedError, SebError } from "./errors.js";
export { GiveUp, LeaseEnded, RetryAfter } from "./worker.js";
