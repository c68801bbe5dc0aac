// Package conn is the connections of the Kafka protocol: requests with a length in front, sent one after another without
// waiting, answered in the order in which they came. It knows no request; a Session does.
//
// Each connection has two goroutines. One reads: it takes a request's memory from the budget before it reads the request,
// and lets the session begin it, which for what must keep its order, such as appends, is all that has to happen in that
// order. The other finishes requests in turn, which may wait for long, and writes the answers. So a long poll holds up what
// is behind it on its own connection and nothing else.
//
// Requests that have begun and are not answered are bounded in number and, by their length as sent, in bytes, on each
// connection and by the budget in all. At a limit the socket is not read. Who sends nothing, too slowly, or takes no answers is
// cut off.
//
// The wire looks at requests of the Kafka protocol before they are decoded: their head, and whether the rest has the
// shape that its key and version give it. A decoder (kmsg) makes room for as many elements as an array claims, and goes
// round as often as a count of tagged fields says; after Skim every count is one that bytes stand for, and it is known what
// decoding will take. Nothing here allocates, does I/O, or keeps what it is given; all may be called concurrently.
package conn
