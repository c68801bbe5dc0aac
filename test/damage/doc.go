// Package damage damages small buckets systematically, and starts every role on each of them. It
// contains only tests. make test runs a sample; the whole is
//
//	go run ./test/cmd/damage
//
// A role has one of three outcomes. Everything else is a failure:
//
//	whole      it serves every acknowledged record, and continues at the next offset
//	named      reads of damaged records fail with the error of corrupt data, and all others are served
//	refused    it names the cause and a command. After the command a leader serves every record before
//	           the accepted position, and gives no offset twice.
//
// The exceptions are those under "Seb does not survive" in docs/reference/protocol.md. Each is a row of
// a table, and a run in which a row never applies fails.
package damage
