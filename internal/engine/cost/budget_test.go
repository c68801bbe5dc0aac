package cost_test

import (
	"math"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/test/must"
)

const wait = 250 * time.Millisecond

// paced makes objects leave as often as a budget lets them, with records that never stop, until a
// time.
func paced(b *cost.Budget, now, until time.Time) (n int, _ time.Time) {
	for now.Before(until) {
		b.Left(now, false)
		n++
		p := b.Next(now)
		now = now.Add(max(p.Busy, p.Gap))
	}
	return n, now
}

// TestMonthsStayInTheBudget: whatever came before, a month spends at most its budget and the object
// that was begun, and a month of work spends nearly all of it.
func TestMonthsStayInTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := cost.Limit{
			Month: rapid.Float64Range(1e4, 1e5).Draw(t, "month"), Wait: wait, Careful: rapid.Bool().Draw(t, "careful"),
			Share: rapid.SampledFrom([]float64{0, 0.25, 1}).Draw(t, "share"),
		}
		total := l.Month
		if l.Share > 0 {
			total *= l.Share
		}
		month := november.AddDate(0, rapid.IntRange(0, 11).Draw(t, "month of the year"), 0)
		end := month.AddDate(0, 1, 0)
		begin := month.Add(time.Duration(rapid.Float64Range(0, 1).Draw(t, "begin") * float64(end.Sub(month))))
		b := cost.NewBudget(l, begin)
		n, now := paced(b, begin, end)
		if float64(n) > total+1 {
			t.Fatalf("%d objects of %.0f", n, total)
		}
		// The rate of BatchAuto is not always enough to use up what was saved.
		if left := end.Sub(begin).Seconds() / wait.Seconds(); float64(n) < min(0.98*total, 0.9*left)-2 {
			t.Fatalf("%d objects of %.0f, and of %.0f with the fixed wait", n, total, left)
		}
		if n, _ = paced(b, now, now.AddDate(0, 0, 1)); float64(n) > 0.08*total+1 {
			t.Fatalf("%d objects of %.0f on the first day of the next month", n, total)
		}
	})
}

// TestBoundsOfTheBudget checks the pace after random calls.
func TestBoundsOfTheBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		l := cost.Limit{Month: rapid.Float64Range(3e5, 1e9).Draw(t, "month"), Wait: wait, Careful: rapid.Bool().Draw(t, "careful")}
		now := november
		b := cost.NewBudget(l, now)
		spent := 0.0
		longest := 31 * 24 * time.Hour.Seconds() / l.Month / 0.97
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				now = now.Add(time.Duration(rapid.Int64Range(-int64(time.Minute), int64(48*time.Hour)).Draw(t, "pass")))
			case 1:
				spent = rapid.Float64Range(0, 2*l.Month).Draw(t, "spent")
				b.Spent(now, november, spent)
			case 2:
				b.LastHour(now, rapid.Int64Range(0, 1e6).Draw(t, "hour"))
			case 3:
				b.Left(now, rapid.Bool().Draw(t, "extra"))
			}
			p := b.Next(now)
			if p.Wait < 0 || p.Wait > p.Busy || p.Busy > wait || p.Gap < 0 || p.Gap.Seconds() > 2*longest+1e-6 || !l.Careful && p.Wait > 0 {
				t.Fatalf("%+v", p)
			}
			if e := b.Exceeded(now); e > 0 && (p.Gap == 0 || !b.Short(now)) || e < 0 {
				t.Fatalf("%g exceeded, %+v", e, p)
			}
		}
	})
}

