// Package rule is a trigger: its definition, and what it does to an entity as events come in and time goes by. It is pure:
// the same definition, events and instants give the same edges, with the same causes.
//
// The entry is what the records of the engine's topics hold: events, and what became of firings. It is JSON, so that
// anybody can read the topics and write events.
package rule
