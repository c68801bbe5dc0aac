package trigger

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/sebbroker/seb/internal/follow"
	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
)

// unreadable is the place in the log that could not be read or parsed. It is errLog.
type unreadable struct {
	key    store.CursorKey
	offset int64
	batch  bool // the read succeeded, but returned an invalid batch
	err    error
}

func (u *unreadable) Error() string {
	return fmt.Sprintf("%v: topic %s, partition %d, offset %d: %v", errLog, u.key.Topic, u.key.Partition, u.offset, u.err)
}

func (u *unreadable) Unwrap() []error { return []error{errLog, u.err} }

// blockedAfter is the number of failed reads after which a partition is blocked: the store may be
// down for a moment.
const blockedAfter = 3

// blockedPartition is a partition of events with unreadable records.
type blockedPartition struct {
	failures int
	readTo   int64 // reads end before this batch; 0: no limit
	logged   bool
	retry    follow.Retry
}

// tryEvents is events, but an unreadable record blocks only its partition. No instant of its topic
// completes, because the record may be an event that a trigger waits for. blocked reports that the
// partition waits for its next attempt.
func (w *worker) tryEvents(ctx context.Context, key store.CursorKey, span follow.Span, lives []*live) (blocked bool, err error) {
	s, now := w.blocked[key], w.opt.Now()
	if s != nil {
		if s.retry.Left(now, w.opt.Sizes.Retry) > 0 && max(w.cursors[key].Next, span.Start) < span.Next {
			return true, nil
		}
	}
	err = w.events(ctx, key, span, lives)
	if err == nil {
		if s != nil && s.logged {
			w.opt.Logger.Info("event partition readable again", "topic", w.topicName(key.Topic), "partition", key.Partition)
		}
		delete(w.blocked, key)
		return false, nil
	}
	var u *unreadable
	if !errors.As(err, &u) || ctx.Err() != nil {
		return false, err
	}
	if s == nil {
		s = &blockedPartition{}
		w.blocked[key] = s
	}
	if u.batch && u.offset > max(w.cursors[key].Next, span.Start) { // earlier records come first
		s.readTo = u.offset
		return false, nil
	}
	if s.failures++; !u.batch && s.failures < blockedAfter {
		return false, err
	}
	w.met.failures.Inc()
	s.retry.Again(now, w.opt.Sizes.Retry)
	if !s.logged {
		s.logged = true
		w.opt.Logger.Error("event partition unreadable; deadlines of its topic are blocked until it can be read or is trimmed",
			"topic", w.topicName(key.Topic), "partition", key.Partition, "offset", u.offset, "err", u.err)
	}
	return true, nil
}

// topicName returns the name of a topic that triggers follow.
func (w *worker) topicName(id record.ID) string {
	for _, l := range w.live {
		if l.Events == id {
			return l.Topic
		}
	}
	return id.String()
}

// readBytes bounds one read of a partition: a single batch after a failed read.
func (w *worker) readBytes(key store.CursorKey) int {
	if s := w.blocked[key]; s != nil && s.failures > 0 {
		return 1
	}
	return w.opt.Sizes.ReadBytes
}

// pruneBlocked drops the blocked partitions of removed readers. It returns the number of blocked
// partitions, and the time until the next attempt.
func (w *worker) pruneBlocked() (n int, wait time.Duration) {
	wait = follow.Idle
	for key, s := range w.blocked {
		switch {
		case !contains(w.topics, key.Topic), w.deleted(key.Topic), key.Reader != store.Main && w.byNo[key.Reader] == nil:
			delete(w.blocked, key)
		case s.logged:
			n++
			wait = min(wait, s.retry.Left(w.opt.Now(), w.opt.Sizes.Retry))
		}
	}
	return n, wait
}
