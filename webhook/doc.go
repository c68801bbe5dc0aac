// Package webhook is what a receiver of Seb's webhooks needs: the signatures of Standard Webhooks
// (https://www.standardwebhooks.com, version 1.0.0, the symmetric scheme "v1") and the body that Seb sends unless a trigger
// has a template of its own. The broker signs with the same code.
//
// A receiver verifies before it believes anything, answers 2xx when it has kept the message, and uses the message's ID to
// leave out what it has already seen: a message is sent again until a 2xx has arrived.
package webhook
