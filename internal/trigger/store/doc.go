// Package store is the file in which the engine keeps what it has worked out: instances, firings, and how far it has read.
// It is SQLite, in one file, with one writer and several readers. All of it can be made anew from the log: a file that is
// damaged is refused with localdb.ErrDamaged, for the caller to delete. FORMAT.md says what is in it.
package store
