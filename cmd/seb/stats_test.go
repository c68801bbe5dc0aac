package main_test

import (
	"regexp"
	"testing"
)

// TestStatsAndSettings: each command prints a row for each figure or setting.
func TestStatsAndSettings(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("topic", "create", "t")
	for _, c := range []struct {
		args []string
		want string // regular expression of a line
	}{
		{[]string{"stats"}, `(?m)^store_puts +requests/s +\S+ +\S+`},
		{[]string{"stats", "--window", "24h"}, `LAST 24h\n`},
		{[]string{"stats", "--json"}, `"step_seconds": 10,`},
		{[]string{"latency"}, `(?m)^99\.9 +\S+s +\S+s\n`},
		{[]string{"latency", "--window", "start"}, `(?m)^values +[1-9]\d* +[1-9]`},
		{[]string{"latency", "--json"}, `"percentile": 99.999,`},
		{[]string{"topic", "settings"}, `(?m)^max-batch-bytes +1048588 +bytes from 0 to 31457280 +size of`},
		{[]string{"topic", "settings"}, `(?m)^key-index +false \(compact: true\) +false \| true`},
		{[]string{"topic", "settings", "--json"}, `"name": "retention-time"`},
	} {
		if got := p.must(c.args...); !regexp.MustCompile(c.want).MatchString(got) {
			t.Errorf("%v: %s, want a match of %s", c.args, got, c.want)
		}
	}
	p.refused(1, "want 1h, 6h or 24h", "stats", "--window", "2h")
	p.refused(1, "want 1h or start", "latency", "--window", "24h")
}
