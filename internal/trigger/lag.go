package trigger

import (
	"math"
	"time"

	"github.com/sebbroker/seb/internal/trigger/store"
)

const (
	// lagWarn is from which lag on the log says that triggers are behind; lagAgain is how often it says so.
	lagWarn  = 10 * time.Second
	lagAgain = time.Minute
)

// behind is the append time (ms) up to which every event was applied and every deadline was passed; 0: all that is at the position was.
// Triggers that read the history by themselves do not count. A log of which nothing was read is behind since its position was taken
// first.
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

// LagTime is how far the triggers are behind: how long ago the log took the first event, or a deadline passed, that is not applied yet,
// at most. It grows while a step takes long.
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

// lagging has the log say, now and then, that triggers are behind, and when that is over.
type lagging struct {
	began, told time.Time
}

// watch looks at a lag.
func (x *lagging) watch(w *worker, lag time.Duration, records int64) {
	now := w.opt.Now()
	switch {
	case lag < lagWarn/2 && !x.began.IsZero():
		w.opt.Logger.Info("triggers are no longer behind", "took", now.Sub(x.began).Round(time.Millisecond))
		*x = lagging{}
	case lag >= lagWarn && now.Sub(x.told).Abs() >= lagAgain:
		if x.told = now; x.began.IsZero() {
			x.began = now
		}
		w.opt.Logger.Warn("triggers are behind: what fires is late, and nothing is lost", "lag", lag.Round(time.Millisecond), "records", records)
	}
}
