import { Client as DataClient, queuePath } from "./client.js";
import { escaped, toJSON } from "./content.js";
import { invalid } from "./errors.js";
import { events, streamError } from "./read.js";
import type { Call, CallOptions, ClientOptions } from "./transport.js";
import type {
  DryRun, DryRunProgress, Explanation, Firing, Firings, Purged, Queue, QueueMessages, QueueSpec, RedriveRequest, Redriven, Schedule, ScheduleSpec, Stats,
  Topic, TopicSpec, Trigger, TriggerSpec, TriggerStored,
} from "./types.js";

export interface PutTriggerOptions extends CallOptions {
  /** Changes only a stored trigger with this tag. */
  ifTag?: string;
  /** Only creates a trigger. */
  ifNew?: boolean;
}

export interface DryRunOptions extends CallOptions {
  /** Bounds of the log times of the firings that count, until exclusively. */
  since?: Date;
  until?: Date;
  /** Evaluates one of so many entities. */
  sample?: number;
  /** Called about twice a second. */
  onProgress?: (p: DryRunProgress) => void;
}

export interface FiringQuery {
  trigger?: string;
  entity?: string;
  state?: string;
  /** Only firings with a higher or a lower seq. */
  after?: number;
  before?: number;
  order?: "newest";
  limit?: number;
}

export interface MessageQuery {
  state?: "ready" | "leased" | "delayed" | "retry" | "done";
  before?: string;
  limit?: number;
  maxValueBytes?: number;
}

/** The client, with the calls that manage topics, triggers and queues. */
export class Client extends DataClient {
  constructor(addresses: string | readonly string[], options: ClientOptions = {}) {
    super(addresses, options, "sebbroker-js");
  }

  /** All topics, sorted by name. */
  topics(o: CallOptions = {}): Promise<Topic[]> {
    return this.#listed("/topics", "topics", o);
  }

  /** Creates a topic; topic_exists if there is one. */
  createTopic(name: string, spec: TopicSpec = {}, o: CallOptions = {}): Promise<Topic> {
    return this.sendJSON<Topic>("PUT", "/topic", "name", spec, { query: { "topic-name": name }, headers: { "If-None-Match": "*" }, signal: o.signal });
  }

  /** Deletes a topic and all its records. */
  deleteTopic(name: string, o: CallOptions = {}): Promise<void> {
    return this.#delete("/topic", o, { "topic-name": name });
  }

