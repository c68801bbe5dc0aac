package driplang_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
)

func TestParseDuration(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"7 days": 7 * 24 * time.Hour, "1h30m": 90 * time.Minute, "1.5s": 1500 * time.Millisecond, " 250 ms ": 250 * time.Millisecond,
	} {
		d, err := driplang.ParseDuration(text)
		if err != nil || d != want {
			t.Errorf("%q is %s, %v", text, d, err)
		}
		again, err := driplang.ParseDuration(driplang.FormatDuration(d))
		if err != nil || again != d {
			t.Errorf("FormatDuration returns %s, which parses as %s, %v", driplang.FormatDuration(d), again, err)
		}
	}
	for _, text := range []string{"", "7", "7 parsecs", "0s", "-1s", "1d x", "11w1000000h", "1d THEN", strings.Repeat("1d", 10_000)} {
		if d, err := driplang.ParseDuration(text); err == nil {
			t.Errorf("%.40q is %s", text, d)
		}
	}
}
