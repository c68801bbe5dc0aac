// Generated from the OpenAPI document by `go test ./test/sdk -run JavaScriptTypes -update`.

/** AwaitedEvent is an event that can still change the value of an expression. */
export interface AwaitedEvent {
  /** Name of the event. */
  event: string;
  /** The part of the expression, such as `count(login) >= 3`. */
  expr: string;
  /** Log time from which it counts; null: no bound. */
  from: string | null;
  /** Number of such events so far. */
  have: number;
  /** The required or forbidden number. */
  need: number;
  /** `must_not_come`: it keeps or makes the expression false. `starts`: it starts another instance of a THEN. */
  role: "must_come" | "must_not_come" | "starts";
  /** Log time until which it counts, inclusive; null: no bound. */
  until: string | null;
}

/** Stable name of an error. */
export type Code = "bad_request" | "broker_up" | "clock_wrong" | "corrupt_data" | "fenced" | "forbidden" | "format_level" | "group_active" | "internal" | "key_index_behind" | "key_index_off" | "key_index_unavailable" | "key_not_found" | "message_leased" | "method_not_allowed" | "no_dead_letter_queue" | "no_standby" | "not_a_queue" | "not_acceptable" | "not_found" | "not_leader" | "not_yet" | "offset_below_start" | "offset_beyond_end" | "offset_compacted" | "offset_mismatch" | "outcome_unknown" | "over_budget" | "precondition_failed" | "producer_fenced" | "producers_full" | "queue_full" | "queue_limit" | "quota_exceeded" | "read_only" | "request_timeout" | "riemann_index_off" | "riemann_index_unavailable" | "sequence_gap" | "shutting_down" | "stale_receipt" | "state_full" | "store_unavailable" | "token_exists" | "too_large" | "topic_exists" | "topic_in_use" | "transaction_state" | "triggers_off" | "triggers_unavailable" | "unauthorized" | "unknown_broker" | "unknown_firing" | "unknown_group" | "unknown_message" | "unknown_partition" | "unknown_quota" | "unknown_receipt" | "unknown_schedule" | "unknown_token" | "unknown_topic" | "unknown_transaction" | "unknown_trigger" | "unsupported_media_type";

/** To a webhook, with `url` and `secrets`, to a `topic`, or to a `queue`, which must exist and needs the right to write on it. At most 256 KiB. In answers each secret is `whsec_***` and the value of each header `***`. A member that is null counts as absent. */
export interface Delivery {
  /** Messages in flight. Without it the number adapts to the receiver, up to 32. */
  concurrency?: number | null;
  content_type?: string | null;
  /** Time until a worker gets a message of the `queue`, at most 365d. */
  delay?: string | null;
  frequency_cap?: {
    count: number;
    per: string;
  } | null;
  headers?: { [name: string]: string } | null;
  queue?: string | null;
  quiet_hours?: {
    from: string;
    to: string;
    zone: string;
  } | null;
  retries?: string[] | null;
  secrets?: string[] | null;
  template?: string | null;
  topic?: string | null;
  url?: string | null;
}

/** DryRun is the answer to POST /triggers/dry-run: the firings that the trigger would have had if it had existed from the beginning. All counts are those of the evaluated entities, except `entities_seen` and `estimate`. */
export interface DryRun {
  /** Log time up to which events were evaluated. */
  as_of: string;
  class: "constant" | "windowed";
  /** Log time from which on all events exist: earlier ones were deleted or lost, so that earlier counts are too small; null: none is missing. */
  complete_from: string | null;
  /** Firings by day, UTC. */
  days: { [name: string]: number };
  /** Entities that had too many of them: their value may be wrong. */
  degraded: number;
  /** Entities with mentioned events. */
  entities: number;
  /** All entities with events, also outside of the sample: exact up to 8,192, above that with a standard error of 1.3 %. */
  entities_seen: number;
  /** Numbers of all entities; null: all were evaluated, or the answer is truncated. */
  estimate: DryRunEstimate | null;
  /** Events in the history. */
  events: number;
  /** Entities with a firing in the range. */
  fired: number;
  /** Firings in the range. */
  firings: number;
  history: HistoryStart[];
  /** Maximum number of followed left sides of THEN for one entity. */
  instances: number;
  /** Mentioned events. */
  matched: number;
  names: string[];
  /** Time of the first such change. */
  next: string | null;
  /** Entities with mentioned events and without a firing in the range. */
  not_fired: NotFired[];
  /** One of so many entities was evaluated; 1: all. */
  sample: number;
  /** The last firings. */
  samples: Sample[];
  /** Log time from which firings count; null: no bound. */
  since: string | null;
  /** Records of the topic that are no events. */
  skipped: number;
  /** Entities for which the expression is true at `as_of`. */
  true_now: number;
  /** More entities than fit into the memory of dry runs: only the first ones are counted. */
  truncated: boolean;
  /** Log time before which firings count; null: no bound. */
  until: string | null;
  /** Entities that change by time alone. */
  waiting: number;
  warnings: string[];
}

