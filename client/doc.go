// Package client accesses a Seb broker over HTTP.
//
// Every write has one of three results; an *Error distinguishes the last two:
//
//   - no error: the records are durable and have the returned offsets;
//   - ErrRejected: the records are not stored and cannot appear later, so a retry cannot duplicate
//     them;
//   - ErrOutcomeUnknown: the records may appear once, or never.
//
// The client retries reads for up to Options.RetryTime. It also retries writes that were rejected
// for a temporary reason: the broker has no free memory budget, the store is unavailable, or the
// address refuses connections. It does not retry at a broker that was fenced.
//
// The client also retries a produce with an unknown outcome, unless Options.NotIdempotent is set.
// Each request carries a producer ID and a sequence, by which the broker recognizes a repeated
// request and stores nothing twice. The caller gets ErrOutcomeUnknown only if RetryTime or the
// context ends first. Repeating the call then is a new produce.
//
// A Consumer reads a topic for a consumer group, whose committed offsets the broker stores.
//
// Key, Keys and KeyHistory read topics with a key index by key.
package client
