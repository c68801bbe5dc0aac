// Package entry is what the records of the engine's topics hold: events, and what became of firings. It is JSON, so that
// anybody can read the topics and write events.
package entry
