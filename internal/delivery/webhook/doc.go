// Package webhook sends one firing of a trigger to a receiver, and computes the next step. It does
// not depend on the trigger engine or the log: the engine keeps the queue and calls this package.
//
//   - Delivery, Plan, Config, Target: destination and rules of a trigger's messages, validated when
//     the trigger is created.
//   - Sender: HTTP with limits on time, bytes and number. It connects to private networks only if a
//     Policy allows it.
//   - Outcome, Backoff, Rules, Cooldown: the result of an attempt and the time of the next one, as
//     pure functions, so that the engine can store the results.
package webhook