// TestRule has the steps of the rule, for the default budget.
func TestRule(t *testing.T) {
	prices, _ := cost.Preset("s3-standard")
	var standard cost.Setting
	l, err := standard.Limit(&prices, wait)
	if err != nil || l.Month != 52*1e6/5 || !l.Careful {
		t.Fatalf("%+v, %v", l, err)
	}
	second := 30 * 24 * 3600.0
	rate := 0.97 * l.Month / second
	hour := func(part float64) *cost.Budget {
		b := cost.NewBudget(l, november.Add(time.Hour))
		b.LastHour(november.Add(time.Hour), int64(part*rate*3600))
		return b
	}
	spent := func(part float64) *cost.Budget {
		b := cost.NewBudget(l, november)
		b.Spent(november, november, part*l.Month)
		return b
	}
	for name, c := range map[string]struct {
		budget *cost.Budget
		wait   time.Duration
		gap    float64 // in gaps that the budget sustains
	}{
		"nothing spent":            {hour(0), 0, 0},
		"an hour below 10 %":       {hour(0.0999), 0, 0},
		"an hour at 15 %":          {hour(0.15), wait / 2, 0},
		"an hour at 20 %":          {hour(0.2), wait, 0},
		"a busy hour":              {hour(1), wait, 0},
		"1.5 % of the month left":  {spent(0.015), 0, 0},
		"0.75 % of the month left": {spent(0.0225), 0, 0.25},
		"nothing left":             {spent(0.03), 0, 1},
		"more than that spent":     {spent(0.9), 0, 2},
	} {
		p := c.budget.Next(november)
		gap := p.Gap.Seconds() * rate
		if (p.Wait-c.wait).Abs() > time.Millisecond || math.Abs(gap-c.gap) > 1e-3 || p.Busy != wait {
			t.Errorf("%s: %+v, want a wait of %v and a gap of %g", name, p, c.wait, c.gap)
		}
	}

	if p := hour(1).Next(november.Add(2 * time.Hour)); p.Wait != 0 {
		t.Errorf("an hour after a busy one: %+v", p)
	}
	l.Careful = false
	b := cost.NewBudget(l, november)
	b.LastHour(november, 1e6)
	if p := b.Next(november); p.Wait != 0 {
		t.Errorf("a busy hour, not careful: %+v", p)
	}
}

// TestExtraObjects: one is there at the begin, and the next after its share of the budget was saved.
func TestExtraObjects(t *testing.T) {
	l := cost.Limit{Month: 10.4e6, Wait: wait, Careful: true}
	second := 30 * 24 * 3600.0
	b := cost.NewBudget(l, november)
	b.Left(november, true)
	if p := b.Next(november); p.Wait != wait {
		t.Errorf("after an extra object: %+v, want the fixed wait", p)
	}
	again := time.Duration(60 / (l.Month / second) * float64(time.Second))
	if p := b.Next(november.Add(again / 2)); (p.Wait - wait/2).Abs() > time.Millisecond {
		t.Errorf("after half of %v: %+v", again, p)
	}
	if p := b.Next(november.Add(again + time.Second)); p.Wait != 0 {
		t.Errorf("after %v: %+v", again, p)
	}
}

func TestFreeRequests(t *testing.T) {
	free := cost.NewBudget(cost.Limit{Wait: wait}, november)
	for range 1000 {
		free.Left(november, true)
	}
	if p := free.Next(november); p != (log.Pace{Busy: wait}) || free.Short(november) || free.Exceeded(november) != 0 {
		t.Errorf("free requests: %+v", p)
	}
}

func TestParseSetting(t *testing.T) {
	prices, _ := cost.Preset("r2")
	for text, want := range map[string]cost.Limit{
		"":             {Month: 10.4e6, Wait: wait, Careful: true},
		"20USD/month":  {Month: 20e6 / 4.5, Wait: wait},
		"20 USD/month": {Month: 20e6 / 4.5, Wait: wait},
		"1.5USD/month": {Month: 1.5e6 / 4.5, Wait: wait},
		"5/s":          {Second: 5, Wait: wait},
		"0.1/s":        {Second: 0.1, Wait: wait},
	} {
		s, err := cost.ParseSetting(text)
		if err != nil || s.Off() {
			t.Errorf("%q: off %v, %v", text, s.Off(), err)
			continue
		}
		if got, err := s.Limit(&prices, wait); err != nil || got != want {
			t.Errorf("%q: %+v, %v, want %+v", text, got, err, want)
		}
	}
	for _, text := range []string{"20", "0USD/month", "-1USD/month", "NaNUSD/month", "InfUSD/month", "20USD", "20EUR/month", "0/s", "USD/month", "/s", "1e300/s", "on"} {
		_, err := cost.ParseSetting(text)
		if err == nil || !strings.Contains(err.Error(), "20USD/month") || !strings.Contains(err.Error(), "5/s") {
			t.Errorf("%q: %v, want the form", text, err)
		}
	}
	if s, err := cost.ParseSetting("off"); err != nil || !s.Off() {
		t.Errorf("off: %v", err)
	}
	for text, want := range map[string]string{
		"1USD/month": "a PUT every 12.1s at the prices r2: want at least one every 10s, 1.21USD/month",
		"0.05/s":     "want at least 0.1/s",
	} {
		s, err := cost.ParseSetting(text)
		must.NoError(t, err)
		if _, err = s.Limit(&prices, wait); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", text, err, want)
		}
	}
	// PUTs without a price have no budget in dollars.
	free, _ := cost.Preset("b2")
	s := must.Get(cost.ParseSetting("20USD/month"))(t)
	if l, err := s.Limit(&free, wait); err != nil || l != (cost.Limit{Wait: wait}) {
		t.Errorf("%+v, %v", l, err)
	}
}
