// Package rule is a trigger: its definition, and its evaluation for an entity as events arrive and
// time passes. It is pure: the same definition, events and instants give the same transitions, with
// the same causes.
//
// It also defines the records of the engine's topics: events, and the outcomes of firings. They are
// JSON, so that any client can read the topics and write events. FORMAT.md describes them.
package rule
