// Package keyindex keeps an index of record keys in a local SQLite file (FORMAT.md): the newest
// record of each key, and the offsets of all its records. It follows the log of the topics with
// key-index on. The transaction that stores entries also stores the position in the log, so the
// index continues exactly there after a crash. The file is a cache: after any error in its content
// it is rebuilt from the log.
//
// The rows of the file hold blocks and runs (RUNS.md): a block is a sorted list of entries as
// bytes, and a run is a list of blocks with an index above them. Several runs are merged into one.
package keyindex
