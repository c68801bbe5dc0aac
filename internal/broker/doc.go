// Package broker is what front ends talk to: topics with partitions, append, fetch with long poll. It knows no wire
// protocol. Appends go through the log (package log); reads come from the committed objects' own buffers (the tail)
// or from the store (package ranges), which may be wrapped by a disk cache.
package broker
