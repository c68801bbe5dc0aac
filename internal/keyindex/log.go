package keyindex

import (
	"context"

	"github.com/sebbroker/seb/record"
)

// Log is what a view follows. Package node adapts a broker to it. Its methods may be called concurrently, except Read,
// which the view calls from one goroutine.
type Log interface {
	// Cluster is the id of the cluster whose log this is.
	Cluster() record.ID
	// Partitions lists the partitions of all topics whose key-index is on, as committed; known is false if that is not
	// known at the moment.
	Partitions() (list []Partition, known bool)
	// Topic lists those of one topic, by number; none if it is not there or its key-index is off.
	Topic(topic record.ID) []Partition
	// Records is how many records are in the partitions of all topics whose key-index is on.
	Records() int64
	// Origin is the nonce of the epoch in which an offset of a partition was committed; zero if that is not known.
	Origin(topic record.ID, partition uint32, offset int64) record.ID
	// Read gives whole committed batches: the one that holds offset first, then what follows it up to about bytesMax. None
	// if nothing is there yet.
	Read(ctx context.Context, topic record.ID, partition uint32, offset int64, bytesMax int) (Batches, error)
	// Changed has an element whenever Partitions may have changed since it was last received from (capacity 1). Waiting on
	// it makes no request.
	Changed() <-chan struct{}
	// Asked tells that somebody asks the view: a broker that only follows goes on following for a while.
	Asked()
}

// Partition is a partition as committed: offsets [Start, Next) are there.
type Partition struct {
	Topic       record.ID
	Partition   uint32
	Start, Next int64
	// Clean is the offset up to which the partition was compacted: below it each key stands once, in its newest record
	// below it. Swept is the offset below which there are no tombstones, Sweepable that below which they may go at any time,
	// or are gone. What a tombstone has deleted is gone for longer.
	Clean, Swept, Sweepable int64
}

// Batches are whole batches of one partition in offset order.
type Batches struct {
	Parts [][]byte // each whole batches; read-only, until Release
	// Release gives them back; nil if there is nothing to give back. It is called once.
	Release func()
}
