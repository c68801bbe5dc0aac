package httpapi

import (
	"net/http"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/broker"
)

// TestAFullState: what passes when objects are merged may be tried again, the rest may not; both say which limit to set.
func TestAFullState(t *testing.T) {
	for ranges, want := range map[bool]api.Code{false: api.StateFull, true: api.OverBudget} {
		err := &broker.StateFullError{Ranges: ranges, Max: 1 << 20}
		if p := problemOf(err); p.Code != want || p.Detail != err.Error() {
			t.Errorf("ranges %v: %s %q, want %s", ranges, p.Code, p.Detail, want)
		}
	}
	if api.Statuses[api.OverBudget] != http.StatusTooManyRequests {
		t.Error("producers would not try again")
	}
}
