// Package soak tests a real broker over a compressed lifetime, on a real S3 server behind a proxy
// that counts and delays requests. It contains only tests.
//
//	go run ./test/cmd/soak
//
// TestSoak is an hour of mixed load with kills, compressed into minutes by small settings.
// TestStart starts brokers with an empty disk on a bucket of a thousand packs. TestFollower reads
// what a producer writes. make test runs a short version of each. The tests print every figure.
// Only the long versions assert figures that depend on the machine, with wide margins.
package soak
