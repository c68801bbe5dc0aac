"""Types of the API, as TypedDicts. Written by generate.py."""

from __future__ import annotations

from typing import Any, Literal, TypedDict

# Stable names of errors. A newer broker may have others.
Code = Literal[
    "",
    "bad_request",
    "broker_up",
    "clock_wrong",
    "corrupt_data",
    "fenced",
    "forbidden",
    "format_level",
    "group_active",
    "internal",
    "key_index_behind",
    "key_index_off",
    "key_index_unavailable",
    "key_not_found",
    "message_leased",
    "method_not_allowed",
    "no_dead_letter_queue",
    "no_standby",
    "not_a_queue",
    "not_acceptable",
    "not_found",
    "not_leader",
    "not_yet",
    "offset_below_start",
    "offset_beyond_end",
    "offset_compacted",
    "offset_mismatch",
    "outcome_unknown",
    "over_budget",
    "precondition_failed",
    "producer_fenced",
    "producers_full",
    "queue_full",
    "queue_limit",
    "quota_exceeded",
    "read_only",
    "request_timeout",
    "riemann_index_off",
    "riemann_index_unavailable",
    "sequence_gap",
    "shutting_down",
    "stale_receipt",
    "state_full",
    "store_unavailable",
    "token_exists",
    "too_large",
    "topic_exists",
    "topic_in_use",
    "transaction_state",
    "triggers_off",
    "triggers_unavailable",
    "unauthorized",
    "unknown_broker",
    "unknown_firing",
    "unknown_group",
    "unknown_message",
    "unknown_partition",
    "unknown_quota",
    "unknown_receipt",
    "unknown_schedule",
    "unknown_token",
    "unknown_topic",
    "unknown_transaction",
    "unknown_trigger",
    "unsupported_media_type",
]


class _Event(TypedDict):
    # The entity; at most 1,024 bytes.
    entity_id: str
    # Name of the event; at most 256 bytes.
    event: str


# Valid UTF-8, at most 256 KiB without white space, at most 64 levels of objects and arrays. Other members and
# repeated members are refused; `data` is kept completely.
class Event(_Event, total=False):
    # Data of the event. Expressions can use its members.
    data: dict[str, Any] | None
    # Identifies the event within its entity, so that triggers ignore a repeated one; at most 256 bytes.
    id: str | None
    # Time of the event according to the sender.
    occurred_at: str | None


class _EventStored(TypedDict):
    # Of its record.
    offset: int
    partition: int
    # Append time in milliseconds; the record's timestamp if the topic has timestamp-type=LogAppendTime.
    time: str
    topic: str


# EventStored is the answer to POST /event with one event: the position of its record.
class EventStored(_EventStored, total=False):
    # The entity already had an event with this ID, so triggers ignore this one. Absent if that is unknown: without
    # triggers on this broker, in a topic that no trigger reads, or while the engine has not read the whole
    # partition.
    duplicate: bool
    # With `duplicate`: offset of the first event.
    original_offset: int


class _Produced(TypedDict):
    count: int
    topic: str


# Produced is the answer to all other produces. It has `partition` and `first_offset` if the records are in one
# partition, otherwise `results`.
class Produced(_Produced, total=False):
    # The same producer had stored them before.
    duplicate: bool
    first_offset: int
    partition: int
    results: list[PartitionResult]


# Stored is the answer to POST /records with `atomic`. All of the request is durable.
class Stored(TypedDict, total=False):
    # The same producer had stored them before.
    duplicate: bool
    # Of the lines of application/x-ndjson, in order.
    records: list[StoredRecord]
    # Of the frames of application/vnd.seb.recordbatch, in order.
    results: list[StoredBatches]


# StoredRecord is a stored record, with `topic`, `partition` and `offset`, or a message, with `queue` and `id`.
class StoredRecord(TypedDict, total=False):
    # Of the message.
    id: str
    offset: int
    partition: int
    queue: str
    topic: str


class _Topic(TypedDict):
    id: str
    name: str
    next_offset: int
    partitions: list[Partition]
    # Settings that are not the default.
    settings: dict[str, str]


# Topic is the committed state of a topic. `next_offset` and `latest_commit_at` belong to the requested partition
# (default 0).
class Topic(_Topic, total=False):
    # Absent if nothing was written.
    latest_commit_at: str


