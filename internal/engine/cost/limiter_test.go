package cost_test

import (
	"bytes"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// standard is the default budget.
const standard = "default"

func newLimiter(budget string, now func() time.Time) *cost.Limiter {
	prices, _ := cost.Preset("s3-standard")
	s, err := cost.ParseSetting(strings.TrimPrefix(budget, standard))
	if err != nil {
		panic(err)
	}
	l, err := cost.NewLimiter(cost.LimiterOptions{Setting: s, Prices: prices, Wait: wait, Logger: slog.New(slog.DiscardHandler), Now: now})
	if err != nil {
		panic(err)
	}
	return l
}

// newBudgeted returns a broker with a budget.
func newBudgeted(c *chain, budget string) *broker {
	b := &broker{chain: c, budget: budget}
	b.open()
	return b
}

// TestBudgetIsCountedFromTheLog: a restart changes neither what the month has used nor the last hour,
// with the data folder or without.
func TestBudgetIsCountedFromTheLog(t *testing.T) {
	for name, folder := range map[string]func(b *broker){
		"kept":                func(b *broker) { b.meter.Close() },
		"kept, after a kill":  func(*broker) {},
		"lost":                func(b *broker) { b.saved = nil },
		"lost, slots deleted": func(b *broker) { b.saved = nil; b.collect(300) },
	} {
		b := newBudgeted(newChain(november), "20USD/month")
		b.meter.Sample()
		b.write(20_000, 6*time.Second)
		b.meter.Sample()
		b.write(100, 6*time.Second)
		before := *b.meter.Report().PutBudget
		folder(b)
		b.kill()
		after := *b.meter.Report().PutBudget
		// The SEAL, and its second PUT; without the folder the allowance of the month for other requests.
		least, most := before.UsedPuts+2, before.UsedPuts+6
		if b.saved == nil || strings.HasPrefix(name, "lost") {
			least, most = before.UsedPuts+int64(0.017*4e6)-10, before.UsedPuts+int64(0.017*4e6)+10
		}
		if name == "lost, slots deleted" { // charged as if the tokens of 33 hours were used up
			passed := b.now.Sub(november).Hours() / 720
			least = int64(4e6*(0.03+0.97*passed)) - 10
			most = least + 20
		}
		if after.UsedPuts < least || after.UsedPuts > most || after.Puts != 4e6 {
			t.Errorf("%s: %d PUTs of %d used after a restart, %d before, want %d to %d", name, after.UsedPuts, after.Puts, before.UsedPuts, least, most)
		}
	}
}

// TestLastHourAfterARestart: a broker with the default budget waits as it did before.
func TestLastHourAfterARestart(t *testing.T) {
	for name, c := range map[string]struct {
		every time.Duration // between objects: 14,000 an hour are the budget's rate
		lose  func(b *broker)
		least time.Duration
		most  time.Duration
	}{
		"sparse":                      {10 * time.Second, nil, 0, 0},
		"sparse, folder lost":         {10 * time.Second, func(b *broker) { b.saved = nil }, 0, 0},
		"busy":                        {time.Second, nil, wait, wait},
		"busy, folder lost":           {time.Second, func(b *broker) { b.saved = nil }, wait, wait},
		"busy, lost, slots deleted":   {time.Second, func(b *broker) { b.saved = nil; b.collect(500) }, wait, wait},
		"sparse, lost, slots deleted": {10 * time.Second, func(b *broker) { b.saved = nil; b.collect(50) }, 0, 0},
		"15 %":                        {1700 * time.Millisecond, nil, 100 * time.Millisecond, 150 * time.Millisecond},
		"15 %, folder lost":           {1700 * time.Millisecond, func(b *broker) { b.saved = nil }, 100 * time.Millisecond, 150 * time.Millisecond},
		"the store does not answer":   {10 * time.Second, func(b *broker) { b.saved, b.err = nil, errors.New("no answer") }, wait, wait},
	} {
		b := newBudgeted(newChain(november), standard)
		for range 2 * time.Hour / (10 * c.every) {
			for range 10 {
				b.limiter.Left(false)
				b.write(1, c.every)
			}
			b.meter.Sample()
		}
		if c.lose != nil {
			c.lose(b)
		}
		b.now = b.now.Add(20 * time.Second)
		b.kill()
		if p := b.limiter.Next(); p.Wait < c.least || p.Wait > c.most {
			t.Errorf("%s: %+v, want a wait of %v to %v", name, p, c.least, c.most)
		}
	}
}

// TestCrashLoopSavesNoTokens: a broker that starts every minute, with or without its data folder,
// stores no more objects than one that runs.
func TestCrashLoopSavesNoTokens(t *testing.T) {
	sebtest.Long(t, "TestMonthsStayInTheBudget remains")
	for _, lose := range []bool{false, true} {
		run := func(restart bool) (objects int64) {
			b := newBudgeted(newChain(november), "5USD/month")
			b.write(30_000-1, 0) // the tokens of the begin of the month
			starts := int64(0)
			b.meter.Sample()
			for range 60 {
				for end := b.now.Add(time.Minute); b.now.Before(end); {
					p := b.limiter.Next()
					b.limiter.Left(false)
					b.write(1, max(p.Wait, p.Gap, 60*time.Millisecond))
				}
				if b.meter.Sample(); restart && lose {
					b.saved = nil
				}
				if restart {
					b.kill()
					starts++
				}
			}
			return b.since(november) - 30_000 - starts // which have a SEAL each
		}
		if with, without := run(true), run(false); with > without {
			t.Errorf("lost folder %v: %d objects in an hour with restarts, %d without", lose, with, without)
		}
	}
}

// TestExceededBudgetWarns: the log says by how much, at most once an hour.
func TestExceededBudgetWarns(t *testing.T) {
	b := newBudgeted(newChain(november), "5USD/month")
	var text bytes.Buffer
	prices, _ := cost.Preset("s3-standard")
	s := must.Get(cost.ParseSetting(b.budget))(t)
	l := must.Get(cost.NewLimiter(cost.LimiterOptions{
		Setting: s, Prices: prices, Wait: wait, Logger: slog.New(slog.NewTextHandler(&text, nil)), Now: func() time.Time { return b.now },
	}))(t)
	m := cost.Open(cost.Options{Log: b.chain, Requests: b.sent, Prices: prices, Limiter: l, Store: "s3://c", Logger: slog.New(slog.DiscardHandler), Now: func() time.Time { return b.now }})
	m.Sample()
	if p := l.Next(); p.Wait != 0 || l.Short() {
		t.Errorf("%+v at the begin", p)
	}
	for range 120 {
		b.write(2000, 30*time.Millisecond)
		m.Sample()
	}
	f, r := l.Figures(), m.Report().PutBudget
	if f.Exceeded < 0.19 || f.Exceeded > 0.23 || f.Interval < 5*time.Second || !l.Short() || r.Exceeded != f.Exceeded || r.ExceededDollars < 0.9 || r.IntervalMillis != f.Interval.Milliseconds() {
		t.Errorf("%+v, %+v, want about 21 %% more than the budget", f, r)
	}
	if got := text.String(); strings.Count(got, "PUT budget exceeded") != 2 || !strings.Contains(got, "exceeded_by=1.") {
		t.Errorf("%s, want two warnings in two hours", got)
	}
}

// TestObjectsOfAnotherLeader: a standby counts the last hour of the leader that it follows.
func TestObjectsOfAnotherLeader(t *testing.T) {
	b := newBudgeted(newChain(november), standard)
	for range 60 {
		b.write(30, time.Second)
		b.limiter.Left(false) // one of its own
		b.meter.Sample()
	}
	if p := b.limiter.Next(); p.Wait < 50*time.Millisecond || p.Wait > 100*time.Millisecond {
		t.Errorf("1,800 objects in half an hour, 12.9 %% of the rate: %+v", p)
	}
	for range 60 {
		b.write(60, time.Second)
		b.meter.Sample()
	}
	if p := b.limiter.Next(); p.Wait != wait {
		t.Errorf("an object each second: %+v", p)
	}
}

// TestBeforeTheFirstCount: objects have the fixed wait.
func TestBeforeTheFirstCount(t *testing.T) {
	l := newLimiter("5/s", func() time.Time { return november })
	check.Equal(t, l.Next(), log.Pace{Wait: wait, Busy: wait})
}
