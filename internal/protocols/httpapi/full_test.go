package httpapi

import (
	"net/http"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/check"
)

// TestFullState: limits that merging relieves allow a retry, others do not. Both errors name the
// limit to raise.
func TestFullState(t *testing.T) {
	for ranges, want := range map[bool]api.Code{false: api.StateFull, true: api.OverBudget} {
		err := &state.StateFullError{Ranges: ranges, Max: 1 << 20}
		if p := problemOf(err); p.Code != want || p.Detail != err.Error() {
			t.Errorf("ranges %v: %s %q, want %s", ranges, p.Code, p.Detail, want)
		}
	}
	check.Equalf(t, api.Statuses[api.OverBudget], http.StatusTooManyRequests, "the error does not allow a retry")
}