class _GroupOffset(TypedDict):
    committed_at: str
    # Number of offsets to read; after compaction an upper bound of the records.
    lag: int
    next_offset: int
    # Offset of the next record to read.
    offset: int
    partition: int
    start_offset: int
    topic: str


# GroupOffset is a group's committed offset in one partition. Offsets from `start_offset` to before `next_offset`
# can be read.
class GroupOffset(_GroupOffset, total=False):
    metadata: str


class _OffsetEntry(TypedDict):
    # Offset of the next record to read.
    offset: int
    partition: int
    topic: str


# An `OffsetCommit` with its partition.
class OffsetEntry(_OffsetEntry, total=False):
    expected_offset: int | None
    # Metadata of the group, at most 4,096 bytes.
    metadata: str
    # Refuses the commit with `group_active` while the group has members, also with `expected_offset`.
    no_members: bool


# OffsetResults is the answer to PUT /offsets, in the order of the request.
class OffsetResults(TypedDict):
    group: str
    offsets: list[OffsetResult]


class _PartitionResult(TypedDict):
    count: int
    partition: int


# PartitionResult is the outcome for the records of one partition. Without `code` they are durable.
class PartitionResult(_PartitionResult, total=False):
    code: Code
    detail: str
    first_offset: int


_DryRunReserved = TypedDict("_DryRunReserved", {"class": "Literal[\"constant\", \"windowed\"]"})


# DryRun is the answer to POST /triggers/dry-run: the firings that the trigger would have had if it had existed from
# the beginning. All counts are those of the evaluated entities, except `entities_seen` and `estimate`.
class DryRun(_DryRunReserved):
    # Log time up to which events were evaluated.
    as_of: str
    # Log time from which on all events exist: earlier ones were deleted or lost, so that earlier counts are too
    # small; null: none is missing.
    complete_from: str | None
    # Firings by day, UTC.
    days: dict[str, int]
    # Entities that had too many of them: their value may be wrong.
    degraded: int
    # Entities with mentioned events.
    entities: int
    # All entities with events, also outside of the sample: exact up to 8,192, above that with a standard error of
    # 1.3 %.
    entities_seen: int
    # Numbers of all entities; null: all were evaluated, or the answer is truncated.
    estimate: DryRunEstimate | None
    # Events in the history.
    events: int
    # Entities with a firing in the range.
    fired: int
    # Firings in the range.
    firings: int
    history: list[HistoryStart]
    # Maximum number of followed left sides of THEN for one entity.
    instances: int
    # Mentioned events.
    matched: int
    names: list[str]
    # Time of the first such change.
    next: str | None
    # Entities with mentioned events and without a firing in the range.
    not_fired: list[NotFired]
    # One of so many entities was evaluated; 1: all.
    sample: int
    # The last firings.
    samples: list[Sample]
    # Log time from which firings count; null: no bound.
    since: str | None
    # Records of the topic that are no events.
    skipped: int
    # Entities for which the expression is true at `as_of`.
    true_now: int
    # More entities than fit into the memory of dry runs: only the first ones are counted.
    truncated: bool
    # Log time before which firings count; null: no bound.
    until: str | None
    # Entities that change by time alone.
    waiting: int
    warnings: list[str]


class _Explanation(TypedDict):
    # Events that can still change `value`, the one with the earliest `until` first.
    awaited: list[AwaitedEvent]
    # There were more than 1,024 instances: `value` may be wrong.
    degraded: bool
    entity: str
    # It has fired, or would have before the trigger was created.
    fired: bool
    firings: list[Firing]
    # What the events of the entity did, from the log.
    history: EntityHistory
    # Number of followed left sides of THEN.
    instances: int
    # A mentioned event has happened to the entity.
    known: bool
    # Awaited parts of the expression, such as `count(login) >= 3`.
    must_come: list[str]
    # Parts of the expression whose events keep or make it false.
    must_not_come: list[str]
    # Names of all mentioned events.
    names: list[str]
    # When `value` changes without further events; null: never.
    next: str | None
    # Of the matched events.
    offsets: list[int]
    # The entity cannot fire again.
    over: bool
    trigger: str
    # Whether the expression is true.
    value: bool
    version: int
    # Summary for people.
    waits: str
    # Which event began the wait, what ended it or is missing, whether the trigger fired, and what would change
    # that. For people; the text can change.
    why: str


