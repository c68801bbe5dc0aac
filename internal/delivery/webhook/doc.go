// Package webhook sends one firing of a trigger to a receiver, and says what to do next. It knows nothing of the engine that
// finds firings, nor of the log: the engine keeps the queue and calls this package.
//
//   - Delivery, Plan, Config, Target: where, how and when a trigger's messages are sent, checked when the trigger is made.
//   - Sender: HTTP, with limits in time, bytes and number, and no way into private networks unless a Policy allows it.
//   - Outcome, Backoff, Rules, Cooldown: what an attempt has come to and when the next may be made, as pure functions of
//     their arguments, so that the engine can store the answer.
package webhook
