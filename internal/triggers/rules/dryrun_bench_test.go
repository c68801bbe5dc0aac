package rules

import (
	"fmt"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
)

// BenchmarkDryRun measures a dry run over 100,000 events of 10,000 entities, a tenth of which
// matters.
func BenchmarkDryRun(b *testing.B) {
	s := benchEngine(b)
	d := s.definition("t", `"event-1" THEN (NOT "event-2" WITHIN 7 days)`, func(d *rule.Definition) { d.Fire = rule.OnEdge })
	n := fill(b, s, 100_000, 10_000, 20)
	for _, sample := range []int{1, 16} {
		b.Run(fmt.Sprintf("sample=%d", sample), func(b *testing.B) {
			before, runs := machine.CPUTime(), 0
			for b.Loop() {
				runs++
				run, err := (&Engine{opt: s.opt}).DryRun(b.Context(), d, DryRunOptions{TrialOptions: rule.TrialOptions{Limit: 64 << 20, Sample: sample}})
				if err != nil || run.Seen() < n/20 {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((machine.CPUTime()-before)/time.Duration(runs))/1e6, "cpu-ms/op")
			b.ReportMetric(float64(n), "events/op")
		})
	}
}