/** DryRunEstimate has the numbers of all entities, as estimated from a sample. */
export interface DryRunEstimate {
  entities: Estimate;
  fired: Estimate;
  firings: Estimate;
}

/** DryRunProgress is the data of an event progress in the stream of a dry run. */
export interface DryRunProgress {
  percent: number;
  /** Records that were read or skipped. */
  read: number;
  /** Records of the topic, at most: deleted ones count, and those after the range. */
  total: number;
}

/** What an event or a deadline did. `true`, `false`: the expression became so. `begins`: the left side of a THEN is complete. `counts`: one of the events that must come. `ends`: an event that must not come; what began before it is over. `missed`: the part did not come in time; what began before it is over. `passed`: the part did not come in time, as the expression demands. `none`: the expression did not wait for the event at that time. */
export type EffectKind = "true" | "false" | "begins" | "counts" | "ends" | "missed" | "passed" | "none";

/** EntityHistory is what the events of an entity did to the expression of a trigger. It is read from the log by the key index, and does not need the state of the trigger. All events are of one partition. */
export interface EntityHistory {
  /** Log time up to which they were evaluated. */
  as_of?: string;
  /** The entity has events in another partition too, which count by themselves. */
  elsewhere?: boolean;
  /** Events that were read. */
  events: number;
  /** Number of older steps. */
  more: number;
  /** Events that the expression does not mention, the most frequent first. Needs the right to read the topic. */
  others: EventCount[];
  /** Of all these events. */
  partition: number;
  /** Log time of the oldest of them; null: there is none. */
  since: string | null;
  /** The other events, and deadlines, oldest first: the newest ones. */
  steps: HistoryStep[];
  /** Why events are missing; absent: none is. `key_index_off`: the topic has no key index. `key_index_behind`: the index does not have the newest ones yet. `unknown_topic`: the topic was deleted. `too_slow`: the evaluation did not end within 10 seconds; the other members are empty. `too_many`: only the newest ones were read. `trimmed`: older events were deleted from the topic, by retention or a trim, and may have been of the entity. */
  unread?: "key_index_off" | "key_index_behind" | "unknown_topic" | "too_many" | "trimmed" | "too_slow";
  /** The value of the expression then, for these events. */
  value: "false" | "pending" | "true";
}

/** Estimate is an estimated number with a 95 % interval. The interval supposes that no entity outside of the sample has far more firings than those inside. */
export interface Estimate {
  high: number;
  low: number;
  value: number;
}

/** Valid UTF-8, at most 256 KiB without white space, at most 64 levels of objects and arrays. Other members and repeated members are refused; `data` is kept completely. */
export interface Event {
  /** Data of the event. Expressions can use its members. */
  data?: { [name: string]: unknown } | null;
  /** The entity; at most 1,024 bytes. */
  entity_id: string;
  /** Name of the event; at most 256 bytes. */
  event: string;
  /** Identifies the event within its entity, so that triggers ignore a repeated one; at most 256 bytes. */
  id?: string | null;
  /** Time of the event according to the sender. */
  occurred_at?: string | null;
}

/** EventCount counts events of a name. */
export interface EventCount {
  count: number;
  event: string;
}

/** EventStored is the answer to POST /event with one event: the position of its record. */
export interface EventStored {
  /** The entity already had an event with this ID, so triggers ignore this one. Absent if that is unknown: without triggers on this broker, in a topic that no trigger reads, or while the engine has not read the whole partition. */
  duplicate?: boolean;
  /** Of its record. */
  offset: number;
  /** With `duplicate`: offset of the first event. */
  original_offset?: number;
  partition: number;
  /** Append time in milliseconds; the record's timestamp if the topic has timestamp-type=LogAppendTime. */
  time: string;
  topic: string;
}

