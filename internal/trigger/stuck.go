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

// unreadable says where the log could not be read, or not be understood. It is errLog.
type unreadable struct {
	key    store.CursorKey
	offset int64
	batch  bool // it was read, and is no batch of records
	err    error
}

func (u *unreadable) Error() string {
	return fmt.Sprintf("%v: topic %s, partition %d, offset %d: %v", errLog, u.key.Topic, u.key.Partition, u.offset, u.err)
}

func (u *unreadable) Unwrap() []error { return []error{errLog, u.err} }

// stuckAfter is how often reading a partition must fail for others to be read without it: the store may be away for a while.
const stuckAfter = 3

// stuck is a partition of events with something in it that can not be read.
type stuck struct {
	times int
	cut   int64 // a batch from which on no more is to be read at once; 0: none
	told  bool
	retry follow.Retry
}

// tryEvents is events, but what can not be read holds up its partition only: no instant of its topic becomes complete, since
// what is not known may have been an event that was waited for. held is whether there is nothing to be done about it now.
func (w *worker) tryEvents(ctx context.Context, key store.CursorKey, span follow.Span, lives []*live) (held bool, err error) {
	s, now := w.stuck[key], w.opt.Now()
	if s != nil {
		if s.retry.Left(now, w.opt.Sizes.Retry) > 0 && max(w.cursors[key].Next, span.Start) < span.Next {
			return true, nil
		}
	}
	err = w.events(ctx, key, span, lives)
	if err == nil {
		if s != nil && s.told {
			w.opt.Logger.Info("events can be read again", "topic", w.topicName(key.Topic), "partition", key.Partition)
		}
		delete(w.stuck, key)
		return false, nil
	}
	var u *unreadable
	if !errors.As(err, &u) || ctx.Err() != nil {
		return false, err
	}
	if s == nil {
		s = &stuck{}
		w.stuck[key] = s
	}
	if u.batch && u.offset > max(w.cursors[key].Next, span.Start) { // what is before it comes first
		s.cut = u.offset
		return false, nil
	}
	if s.times++; !u.batch && s.times < stuckAfter {
		return false, err
	}
	w.met.failures.Inc()
	s.retry.Again(now, w.opt.Sizes.Retry)
	if !s.told {
		s.told = true
		w.opt.Logger.Error("events can not be read: triggers of their topic wait for nothing to happen in vain until they can, or until the "+
			"topic is trimmed beyond them", "topic", w.topicName(key.Topic), "partition", key.Partition, "offset", u.offset, "err", u.err)
	}
	return true, nil
}

// topicName is the name that triggers know a topic by.
func (w *worker) topicName(id record.ID) string {
	for _, l := range w.live {
		if l.Events == id {
			return l.Topic
		}
	}
	return id.String()
}

// readBytes is how much of a partition is read at once: a batch, where more could not be read.
func (w *worker) readBytes(key store.CursorKey) int {
	if s := w.stuck[key]; s != nil && s.times > 0 {
		return 1
	}
	return w.opt.Sizes.ReadBytes
}

// unstick forgets what is stuck of readers that are no more, and returns how many partitions are, and how long it is until
// one is tried again.
func (w *worker) unstick() (n int, wait time.Duration) {
	wait = follow.Idle
	for key, s := range w.stuck {
		switch {
		case !contains(w.topics, key.Topic), w.lost(key.Topic), key.Reader != store.Main && w.byNo[key.Reader] == nil:
			delete(w.stuck, key)
		case s.told:
			n++
			wait = min(wait, s.retry.Left(w.opt.Now(), w.opt.Sizes.Retry))
		}
	}
	return n, wait
}
