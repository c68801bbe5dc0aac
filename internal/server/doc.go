// Package server is the broker as a program: a node behind a public HTTP listener, pprof on a loopback listener of its
// own, the API key, and the order in which it all stops.
package server
