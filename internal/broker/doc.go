// Package broker is the interface between front ends and the log: topics with partitions, append,
// and fetch with long poll. It knows no wire protocol. Appends go through package log. Reads come
// from the committed objects' own buffers (the tail) or from the store, which a disk cache may
// wrap.
package broker
