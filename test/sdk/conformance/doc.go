// Package conformance compares the clients of all languages: package client and the SDKs. Each has a
// conformance command, which carries out calls that it gets as lines of JSON. The tests of this package give
// them the same calls with the same faults, check each answer against the broker, and compare the answers.
//
//	            ┌ conformance command of Go ───── proxy ── broker
//	matrix test ┼ conformance command of Python ─ proxy ── broker
//	            └ conformance command of JavaScript proxy ── broker
//
// `go run ./test/cmd/sdk` runs the whole matrix.
package conformance
