// Package keyindex keeps an index of record keys in a local SQLite file (FORMAT.md): which record of a key is the newest, and
// where all of them are. It follows the log of the topics whose key-index is on, with its position in the same transaction
// as what it has learnt, so that it goes on exactly there after any end. The file is a cache: whatever is wrong with it, it
// is made anew from the log.
//
// The rows of that file hold blocks and runs (RUNS.md): sorted lists of entries as blocks of bytes, runs of blocks with an index
// above them, and the list that several runs are merged into.
package keyindex
