package log

import (
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
)

// View returns an immutable copy of the committed state, or nil unless this log leads.
func (l *Log) View() *state.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.core.Role() != core.RoleLeader {
		return nil
	}
	return l.core.State().View()
}
