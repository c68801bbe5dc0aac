package log

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// health is the result of the last store request.
type health struct {
	mu   sync.Mutex // guards last
	last error
}

// note records a result and reports whether it changed between success and error.
func (h *health) note(err error) (changed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	changed = (err == nil) != (h.last == nil)
	h.last = err
	return changed
}

func (h *health) err() error {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.last
}

// StoreFault returns the error of the last store request, or nil.
func (l *Log) StoreFault() error { return l.health.err() }

// NoteFault notes a failed read of records as the last store request. A later answer to the log ends
// that.
func (l *Log) NoteFault(key string, err error) {
	l.recordHealth(context.Background(), "get", key, err)
}

// Ready returns nil if the log leads (or follows, if read-only), the last store request succeeded
// and the clock is right; otherwise an error that names the problem. It makes no request.
func (l *Log) Ready() error {
	s := l.Status()
	switch s.Role {
	case core.RoleLeader, core.RoleFollower:
	case core.RoleStopped:
		return fmt.Errorf("log stopped: %w", s.Err)
	default:
		return fmt.Errorf("log is %s", s.Role)
	}
	if err := l.health.err(); err != nil {
		return fmt.Errorf("store: %w", err)
	}
	return l.ClockError()
}

// setRole handles EffRole. The status is already set.
func (o *owner) setRole(e *core.Effect) {
	failpoint.Hit("role")
	log := o.opt.Logger.With("shard", o.opt.Core.Shard, "epoch", e.Epoch)
	switch {
	case e.Err == core.ErrOvertaken:
		log.Info("takeover not completed", "err", e.Err)
		o.stood(e.Err)
		return
	case e.Err == core.ErrSteppedDown:
		log.Info("stopped leading")
	case e.Role == core.RoleFenced:
		log.Warn("fenced by another broker", "leader", e.Leader)
	case e.Role == core.RoleStopped:
		log.Error("log stopped", "err", e.Err)
	default:
		log.Info("log role", "role", e.Role.String(), "journal", o.core.Journaled())
	}
	switch e.Role {
	case core.RoleLeader:
		o.startClock()
		o.stood(nil)
	case core.RoleStopped:
		o.stood(o.core.Err())
	}
	o.decide.Do(func() { close(o.decided) })
	if e.Role == core.RoleFenced && !o.opt.Standby || e.Role == core.RoleStopped {
		o.finish.Do(func() { close(o.done) })
	}
	if o.opt.Hooks.Role != nil {
		o.opt.Hooks.Role(o.Status())
	}
}

// View returns an immutable copy of the committed state, or nil unless this log leads.
func (l *Log) View() *state.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.core.Role() != core.RoleLeader {
		return nil
	}
	return l.core.State().View()
}

// Level is the format level of a bucket as a log sees it.
type Level struct {
	Now uint32 // as committed; 0 before anything was loaded
	Max uint32 // the highest level that this program knows
	// Allowed is the highest level that Options.RaiseMax allows, at most Max.
	Allowed uint32
	// RaiseAt is when a client's commit may first raise it to Allowed. Until then an older program can
	// lead the bucket again. Zero: no commit raises it.
	RaiseAt time.Time
}

// raiseMax is the highest level to which the bucket may be raised now.
func (l *Log) raiseMax() uint32 {
	if l.opt.RaiseMax == nil {
		return state.LevelMax
	}
	return min(l.opt.RaiseMax(), state.LevelMax)
}

// Level returns the format level of the bucket. It makes no request.
func (l *Log) Level() (v Level) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	v.Max, v.Allowed = state.LevelMax, l.raiseMax()
	s := l.core.State()
	if s == nil {
		return v
	}
	v.Now = s.Level
	if at, ok := l.core.RaiseAt(); ok && v.Now < v.Allowed {
		v.RaiseAt = l.at(at)
	}
	return v
}

// Report returns what the goroutine that owns the log knows. An answer shows that this goroutine
// runs; it makes no request. Errors: the error that ended the log; ErrClosed; ctx's cause.
func (l *Log) Report(ctx context.Context) (state.Report, error) {
	return l.ask(func(_ context.Context, o *owner, answer chan<- reported) { answer <- o.report() })(ctx)
}

// reported is the answer to a call of Report.
type reported struct {
	state.Report
	err error
}

// report answers a call of Report.
func (o *owner) report() reported {
	if r := o.core.Role(); r == core.RoleStopped || r == core.RoleFenced && !o.opt.Standby {
		return reported{err: o.core.Err()}
	}
	return reported{Report: ReportOf(o.core, o.now(), o.verdict.Load(), o.at)}
}

// ReportOf returns the report of a core. now and verdict, when the store last answered, are on the
// clock of its steps; at converts times on that clock.
func ReportOf(c *core.Core, now, verdict int64, at func(int64) time.Time) state.Report {
	known := c.Report()
	r := state.Report{
		Leads: known.Leads, Stands: known.Stands, Loaded: known.Loaded, SealerURL: known.Hint,
		Parked: c.Parked(), Life: at(known.Life), InFlight: known.InFlight, Looked: at(known.Looked), Verdict: at(verdict),
	}
	if known.Oldest != 0 {
		r.Oldest = time.Duration(now - known.Oldest)
	}
	if s := c.State(); s != nil {
		r.Pos, r.Nonce, r.PrevCRC, r.Level = s.Pos, s.Nonce, s.PrevCRC, s.Level
		r.Ends = s.Promise == state.Ends
		r.Sealer, r.Promise = s.Sealer, time.Duration(s.Promise)*time.Millisecond
		// At this level each broker names its run. A recovery begins an epoch without a leader.
		r.Foreign = s.Sealer.IsZero() && s.Level >= state.LevelStandby && s.Pos.Epoch > 0 && !s.LossAccepted(s.Pos.Epoch-1)
		if s.AppendTime != 0 {
			r.Committed = time.UnixMicro(s.AppendTime)
		}
	}
	return r
}

// at is the time of a value of now; zero for 0.
func (l *Log) at(now int64) time.Time {
	if now == 0 {
		return time.Time{}
	}
	return l.start.Add(time.Duration(now) - firstNow)
}
