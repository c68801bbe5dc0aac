import { Consumer, type ConsumerOptions } from "./consumer.js";
import { type OutgoingMessage, type OutgoingRecord, type Record, type Span } from "./content.js";
import { type Item, type ProduceOptions } from "./produce.js";
import { type ReadOptions, type StreamOptions } from "./read.js";
import { Transport, type Call, type CallOptions, type ClientOptions } from "./transport.js";
import type { Event, EventStored, GroupOffset, MessageResult, OffsetEntry, PartitionResult, Queue, QueueMessage, Settlement, StoredRecord, Topic } from "./types.js";
import { type Handler, type WorkOptions } from "./worker.js";
export interface LeaseOptions extends CallOptions {
    /** Messages: 1 to 1,000, default 1. */
    max?: number;
    /** Time to wait for the first message, at most 1m; default: none. */
    wait?: Span;
    /** Time that the worker has for the messages; default: that of the queue. */
    visibility?: Span;
}
/**
 * A client of the brokers of one bucket: produce, read, events, and the work on queues. Objects of the broker have
 * the members of the HTTP API.
 *
 * Every write returns when it is durable, or throws: RejectedError (not stored, and cannot appear later), or
 * OutcomeUnknownError. Offsets are numbers, so they are exact up to 2^53.
 */
export declare class Client {
    #private;
    protected readonly transport: Transport;
    /**
     * addresses: one, such as "http://127.0.0.1:51313", or several of brokers of one bucket, as a list or separated by
     * commas. A call goes to the next broker if one does not answer. It sends no request.
     */
    constructor(addresses: string | readonly string[], options?: ClientOptions, agent?: string);
    /** Appends records to a topic, and returns their positions per partition once they are durable. */
    produce(topic: string, records: readonly OutgoingRecord[], o?: ProduceOptions): Promise<PartitionResult[]>;
    /**
     * Stores all items or none, and returns the position of each once they are durable. The outcome of an error is that of
     * all items.
     */
    produceAll(items: readonly Item[], o?: CallOptions): Promise<StoredRecord[]>;
    /** The records of a partition, to its end or on. Failed requests are repeated without a gap or a repetition. */
    read(topic: string, o?: ReadOptions): AsyncGenerator<Record, void, void>;
    /** The records of a partition or a whole topic as they arrive, until signal is aborted. It resumes over broken connections. */
    stream(topic: string, o?: StreamOptions): AsyncGenerator<Record, void, void>;
    /** Begins to read a topic for a consumer group. Close the consumer. */
    consumer(group: string, topic: string, o?: ConsumerOptions): Promise<Consumer>;
    /** The committed offsets of a group in a topic, or in all. */
    offsets(group: string, topic?: string, o?: CallOptions): Promise<GroupOffset[]>;
    /** Stores offsets of a group, each of the next record to read. */
    commitOffsets(group: string, list: readonly OffsetEntry[], o?: CallOptions): Promise<void>;
    /** Describes a topic. */
    topic(name: string, o?: CallOptions): Promise<Topic>;
    /** Appends an event. With an id it is repeated after an unknown outcome, because triggers ignore the second one. */
    event(event: Event, o?: CallOptions & {
        topic?: string;
    }): Promise<EventStored>;
    /** Appends events in one request. If all have an id, they are repeated after an unknown outcome. */
    events(events: readonly Event[], o?: CallOptions & {
        topic?: string;
    }): Promise<PartitionResult[]>;
    /** Describes a queue. */
    queue(name: string, o?: CallOptions): Promise<Queue>;
    /** Sends up to 10,000 messages, and returns a result for each once they are durable. One with a code was refused. */
    sendMessages(queue: string, messages: readonly OutgoingMessage[], o?: CallOptions): Promise<MessageResult[]>;
    /** Leases messages. Settle them with their receipts; work does both. */
    lease(queue: string, o?: LeaseOptions): Promise<QueueMessage[]>;
    /** Says what became of leased messages, and returns a result for each. One with a code was refused. */
    settle(queue: string, settlements: readonly Settlement[], o?: CallOptions): Promise<MessageResult[]>;
    /**
     * Calls handler for each message of a queue until options.signal is aborted. A message is done when handler has
     * returned and that is durable. If it throws, the message comes again after the backoff of the queue, until it goes
     * to the dead-letter queue; see RetryAfter and GiveUp. A message may be given more than once.
     *
     * Leases are extended while handlers run. work waits for a broker that restarts, for as long as it takes. It throws
     * an error that no repetition can change, such as unknown_topic.
     */
    work(queue: string, handler: Handler, o?: WorkOptions): Promise<void>;
    protected get<T>(path: string, member: keyof T & string, o: CallOptions, query?: Call["query"]): Promise<T>;
    /** Sends a change with a body in JSON. member: one that each answer of a broker has. */
    protected sendJSON<T>(method: "POST" | "PUT", path: string, member: keyof T & string, body: unknown, how: Partial<Call>, check?: (answer: T) => void): Promise<T>;
}
export declare function queuePath(name: string, rest?: string): string;
