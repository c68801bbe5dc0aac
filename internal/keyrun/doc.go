// Package keyrun holds sorted lists of what is known of keyed records: as blocks of bytes, as runs of blocks with an index
// above them (FORMAT.md), and as one list that several are merged into. Where blocks are stored is its caller's.
package keyrun
