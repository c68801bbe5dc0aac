package httpapi

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/test/must"
)

// TestReadersLeaveMemoryForSmallAnswers: while readers hold all the memory for answers to them, and
// another one waits, an operator sees the broker.
func TestReadersLeaveMemoryForSmallAnswers(t *testing.T) {
	s := everyRoute(t)
	fetch := s.b.Budget().Class(budget.Fetch)
	held := must.Get(fetch.Reserve(fetch.Limit() - fetch.Used()))(t)
	defer held.Release()
	for _, path := range []string{
		"/stats", "/stats?window=24h", "/latency", "/cost", "/status", "/metrics", "/topics", "/topic?topic-name=t", "/topic/offsets?topic-name=t&time=earliest",
		"/groups", "/groups?group=g", "/offsets?group=g", "/tokens", "/tokens/someone", "/acls", "/quotas", "/transactions", "/transactions?transactional-id=payments0", "/cluster", "/time", "/triggers",
	} {
		if a := s.get(path); a.status != 200 {
			t.Errorf("%s without memory for readers: %s", path, a)
		}
	}
}
