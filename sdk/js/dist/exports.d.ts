export { Consumer, type ConsumerOptions } from "./consumer.js";
export { Content, LeasedMessage, Record, type ContentHeader, type Data, type OutgoingHeader, type OutgoingMessage, type OutgoingRecord, type Span } from "./content.js";
export { OutcomeUnknownError, RejectedError, SebError, type Effect, type Fault } from "./errors.js";
export type { LeaseOptions } from "./client.js";
export type { Item, ProduceOptions } from "./produce.js";
export type { Filter, ReadOptions, Start, StreamOptions } from "./read.js";
export type { CallOptions, ClientOptions } from "./transport.js";
export { GiveUp, LeaseEnded, RetryAfter, type Handler, type WorkOptions } from "./worker.js";
export type * as api from "./types.js";