/** Explanation is the answer to GET /triggers/{id}/entities/{entity}: the state of a trigger for an entity. */
export interface Explanation {
  /** Log time of the answer. */
  as_of?: string;
  /** Events that can still change `value`, the one with the earliest `until` first. */
  awaited: AwaitedEvent[];
  /** There were more than 1,024 instances: `value` may be wrong. */
  degraded: boolean;
  entity: string;
  /** It has fired, or would have before the trigger was created. */
  fired: boolean;
  firings: Firing[];
  /** What the events of the entity did, from the log. */
  history: EntityHistory;
  /** Number of followed left sides of THEN. */
  instances: number;
  /** A mentioned event has happened to the entity. */
  known: boolean;
  /** Awaited parts of the expression, such as `count(login) >= 3`. */
  must_come: string[];
  /** Parts of the expression whose events keep or make it false. */
  must_not_come: string[];
  /** Names of all mentioned events. */
  names: string[];
  /** When `value` changes without further events; null: never. */
  next: string | null;
  /** Of the matched events. */
  offsets: number[];
  /** The entity cannot fire again. */
  over: boolean;
  trigger: string;
  /** Whether the expression is true. */
  value: boolean;
  version: number;
  /** Summary for people. */
  waits: string;
  /** Which event began the wait, what ended it or is missing, whether the trigger fired, and what would change that. For people; the text can change. */
  why: string;
}

/** Firing is a firing and the state of its delivery. */
export interface Firing {
  /** Log time at which the expression became true. */
  at: string;
  /** Delivery attempts of the current message. */
  attempts: number;
  /** `o:partition:offset` of an event, `d:ms:partition` of a deadline, `c:ms:partition:offset` with `backfill: current`. */
  cause: string;
  entity: string;
  /** Why a due firing is not delivered. */
  held?: "quiet_hours" | "paused";
  /** Derived from the cause, so it is the same on each broker. */
  id: string;
  /** For a pending firing: earliest time of the next attempt, in quiet hours their end. Absent while the trigger is paused. */
  next_attempt?: string;
  /** Of the matched events. */
  offsets: number[];
  /** Of the last attempt. */
  outcome?: Outcome;
  partition: number;
  /** Absent if the firing is not in the log. */
  recorded_at?: string;
  /** When the expression became false, with `on_retract: notify`. */
  retracted_at?: string;
  /** The current or last delivery is the retraction. */
  retraction?: boolean;
  /** Number in the order in which this broker found the firings. */
  seq: number;
  /** See docs/guide/triggers.md. */
  state: "computed" | "pending" | "delivered" | "dead" | "suppressed" | "carried" | "historic" | "retracted" | "cancelled" | "forgotten";
  topic: string;
  trigger: string;
  version: number;
  /** The matched events, in the answer for one firing. It omits events that are no longer in the log. */
  witness?: WitnessEvent[];
}

/** Firings is the answer to GET /firings. */
export interface Firings {
  firings: Firing[];
  /** Value of `after` for the next page, with `order=newest` of `before`; null: no more firings now. */
  next: number | null;
}

/** Group has the committed offsets of a consumer group, by topic and partition. */
export interface Group {
  group: string;
  /** Sum over all offsets. */
  lag: number;
  /** By time of joining; only with `members=true`. */
  members?: GroupMember[];
  /** By topic and partition. */
  offsets: GroupOffset[];
  /** Only with `members=true`. */
  state?: "Empty" | "PreparingRebalance" | "CompletingRebalance" | "Stable" | "Reconciling";
}

/** GroupMember is a member of a consumer group. Assigned names only topics that the client may describe. In the classic protocol it is empty unless the group is Stable. */
export interface GroupMember {
  /** Assigned partitions of the topics that the client may describe. In the classic protocol it is empty unless the group is `Stable`. */
  assigned: TopicPartitions[];
  client_id: string;
  host: string;
  /** `group.instance.id` of a static member. */
  instance?: string;
  /** ID of the member. */
  member: string;
}

/** GroupOffset is a group's committed offset in one partition. Offsets from `start_offset` to before `next_offset` can be read. */
export interface GroupOffset {
  committed_at: string;
  /** Number of offsets to read; after compaction an upper bound of the records. */
  lag: number;
  metadata?: string;
  next_offset: number;
  /** Offset of the next record to read. */
  offset: number;
  partition: number;
  start_offset: number;
  topic: string;
}

/** Header is one header of a record. Several headers may have the same key. */
export interface Header {
  key: string;
  value?: string | null;
  value_base64?: string | null;
}

/** HistoryStart is the start offset of a partition. */
export interface HistoryStart {
  offset: number;
  partition: number;
}

