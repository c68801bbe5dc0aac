// Package wire checks requests of the Kafka protocol before they are decoded: their head, and
// whether the rest has the shape of its key and version. The decoder (kmsg) allocates as many
// elements as an array claims, and loops as often as a count of tagged fields says. After Skim every
// count is backed by bytes, and the memory for decoding is known.
//
// The checks neither allocate nor do I/O nor keep their arguments, and may be called concurrently.
package wire
