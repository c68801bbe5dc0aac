package torture

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	budgetEvents   = flag.Int("budget-events", 10, "events of TestBudgetOfSparseEvents (full run: 2000)")
	budgetMedian   = flag.Float64("budget-median", 3, "largest median of their latency, in medians of a PUT (on a quiet machine: 1.2)")
	budgetRestarts = flag.Int("budget-restarts", 2, "starts of TestBudgetOfACrashLoop (full run: 60)")
)

// skipping is a clock that skips times in which nothing happens.
type skipping struct {
	begin   time.Time
	real    time.Time
	skipped atomic.Int64
}

func newSkipping(begin time.Time) *skipping { return &skipping{begin: begin, real: time.Now()} }

func (c *skipping) now() time.Time {
	return c.begin.Add(time.Since(c.real) + time.Duration(c.skipped.Load()))
}

// pass lets a time pass, of which the part beyond real is skipped.
func (c *skipping) pass(ctx context.Context, d, real time.Duration) {
	c.skipped.Add(int64(max(0, d-real)))
	select {
	case <-ctx.Done():
	case <-time.After(min(d, real)):
	}
}

func (c *skipping) reading() log.Reading {
	now := c.now()
	return log.Reading{Mono: int64(now.Sub(c.begin)) + 1, Wall: now.UnixMicro()}
}

// budgeted opens a broker with a budget at the clock.
func budgeted(t *testing.T, p *testenv.S3Proxy, c *skipping, dir, prefix, budget string) *node.Node {
	t.Helper()
	s := must.Get(cost.ParseSetting(budget))(t)
	n := must.Get(node.Open(t.Context(), node.Options{Bucket: p.Spec(prefix), DataDir: dir, PutBudget: s, CostClock: c.now, Clocks: c.reading}))(t)
	return n
}

// event stores a record and returns when it is acknowledged.
func event(ctx context.Context, t *testing.T, n *node.Node) time.Duration {
	t.Helper()
	begin := time.Now()
	if r := brokertest.Try(ctx, n, brokertest.Append("events", 0, recordtest.Values("an event")...)); r.Err != nil {
		t.Error(r.Err)
	}
	return time.Since(begin)
}

// puts returns a function that measures PUTs of small objects.
func puts(t *testing.T, p *testenv.S3Proxy) func() time.Duration {
	store := must.Get(anystore.Open(t.Context(), p.Spec("measured"), anystore.Options{}))(t)
	var n atomic.Int64
	return func() time.Duration {
		begin := time.Now()
		check.NoError(t, store.Put(context.WithoutCancel(t.Context()), strconv.FormatInt(n.Add(1), 10), objstore.NewBody([]byte("an event"))))
		return time.Since(begin)
	}
}

