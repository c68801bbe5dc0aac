package interop

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// limitSeries are series that are over and under the limit of each expression in the guide, by the limit.
// "@" is the label instance. "0+97" rises by 97 each minute.
var limitSeries = map[string]struct{ over, under []string }{
	"state, triggers, members of groups": {
		[]string{`seb_memory_reserved_bytes{@, class="groups"} 81`, `seb_memory_limit_bytes{@, class="groups"} 100`},
		[]string{
			`seb_memory_reserved_bytes{@, class="state"} 80`, `seb_memory_limit_bytes{@, class="state"} 100`,
			`seb_memory_reserved_bytes{@, class="tail"} 100`, `seb_memory_limit_bytes{@, class="tail"} 100`,
		},
	},
	"connections over HTTP": {
		[]string{`seb_http_connections{@} 81`, `seb_http_connections_limit{@} 100`},
		[]string{`seb_http_connections{@} 80`, `seb_http_connections_limit{@} 100`},
	},
	"connections of Kafka clients": {
		[]string{`seb_kafka_connections{@} 81`, `seb_kafka_connections_limit{@} 100`},
		[]string{`seb_kafka_connections{@} 80`, `seb_kafka_connections_limit{@} 100`},
	},
	"idempotent producers": {
		[]string{`seb_producers{@} 81`, `seb_producers_limit{@} 100`},
		[]string{`seb_producers{@} 80`, `seb_producers_limit{@} 100`},
	},
	"CPU, here of two cores":           {[]string{`process_cpu_seconds_total{@} 0+97`}, []string{`process_cpu_seconds_total{@} 0+95`}},
	"a consumer that does not keep up": {[]string{`seb_group_lag_records{@, group="g"} 0+1`}, []string{`seb_group_lag_records{@, group="g"} 100-1`}},
}

// TestExpressionsOfTheGuide: Prometheus evaluates each expression of docs/guide/grow.md, which finds the series
// over the limit and not those under it.
func TestExpressionsOfTheGuide(t *testing.T) {
	testenv.InteropWanted(t)
	guide := string(must.Get(os.ReadFile("../../docs/guide/grow.md"))(t))
	rows := regexp.MustCompile("(?m)^\\| ([^|]+) \\| `([^`]+)` \\| .* \\|$").FindAllStringSubmatch(guide, -1)
	if len(rows) != len(limitSeries) {
		t.Fatalf("the guide has %d expressions, want %d", len(rows), len(limitSeries))
	}
	var b strings.Builder
	b.WriteString("evaluation_interval: 1m\ntests:\n")
	for _, row := range rows {
		series, ok := limitSeries[row[1]]
		if !ok {
			t.Fatalf("no series for the limit %q", row[1])
		}
		// In a table of Markdown, | is \|.
		fmt.Fprintf(&b, "  - interval: 1m\n    input_series:\n%s%s", input(series.over, "over"), input(series.under, "under"))
		fmt.Fprintf(&b, "    promql_expr_test:\n      - expr: 'count by (instance) (%s)'\n        eval_time: 40m\n", strings.ReplaceAll(row[2], `\|`, "|"))
		b.WriteString("        exp_samples: [{labels: '{instance=\"over\"}', value: 1}]\n")
	}
	file := filepath.Join(t.TempDir(), "test.yml")
	must.NoError(t, os.WriteFile(file, []byte(b.String()), 0o600))
	dir := must.Get(testenv.Debian(t.Context(), "prometheus"))(t)
	if _, err := testenv.Command(t.Context(), filepath.Dir(file), filepath.Join(dir, "usr/bin/promtool"), "test", "rules", file); err != nil {
		t.Errorf("%v\n%s", err, b.String())
	}
}

// input returns series as those of a test of promtool.
func input(list []string, instance string) string {
	var b strings.Builder
	for _, s := range list {
		i := strings.LastIndex(s, " ")
		values := s[i+1:]
		if !strings.ContainsAny(values, "+-") {
			values += "+0"
		}
		fmt.Fprintf(&b, "      - {series: '%s', values: %sx40}\n", strings.ReplaceAll(s[:i], "@", `instance="`+instance+`"`), values)
	}
	return b.String()
}
