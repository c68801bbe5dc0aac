package queue

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestScheduleTimes: a skipped hour runs at its end, a doubled one once.
func TestScheduleTimes(t *testing.T) {
	const layout = "2006-01-02T15:04Z07:00"
	for _, c := range []struct {
		cron, zone, from string
		want             []string
	}{
		{"0 9 * * MON", "Europe/Copenhagen", "2026-03-28T00:00Z", []string{"2026-03-30T09:00+02:00", "2026-04-06T09:00+02:00"}},
		{"30 2 * * *", "Europe/Copenhagen", "2026-03-28T00:00Z", []string{"2026-03-28T02:30+01:00", "2026-03-29T03:00+02:00", "2026-03-30T02:30+02:00"}},
		{"30 2 * * *", "Europe/Copenhagen", "2026-10-24T00:00Z", []string{"2026-10-24T02:30+02:00", "2026-10-25T02:30+02:00", "2026-10-26T02:30+01:00"}},
		{"*/30 * * * *", "Europe/Copenhagen", "2026-10-24T23:50Z", []string{"2026-10-25T02:00+02:00", "2026-10-25T02:30+02:00", "2026-10-25T03:00+01:00"}},
		{"30 * * * *", "Europe/Copenhagen", "2026-03-29T00:00Z", []string{"2026-03-29T01:30+01:00", "2026-03-29T03:00+02:00", "2026-03-29T03:30+02:00"}},
		{"0 0 * * *", "America/Santiago", "2026-09-05T12:00Z", []string{"2026-09-06T01:00-03:00", "2026-09-07T00:00-03:00"}},
		{"0 9 * * *", "Pacific/Apia", "2011-12-29T20:00Z", []string{"2011-12-31T00:00+14:00", "2011-12-31T09:00+14:00"}}, // without the 30th
		{"0 0 29 2 *", "", "2026-01-01T00:00Z", []string{"2028-02-29T00:00Z", "2032-02-29T00:00Z"}},
		{"0 0 * * 7", "", "2026-11-28T00:00Z", []string{"2026-11-29T00:00Z", "2026-12-06T00:00Z"}},
		{"0 0 * * 2,6-7", "", "2026-11-24T00:00Z", []string{"2026-11-28T00:00Z", "2026-11-29T00:00Z", "2026-12-01T00:00Z"}},
		{"@daily", "America/New_York", "2026-11-01T00:00Z", []string{"2026-11-01T00:00-04:00", "2026-11-02T00:00-05:00"}},
	} {
		s := Schedule{Name: "s", Cron: c.cron, Zone: c.zone}
		p := must.Get(s.parse(1))(t)
		at := must.Get(time.Parse(layout, c.from))(t)
		for _, want := range c.want {
			if at = p.after(at); at.In(p.zone).Format(layout) != want {
				t.Errorf("%s in %s: %s, want %s", c.cron, c.zone, at.In(p.zone).Format(layout), want)
			}
		}
	}
}

// TestMissedRuns: one, none, or all of them.
func TestMissedRuns(t *testing.T) {
	p := must.Get((&Schedule{Name: "s", Cron: "0 * * * *"}).parse(1))(t)
	first := time.Date(2026, 1, 1, 1, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		missed string
		after  time.Duration
		times  int
		next   int // hours after the first
	}{
		{"", 0, 1, 1},
		{RunOnce, 5*time.Hour + time.Second, 1, 6},
		{Skip, 5*time.Hour + time.Second, 1, 6},
		{Skip, 5*time.Hour + 2*time.Minute, 0, 6},
		{RunAll, 5*time.Hour + time.Second, 6, 6},
		{RunAll, 1000 * time.Hour, runsMax, runsMax},
		{RunOnce, 5 * 365 * 24 * time.Hour, 1, 5*365*24 + 1},
	} {
		times, next := p.runs(c.missed, first, first.Add(c.after))
		if len(times) != c.times || !next.Equal(first.Add(time.Duration(c.next)*time.Hour)) {
			t.Errorf("%s after %s: %d times, next at %s", c.missed, c.after, len(times), next)
		}
	}
}

// TestBadSchedules: each has an error that names its field.
func TestBadSchedules(t *testing.T) {
	for i, s := range []Schedule{
		{Cron: "* * * * *"},
		{Name: "a\nb", Cron: "* * * * *"},
		{Name: strings.Repeat("x", 129), Cron: "* * * * *"},
		{Name: "s", Cron: "* * * *"},
		{Name: "s", Cron: "61 * * * *"},
		{Name: "s", Cron: "TZ=UTC * * * * *"},
		{Name: "s", Cron: "0 0 30 2 *"},
		{Name: "s", Cron: "* * * * *", Zone: "Mars"},
		{Name: "s", Cron: "* * * * *", Missed: "never"},
		{Name: "s", Cron: "* * * * *", Priority: 1},
		{Name: "s", Cron: "* * * * *", Headers: []record.Header{{Key: "seb-x"}}},
	} {
		if _, err := s.parse(1); err == nil {
			t.Errorf("schedule %d is accepted: %s", i, fmt.Sprint(s))
		}
	}
}
