// Package sqs translates the API of Amazon SQS to queues (package queue): JSON 1.0 (X-Amz-Target) and the
// older Query protocol (Action=) with answers in XML. Names, limits, errors and their form are those of
// AWS, because clients parse them.
//
//	signature.go   Signature Version 4, which every request has
//	input.go       the two forms of requests; output.go, errors.go: those of answers
//	attributes.go  attributes of messages, as headers; settings.go: attributes of queues, as settings
//
// Package httpapi reads the body, authenticates the client, forwards to the leader, and calls Serve.
package sqs
