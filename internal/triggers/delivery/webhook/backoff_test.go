package webhook_test

import (
	"math"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

var noon = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// The table of the specification: the time of each attempt after the first, without jitter.
func TestScheduleOfStandardWebhooks(t *testing.T) {
	want := []string{"0s", "5s", "5m5s", "35m5s", "2h35m5s", "7h35m5s", "17h35m5s", "31h35m5s", "51h35m5s", "75h35m5s"}
	b := webhook.DefaultBackoff()
	must.NoError(t, b.Validate())
	at, made := noon, 0
	for {
		next, again := b.Next(webhook.Outcome{Kind: webhook.Retry}, made, at, 0)
		if !again {
			break
		}
		at = next
		if made < len(want) && at.Sub(noon).String() != want[made] {
			t.Errorf("attempt %d after %v, want %s", made+1, at.Sub(noon), want[made])
		}
		made++
	}
	check.Equalf(t, made, len(want), "attempts")
}

func TestBackoffNext(t *testing.T) {
	b := webhook.DefaultBackoff()
	retry := func(after time.Duration) webhook.Outcome {
		return webhook.Outcome{Kind: webhook.Retry, RetryAfter: after}
	}
	for _, tt := range []struct {
		name   string
		o      webhook.Outcome
		made   int
		random float64
		wait   time.Duration
		again  bool
	}{
		{"delivered", webhook.Outcome{Kind: webhook.Delivered}, 1, 0, 0, false},
		{"permanent", webhook.Outcome{Kind: webhook.Permanent}, 1, 0, 0, false},
		{"no kind", webhook.Outcome{}, 1, 0, 0, false},
		{"a stopped attempt is not counted", webhook.Outcome{Kind: webhook.Stopped}, 10, 0.9, 0, true},
		{"jitter extends the delay", retry(0), 2, 0.5, 5*time.Minute + 30*time.Second, true},
		{"a longer Retry-After", retry(time.Hour), 1, 0, time.Hour, true},
		{"a longer Retry-After with jitter", retry(time.Hour), 1, 0.5, time.Hour + 6*time.Minute, true},
		{"a shorter Retry-After", retry(time.Second), 2, 0, 5 * time.Minute, true},
		{"a Retry-After of a year", retry(365 * 24 * time.Hour), 1, 0, 24 * time.Hour, true},
		{"the last attempt", retry(0), 9, 0, 24 * time.Hour, true},
		{"no attempts left", retry(time.Second), 10, 0, 0, false},
		{"an invalid count", retry(0), -1, 0, 0, false},
	} {
		next, again := b.Next(tt.o, tt.made, noon, tt.random)
		if again != tt.again || again && next.Sub(noon) != tt.wait {
			t.Errorf("%s: after %v, %v; want %v, %v", tt.name, next.Sub(noon), again, tt.wait, tt.again)
		}
	}
}

func TestBackoffValidate(t *testing.T) {
	for _, b := range []webhook.Backoff{
		{},
		{Delays: make([]time.Duration, 65)},
		{Delays: []time.Duration{-1}},
		{Delays: []time.Duration{8 * 24 * time.Hour}},
		{Delays: []time.Duration{0}, Jitter: -0.1},
		{Delays: []time.Duration{0}, Jitter: 1.1},
		{Delays: []time.Duration{0}, Jitter: math.NaN()},
	} {
		check.Error(t, b.Validate(), "%+v is accepted", b)
	}
}
