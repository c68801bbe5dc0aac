package log

import (
	"time"

	"github.com/sebbroker/seb/internal/log/state"
)

// Level is the format level of a bucket as a log sees it.
type Level struct {
	Now uint32 // as committed; 0 before anything was loaded
	// RaiseAt is when a client's commit may first raise it to state.LevelMax. Until then an older
	// program can lead the bucket again. Zero: no commit raises it.
	RaiseAt time.Time
}

// Level returns the format level of the bucket. It makes no request.
func (l *Log) Level() (v Level) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	s := l.core.State()
	if s == nil {
		return v
	}
	v.Now = s.Level
	if at, ok := l.core.RaiseAt(); ok {
		v.RaiseAt = l.start.Add(time.Duration(at) - firstNow)
	}
	return v
}

// Raise proposes to raise the bucket to the highest level that this program knows.
// state.ErrLevelKnown: it is already there.
func (l *Log) Raise() *Ticket { return l.Propose(state.RaiseTo(state.LevelMax)) }
