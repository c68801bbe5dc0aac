// Package view keeps an index of record keys in a local SQLite file (FORMAT.md): which record of a key is the newest, and
// where all of them are. It follows the log of the topics whose key-index is on, with its position in the same transaction
// as what it has learnt, so that it goes on exactly there after any end. The file is a cache: whatever is wrong with it, it
// is made anew from the log.
package view
