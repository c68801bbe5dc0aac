package keyindex

import (
	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/record"
)

// Log is what a view follows. Its methods may be called concurrently.
type Log interface {
	follow.Log
	// Partitions lists the partitions of all topics whose key-index is on, as committed; known is false if that is not
	// known at the moment.
	Partitions() (list []follow.Partition, known bool)
	// Topic lists those of one topic, by number; none if it is not there or its key-index is off.
	Topic(topic record.ID) []follow.Partition
	// Records is how many records are in the partitions of all topics whose key-index is on.
	Records() int64
	// Asked tells that somebody asks the view: a broker that only follows goes on following for a while.
	Asked()
}
