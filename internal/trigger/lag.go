package trigger

import (
	"math"
	"time"

	"github.com/sebbroker/seb/internal/trigger/store"
)

const (
	// lagWarn is the lag from which the engine logs a warning, at most once per lagLogEvery.
	lagWarn     = 10 * time.Second
	lagLogEvery = time.Minute
)

// behind returns the append time (ms) up to which all events were applied and all deadlines passed;
// 0: up to the position. Triggers that read the history by themselves do not count. Before the
// first record was read it is the time of the first position.
func (w *worker) behind() (since int64) {
	since = math.MaxInt64
	for i, id := range w.topics {
		if i < 2 {
			continue
		}
		for part, span := range w.pos.Topics[i] {
			if c := w.cursors[store.CursorKey{Topic: id, Partition: uint32(part)}]; max(c.Next, span.Start) < span.Next {
				since = min(since, max(c.Clock, w.caughtUp))
			}
		}
		for _, l := range w.served(id) {
			if l.due <= w.pos.Complete() {
				since = min(since, max(l.due, w.caughtUp))
			}
		}
	}
	if since == math.MaxInt64 {
		w.caughtUp = w.pos.Time / 1000
		return 0
	}
	return max(since, 1)
}

// LagTime returns the lag of the triggers: an upper bound on the age of the oldest event or
// deadline that is not applied yet. It grows during a long turn.
func (e *Follower) LagTime() time.Duration {
	p, _, err := e.Peek()
	since := p.Behind
	if busy := e.busy.Load(); since == 0 {
		since = busy
	}
	if err != nil || since == 0 {
		return 0
	}
	return max(0, e.opt.Now().Sub(time.UnixMilli(since)))
}

// lagLog logs that the triggers are behind, and that they have caught up.
type lagLog struct {
	began, logged time.Time
}

// observe checks the current lag.
func (x *lagLog) observe(w *worker, lag time.Duration, records int64) {
	now := w.opt.Now()
	switch {
	case lag < lagWarn/2 && !x.began.IsZero():
		w.opt.Logger.Info("trigger engine caught up", "took", now.Sub(x.began).Round(time.Millisecond))
		*x = lagLog{}
	case lag >= lagWarn && now.Sub(x.logged).Abs() >= lagLogEvery:
		if x.logged = now; x.began.IsZero() {
			x.began = now
		}
		w.opt.Logger.Warn("trigger engine behind; firings are late, none are lost", "lag", lag.Round(time.Millisecond), "records", records)
	}
}