/** HistoryStep is an event or a deadline of an entity, and what it did. */
export interface HistoryStep {
  /** Log time. */
  at: string;
  effect?: EffectKind;
  /** Name; empty: a deadline. */
  event: string;
  /** The part of the expression that the effect concerns. */
  expr?: string;
  /** null: a deadline. */
  offset: number | null;
  /** Why the event does not count. `too_old`: the trigger ignores events from before its creation. */
  skipped?: "not_matched" | "duplicate_id" | "not_yet" | "too_old";
  /** What the event or deadline did. For people; the text can change. */
  text: string;
  /** The value from then on. */
  value: "false" | "pending" | "true";
}

/** LeaseRequest is the body of POST /queues/{queue}/lease. An empty body asks for one message without waiting. */
export interface LeaseRequest {
  /** Messages: 1 to 1,000, default 1. */
  max?: number;
  /** Time that the worker has for the messages; default: that of the queue, at most 12h. */
  visibility?: string;
  /** Time to wait for the first message, such as 20s; default 0s, at most 1m. */
  wait?: string;
}

/** Message is a message to send: a record with the attributes of a message. */
export interface Message {
  /** The time from which a worker gets the message, in RFC 3339. Not with `delay`. */
  at?: string;
  /** Messages with the same ID within the `dedup-window` of the queue are stored once. */
  dedup?: string;
  /** Time until a worker gets the message, such as 90s or 1d, at most 365d. */
  delay?: string;
  /** Age at which the message is given to no worker any more, such as 1h; default: the setting `expire`. */
  expire?: string;
  headers?: Header[];
  key?: string;
  key_base64?: string;
  /** 0, the default, is served first. */
  priority?: number;
  /** This or `value_base64` is required. */
  value?: string;
  value_base64?: string;
}

/** MessageResult is the outcome for a message of a request. Without `code` the request was carried out, and its effect is durable. */
export interface MessageResult {
  code?: Code;
  detail?: string;
  /** A message with the same `dedup` has this ID. Nothing was stored. */
  duplicate?: boolean;
  field?: string;
  /** The ID of a message that was sent. */
  id?: string;
}

/** MessageResults has a result for each message of a request, in its order. */
export interface MessageResults {
  messages: MessageResult[];
}

/** MessageTry is a failed try of a message. */
export interface MessageTry {
  /** The principal. */
  by?: string;
  reason?: string;
  time: string;
}

/** NotFired is an entity without a firing in the range of a dry run. */
export interface NotFired {
  entity: string;
  /** The last firing before the range; null: none. */
  last: string | null;
  /** When the value changes without further events; null: never. */
  next: string | null;
  true_now: boolean;
}

/** OffsetCommits is the body of PUT /offsets for several partitions. */
export interface OffsetCommits {
  offsets: OffsetEntry[];
}

/** An `OffsetCommit` with its partition. */
export interface OffsetEntry {
  expected_offset?: number | null;
  /** Metadata of the group, at most 4,096 bytes. */
  metadata?: string;
  /** Refuses the commit with `group_active` while the group has members, also with `expected_offset`. */
  no_members?: boolean;
  /** Offset of the next record to read. */
  offset: number;
  partition: number;
  topic: TopicText;
}

/** OffsetResult is the outcome of one OffsetCommit. Without `code` the offset is durable. */
export interface OffsetResult {
  code?: Code;
  /** The actual committed offset; -1: none. */
  committed_offset?: number;
  detail?: string;
  offset: number;
  partition: number;
  topic: string;
}

/** OffsetResults is the answer to PUT /offsets, in the order of the request. */
export interface OffsetResults {
  group: string;
  offsets: OffsetResult[];
}

/** Result of the last attempt. Members can be added. */
export interface Outcome {
  /** End of the attempt in ms since 1970. */
  at: number;
  /** When the firing was delivered, in ms since 1970. */
  delivered?: number;
  /** Beginning of the answer, at most 1 KiB. */
  detail?: string;
  /** `retry`: another attempt follows, as often as the trigger says. `permanent`: none follows. */
  kind: "delivered" | "retry" | "permanent";
  /** Why it was not delivered; for people. */
  reason?: string;
  /** Delay that the receiver requested, in nanoseconds. */
  retry_after_ns?: number;
  /** Status of the answer, if there was one. */
  status?: number;
  took_ns: number;
}

