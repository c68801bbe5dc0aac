package httpconn

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestMemoryOfBodies: a small body of known length reserves little, so that each connection within the
// limit can have one; one of unknown length reserves room to grow.
func TestMemoryOfBodies(t *testing.T) {
	for _, c := range []struct{ declared, want int64 }{
		{1, 2 + smallSlack}, {smallBody, 2*smallBody + smallSlack}, {-1, (growMin + slackMin) * 9 / 8}, {64 << 10, (64<<10 + slackMin) * 9 / 8},
	} {
		class := budget.New(64 << 20).Class(budget.Produce)
		in := Body{R: httptest.NewRequest("POST", "/", strings.NewReader("x")), W: httptest.NewRecorder(), Max: 1 << 20, Memory: budget.Arena{Class: class}}
		in.R.ContentLength = c.declared
		must.NoError(t, in.Open())
		check.Equalf(t, class.Used(), c.want, "bytes reserved for a body of %d", c.declared)
		in.Memory.Release()
	}
}
