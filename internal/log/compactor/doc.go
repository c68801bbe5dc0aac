// Package compactor makes packs. It reads the ranges that package pack has planned, writes them to
// a temporary file in the order of the pack, verifies the result against its sources, stores it and
// installs it (rule R8). It runs concurrently with the log, which never waits for it; a failed pack
// is tried again later.
package compactor
