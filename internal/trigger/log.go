package trigger

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/record"
)

// Log is the log of the engine. Its methods may be called concurrently.
type Log interface {
	follow.Log
	// Topic returns a topic by name; ok is false if it does not exist.
	Topic(name string) (t Topic, ok bool)
	// Create creates a topic. It returns nil if one with that name exists.
	Create(ctx context.Context, name string, partitions int, settings map[string]string) error
	// Stamp sets a topic to append time for new records.
	Stamp(ctx context.Context, name string) error
	// Position returns a committed position of one moment: the append time of the newest committed
	// slot, and the offsets at that time. Everything that is committed later has a later append
	// time. known is false if the state is unknown.
	Position(topics ...record.ID) (p follow.Position, known bool)
	// Append appends records to a partition atomically, and waits until they are committed. It
	// returns the offset of the first. After an error they may appear once, later, or never; on a
	// broker that is not the leader, never.
	Append(ctx context.Context, topic record.ID, partition uint32, recs []record.Record) (base int64, err error)
	// Leads reports whether this broker leads, and so knows everything committed before. A fenced
	// broker never leads again.
	Leads() bool
}

// Topic is a topic of the log.
type Topic struct {
	ID         record.ID
	Partitions int
	// AppendTime: the timestamps of its records are append times.
	AppendTime bool
}

// AppendTimes are the settings of topics whose timestamps the engine uses.
var AppendTimes = map[string]string{"timestamp-type": "append"}

// Ensure returns a topic, and creates it if it does not exist. ErrInvalid: it exists with other
// settings.
func Ensure(ctx context.Context, log Log, name string, partitions int, settings map[string]string) (Topic, error) {
	t, ok := log.Topic(name)
	if !ok {
		if err := log.Create(ctx, name, partitions, settings); err != nil {
			return t, fmt.Errorf("create topic %s: %w", name, err)
		}
		if t, ok = log.Topic(name); !ok {
			return t, fmt.Errorf("topic %q does not exist after its creation", name)
		}
	}
	if settings["timestamp-type"] != "" && !t.AppendTime {
		return t, fmt.Errorf("%w: topic %q must have timestamp-type=append: triggers use the append times of events",
			ErrInvalid, name)
	}
	return t, nil
}
