// Package triggers is the engine that watches events for what triggers say. It stands on three kinds of topics: triggers
// (definitions), topics of events, and firings (what has fired, and what became of it). Package fold follows them; here is
// what others ask: to change a trigger, to know what has fired and what an entity waits for, and to tell what became of a
// delivery. All changes are records, and are told as done when the fold has read them back.
package triggers
