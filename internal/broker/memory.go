package broker

import "github.com/sebbroker/seb/internal/log/state"

// StateMemory returns about how many bytes of memory the state takes, and the limit.
func (b *Broker) StateMemory() (held state.Memory, most int64) {
	b.log.Read(func(s *state.State) { held = s.Memory() })
	return held, b.opt.Core.StateMax
}

// StateFull returns a *StateFullError if the state has reached its limit, so that nothing may be
// created; else nil. It makes no request.
func (b *Broker) StateFull() error {
	if held, most := b.StateMemory(); most > 0 && held.Sum() > most {
		return &StateFullError{Held: held, Max: most}
	}
	return nil
}