# Explanation is the answer to GET /triggers/{id}/entities/{entity}: the state of a trigger for an entity.
class Explanation(_Explanation, total=False):
    # Log time of the answer.
    as_of: str


class _Firing(TypedDict):
    # Log time at which the expression became true.
    at: str
    # Delivery attempts of the current message.
    attempts: int
    # `o:partition:offset` of an event, `d:ms:partition` of a deadline, `c:ms:partition:offset` with `backfill:
    # current`.
    cause: str
    entity: str
    # Derived from the cause, so it is the same on each broker.
    id: str
    # Of the matched events.
    offsets: list[int]
    partition: int
    # Number in the order in which this broker found the firings.
    seq: int
    # See docs/guide/triggers.md.
    state: Literal["computed", "pending", "delivered", "dead", "suppressed", "carried", "historic", "retracted", "cancelled", "forgotten"]
    topic: str
    trigger: str
    version: int


# Firing is a firing and the state of its delivery.
class Firing(_Firing, total=False):
    # Why a due firing is not delivered.
    held: Literal["quiet_hours", "paused"]
    # For a pending firing: earliest time of the next attempt, in quiet hours their end. Absent while the trigger is
    # paused.
    next_attempt: str
    # Of the last attempt.
    outcome: Outcome
    # Absent if the firing is not in the log.
    recorded_at: str
    # When the expression became false, with `on_retract: notify`.
    retracted_at: str
    # The current or last delivery is the retraction.
    retraction: bool
    # The matched events, in the answer for one firing. It omits events that are no longer in the log.
    witness: list[WitnessEvent]


# Firings is the answer to GET /firings.
class Firings(TypedDict):
    firings: list[Firing]
    # Value of `after` for the next page, with `order=newest` of `before`; null: no more firings now.
    next: int | None


_TriggerReserved = TypedDict("_TriggerReserved", {"class": "Literal[\"constant\", \"windowed\"]"})


class _Trigger(_TriggerReserved):
    backfill: Literal["silent", "current", "replay", "none"]
    # It reads the history and does not process new events yet.
    backfilling: bool
    carry_fired: bool
    # Log time of the first version.
    created_at: str
    # The expression in JSON form.
    expr: dict[str, Any]
    fire: Literal["once", "edge", "reset"]
    id: str
    # Names of mentioned events.
    names: list[str]
    status: Literal["active", "paused"]
    # Names the stored definition, for `If-Match`. Every stored change has another one, also one that makes no new
    # version.
    tag: str
    # The expression as it was written.
    text: str
    topic: str
    # The topic of its events was deleted. The trigger follows the next topic of this name.
    topic_missing: bool
    # From 1; continues if the ID was used before.
    version: int
    # Log time of this version.
    version_at: str


# Trigger is the definition and the state of a trigger. Its secrets and the values of its headers are masked.
class Trigger(_Trigger, total=False):
    # Why its deliveries wait: the broker cannot decrypt its secrets.
    blocked: str
    cooldown: str
    deliver: Delivery
    # Only with `counts=true`.
    firings: TriggerFirings
    # It costs more than all other triggers of its topic together and reads the log by itself, so it fires late.
    late: bool
    on_retract: Literal["notify"]


class _TriggerSpec(TypedDict):
    # The expression, as text or in the JSON form.
    expr: str | dict[str, Any]


