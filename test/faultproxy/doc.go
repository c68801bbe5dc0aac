// Package faultproxy stands between real processes and does to what passes what networks and stores do: Store between a
// broker and its S3 server, by the request, and Wire between clients and a broker, by the byte. For tests only.
//
// What happens is drawn from a seed; which request meets which draw depends on the order in which they come, which no seed
// repeats. So every fault is counted, by kind.
package faultproxy
