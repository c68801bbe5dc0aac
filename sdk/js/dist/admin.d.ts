import { Client as DataClient } from "./client.js";
import type { CallOptions, ClientOptions } from "./transport.js";
import type { DryRun, DryRunProgress, Explanation, Firing, Firings, Queue, QueueMessages, QueueSpec, RedriveRequest, Redriven, Schedule, ScheduleSpec, Stats, Topic, TopicSpec, Trigger, TriggerSpec, TriggerStored } from "./types.js";
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
export declare class Client extends DataClient {
    #private;
    constructor(addresses: string | readonly string[], options?: ClientOptions);
    /** All topics, sorted by name. */
    topics(o?: CallOptions): Promise<Topic[]>;
    /** Creates a topic; topic_exists if there is one. */
    createTopic(name: string, spec?: TopicSpec, o?: CallOptions): Promise<Topic>;
    /** Deletes a topic and all its records. */
    deleteTopic(name: string, o?: CallOptions): Promise<void>;
    /** Creates the trigger with this ID, or replaces its definition. expr is text, or an object in the JSON form. */
    putTrigger(id: string, spec: TriggerSpec, o?: PutTriggerOptions): Promise<TriggerStored>;
    trigger(id: string, o?: CallOptions): Promise<Trigger>;
    /** All triggers, sorted by ID. */
    triggers(o?: CallOptions): Promise<Trigger[]>;
    /** Deletes a trigger and drops its undelivered firings. */
    deleteTrigger(id: string, o?: CallOptions): Promise<void>;
    /** Suppresses new firings, and holds undelivered ones. */
    pauseTrigger(id: string, o?: CallOptions): Promise<Trigger>;
    resumeTrigger(id: string, o?: CallOptions): Promise<Trigger>;
    /** The state of a trigger for an entity. */
    explain(id: string, entity: string, o?: CallOptions): Promise<Explanation>;
    /** Evaluates a trigger on all events that the log still has. It changes nothing, and may take minutes. */
    dryRun(spec: TriggerSpec, o?: DryRunOptions): Promise<DryRun>;
    /** Firings in the order of their seq, and next for the following page; null: there are no more now. */
    firings(q?: FiringQuery, o?: CallOptions): Promise<Firings>;
    firing(id: string, o?: CallOptions): Promise<Firing>;
    /** Delivers a firing again, whatever its state. */
    resendFiring(id: string, o?: CallOptions): Promise<Firing>;
    /** All queues, sorted by name. */
    queues(o?: CallOptions): Promise<Queue[]>;
    /** Creates a queue, with a dead-letter queue of its name and .dead unless the settings name another one or none. */
    createQueue(name: string, spec?: QueueSpec, o?: CallOptions): Promise<Queue>;
    /** Merges settings into those of a queue that exists. */
    updateQueue(name: string, spec: QueueSpec, o?: CallOptions): Promise<Queue>;
    /** Deletes a queue and its messages. */
    deleteQueue(name: string, o?: CallOptions): Promise<void>;
    /** Keeps messages from workers. */
    pauseQueue(name: string, o?: CallOptions): Promise<Queue>;
    resumeQueue(name: string, o?: CallOptions): Promise<Queue>;
    /** The figures of a queue over the last hours. */
    queueStats(name: string, window?: "1h" | "6h" | "24h", o?: CallOptions): Promise<Stats>;
    /** Messages without leasing them, the newest first, and next for the before of the following page. */
    messages(queue: string, q?: MessageQuery, o?: CallOptions): Promise<QueueMessages>;
    /** Ends a message that no worker has. */
    cancelMessage(queue: string, id: string, o?: CallOptions): Promise<void>;
    /** Ends all messages of a queue, and returns how many there were. */
    purgeQueue(queue: string, o?: CallOptions): Promise<number>;
    /** Moves up to 1,000 messages, mostly of a dead-letter queue, to another queue. Continue with next as after. */
    redrive(queue: string, r?: RedriveRequest, o?: CallOptions): Promise<Redriven>;
    /** All schedules of a queue, sorted by name. */
    schedules(queue: string, o?: CallOptions): Promise<Schedule[]>;
    schedule(queue: string, name: string, o?: CallOptions): Promise<Schedule>;
    /** Makes or replaces a schedule, which sends a message at times. */
    putSchedule(queue: string, name: string, spec: ScheduleSpec, o?: CallOptions & {
        dryRun?: boolean;
    }): Promise<Schedule>;
    deleteSchedule(queue: string, name: string, o?: CallOptions): Promise<void>;
}
