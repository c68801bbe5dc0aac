// Package index keeps the newest event of each host and service of a topic, in a local SQLite file
// (FORMAT.md) that follows the log. An event is a record of the form of Seb events: entity_id is the
// host, event is the service, and data has the other fields.
//
//	log --records--> worker --one transaction--> file --queries--> readers
//	 ^                 |  \
//	 |                 |   `--after the transaction--> subscriptions
//	 `--expired record-' leader only
//
// An event expires ttl seconds after its append time, in log time. The file does not change then.
// The leader appends an expired record, and every broker deletes the event when it reads that record.
// So the record is the truth, and there is one for each expired event:
//
//   - The leader decides only when it has read everything in the log, including the records of
//     earlier leaders: Leads is asked before the position.
//   - It has one append in flight, and decides again after it has read that append. An append that
//     was refused is in no slot. After an unknown outcome this broker leads no more, and the next
//     leader reads whether the record is there.
//   - A deadline has passed when the log has a slot after it, because a later slot cannot hold an
//     event in time. If the log is idle, the expired record itself becomes that slot: it is appended
//     at an expected offset, so that it is refused if an event has come in the meantime.
//   - The record's ID names the offset of the event that it expires. It deletes no newer event.
package index