  /** Creates the trigger with this ID, or replaces its definition. expr is text, or an object in the JSON form. */
  putTrigger(id: string, spec: TriggerSpec, o: PutTriggerOptions = {}): Promise<TriggerStored> {
    if (o.ifTag !== undefined && !/^[!#-~]*$/.test(o.ifTag)) throw invalid("ifTag: want the tag of a trigger", true);
    const headers = { ...(o.ifTag && { "If-Match": `"${o.ifTag}"` }), ...(o.ifNew && { "If-None-Match": "*" }) };
    return this.sendJSON<TriggerStored>("PUT", triggerPath(id), "version", spec, { idempotent: true, headers, signal: o.signal });
  }

  trigger(id: string, o: CallOptions = {}): Promise<Trigger> {
    return this.get<Trigger>(triggerPath(id), "id", o);
  }

  /** All triggers, sorted by ID. */
  triggers(o: CallOptions = {}): Promise<Trigger[]> {
    return this.#listed("/triggers", "triggers", o);
  }

  /** Deletes a trigger and drops its undelivered firings. */
  deleteTrigger(id: string, o: CallOptions = {}): Promise<void> {
    return this.#delete(triggerPath(id), o);
  }

  /** Suppresses new firings, and holds undelivered ones. */
  pauseTrigger(id: string, o: CallOptions = {}): Promise<Trigger> {
    return this.#post<Trigger>(triggerPath(id, "/pause"), "id", { idempotent: true, ...o });
  }

  resumeTrigger(id: string, o: CallOptions = {}): Promise<Trigger> {
    return this.#post<Trigger>(triggerPath(id, "/resume"), "id", { idempotent: true, ...o });
  }

  /** The state of a trigger for an entity. */
  explain(id: string, entity: string, o: CallOptions = {}): Promise<Explanation> {
    return this.get<Explanation>(triggerPath(id, "/entities/" + escaped(entity)), "trigger", o);
  }

  /** Evaluates a trigger on all events that the log still has. It changes nothing, and may take minutes. */
  async dryRun(spec: TriggerSpec, o: DryRunOptions = {}): Promise<DryRun> {
    return this.transport.call({
      method: "POST", path: "/triggers/dry-run", query: { since: o.since?.toISOString(), until: o.until?.toISOString(), sample: o.sample },
      headers: { "Content-Type": "application/json", Accept: "text/event-stream, application/problem+json" }, body: toJSON("trigger", spec), signal: o.signal,
    }, async (answer) => {
      for await (const e of events(answer)) {
        if (e.type === "progress") o.onProgress?.(JSON.parse(e.data) as DryRunProgress);
        else if (e.type === "result") return JSON.parse(e.data) as DryRun;
        else if (e.type === "error") throw streamError(e.data);
      }
      throw new Error("the answer ended early");
    });
  }

  /** Firings in the order of their seq, and next for the following page; null: there are no more now. */
  firings(q: FiringQuery = {}, o: CallOptions = {}): Promise<Firings> {
    return this.get<Firings>("/firings", "firings", o, { ...q });
  }

  firing(id: string, o: CallOptions = {}): Promise<Firing> {
    return this.get<Firing>(firingPath(id), "id", o);
  }

  /** Delivers a firing again, whatever its state. */
  resendFiring(id: string, o: CallOptions = {}): Promise<Firing> {
    return this.#post<Firing>(firingPath(id, "/resend"), "id", o);
  }

  /** All queues, sorted by name. */
  queues(o: CallOptions = {}): Promise<Queue[]> {
    return this.#listed("/queues", "queues", o);
  }

  /** Creates a queue, with a dead-letter queue of its name and .dead unless the settings name another one or none. */
  createQueue(name: string, spec: QueueSpec = {}, o: CallOptions = {}): Promise<Queue> {
    return this.sendJSON<Queue>("PUT", queuePath(name), "name", spec, { headers: { "If-None-Match": "*" }, signal: o.signal });
  }

  /** Merges settings into those of a queue that exists. */
  async updateQueue(name: string, spec: QueueSpec, o: CallOptions = {}): Promise<Queue> {
    await this.queue(name, o);
    return this.sendJSON<Queue>("PUT", queuePath(name), "name", spec, { signal: o.signal });
  }

  /** Deletes a queue and its messages. */
  deleteQueue(name: string, o: CallOptions = {}): Promise<void> {
    return this.#delete(queuePath(name), o);
  }

  /** Keeps messages from workers. */
  pauseQueue(name: string, o: CallOptions = {}): Promise<Queue> {
    return this.#post<Queue>(queuePath(name, "/pause"), "name", { idempotent: true, ...o });
  }

  resumeQueue(name: string, o: CallOptions = {}): Promise<Queue> {
    return this.#post<Queue>(queuePath(name, "/resume"), "name", { idempotent: true, ...o });
  }

  /** The figures of a queue over the last hours. */
  queueStats(name: string, window: "1h" | "6h" | "24h" = "1h", o: CallOptions = {}): Promise<Stats> {
    return this.get<Stats>(queuePath(name, "/stats"), "series", o, { window });
  }

  /** Messages without leasing them, the newest first, and next for the before of the following page. */
  messages(queue: string, q: MessageQuery = {}, o: CallOptions = {}): Promise<QueueMessages> {
    return this.get<QueueMessages>(queuePath(queue, "/messages"), "messages", o, { state: q.state, before: q.before, limit: q.limit, "max-value-bytes": q.maxValueBytes });
  }

  /** Ends a message that no worker has. */
  cancelMessage(queue: string, id: string, o: CallOptions = {}): Promise<void> {
    return this.#delete(queuePath(queue, "/messages/" + escaped(id)), o);
  }

  /** Ends all messages of a queue, and returns how many there were. */
  async purgeQueue(queue: string, o: CallOptions = {}): Promise<number> {
    return (await this.#post<Purged>(queuePath(queue, "/purge"), "purged", o)).purged;
  }

  /** Moves up to 1,000 messages, mostly of a dead-letter queue, to another queue. Continue with next as after. */
  redrive(queue: string, r: RedriveRequest = {}, o: CallOptions = {}): Promise<Redriven> {
    return this.sendJSON<Redriven>("POST", queuePath(queue, "/redrive"), "moved", r, { signal: o.signal });
  }

  /** All schedules of a queue, sorted by name. */
  schedules(queue: string, o: CallOptions = {}): Promise<Schedule[]> {
    return this.#listed(queuePath(queue, "/schedules"), "schedules", o);
  }

  schedule(queue: string, name: string, o: CallOptions = {}): Promise<Schedule> {
    return this.get<Schedule>(schedulePath(queue, name), "name", o);
  }

  /** Makes or replaces a schedule, which sends a message at times. */
  putSchedule(queue: string, name: string, spec: ScheduleSpec, o: CallOptions & { dryRun?: boolean } = {}): Promise<Schedule> {
    return this.sendJSON<Schedule>("PUT", schedulePath(queue, name), "name", spec, { query: { "dry-run": o.dryRun }, signal: o.signal });
  }

  deleteSchedule(queue: string, name: string, o: CallOptions = {}): Promise<void> {
    return this.#delete(schedulePath(queue, name), o);
  }

  #post<T>(path: string, member: keyof T & string, how: Partial<Call>): Promise<T> {
    return this.transport.json<T>({ method: "POST", path, write: true, idempotent: how.idempotent, signal: how.signal }, member);
  }

  #delete(path: string, o: CallOptions, query?: Call["query"]): Promise<void> {
    return this.transport.nothing({ method: "DELETE", path, query, write: true, signal: o.signal });
  }

  /** All elements of a list, page by page. */
  async #listed<T>(path: string, member: string, o: CallOptions): Promise<T[]> {
    const all: T[] = [];
    for (let after: string | undefined; ; ) {
      const page = await this.get<{ [name: string]: T[] } & { next?: string | null }>(path, member, o, { limit: 1000, after });
      all.push(...page[member]!);
      if (!page.next) return all;
      after = page.next;
    }
  }
}

function triggerPath(id: string, rest = ""): string {
  return "/triggers/" + escaped(id) + rest;
}

function firingPath(id: string, rest = ""): string {
  return "/firings/" + escaped(id) + rest;
}

function schedulePath(queue: string, name: string): string {
  return queuePath(queue, "/schedules/" + escaped(name));
}
