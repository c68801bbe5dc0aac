// Package store is the file of the engine's results: instances, firings and cursors. It is an
// SQLite file with one writer and several readers. It can be rebuilt from the log: a damaged file
// is refused with localdb.ErrDamaged, and the caller deletes it. FORMAT.md describes it.
package store
