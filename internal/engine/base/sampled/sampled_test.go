package sampled_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/sampled"
	"github.com/sebbroker/seb/test/check"
)

// TestLines: a source gets one line per message and minute, the next one counts the others, and very
// many sources share one line.
func TestLines(t *testing.T) {
	var out bytes.Buffer
	to := slog.New(slog.NewTextHandler(&out, nil))
	now := time.Unix(1_000_000, 0)
	l := sampled.Lines{Now: func() time.Time { return now }}
	lines := func() (n int) {
		n = strings.Count(out.String(), "\n")
		out.Reset()
		return n
	}
	for range 10 {
		l.Warn(to, sampled.Host("10.0.0.1:99"), "m", "k", 1)
		l.Warn(to, sampled.Host("[::1]:5"), "m")
		l.Log(to, slog.LevelError, "10.0.0.1", "n")
	}
	check.Equalf(t, lines(), 3, "lines of three keys")
	now = now.Add(time.Minute)
	l.Warn(to, "10.0.0.1", "m", "k", 1)
	check.Containsf(t, out.String(), "level=WARN msg=m k=1 others_before=9", "the next line")
	check.Equalf(t, lines(), 1, "lines a minute later")
	now = now.Add(time.Minute)
	for i := range 10_000 {
		l.Warn(to, fmt.Sprint(i), "m")
	}
	check.Equalf(t, lines(), 257, "lines of 10,000 sources")
	now = now.Add(time.Minute)
	l.Warn(to, "new", "m")
	check.Equalf(t, lines(), 1, "lines of a new source later")
}
