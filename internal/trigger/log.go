package trigger

import (
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/record"
)

// Log is what the engine stands on. Its methods may be called concurrently.
type Log interface {
	follow.Log
	// Topic finds a topic by name; ok is false if it is not there.
	Topic(name string) (t Topic, ok bool)
	// Create makes a topic. It returns nil if there is one of the name already.
	Create(ctx context.Context, name string, partitions int, settings map[string]string) error
	// Stamp makes a topic give its records the log's append time from now on.
	Stamp(ctx context.Context, name string) error
	// Position is a committed position, all of one moment: the append time of the newest committed slot, and the offsets that
	// were there then. Whatever is committed later has a later append time. known is false if no state is known.
	Position(topics ...record.ID) (p follow.Position, known bool)
	// Append appends records to a partition, all in one go, and waits until they are committed. It returns the offset of
	// the first. After an error they may appear once, later, or never; from a broker that does not lead, never.
	Append(ctx context.Context, topic record.ID, partition uint32, recs []record.Record) (base int64, err error)
	// Leads is whether this broker leads, so that all of the log is known to it that was committed before. One that another
	// has fenced never leads again: it ends.
	Leads() bool
}

// Topic is a topic of the log.
type Topic struct {
	ID         record.ID
	Partitions int
	// AppendTime is whether its records have the log's append time as their timestamps.
	AppendTime bool
}

// AppendTimes are the settings of topics whose records are read for their times.
var AppendTimes = map[string]string{"timestamp-type": "append"}

// Ensure finds a topic, or makes it. ErrInvalid: it is there with other settings.
func Ensure(ctx context.Context, log Log, name string, partitions int, settings map[string]string) (Topic, error) {
	t, ok := log.Topic(name)
	if !ok {
		if err := log.Create(ctx, name, partitions, settings); err != nil {
			return t, fmt.Errorf("create topic %s: %w", name, err)
		}
		if t, ok = log.Topic(name); !ok {
			return t, fmt.Errorf("topic %s is not there after it was made", name)
		}
	}
	if settings["timestamp-type"] != "" && !t.AppendTime {
		return t, fmt.Errorf("%w: topic %s must have timestamp-type=append: triggers go by the time at which the log took an event",
			ErrInvalid, name)
	}
	return t, nil
}