// TestBudgetOfSparseEvents: 10,000 events a day at the default budget, on a real S3 server whose
// requests take 60 ms longer. The times between events beyond 0.3 s are skipped. Maintenance
// is charged in full: the numbers that docs/reports/costs.md has for an hour of a broker with writes.
func TestBudgetOfSparseEvents(t *testing.T) {
	const (
		perDay = 10_000
		upkeep = 18 + 37 // PUTs and LISTs an hour
		quick  = 300 * time.Millisecond
	)
	p := testenv.CountedS3(t)
	c := newSkipping(time.Date(2026, 11, 1, 0, 30, 0, 0, time.UTC))
	n := budgeted(t, p, c, t.TempDir(), "sparse", "")
	defer func() { check.NoError(t, n.Close(context.Background())) }()
	must.Get(n.CreateTopic(t.Context(), "events", broker.TopicSpec{}))(t)
	n.Cost().Sample() // the budget counts from here on
	p.SetDelay(60 * time.Millisecond)
	before, began := p.Counts(), c.now()
	r := rand.New(rand.NewPCG(1, 1))
	took := make(chan [2]time.Duration, *budgetEvents) // of an event, and of a PUT behind it
	put := puts(t, p)
	for range *budgetEvents {
		c.pass(t.Context(), time.Duration(r.ExpFloat64()/perDay*float64(24*time.Hour)), quick)
		go func() { took <- [2]time.Duration{event(context.WithoutCancel(t.Context()), t, n), put()} }()
	}
	var all, single []time.Duration
	for range *budgetEvents {
		d := <-took
		all, single = append(all, d[0]), append(single, d[1])
	}
	slices.Sort(all)
	slices.Sort(single)
	counts := p.Counts().Sub(before)
	prices, _ := cost.Preset("s3-standard")
	month := 30 * 24 * float64(time.Hour)
	bill := (float64(counts.Of(testenv.Put, "wal"))*month/float64(c.now().Sub(began)) + upkeep*month/float64(time.Hour)) * prices.Put / 1e6
	median, one := all[len(all)/2], single[len(single)/2]
	t.Logf("%d events in %v: %v; p50 %v, of a PUT %v, p99 %v; $%.2f a month, of which $%.2f for maintenance", len(all), c.now().Sub(began).Round(time.Second), counts,
		median.Round(time.Millisecond), one.Round(time.Millisecond), all[len(all)*99/100].Round(time.Millisecond), bill, upkeep*month/float64(time.Hour)*prices.Put/1e6)
	if float64(median) > *budgetMedian*float64(one) {
		t.Errorf("median %v, want at most %v times %v, that of a PUT", median, *budgetMedian, one)
	}
	if *budgetEvents >= 1000 && bill > 2 { // few events have a random number in a time
		t.Errorf("$%.2f a month, want at most $2", bill)
	}
	const own = 3 // objects of the log itself, when it deletes garbage
	if wal := counts.Of(testenv.Put, "wal"); wal > *budgetEvents+own {
		t.Errorf("%d commit objects for %d events", wal, *budgetEvents)
	}
}

// TestBudgetOfACrashLoop: a broker that is killed and started every minute, and has a flood for two
// seconds of it, makes no more objects with the default budget than the fixed wait and the extra
// objects of a minute, with its data folder or without. The rest of the minute is skipped.
func TestBudgetOfACrashLoop(t *testing.T) {
	const (
		flood = 2 * time.Second
		start = 3 // its SEAL twice, and the object of the topic
		extra = 6 // in a minute: 52 dollars / 60, and one of the start
	)
	t.Parallel()
	p := testenv.CountedS3(t)
	dir := t.TempDir()
	c := newSkipping(time.Date(2026, 11, 1, 0, 30, 0, 0, time.UTC))
	var took time.Duration
	for i := range *budgetRestarts {
		if i%2 == 1 {
			dir = t.TempDir()
		}
		n := budgeted(t, p, c, dir, "loop", "")
		n.Cost().Sample() // the budget counts from here on
		must.NoError(t, n.EnsureTopic(t.Context(), "events"))
		began := time.Now()
		var waiting sync.WaitGroup
		for time.Since(began) < flood {
			c.pass(t.Context(), 10*time.Millisecond, 10*time.Millisecond)
			waiting.Go(func() { event(t.Context(), t, n) })
		}
		waiting.Wait()
		took += time.Since(began)
		c.pass(t.Context(), time.Minute-flood, 0)
		must.NoError(t, n.Close(context.Background()))
	}
	stored := p.Counts().Of(testenv.Put, "wal")
	fixed := int(took/(250*time.Millisecond)) + *budgetRestarts
	t.Logf("%d starts, %v of flood: %d PUTs of slots; the fixed wait makes at most %d, and the starts %d", *budgetRestarts, took.Round(time.Second), stored, fixed, start**budgetRestarts)
	if most := fixed + (start+extra)**budgetRestarts; stored > most {
		t.Errorf("%d PUTs of slots, want at most %d", stored, most)
	}
	n := budgeted(t, p, c, dir, "loop", "")
	n.Cost().Sample()
	used := n.Cost().Report().PutBudget.UsedPuts
	must.NoError(t, n.Close(context.Background()))
	if used < int64(stored)-int64(*budgetRestarts) { // the second PUT of each SEAL is in the folders
		t.Errorf("the budget counts %d PUTs, the store %d of slots", used, stored)
	}
}