/** Partition is one partition of a topic. Offsets from `start_offset` to before `last_stable_offset` can be read, and up to `next_offset` with `isolation=uncommitted`. */
export interface Partition {
  bytes: number;
  /** The offset up to which the partition was compacted. Absent if it was not. */
  compacted_offset?: number;
  /** Offset of the first record of the oldest open transaction; without one, `next_offset`. */
  last_stable_offset: number;
  /** Absent if nothing was written. */
  latest_commit_at?: string;
  next_offset: number;
  partition: number;
  /** After compaction fewer than offsets. An upper bound after a trim into a compacted range. */
  records: number;
  start_offset: number;
}

/** PartitionResult is the outcome for the records of one partition. Without `code` they are durable. */
export interface PartitionResult {
  code?: Code;
  count: number;
  detail?: string;
  first_offset?: number;
  partition: number;
}

/** PlacedRecord is a Record with its partition. */
export interface PlacedRecord {
  headers?: Header[];
  key?: string | null;
  key_base64?: string;
  offset: number;
  partition: number;
  /** Milliseconds since 1970. */
  timestamp: number;
  value?: string | null;
  value_base64?: string;
  /** Bytes of the whole value, if it is cut to `max-value-bytes`. */
  value_bytes?: number;
}

/** Problem is the body of every error answer (RFC 9457, application/problem+json). The members after `code` are present if they apply. A pointer distinguishes an absent member from zero. */
export interface Problem {
  code: Code;
  /** Column of the error in characters, from 1. */
  column?: number;
  /** Committed offset of the group, for `offset_mismatch`; -1: none. */
  committed_offset?: number;
  /** For people: the limit and the given value. */
  detail?: string;
  /** Epoch of the broker that took over. */
  epoch?: number;
  /** Invalid parameter, header or member of the body. */
  field?: string;
  given?: number;
  /** The consumer group of the request. */
  group?: string;
  /** Address of the broker that took over, as a hint. */
  leader?: string;
  limit?: number;
  /** Line of the error in an expression, from 1. */
  line?: number;
  /** End of the partition. */
  next_offset?: number;
  /** Requested or expected offset. */
  offset?: number;
  /** Outcome of each offset, if those of a PUT differ. */
  offsets?: OffsetResult[];
  partition?: number;
  /** JSON Pointer to the error in an expression in JSON form. */
  pointer?: string;
  /** Index in the request, from 0, of the invalid record or event. */
  record?: number;
  /** Outcome of each partition, if those of a produce to several partitions differ. */
  results?: PartitionResult[];
  /** First existing offset. */
  start_offset?: number;
  status: number;
  title: string;
  topic?: string;
  /** urn:seb:problem: and the code. */
  type: string;
}

/** Produced is the answer to all other produces. It has `partition` and `first_offset` if the records are in one partition, otherwise `results`. */
export interface Produced {
  count: number;
  /** The same producer had stored them before. */
  duplicate?: boolean;
  first_offset?: number;
  partition?: number;
  results?: PartitionResult[];
  topic: string;
}

/** Purged is the answer to POST /queues/{queue}/purge. */
export interface Purged {
  /** Messages that were not done. */
  purged: number;
}

/** Queue is a queue with the numbers of its messages. Only the leader knows leases that the log does not have yet: another broker counts such messages as ready. */
export interface Queue {
  /** Bytes of the messages in the log, also of those that are done. */
  bytes: number;
  /** Messages in its dead-letter queue that are not done. */
  dead: number;
  /** Messages that were sent with a delay, before their time, and those that wait for the end of a transaction. */
  delayed: number;
  /** Messages on their way to the dead-letter queue. */
  dying: number;
  /** All settings, with their defaults. */
  effective_settings: { [name: string]: string };
  /** The queue refuses messages: they take `retention-bytes`. */
  full?: boolean;
  id: string;
  /** Messages that workers have. */
  leased: number;
  /** The queue has more messages, but gives none: as many as it looks ahead wait for other messages of their keys. */
  look_ahead_full?: boolean;
  name: string;
  /** When the oldest message that is not done was stored; absent: all are done. */
  oldest_at?: string;
  /** Its age by log time. */
  oldest_seconds?: number;
  priorities: number;
  /** Messages for a worker. With `key-mode`, some wait until another message of their key is done. */
  ready: number;
  /** Messages that wait for their next try. */
  retry: number;
  /** Messages that were ever sent, also those of aborted transactions, and one for each end of a transaction. */
  sent: number;
  /** The settings that were given. */
  settings: { [name: string]: string };
}

