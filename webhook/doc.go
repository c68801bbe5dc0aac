// Package webhook is for receivers of Seb's webhooks: it has the signatures of Standard Webhooks
// (https://www.standardwebhooks.com, version 1.0.0, the symmetric scheme "v1"), and the body that
// Seb sends for triggers without a template. The broker signs with the same code.
//
// A receiver verifies a message before it uses it, answers 2xx once it has stored the message, and
// skips IDs that it has already seen: Seb sends a message again until it gets a 2xx answer.
package webhook
