package api

import (
	"encoding/json"
	"time"
)

// QueueSpec is the body of PUT /queues/{queue}. An empty body means the defaults of a new queue, or no
// change.
type QueueSpec struct {
	// Priorities of a new queue: 1 to 10, default 1. A queue keeps its number.
	Priorities int `json:"priorities,omitempty"`
	// Settings to change, as strings, numbers or booleans. null and "" remove one.
	Settings map[string]json.RawMessage `json:"settings,omitempty"`
}

// Queue is a queue with the numbers of its messages. Only the leader knows leases that the log does not have
// yet: another broker counts such messages as ready.
type Queue struct {
	Name       string `json:"name"`
	ID         string `json:"id"`
	Priorities int    `json:"priorities"`
	// The settings that were given.
	Settings map[string]string `json:"settings"`
	// All settings, with their defaults.
	Effective map[string]string `json:"effective_settings"`
	// Messages for a worker. With `key-mode`, some wait until another message of their key is done.
	Ready   int64 `json:"ready"`
	Leased  int64 `json:"leased"`  // Messages that workers have.
	Delayed int64 `json:"delayed"` // Messages that were sent with a delay, before their time, and those that wait for the end of a transaction.
	Retry   int64 `json:"retry"`   // Messages that wait for their next try.
	Dying   int64 `json:"dying"`   // Messages on their way to the dead-letter queue.
	Dead    int64 `json:"dead"`    // Messages in its dead-letter queue that are not done.
	Sent    int64 `json:"sent"`    // Messages that were ever sent, also those of aborted transactions, and one for each end of a transaction.
	// When the oldest message that is not done was stored; absent: all are done.
	OldestAt time.Time `json:"oldest_at,omitzero"`
	// Its age by log time.
	OldestSeconds float64 `json:"oldest_seconds,omitempty"`
	// Bytes of the messages in the log, also of those that are done.
	Bytes int64 `json:"bytes"`
	// The queue has more messages, but gives none: as many as it looks ahead wait for other messages of their
	// keys.
	LookAheadFull bool `json:"look_ahead_full,omitempty"`
	// The queue refuses messages: they take `retention-bytes`.
	Full bool `json:"full,omitempty"`
}