# At most 512 KiB. A member with the value "" counts as absent.
class TriggerSpec(_TriggerSpec, total=False):
    # Treatment of older events. `silent` (default): they count; earlier firings are historic, and use up `once`.
    # `current`: the same, and entities for which the expression is true now fire. `replay`: fires for the past too.
    # `none`: they do not count.
    backfill: Literal["silent", "current", "replay", "none", ""]
    # With `once`: firings of earlier versions count, unless this is false.
    carry_fired: bool | None
    # After a firing, suppresses firings of the entity for this time. With `edge` and `reset`; at most 10 years.
    cooldown: str
    # Destination of firings, see docs/guide/webhooks.md. Without it they are only listed.
    deliver: Delivery | None
    # `once` (default): fires when the expression becomes true for an entity for the first time. `edge`: each time.
    # `reset`: each time, and the entity's history starts again after it.
    fire: Literal["once", "edge", "reset", ""]
    # Keeps the delivery of the existing trigger, with its secrets. Not together with `deliver`, nor for a new
    # trigger.
    keep_deliver: bool
    # `notify`: a second message when the expression of a firing becomes false. Not with `reset`.
    on_retract: Literal["", "notify"]
    # Default: unchanged; `active` for a new trigger.
    status: Literal["active", "paused", ""]
    # Topic of the events. Default: the broker's.
    topic: str


_TriggerStoredReserved = TypedDict("_TriggerStoredReserved", {"class": "Literal[\"constant\", \"windowed\"]"})


class _TriggerStored(_TriggerStoredReserved):
    backfill: Literal["silent", "current", "replay", "none"]
    # It reads the history and does not process new events yet.
    backfilling: bool
    carry_fired: bool
    # Log time of the first version.
    created_at: str
    # The expression in JSON form.
    expr: dict[str, Any]
    fire: Literal["once", "edge", "reset"]
    # First existing event of each partition. Absence before it is unknown.
    history: list[HistoryStart]
    id: str
    # Names of mentioned events.
    names: list[str]
    status: Literal["active", "paused"]
    # Names the stored definition, for `If-Match`. Every stored change has another one, also one that makes no new
    # version.
    tag: str
    # The expression as it was written.
    text: str
    topic: str
    # The topic of its events was deleted. The trigger follows the next topic of this name.
    topic_missing: bool
    # From 1; continues if the ID was used before.
    version: int
    # Log time of this version.
    version_at: str
    # Possible mistakes.
    warnings: list[str]


# TriggerStored is the answer to PUT /triggers/{id}.
class TriggerStored(_TriggerStored, total=False):
    # Why its deliveries wait: the broker cannot decrypt its secrets.
    blocked: str
    cooldown: str
    deliver: Delivery
    # Only with `counts=true`.
    firings: TriggerFirings
    # It costs more than all other triggers of its topic together and reads the log by itself, so it fires late.
    late: bool
    on_retract: Literal["notify"]


# Message is a message to send: a record with the attributes of a message.
class Message(TypedDict, total=False):
    # The time from which a worker gets the message, in RFC 3339. Not with `delay`.
    at: str
    # Messages with the same ID within the `dedup-window` of the queue are stored once.
    dedup: str
    # Time until a worker gets the message, such as 90s or 1d, at most 365d.
    delay: str
    # Age at which the message is given to no worker any more, such as 1h; default: the setting `expire`.
    expire: str
    headers: list[Header]
    key: str
    key_base64: str
    # 0, the default, is served first.
    priority: int
    # This or `value_base64` is required.
    value: str
    value_base64: str


# MessageResult is the outcome for a message of a request. Without `code` the request was carried out, and its
# effect is durable.
class MessageResult(TypedDict, total=False):
    code: Code
    detail: str
    # A message with the same `dedup` has this ID. Nothing was stored.
    duplicate: bool
    field: str
    # The ID of a message that was sent.
    id: str


# MessageResults has a result for each message of a request, in its order.
class MessageResults(TypedDict):
    messages: list[MessageResult]


class _Queue(TypedDict):
    # Bytes of the messages in the log, also of those that are done.
    bytes: int
    # Messages in its dead-letter queue that are not done.
    dead: int
    # Messages that were sent with a delay, before their time, and those that wait for the end of a transaction.
    delayed: int
    # Messages on their way to the dead-letter queue.
    dying: int
    # All settings, with their defaults.
    effective_settings: dict[str, str]
    id: str
    # Messages that workers have.
    leased: int
    name: str
    priorities: int
    # Messages for a worker. With `key-mode`, some wait until another message of their key is done.
    ready: int
    # Messages that wait for their next try.
    retry: int
    # Messages that were ever sent, also those of aborted transactions, and one for each end of a transaction.
    sent: int
    # The settings that were given.
    settings: dict[str, str]


