import { Consumer, commitOffsets, offsets, type ConsumerOptions } from "./consumer.js";
import { encode, escaped, spanMillis, spanText, toJSON, type OutgoingMessage, type OutgoingRecord, type Record, type Span } from "./content.js";
import { NotBroker, invalid } from "./errors.js";
import { Producers, acknowledged, type Item, type ProduceOptions } from "./produce.js";
import { read, stream, type ReadOptions, type StreamOptions } from "./read.js";
import { Transport, type Call, type CallOptions, type ClientOptions } from "./transport.js";
import type { Event, EventStored, GroupOffset, MessageResult, MessageResults, OffsetEntry, PartitionResult, Produced, Queue, QueueMessage, QueueMessages, Settlement, StoredRecord, Topic } from "./types.js";
import { work, type Handler, type WorkOptions } from "./worker.js";

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
export class Client {
  protected readonly transport: Transport;
  readonly #producers: Producers;

  /**
   * addresses: one, such as "http://127.0.0.1:51313", or several of brokers of one bucket, as a list or separated by
   * commas. A call goes to the next broker if one does not answer. It sends no request.
   */
  constructor(addresses: string | readonly string[], options: ClientOptions = {}, agent?: string) {
    this.transport = new Transport(addresses, options, agent);
    this.#producers = new Producers(this.transport);
  }

  /** Appends records to a topic, and returns their positions per partition once they are durable. */
  produce(topic: string, records: readonly OutgoingRecord[], o: ProduceOptions = {}): Promise<PartitionResult[]> {
    return this.#producers.produce(topic, records, o);
  }

  /**
   * Stores all items or none, and returns the position of each once they are durable. The outcome of an error is that of
   * all items.
   */
  produceAll(items: readonly Item[], o: CallOptions = {}): Promise<StoredRecord[]> {
    return this.#producers.produceAll(items, o);
  }

  /** The records of a partition, to its end or on. Failed requests are repeated without a gap or a repetition. */
  read(topic: string, o: ReadOptions = {}): AsyncGenerator<Record, void, void> {
    return read(this.transport, topic, o);
  }

  /** The records of a partition or a whole topic as they arrive, until signal is aborted. It resumes over broken connections. */
  stream(topic: string, o: StreamOptions = {}): AsyncGenerator<Record, void, void> {
    return stream(this.transport, topic, o);
  }

  /** Begins to read a topic for a consumer group. Close the consumer. */
  consumer(group: string, topic: string, o: ConsumerOptions = {}): Promise<Consumer> {
    return Consumer.open(this.transport, group, topic, o);
  }

  /** The committed offsets of a group in a topic, or in all. */
  offsets(group: string, topic?: string, o: CallOptions = {}): Promise<GroupOffset[]> {
    return offsets(this.transport, group, topic, o.signal);
  }

  /** Stores offsets of a group, each of the next record to read. */
  commitOffsets(group: string, list: readonly OffsetEntry[], o: CallOptions = {}): Promise<void> {
    return commitOffsets(this.transport, group, list, o);
  }

  /** Describes a topic. */
  topic(name: string, o: CallOptions = {}): Promise<Topic> {
    return this.get<Topic>("/topic", "name", o, { "topic-name": name });
  }

