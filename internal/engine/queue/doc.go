// Package queue gives each message of a queue to one worker, again if the worker does not finish it, and
// to a dead-letter queue after too many tries (decision 0049). A queue is a topic with the setting queue.
//
//	Core    decides which messages workers get. It does no I/O, and a model of its workers tests it
//	Queues  a core for each queue while this broker leads, and its reads, changes and waiting workers
//
// What happened to messages is in the log: package state folds it. A message is done only by the word of
// a worker or of an operator, or because it has expired. Front ends translate requests to Queues.
package queue