# Queue is a queue with the numbers of its messages. Only the leader knows leases that the log does not have yet:
# another broker counts such messages as ready.
class Queue(_Queue, total=False):
    # The queue refuses messages: they take `retention-bytes`.
    full: bool
    # The queue has more messages, but gives none: as many as it looks ahead wait for other messages of their keys.
    look_ahead_full: bool
    # When the oldest message that is not done was stored; absent: all are done.
    oldest_at: str
    # Its age by log time.
    oldest_seconds: float


class _QueueMessage(TypedDict):
    # Leases of the message, this one included.
    deliveries: int
    id: str
    sent: str


# QueueMessage is a message of a queue. Valid UTF-8 is in `value` and `key`, other bytes in `value_base64` and
# `key_base64`; null is null.
class QueueMessage(_QueueMessage, total=False):
    headers: list[Header]
    key: str | None
    key_base64: str
    # For POST /queues/{queue}/settle; only in the answer to a lease.
    receipt: str
    # Only in lists.
    state: Literal["ready", "leased", "delayed", "retry", "done"]
    # The newest failed tries. Only in lists.
    tries: list[MessageTry]
    # End of the lease, the delay, or the wait for the next try.
    until: str
    value: str | None
    value_base64: str
    # Bytes of the whole value, if it is cut to `max-value-bytes`.
    value_bytes: int


class _QueueMessages(TypedDict):
    messages: list[QueueMessage]


# QueueMessages is the answer to POST /queues/{queue}/lease and GET /queues/{queue}/messages.
class QueueMessages(_QueueMessages, total=False):
    # Value of `before` for the next page of a list.
    next: str


# QueueSpec is the body of PUT /queues/{queue}. An empty body means the defaults of a new queue, or no change.
class QueueSpec(TypedDict, total=False):
    # Priorities of a new queue: 1 to 10, default 1. A queue keeps its number.
    priorities: int
    # Settings to change, as strings, numbers or booleans. null and "" remove one.
    settings: dict[str, dict[str, Any]]


class _Redriven(TypedDict):
    moved: int
    # Messages that do not match, or that workers have.
    skipped: int


# Redriven is the answer to POST /queues/{queue}/redrive.
class Redriven(_Redriven, total=False):
    # Value of `after` for the next request; absent: these were all.
    next: str


class _Schedule(TypedDict):
    # Minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, @monthly or @yearly.
    cron: str
    name: str
    # The next five times. There are fewer if there are no more, or if the broker does not know the zone.
    next: list[str]


# Schedule is a schedule of a queue.
class Schedule(_Schedule, total=False):
    headers: list[Header]
    key: str
    key_base64: str
    # What to send for times at which no broker led or the queue was paused: one message for all of them (the
    # default), none for those over a minute ago, or one for each.
    missed: Literal["run-once", "skip", "run-all"]
    # 0, the default, is served first.
    priority: int
    # Without it and `value_base64` messages are empty.
    value: str
    value_base64: str
    # Zone of the times, by its name in the IANA database; default: UTC.
    zone: str


class _ScheduleSpec(TypedDict):
    # Minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, @monthly or @yearly.
    cron: str


# ScheduleSpec is the body of PUT /queues/{queue}/schedules/{schedule}: times, and the message that they send.
class ScheduleSpec(_ScheduleSpec, total=False):
    headers: list[Header]
    key: str
    key_base64: str
    # What to send for times at which no broker led or the queue was paused: one message for all of them (the
    # default), none for those over a minute ago, or one for each.
    missed: Literal["run-once", "skip", "run-all"]
    # 0, the default, is served first.
    priority: int
    # Without it and `value_base64` messages are empty.
    value: str
    value_base64: str
    # Zone of the times, by its name in the IANA database; default: UTC.
    zone: str


class _Settlement(TypedDict):
    # `done`: the message is finished. `retry`: it comes again after `delay`, by default that of the setting
    # `backoff`. `dead`: it goes to the dead-letter queue. `extend`: the worker needs it for `delay` from now on, by
    # default for the `visibility` of the queue.
    do: Literal["done", "retry", "dead", "extend"]
    # Of the lease.
    receipt: str


# Settlement is what a worker says about a message that it has.
class Settlement(_Settlement, total=False):
    # Such as 90s. Only with `retry` and `extend`.
    delay: str
    # Why the message failed, for people.
    reason: str