/** QueueMessage is a message of a queue. Valid UTF-8 is in `value` and `key`, other bytes in `value_base64` and `key_base64`; null is null. */
export interface QueueMessage {
  /** Leases of the message, this one included. */
  deliveries: number;
  headers?: Header[];
  id: string;
  key?: string | null;
  key_base64?: string;
  /** For POST /queues/{queue}/settle; only in the answer to a lease. */
  receipt?: string;
  sent: string;
  /** Only in lists. */
  state?: "ready" | "leased" | "delayed" | "retry" | "done";
  /** The newest failed tries. Only in lists. */
  tries?: MessageTry[];
  /** End of the lease, the delay, or the wait for the next try. */
  until?: string;
  value?: string | null;
  value_base64?: string;
  /** Bytes of the whole value, if it is cut to `max-value-bytes`. */
  value_bytes?: number;
}

/** QueueMessages is the answer to POST /queues/{queue}/lease and GET /queues/{queue}/messages. */
export interface QueueMessages {
  messages: QueueMessage[];
  /** Value of `before` for the next page of a list. */
  next?: string;
}

/** QueueSpec is the body of PUT /queues/{queue}. An empty body means the defaults of a new queue, or no change. */
export interface QueueSpec {
  /** Priorities of a new queue: 1 to 10, default 1. A queue keeps its number. */
  priorities?: number;
  /** Settings to change, as strings, numbers or booleans. null and "" remove one. */
  settings?: { [name: string]: { [name: string]: unknown } };
}

/** Queues is the answer to GET /queues, sorted by name. */
export interface Queues {
  /** The parameter `after` of the next page, if there is one and `limit` was given. */
  next?: string;
  queues: Queue[];
}

/** RedriveRequest is the body of POST /queues/{queue}/redrive. */
export interface RedriveRequest {
  /** The value of `next` of the request before. */
  after?: string;
  /** Only counts what the request would move. */
  dry_run?: boolean;
  /** Messages to move: 1 to 1,000, the default. */
  max?: number;
  /** Only letters with this text in their reason. */
  reason?: string;
  /** Only messages with this text in their value. */
  text?: string;
  /** The queue that gets the messages; default: for each the one from which it comes. */
  to?: string;
}

/** Redriven is the answer to POST /queues/{queue}/redrive. */
export interface Redriven {
  moved: number;
  /** Value of `after` for the next request; absent: these were all. */
  next?: string;
  /** Messages that do not match, or that workers have. */
  skipped: number;
}

/** Sample is a firing in the result of a dry run. */
export interface Sample {
  at: string;
  cause: string;
  entity: string;
  offsets: number[];
  /** The matched events. Absent if the log does not have them any more, or if they are too large for the answer. */
  witness?: WitnessEvent[];
}

/** Schedule is a schedule of a queue. */
export interface Schedule {
  /** Minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, @monthly or @yearly. */
  cron: string;
  headers?: Header[];
  key?: string;
  key_base64?: string;
  /** What to send for times at which no broker led or the queue was paused: one message for all of them (the default), none for those over a minute ago, or one for each. */
  missed?: "run-once" | "skip" | "run-all";
  name: string;
  /** The next five times. There are fewer if there are no more, or if the broker does not know the zone. */
  next: string[];
  /** 0, the default, is served first. */
  priority?: number;
  /** Without it and `value_base64` messages are empty. */
  value?: string;
  value_base64?: string;
  /** Zone of the times, by its name in the IANA database; default: UTC. */
  zone?: string;
}

/** ScheduleSpec is the body of PUT /queues/{queue}/schedules/{schedule}: times, and the message that they send. */
export interface ScheduleSpec {
  /** Minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, @monthly or @yearly. */
  cron: string;
  headers?: Header[];
  key?: string;
  key_base64?: string;
  /** What to send for times at which no broker led or the queue was paused: one message for all of them (the default), none for those over a minute ago, or one for each. */
  missed?: "run-once" | "skip" | "run-all";
  /** 0, the default, is served first. */
  priority?: number;
  /** Without it and `value_base64` messages are empty. */
  value?: string;
  value_base64?: string;
  /** Zone of the times, by its name in the IANA database; default: UTC. */
  zone?: string;
}

/** Schedules is the answer to GET /queues/{queue}/schedules, sorted by name. */
export interface Schedules {
  /** The parameter `after` of the next page, if there is one and `limit` was given. */
  next?: string;
  schedules: Schedule[];
}

