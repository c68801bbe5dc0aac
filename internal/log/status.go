package log

import (
	"fmt"
	"sync"

	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/log/core"
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
	switch e.Role {
	case core.RoleFenced:
		log.Warn("fenced by another broker", "leader", e.Leader)
	case core.RoleStopped:
		log.Error("log stopped", "err", e.Err)
	default:
		log.Info("log role", "role", e.Role.String())
	}
	if e.Role == core.RoleLeader {
		o.startClock()
	}
	if e.Role == core.RoleStarting {
		return
	}
	o.decide.Do(func() { close(o.decided) })
	if e.Role == core.RoleFenced || e.Role == core.RoleStopped {
		o.finish.Do(func() { close(o.done) })
	}
}