class _Stats(TypedDict):
    # By name.
    series: dict[str, StatsSeries]
    step_seconds: int
    # Unix time of each value, in seconds.
    times: list[int]
    window: Literal["1h", "6h", "24h"]


# Stats is the answer to GET /stats: figures of the last hours at a fixed step.
class Stats(_Stats, total=False):
    # Why the broker keeps no series.
    reason: str


# StoredBatches is the position of the batches for a partition.
class StoredBatches(TypedDict):
    count: int
    first_offset: int
    partition: int
    topic: str


class _Partition(TypedDict):
    bytes: int
    # Offset of the first record of the oldest open transaction; without one, `next_offset`.
    last_stable_offset: int
    next_offset: int
    partition: int
    # After compaction fewer than offsets. An upper bound after a trim into a compacted range.
    records: int
    start_offset: int


# Partition is one partition of a topic. Offsets from `start_offset` to before `last_stable_offset` can be read, and
# up to `next_offset` with `isolation=uncommitted`.
class Partition(_Partition, total=False):
    # The offset up to which the partition was compacted. Absent if it was not.
    compacted_offset: int
    # Absent if nothing was written.
    latest_commit_at: str


class _OffsetResult(TypedDict):
    offset: int
    partition: int
    topic: str


# OffsetResult is the outcome of one OffsetCommit. Without `code` the offset is durable.
class OffsetResult(_OffsetResult, total=False):
    code: Code
    # The actual committed offset; -1: none.
    committed_offset: int
    detail: str


# DryRunEstimate has the numbers of all entities, as estimated from a sample.
class DryRunEstimate(TypedDict):
    entities: Estimate
    fired: Estimate
    firings: Estimate


# HistoryStart is the start offset of a partition.
class HistoryStart(TypedDict):
    offset: int
    partition: int


# NotFired is an entity without a firing in the range of a dry run.
class NotFired(TypedDict):
    entity: str
    # The last firing before the range; null: none.
    last: str | None
    # When the value changes without further events; null: never.
    next: str | None
    true_now: bool


class _Sample(TypedDict):
    at: str
    cause: str
    entity: str
    offsets: list[int]


# Sample is a firing in the result of a dry run.
class Sample(_Sample, total=False):
    # The matched events. Absent if the log does not have them any more, or if they are too large for the answer.
    witness: list[WitnessEvent]


_AwaitedEventReserved = TypedDict("_AwaitedEventReserved", {"from": "str | None"})


# AwaitedEvent is an event that can still change the value of an expression.
class AwaitedEvent(_AwaitedEventReserved):
    # Name of the event.
    event: str
    # The part of the expression, such as `count(login) >= 3`.
    expr: str
    # Number of such events so far.
    have: int
    # The required or forbidden number.
    need: int
    # `must_not_come`: it keeps or makes the expression false. `starts`: it starts another instance of a THEN.
    role: Literal["must_come", "must_not_come", "starts"]
    # Log time until which it counts, inclusive; null: no bound.
    until: str | None


class _EntityHistory(TypedDict):
    # Events that were read.
    events: int
    # Number of older steps.
    more: int
    # Events that the expression does not mention, the most frequent first. Needs the right to read the topic.
    others: list[EventCount]
    # Of all these events.
    partition: int
    # Log time of the oldest of them; null: there is none.
    since: str | None
    # The other events, and deadlines, oldest first: the newest ones.
    steps: list[HistoryStep]
    # The value of the expression then, for these events.
    value: Literal["false", "pending", "true"]


# EntityHistory is what the events of an entity did to the expression of a trigger. It is read from the log by the
# key index, and does not need the state of the trigger. All events are of one partition.
class EntityHistory(_EntityHistory, total=False):
    # Log time up to which they were evaluated.
    as_of: str
    # The entity has events in another partition too, which count by themselves.
    elsewhere: bool
    # Why events are missing; absent: none is. `key_index_off`: the topic has no key index. `key_index_behind`: the
    # index does not have the newest ones yet. `unknown_topic`: the topic was deleted. `too_slow`: the evaluation
    # did not end within 10 seconds; the other members are empty. `too_many`: only the newest ones were read.
    # `trimmed`: older events were deleted from the topic, by retention or a trim, and may have been of the entity.
    unread: Literal["key_index_off", "key_index_behind", "unknown_topic", "too_many", "trimmed", "too_slow"]


