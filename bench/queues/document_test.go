package queues

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/test/must"
)

// TestWrite: a loss of messages and a figure in which Seb is worse are shown.
func TestWrite(t *testing.T) {
	f := &File{}
	for round := 1; round <= 2; round++ {
		for i := range systems {
			for _, l := range loads(time.Second) {
				f.Runs = append(f.Runs, Run{System: systems[i].label, Round: round, Load: l, Figures: Figures{
					Sent: 100, PerSecond: float64(1000 + 10*i), ServerCPU: float64(50 + i), ClientCPU: 5, Times: map[string]time.Duration{"p50": time.Millisecond, "p99": 3 * time.Millisecond},
				}})
			}
		}
	}
	f.Runs[0].Lost = 7
	slow := &f.Runs[len(f.Runs)-1] // of Redis, at the rate with batches of 10
	slow.PerSecond = 900
	f.Flushes = []Flush{{"River", time.Millisecond, 2 * time.Millisecond}}
	begin, end := report.Marks(program, section)
	name := filepath.Join(t.TempDir(), "queues.md")
	must.NoError(t, os.WriteFile(name, []byte("before\n"+begin+end+"after\n"), 0o600))
	must.NoError(t, f.Write(name))
	text := string(must.Get(os.ReadFile(name))(t))
	for _, want := range []string{
		"before\n", "after\n", "| River | **0.97** | 0.94 | 1.00 |", "7 of 100 messages did not come within 20s", "| messages/s, of River: at least 1, batches of 1 | 0.97 | **missed** | 0.98 | **missed** | 0.99 | **missed** |",
		"so it does **not** wait", "(queues.svg)", "| 1ms |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	must.Get(os.Stat(filepath.Join(filepath.Dir(name), "queues.svg")))(t)
}
