// Package framed serves the connections of protocols like those of Kafka and Riemann. A client
// sends requests with a length prefix of four bytes, one after another without waiting, and gets the
// answers in the same order. The package does not interpret requests; a Session does.
//
// Each connection has two goroutines:
//
//	reader    reserves memory, reads a request, calls Session.Begin    one request at a time
//	   │
//	 queue    requests that have begun and are not answered, in order
//	   ▼
//	finisher  calls Finish, which may wait, and writes the answer      in the order of the queue
//
// Begin does all that must happen in the order of the requests, such as submitting appends. A long
// poll therefore delays only later answers on its own connection.
//
// The queue is bounded in requests and bytes on each connection, and the budget bounds all
// connections together. At a limit the reader does not read from the socket. A client that sends
// nothing, sends too slowly, or does not read its answers is disconnected.
package framed
