package auth

import "github.com/sebbroker/seb/internal/access"

// UseMeter makes the meter of a principal that is not in the table.
func (a *Authority) UseMeter(id string, q access.Quota) *Meter { return a.meters.meter(id, q) }

// Meters is the number of meters.
func (a *Authority) Meters() int {
	a.meters.mu.Lock()
	defer a.meters.mu.Unlock()
	return len(a.meters.all)
}
