// Package faultproxy injects the faults of networks and stores between real processes. Store is
// between a broker and its S3 server, and works on requests. Wire is between clients and a broker,
// and works on bytes. For tests only.
//
// A seed determines the sequence of faults. The assignment of faults to requests depends on the
// order in which requests arrive, which no seed repeats. Therefore every fault is counted, by kind.
package faultproxy