class _Outcome(TypedDict):
    # End of the attempt in ms since 1970.
    at: int
    # `retry`: another attempt follows, as often as the trigger says. `permanent`: none follows.
    kind: Literal["delivered", "retry", "permanent"]
    took_ns: int


# Result of the last attempt. Members can be added.
class Outcome(_Outcome, total=False):
    # When the firing was delivered, in ms since 1970.
    delivered: int
    # Beginning of the answer, at most 1 KiB.
    detail: str
    # Why it was not delivered; for people.
    reason: str
    # Delay that the receiver requested, in nanoseconds.
    retry_after_ns: int
    # Status of the answer, if there was one.
    status: int


class _WitnessEvent(TypedDict):
    event: str
    offset: int
    time: str


# WitnessEvent is an event that made an expression true.
class WitnessEvent(_WitnessEvent, total=False):
    data: dict[str, Any] | None
    id: str


# To a webhook, with `url` and `secrets`, to a `topic`, or to a `queue`, which must exist and needs the right to
# write on it. At most 256 KiB. In answers each secret is `whsec_***` and the value of each header `***`. A member
# that is null counts as absent.
class Delivery(TypedDict, total=False):
    # Messages in flight. Without it the number adapts to the receiver, up to 32.
    concurrency: int | None
    content_type: str | None
    # Time until a worker gets a message of the `queue`, at most 365d.
    delay: str | None
    frequency_cap: dict[str, Any] | None
    headers: dict[str, str] | None
    queue: str | None
    quiet_hours: dict[str, Any] | None
    retries: list[str] | None
    secrets: list[str] | None
    template: str | None
    topic: str | None
    url: str | None


# TriggerFirings counts the firings of a trigger, by its newest ones: at most 10,000, and in a list 1,000 of each
# trigger and about 20,000 in all.
class TriggerFirings(TypedDict):
    # Firings in the last 24 hours.
    day: int
    # Upper bound on the age of the events and deadlines that the triggers of this broker have not processed.
    lag_seconds: float
    # Time of the newest firing; null: none.
    last: str | None
    # Time of the oldest of these; null: none.
    oldest_pending: str | None
    # Pending firings of any age.
    pending: int
    # Older firings are not counted; null: all are counted.
    since: str | None
    # Firings by state.
    states: dict[str, int]
    # Firings in the last 7 days.
    week: int


class _Header(TypedDict):
    key: str


# Header is one header of a record. Several headers may have the same key.
class Header(_Header, total=False):
    value: str | None
    value_base64: str | None


class _MessageTry(TypedDict):
    time: str


# MessageTry is a failed try of a message.
class MessageTry(_MessageTry, total=False):
    # The principal.
    by: str
    reason: str


# StatsSeries has a value for each of the times of the answer.
class StatsSeries(TypedDict):
    unit: str
    # For each of the times; null if the broker did not run, or had nothing to measure. A rate or a quantile covers
    # the step before its time.
    values: list[float | None]


# Estimate is an estimated number with a 95 % interval. The interval supposes that no entity outside of the sample
# has far more firings than those inside.
class Estimate(TypedDict):
    high: int
    low: int
    value: int


# EventCount counts events of a name.
class EventCount(TypedDict):
    count: int
    event: str


class _HistoryStep(TypedDict):
    # Log time.
    at: str
    # Name; empty: a deadline.
    event: str
    # null: a deadline.
    offset: int | None
    # What the event or deadline did. For people; the text can change.
    text: str
    # The value from then on.
    value: Literal["false", "pending", "true"]


# HistoryStep is an event or a deadline of an entity, and what it did.
class HistoryStep(_HistoryStep, total=False):
    effect: Literal["true", "false", "begins", "counts", "ends", "missed", "passed", "none"]
    # The part of the expression that the effect concerns.
    expr: str
    # Why the event does not count. `too_old`: the trigger ignores events from before its creation.
    skipped: Literal["not_matched", "duplicate_id", "not_yet", "too_old"]
