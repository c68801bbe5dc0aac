// Package wire looks at requests of the Kafka protocol before they are decoded: their head, and whether the rest has the
// shape that its key and version give it. A decoder (kmsg) makes room for as many elements as an array claims, and goes
// round as often as a count of tagged fields says; after Skim every count is one that bytes stand for, and it is known what
// decoding will take. Nothing here allocates, does I/O, or keeps what it is given; all may be called concurrently.
package wire
