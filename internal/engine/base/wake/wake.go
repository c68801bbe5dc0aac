// Package wake wakes a goroutine that waits in a select.
package wake

// Signal is a channel that holds at most one value. Several Sends before a receive wake once.
type Signal chan struct{}

// New returns a Signal that nothing has sent to.
func New() Signal { return make(Signal, 1) }

// Send wakes the receiver, now or at its next receive. It does not block.
func (s Signal) Send() {
	select {
	case s <- struct{}{}:
	default:
	}
}
