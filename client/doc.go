// Package client speaks to a Seb broker over HTTP.
//
// Every write ends in one of three ways (an *Error tells the last two apart):
//
//   - no error: the records are durable and have the offsets that are returned;
//   - ErrRejected: they are nowhere and can not appear later; sending them again can not duplicate them;
//   - ErrOutcomeUnknown: they may appear once, or never.
//
// Reads are repeated on their own as long as Options.RetryTime allows, and so are writes that were rejected for a
// reason that passes (the broker is over its memory budget, the store is away, nothing listens at the address). A broker
// that another one has fenced is not waited for.
//
// A produce with an unknown outcome is repeated as well, unless Options.NotIdempotent: each request carries the number
// of an idempotent producer, by which the broker recognises what it has, so that a repetition stores nothing twice. Only
// when RetryTime is over, or the context, is the outcome unknown to the caller. Repeating the call is then a new produce.
//
// A Consumer reads a topic for a consumer group, whose committed offsets the broker keeps.
//
// Topics whose key index is on are read by key as well: Key, Keys and KeyHistory.
package client