/** Settlement is what a worker says about a message that it has. */
export interface Settlement {
  /** Such as 90s. Only with `retry` and `extend`. */
  delay?: string;
  /** `done`: the message is finished. `retry`: it comes again after `delay`, by default that of the setting `backoff`. `dead`: it goes to the dead-letter queue. `extend`: the worker needs it for `delay` from now on, by default for the `visibility` of the queue. */
  do: "done" | "retry" | "dead" | "extend";
  /** Why the message failed, for people. */
  reason?: string;
  /** Of the lease. */
  receipt: string;
}

/** Settlements is the body of POST /queues/{queue}/settle. */
export interface Settlements {
  messages: Settlement[];
}

/** Stats is the answer to GET /stats: figures of the last hours at a fixed step. */
export interface Stats {
  /** Why the broker keeps no series. */
  reason?: string;
  /** By name. */
  series: { [name: string]: StatsSeries };
  step_seconds: number;
  /** Unix time of each value, in seconds. */
  times: number[];
  window: "1h" | "6h" | "24h";
}

/** StatsSeries has a value for each of the times of the answer. */
export interface StatsSeries {
  unit: string;
  /** For each of the times; null if the broker did not run, or had nothing to measure. A rate or a quantile covers the step before its time. */
  values: (number | null)[];
}

/** Stored is the answer to POST /records with `atomic`. All of the request is durable. */
export interface Stored {
  /** The same producer had stored them before. */
  duplicate?: boolean;
  /** Of the lines of application/x-ndjson, in order. */
  records?: StoredRecord[];
  /** Of the frames of application/vnd.seb.recordbatch, in order. */
  results?: StoredBatches[];
}

/** StoredBatches is the position of the batches for a partition. */
export interface StoredBatches {
  count: number;
  first_offset: number;
  partition: number;
  topic: string;
}

/** StoredRecord is a stored record, with `topic`, `partition` and `offset`, or a message, with `queue` and `id`. */
export interface StoredRecord {
  /** Of the message. */
  id?: string;
  offset?: number;
  partition?: number;
  queue?: string;
  topic?: string;
}

/** Topic is the committed state of a topic. `next_offset` and `latest_commit_at` belong to the requested partition (default 0). */
export interface Topic {
  id: string;
  /** Absent if nothing was written. */
  latest_commit_at?: string;
  name: string;
  next_offset: number;
  partitions: Partition[];
  /** Settings that are not the default. */
  settings: { [name: string]: string };
}

/** TopicPartitions are partitions of one topic. */
export interface TopicPartitions {
  partitions: number[];
  topic: string;
}

export interface TopicSpec {
  /** 0: one for a new topic, unchanged otherwise. */
  partitions?: number;
  /** Sizes are bytes or like 16MiB, durations like 90s, 12h or 7d, "unlimited" where allowed; null and "" are the default. GET /settings describes every setting with its default and its values. - `cleanup-policy`: compaction keeps the newest record of each key, after the records were merged into packs; offsets do not change. A null value is a tombstone, which is removed later. Records without a key are kept permanently, whereas Kafka refuses them. Partitions cannot be added. - `delete-retention-time`: readers can see a tombstone for this time after its first compaction. - `key-index`: enables GET /key and similar routes. - `timestamp-type`: with LogAppendTime (or `append`) each new record gets its append time, which never decreases in a partition. A repeated request of an idempotent producer does not change the time. */
  settings?: { [name: string]: string | null | number | boolean };
}

/** Name of a topic, except `.` and `..`. */
export type TopicText = string;

/** Trigger is the definition and the state of a trigger. Its secrets and the values of its headers are masked. */
export interface Trigger {
  backfill: "silent" | "current" | "replay" | "none";
  /** It reads the history and does not process new events yet. */
  backfilling: boolean;
  /** Why its deliveries wait: the broker cannot decrypt its secrets. */
  blocked?: string;
  carry_fired: boolean;
  /** `windowed` with WITHIN or AFTER; `constant` changes at events only. */
  class: "constant" | "windowed";
  cooldown?: string;
  /** Log time of the first version. */
  created_at: string;
  deliver?: Delivery;
  /** The expression in JSON form. */
  expr: { [name: string]: unknown };
  fire: "once" | "edge" | "reset";
  /** Only with `counts=true`. */
  firings?: TriggerFirings;
  id: string;
  /** It costs more than all other triggers of its topic together and reads the log by itself, so it fires late. */
  late?: boolean;
  /** Names of mentioned events. */
  names: string[];
  on_retract?: "notify";
  status: "active" | "paused";
  /** Names the stored definition, for `If-Match`. Every stored change has another one, also one that makes no new version. */
  tag: string;
  /** The expression as it was written. */
  text: string;
  topic: string;
  /** The topic of its events was deleted. The trigger follows the next topic of this name. */
  topic_missing: boolean;
  /** From 1; continues if the ID was used before. */
  version: number;
  /** Log time of this version. */
  version_at: string;
}

