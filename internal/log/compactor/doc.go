// Package compactor makes packs: it reads the ranges that package pack has planned, writes them to a temporary file in the
// order of the pack, verifies the result against its sources, stores it and has it installed (rule R8). It works beside
// the log: nothing waits for it, and a pack that fails is tried again later.
package compactor