// Queues is the answer to GET /queues, sorted by name.
type Queues struct {
	Queues []Queue `json:"queues"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
}

// Message is a message to send: a record with the attributes of a message.
//
//openapi:additionalProperties false
type Message struct {
	Key *string `json:"key,omitempty"`
	//openapi:format byte
	KeyBase64 *string `json:"key_base64,omitempty"`
	Value     *string `json:"value,omitempty"` // This or `value_base64` is required.
	//openapi:format byte
	ValueBase64 *string  `json:"value_base64,omitempty"`
	Headers     []Header `json:"headers,omitempty"`
	// Time until a worker gets the message, such as 90s or 1d, at most 365d.
	Delay string `json:"delay,omitempty"`
	// The time from which a worker gets the message, in RFC 3339. Not with `delay`.
	At string `json:"at,omitempty"`
	// Messages with the same ID within the `dedup-window` of the queue are stored once.
	//openapi:maxLength 256
	Dedup    string `json:"dedup,omitempty"`
	Priority int    `json:"priority,omitempty"` // 0, the default, is served first.
	// Age at which the message is given to no worker any more, such as 1h; default: the setting `expire`.
	Expire string `json:"expire,omitempty"`
}

// Messages is the body of POST /queues/{queue}/messages for several messages.
//
//openapi:additionalProperties false
type Messages struct {
	Messages []Message `json:"messages"`
}

// MessageResult is the outcome for a message of a request. Without `code` the request was carried out, and
// its effect is durable.
type MessageResult struct {
	// The ID of a message that was sent.
	//openapi:example 0-17
	ID string `json:"id,omitempty"`
	// A message with the same `dedup` has this ID. Nothing was stored.
	Duplicate bool   `json:"duplicate,omitempty"`
	Code      Code   `json:"code,omitempty"`
	Field     string `json:"field,omitempty"`
	Detail    string `json:"detail,omitempty"`
}

// MessageResults has a result for each message of a request, in its order.
type MessageResults struct {
	Messages []MessageResult `json:"messages"`
}

// LeaseRequest is the body of POST /queues/{queue}/lease. An empty body asks for one message without waiting.
type LeaseRequest struct {
	Max int `json:"max,omitempty"` // Messages: 1 to 1,000, default 1.
	// Time to wait for the first message, such as 20s; default 0s, at most 1m.
	Wait string `json:"wait,omitempty"`
	// Time that the worker has for the messages; default: that of the queue, at most 12h.
	Visibility string `json:"visibility,omitempty"`
}

// QueueMessage is a message of a queue. Valid UTF-8 is in `value` and `key`, other bytes in `value_base64` and
// `key_base64`; null is null.
//
//openapi:required [id, deliveries, sent]
type QueueMessage struct {
	ID string `json:"id"`
	// For POST /queues/{queue}/settle; only in the answer to a lease.
	Receipt string `json:"receipt,omitempty"`
	// Only in lists.
	//openapi:enum [ready, leased, delayed, retry, done]
	State string `json:"state,omitempty"`
	// Leases of the message, this one included.
	Deliveries int `json:"deliveries"`
	// End of the lease, the delay, or the wait for the next try.
	Until time.Time `json:"until,omitzero"`
	Sent  time.Time `json:"sent"`
	Key   *string   `json:"key"`
	//openapi:format byte
	KeyBase64 *string `json:"key_base64,omitempty"`
	Value     *string `json:"value"`
	//openapi:format byte
	ValueBase64 *string `json:"value_base64,omitempty"`
	// Bytes of the whole value, if it is cut to `max-value-bytes`.
	ValueBytes *int64   `json:"value_bytes,omitempty"`
	Headers    []Header `json:"headers,omitempty"`
	// The newest failed tries. Only in lists.
	Tries []MessageTry `json:"tries,omitempty"`
}

// MessageTry is a failed try of a message.
type MessageTry struct {
	Time   time.Time `json:"time"`
	By     string    `json:"by,omitempty"` // The principal.
	Reason string    `json:"reason,omitempty"`
}

// QueueMessages is the answer to POST /queues/{queue}/lease and GET /queues/{queue}/messages.
type QueueMessages struct {
	Messages []QueueMessage `json:"messages"`
	// Value of `before` for the next page of a list.
	Next string `json:"next,omitempty"`
}

// Settlements is the body of POST /queues/{queue}/settle.
type Settlements struct {
	//openapi:maxItems 1000
	Messages []Settlement `json:"messages"`
}

// Settlement is what a worker says about a message that it has.
type Settlement struct {
	Receipt string `json:"receipt"` // Of the lease.
	// `done`: the message is finished. `retry`: it comes again after `delay`, by default that of the setting
	// `backoff`. `dead`: it goes to the dead-letter queue. `extend`: the worker needs it for `delay` from now
	// on, by default for the `visibility` of the queue.
	//openapi:enum [done, retry, dead, extend]
	Do    string `json:"do"`
	Delay string `json:"delay,omitempty"` // Such as 90s. Only with `retry` and `extend`.
	// Why the message failed, for people.
	//openapi:maxLength 512
	Reason string `json:"reason,omitempty"`
}

// RedriveRequest is the body of POST /queues/{queue}/redrive.
type RedriveRequest struct {
	// The queue that gets the messages; default: for each the one from which it comes.
	To     string `json:"to,omitempty"`
	Reason string `json:"reason,omitempty"` // Only letters with this text in their reason.
	Text   string `json:"text,omitempty"`   // Only messages with this text in their value.
	Max    int    `json:"max,omitempty"`    // Messages to move: 1 to 1,000, the default.
	After  string `json:"after,omitempty"`  // The value of `next` of the request before.
	// Only counts what the request would move.
	DryRun bool `json:"dry_run,omitempty"`
}

// Redriven is the answer to POST /queues/{queue}/redrive.
type Redriven struct {
	Moved   int `json:"moved"`
	Skipped int `json:"skipped"` // Messages that do not match, or that workers have.
	// Value of `after` for the next request; absent: these were all.
	Next string `json:"next,omitempty"`
}

// Purged is the answer to POST /queues/{queue}/purge.
type Purged struct {
	Purged int64 `json:"purged"` // Messages that were not done.
}

// ScheduleSpec is the body of PUT /queues/{queue}/schedules/{schedule}: times, and the message that they send.
//
//openapi:additionalProperties false
type ScheduleSpec struct {
	// Minute, hour, day of the month, month and day of the week, or @hourly, @daily, @weekly, @monthly or @yearly.
	//openapi:example 0 9 * * MON
	Cron string `json:"cron"`
	// Zone of the times, by its name in the IANA database; default: UTC.
	//openapi:example Europe/Copenhagen
	Zone string `json:"zone,omitempty"`
	// What to send for times at which no broker led or the queue was paused: one message for all of them (the
	// default), none for those over a minute ago, or one for each.
	//openapi:enum [run-once, skip, run-all]
	Missed   string  `json:"missed,omitempty"`
	Priority int     `json:"priority,omitempty"` // 0, the default, is served first.
	Key      *string `json:"key,omitempty"`
	//openapi:format byte
	KeyBase64 *string `json:"key_base64,omitempty"`
	Value     *string `json:"value,omitempty"` // Without it and `value_base64` messages are empty.
	//openapi:format byte
	ValueBase64 *string  `json:"value_base64,omitempty"`
	Headers     []Header `json:"headers,omitempty"`
}

// Schedule is a schedule of a queue.
type Schedule struct {
	Name string `json:"name"`
	ScheduleSpec
	// The next five times. There are fewer if there are no more, or if the broker does not know the zone.
	Next []time.Time `json:"next"`
}

// Schedules is the answer to GET /queues/{queue}/schedules, sorted by name.
type Schedules struct {
	Schedules []Schedule `json:"schedules"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
}