/** TriggerFirings counts the firings of a trigger, by its newest ones: at most 10,000, and in a list 1,000 of each trigger and about 20,000 in all. */
export interface TriggerFirings {
  /** Firings in the last 24 hours. */
  day: number;
  /** Upper bound on the age of the events and deadlines that the triggers of this broker have not processed. */
  lag_seconds: number;
  /** Time of the newest firing; null: none. */
  last: string | null;
  /** Time of the oldest of these; null: none. */
  oldest_pending: string | null;
  /** Pending firings of any age. */
  pending: number;
  /** Older firings are not counted; null: all are counted. */
  since: string | null;
  /** Firings by state. */
  states: { [name: string]: number };
  /** Firings in the last 7 days. */
  week: number;
}

/** At most 512 KiB. A member with the value "" counts as absent. */
export interface TriggerSpec {
  /** Treatment of older events. `silent` (default): they count; earlier firings are historic, and use up `once`. `current`: the same, and entities for which the expression is true now fire. `replay`: fires for the past too. `none`: they do not count. */
  backfill?: "silent" | "current" | "replay" | "none" | "";
  /** With `once`: firings of earlier versions count, unless this is false. */
  carry_fired?: boolean | null;
  /** After a firing, suppresses firings of the entity for this time. With `edge` and `reset`; at most 10 years. */
  cooldown?: string;
  /** Destination of firings, see docs/guide/webhooks.md. Without it they are only listed. */
  deliver?: Delivery | null;
  /** The expression, as text or in the JSON form. */
  expr: string | { [name: string]: unknown };
  /** `once` (default): fires when the expression becomes true for an entity for the first time. `edge`: each time. `reset`: each time, and the entity's history starts again after it. */
  fire?: "once" | "edge" | "reset" | "";
  /** Keeps the delivery of the existing trigger, with its secrets. Not together with `deliver`, nor for a new trigger. */
  keep_deliver?: boolean;
  /** `notify`: a second message when the expression of a firing becomes false. Not with `reset`. */
  on_retract?: "" | "notify";
  /** Default: unchanged; `active` for a new trigger. */
  status?: "active" | "paused" | "";
  /** Topic of the events. Default: the broker's. */
  topic?: string;
}

/** TriggerStored is the answer to PUT /triggers/{id}. */
export interface TriggerStored {
  backfill: "silent" | "current" | "replay" | "none";
  /** It reads the history and does not process new events yet. */
  backfilling: boolean;
  /** Why its deliveries wait: the broker cannot decrypt its secrets. */
  blocked?: string;
  carry_fired: boolean;
  /** `windowed` with WITHIN or AFTER; `constant` changes at events only. */
  class: "constant" | "windowed";
  cooldown?: string;
  /** Log time of the first version. */
  created_at: string;
  deliver?: Delivery;
  /** The expression in JSON form. */
  expr: { [name: string]: unknown };
  fire: "once" | "edge" | "reset";
  /** Only with `counts=true`. */
  firings?: TriggerFirings;
  /** First existing event of each partition. Absence before it is unknown. */
  history: HistoryStart[];
  id: string;
  /** It costs more than all other triggers of its topic together and reads the log by itself, so it fires late. */
  late?: boolean;
  /** Names of mentioned events. */
  names: string[];
  on_retract?: "notify";
  status: "active" | "paused";
  /** Names the stored definition, for `If-Match`. Every stored change has another one, also one that makes no new version. */
  tag: string;
  /** The expression as it was written. */
  text: string;
  topic: string;
  /** The topic of its events was deleted. The trigger follows the next topic of this name. */
  topic_missing: boolean;
  /** From 1; continues if the ID was used before. */
  version: number;
  /** Log time of this version. */
  version_at: string;
  /** Possible mistakes. */
  warnings: string[];
}

/** Triggers is the answer to GET /triggers, sorted by ID. */
export interface Triggers {
  /** The parameter `after` of the next page, if there is one and `limit` was given. */
  next?: string;
  triggers: Trigger[];
}

/** WitnessEvent is an event that made an expression true. */
export interface WitnessEvent {
  data?: { [name: string]: unknown } | null;
  event: string;
  id?: string;
  offset: number;
  time: string;
}
