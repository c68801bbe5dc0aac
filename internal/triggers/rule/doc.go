// Package rule is a trigger: its definition, and what it does to an entity as events come in and time goes by. It is pure:
// the same definition, events and instants give the same edges, with the same causes.
package rule
