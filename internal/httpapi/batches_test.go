package httpapi

import (
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/api"
	"github.com/sebbroker/seb/record"
)

// TestBatchesAreGivenWithoutAGap: one that does not fit ends the answer, also if the next one would.
func TestBatchesAreGivenWithoutAGap(t *testing.T) {
	s := start(t)
	for _, n := range []int{10, 1000, 20, 1000, 30} {
		s.mustPost("topic-name=t", api.TextPlain, strings.Repeat("x", n))
	}
	a := s.get("/records?topic-name=t&offset=0&max-records=100&max-bytes=500", api.RecordBatch)
	if sum, err := record.Verify(a.body); err != nil || sum.Span != 1 {
		t.Errorf("%+v, %v", sum, err)
	}
}
