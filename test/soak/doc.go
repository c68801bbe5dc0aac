// Package soak lets a real broker live through much in little time, on a real S3 server behind a proxy that counts the
// requests and can hold them up. It holds tests only.
//
//	go run ./test/cmd/soak
//
// TestSoak is an hour of mixed load, with kills, compressed into minutes by small settings; TestStart starts brokers on an
// empty disk with a thousand packs behind them; TestFollower reads what a producer writes. make test runs a short version
// of each. Every figure is printed; what depends on the machine's speed is asserted only by the long versions, generously.
package soak
