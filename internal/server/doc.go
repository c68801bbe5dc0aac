// Package server is the broker as a program: a node with a public HTTP listener, a Kafka listener,
// pprof on a separate loopback listener, the API key, and the order of stopping.
package server
