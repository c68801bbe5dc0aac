package log

import (
	"fmt"
	"sync"

	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/log/core"
)

// health is the store's last answer.
type health struct {
	mu   sync.Mutex // guards last
	last error
}

// note records an answer and says whether it is of another kind than the one before.
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

// StoreFault returns the store's last answer if that was an error, else nil.
func (l *Log) StoreFault() error { return l.health.err() }

// Ready returns nil if the log leads (or follows, if that is all it is to do), the last answer of the store was good and
// the clock is right; else an error that says what is missing. It makes no request.
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

// setRole handles EffRole. The status is set already.
func (o *owner) setRole(e *core.Effect) {
	failpoint.Hit("role")
	log := o.opt.Logger.With("shard", o.opt.Core.Shard, "epoch", e.Epoch)
	switch e.Role {
	case core.RoleFenced:
		log.Warn("fenced: another broker leads", "leader", e.Leader)
	case core.RoleStopped:
		log.Error("log stopped", "err", e.Err)
	default:
		log.Info("log role", "role", e.Role.String())
	}
	if e.Role == core.RoleLeader {
		o.leads()
	}
	if e.Role == core.RoleStarting {
		return
	}
	o.decide.Do(func() { close(o.decided) })
	if e.Role == core.RoleFenced || e.Role == core.RoleStopped {
		o.finish.Do(func() { close(o.done) })
	}
}
