package keyindex

import (
	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/record"
)

// Log is the log that a View follows. Its methods may be called concurrently.
type Log interface {
	follow.Log
	// Partitions lists the committed partitions of all topics with key-index on; known is false if
	// they are unknown at the moment.
	Partitions() (list []follow.Partition, known bool)
	// Topic lists the partitions of one topic, by number; none if the topic does not exist or its
	// key-index is off.
	Topic(topic record.ID) []follow.Partition
	// Records is the number of records in the partitions of all topics with key-index on.
	Records() int64
	// Queried records that a query is running: a read-only broker then keeps following the log for
	// a while.
	Queried()
}
