package webhook_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func quietHours(t testing.TB, from, to, zone string) webhook.QuietHours {
	t.Helper()
	q := must.Get(webhook.ParseQuietHours(from, to, zone))(t)
	return q
}

func TestQuietHours(t *testing.T) {
	for _, tt := range []struct {
		name, from, to, zone string
		at, want             string // "": at
	}{
		{"in the middle of the day", "22:00", "07:00", "Europe/Berlin", "2026-01-15T12:00:00+01:00", ""},
		{"at its beginning", "22:00", "07:00", "Europe/Berlin", "2026-01-15T22:00:00+01:00", "2026-01-16T07:00:00+01:00"},
		{"just before", "22:00", "07:00", "Europe/Berlin", "2026-01-15T21:59:59.999999999+01:00", ""},
		{"after midnight", "22:00", "07:00", "Europe/Berlin", "2026-01-16T00:30:00.5+01:00", "2026-01-16T07:00:00+01:00"},
		{"at its end", "22:00", "07:00", "Europe/Berlin", "2026-01-16T07:00:00+01:00", ""},
		{"within a day", "12:00", "13:30", "UTC", "2026-01-15T12:00:01Z", "2026-01-15T13:30:00Z"},
		{"seen from another zone", "22:00", "07:00", "Asia/Tokyo", "2026-01-15T14:00:00Z", "2026-01-15T22:00:00Z"},
		{"the short night in spring", "22:00", "07:00", "Europe/Berlin", "2026-03-28T22:00:00+01:00", "2026-03-29T07:00:00+02:00"},
		{"the long night in autumn", "22:00", "07:00", "Europe/Berlin", "2026-10-24T22:00:00+02:00", "2026-10-25T07:00:00+01:00"},
		{"an end that the clock skips", "22:00", "02:30", "Europe/Berlin", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"an end at the gap", "22:00", "02:00", "Europe/Berlin", "2026-03-29T01:00:00+01:00", "2026-03-29T03:00:00+02:00"},
		{"hours that the clock skips", "02:00", "03:00", "Europe/Berlin", "2026-03-29T01:59:59+01:00", ""},
		{"hours that the clock skips, after", "02:00", "03:00", "Europe/Berlin", "2026-03-29T03:00:00+02:00", ""},
		{"an end that comes twice", "22:00", "02:30", "Europe/Berlin", "2026-10-25T01:00:00+02:00", "2026-10-25T02:30:00+02:00"},
		{"the second time", "22:00", "02:30", "Europe/Berlin", "2026-10-25T02:10:00+01:00", "2026-10-25T02:30:00+01:00"},
		{"hours that come twice", "02:00", "03:00", "Europe/Berlin", "2026-10-25T02:00:00+02:00", "2026-10-25T03:00:00+01:00"},
		{"New York in spring", "21:00", "08:00", "America/New_York", "2026-03-08T01:30:00-05:00", "2026-03-08T08:00:00-04:00"},
		{"half an hour on Lord Howe", "22:00", "02:15", "Australia/Lord_Howe", "2026-10-04T01:00:00+10:30", "2026-10-04T02:30:00+11:00"},
		{"a day that Samoa left out", "22:00", "07:00", "Pacific/Apia", "2011-12-29T23:00:00-10:00", "2011-12-31T07:00:00+14:00"},
		{"no change of clocks", "22:00", "07:00", "Asia/Kolkata", "2026-03-29T01:00:00+05:30", "2026-03-29T07:00:00+05:30"},
	} {
		at, err := time.Parse(time.RFC3339Nano, tt.at)
		must.NoError(t, err)
		want := at
		if tt.want != "" {
			if want, err = time.Parse(time.RFC3339Nano, tt.want); err != nil {
				t.Fatal(err)
			}
		}
		q := quietHours(t, tt.from, tt.to, tt.zone)
		if got := q.Next(at); !got.Equal(want) {
			t.Errorf("%s: %s-%s %s at %s: %s, want %s", tt.name, tt.from, tt.to, tt.zone, tt.at, got, want)
		}
	}
}

// TestQuietHoursAgainstClocks compares with the clock of every minute around each clock change of
// several zones in a year.
func TestQuietHoursAgainstClocks(t *testing.T) {
	for _, zone := range []string{"Europe/Berlin", "America/Santiago", "Australia/Lord_Howe", "Africa/Casablanca", "America/St_Johns", "UTC"} {
		loc := must.Get(time.LoadLocation(zone))(t)
		for _, hours := range [][2]string{{"22:00", "07:00"}, {"23:30", "02:30"}, {"02:00", "03:00"}, {"00:00", "01:15"}, {"01:45", "01:44"}} {
			q := quietHours(t, hours[0], hours[1], zone)
			start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
			for _, change := range changes(loc, start, start.AddDate(1, 0, 0)) {
				from, until := change.Add(-26*time.Hour), change.Add(50*time.Hour)
				want := until // for minutes from the last to the first
				for at := until; !at.Before(from); at = at.Add(-time.Minute) {
					if clock := at.In(loc).Format("15:04"); !between(clock, hours[0], hours[1]) {
						want = at
					} else if want.Equal(until) {
						continue
					}
					if got := q.Next(at); !got.Equal(want) {
						t.Fatalf("%s %s-%s at %s: %s, want %s", zone, hours[0], hours[1], at.In(loc), got.In(loc), want.In(loc))
					}
				}
			}
		}
	}
}