  /** Appends an event. With an id it is repeated after an unknown outcome, because triggers ignore the second one. */
  event(event: Event, o: CallOptions & { topic?: string } = {}): Promise<EventStored> {
    return this.#events([event], "application/json", o, (stored: EventStored) => {
      if (!(stored.offset >= 0)) throw new NotBroker("not the answer of a broker: an event without position");
      return stored;
    });
  }

  /** Appends events in one request. If all have an id, they are repeated after an unknown outcome. */
  events(events: readonly Event[], o: CallOptions & { topic?: string } = {}): Promise<PartitionResult[]> {
    return this.#events(events, "application/x-ndjson", o, (p: Produced) => acknowledged(p, events.length));
  }

  async #events<A, R>(events: readonly Event[], kind: string, o: CallOptions & { topic?: string }, result: (answer: A) => R): Promise<R> {
    if (events.length === 0) throw invalid("no events", true);
    return this.transport.call({
      method: "POST", path: "/event", query: { "topic-name": o.topic }, headers: { "Content-Type": kind }, body: events.map((e, i) => toJSON(`event ${i}`, e)).join("\n"),
      write: true, idempotent: events.every((e) => e?.id), signal: o.signal,
    }, async (answer) => result(await answer.json<A>("topic" as keyof A & string)));
  }

  /** Describes a queue. */
  queue(name: string, o: CallOptions = {}): Promise<Queue> {
    return this.get<Queue>(queuePath(name), "name", o);
  }

  /** Sends up to 10,000 messages, and returns a result for each once they are durable. One with a code was refused. */
  async sendMessages(queue: string, messages: readonly OutgoingMessage[], o: CallOptions = {}): Promise<MessageResult[]> {
    const body = { messages: messages.map((m, i) => encode(`message ${i}`, m)) };
    return this.#results(queuePath(queue, "/messages"), body, messages.length, o);
  }

  /** Leases messages. Settle them with their receipts; work does both. */
  async lease(queue: string, o: LeaseOptions = {}): Promise<QueueMessage[]> {
    const body = { max: o.max, wait: o.wait && spanText(o.wait), visibility: o.visibility && spanText(o.visibility) };
    const out = await this.sendJSON<QueueMessages>("POST", queuePath(queue, "/lease"), "messages", body, { idempotent: true, wait: spanMillis(o.wait) || 0, signal: o.signal });
    return out.messages;
  }

  /** Says what became of leased messages, and returns a result for each. One with a code was refused. */
  settle(queue: string, settlements: readonly Settlement[], o: CallOptions = {}): Promise<MessageResult[]> {
    return this.#results(queuePath(queue, "/settle"), { messages: settlements }, settlements.length, { idempotent: true, wait: 0, signal: o.signal });
  }

  async #results(path: string, body: unknown, count: number, how: Partial<Call>): Promise<MessageResult[]> {
    const { messages } = await this.sendJSON<MessageResults>("POST", path, "messages", body, how, (out) => {
      if (out.messages.length !== count) throw new NotBroker(`not the answer of a broker: ${out.messages.length} results for ${count} messages`);
    });
    return messages;
  }

  /**
   * Calls handler for each message of a queue until options.signal is aborted. A message is done when handler has
   * returned and that is durable. If it throws, the message comes again after the backoff of the queue, until it goes
   * to the dead-letter queue; see RetryAfter and GiveUp. A message may be given more than once.
   *
   * Leases are extended while handlers run. work waits for a broker that restarts, for as long as it takes. It throws
   * an error that no repetition can change, such as unknown_topic.
   */
  work(queue: string, handler: Handler, o: WorkOptions = {}): Promise<void> {
    return work({
      visibility: async (c) => (await this.queue(queue, c)).effective_settings["visibility"]!,
      lease: (r) => this.lease(queue, r),
      settle: (list, c) => this.settle(queue, list, c),
    }, handler, o);
  }

  protected get<T>(path: string, member: keyof T & string, o: CallOptions, query?: Call["query"]): Promise<T> {
    return this.transport.json<T>({ method: "GET", path, query, signal: o.signal }, member);
  }

  /** Sends a change with a body in JSON. member: one that each answer of a broker has. */
  protected async sendJSON<T>(method: "POST" | "PUT", path: string, member: keyof T & string, body: unknown, how: Partial<Call>, check?: (answer: T) => void): Promise<T> {
    const headers = { "Content-Type": "application/json", ...how.headers };
    return this.transport.call({ method, path, body: toJSON("body", body), write: true, ...how, headers }, async (answer) => {
      const value = await answer.json<T>(member);
      check?.(value);
      return value;
    });
  }
}

export function queuePath(name: string, rest = ""): string {
  return "/queues/" + escaped(name) + rest;
}
