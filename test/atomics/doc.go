// Package atomics tests atomic requests from outside of package log: Run sends them to a whole log, with its
// goroutines, on a store that fails; TestKills sends them over HTTP to brokers that are killed.
// TestTransactionKills does so with transactions of Kafka clients.
package atomics