func between(clock, from, to string) bool {
	if from < to {
		return clock >= from && clock < to
	}
	return clock >= from || clock < to
}

func changes(loc *time.Location, from, to time.Time) []time.Time {
	all := []time.Time{from}
	for at := from.In(loc); ; {
		_, end := at.ZoneBounds()
		if end.IsZero() || end.After(to) {
			return all
		}
		all = append(all, end)
		at = end
	}
}

func TestParseQuietHours(t *testing.T) {
	for _, tt := range [][3]string{
		{"22", "07:00", "UTC"},
		{"22:00", "24:00", "UTC"},
		{"22:00", "7:00", "UTC"},
		{"22:00", "07:60", "UTC"},
		{"22:00", "22:00", "UTC"},
		{"22:00", "07:00", ""},
		{"22:00", "07:00", "Local"},
		{"22:00", "07:00", "local"},
		{"22:00", "07:00", "Europe/Nowhere"},
		{"22:00", "07:00", "../../etc/passwd"},
		{"", "", ""},
	} {
		check.Error(t, check.Err(webhook.ParseQuietHours(tt[0], tt[1], tt[2])), "%q is accepted", tt)
	}
}

func TestCap(t *testing.T) {
	ago := func(d ...time.Duration) (past []time.Time) {
		for _, d := range d {
			past = append(past, noon.Add(-d))
		}
		return past
	}
	hourly := webhook.Cap{Count: 2, Per: time.Hour}
	for _, tt := range []struct {
		name string
		cap  webhook.Cap
		past []time.Time
		wait time.Duration
	}{
		{"none", webhook.Cap{}, ago(0, 0, 0), 0},
		{"nothing yet", hourly, nil, 0},
		{"one of two", hourly, ago(0), 0},
		{"two of two", hourly, ago(50*time.Minute, 20*time.Minute), 10 * time.Minute},
		{"in any order", hourly, ago(20*time.Minute, 50*time.Minute, 9*time.Hour), 10 * time.Minute},
		{"one is just over", hourly, ago(time.Hour, 20*time.Minute), 0},
		{"more than the cap", hourly, ago(30*time.Minute, 20*time.Minute, 10*time.Minute), 40 * time.Minute},
		{"times after now", hourly, ago(-time.Minute, -2*time.Minute), 61 * time.Minute},
	} {
		before := slices.Clone(tt.past)
		check.Equalf(t, tt.cap.Next(noon, tt.past).Sub(noon), tt.wait, "%s: after", tt.name)
		if !slices.Equal(before, tt.past) {
			t.Errorf("%s: past was modified", tt.name)
		}
	}
	for _, c := range []webhook.Cap{{Count: 1}, {Per: 1}, {Count: -1, Per: 1}, {Count: 1001, Per: 1}, {Count: 1, Per: 400 * 24 * time.Hour}} {
		check.Error(t, c.Validate(), "%+v is accepted", c)
	}
}

func TestCooldown(t *testing.T) {
	c := webhook.Cooldown(time.Hour)
	for _, tt := range []struct {
		c    webhook.Cooldown
		last time.Time
		want bool
	}{
		{c, time.Time{}, false},
		{c, noon, true},
		{c, noon.Add(-time.Hour + 1), true},
		{c, noon.Add(-time.Hour), false},
		{0, noon, false},
	} {
		check.Equalf(t, tt.c.Suppresses(noon, tt.last), tt.want, "%v after %v", tt.c, noon.Sub(tt.last))
	}
}

// TestRulesTogether delivers at the first allowed time and checks all deliveries.
func TestRulesTogether(t *testing.T) {
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 1))
	for range 200 {
		r := webhook.Rules{
			Quiet: quietHours(t, "21:00", "09:00", "Europe/Berlin"),
			Cap:   webhook.Cap{Count: 1 + random.IntN(4), Per: time.Duration(1 + random.Int64N(int64(40*time.Hour)))},
		}
		var past []time.Time
		for at := noon; len(past) < 20; {
			next := r.Next(at, past)
			if next.Before(at) || !r.Quiet.Next(next).Equal(next) || !r.Cap.Next(next, past).Equal(next) || !r.Next(next, past).Equal(next) {
				t.Fatalf("seed %d: %+v at %v after %v: %v", seed, r.Cap, at, past, next)
			}
			past = append(past, next)
			at = next.Add(time.Duration(random.Int64N(int64(5 * time.Hour))))
		}
		for i := r.Cap.Count; i < len(past); i++ {
			if past[i].Sub(past[i-r.Cap.Count]) < r.Cap.Per {
				t.Fatalf("seed %d: %+v: %v", seed, r.Cap, past)
			}
		}
	}
}
