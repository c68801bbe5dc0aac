package torture

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	costsWarm    = flag.Duration("costs-warm", 0, "run time of the brokers of the cost table before counting begins (full run: 40m)")
	costsMeasure = flag.Duration("costs-measure", 3*time.Second, "time to count requests for the cost table (full run: 1h)")
)

// costRow is one broker of the cost table, with its own prefix and counting proxy.
type costRow struct {
	topics       int
	wait         time.Duration
	proxy        *testenv.S3Proxy
	node         *node.Node
	from, counts testenv.S3Counts
	sent, read   int64 // records; valid after stop
	stop         func()
}

// TestCosts counts the requests of brokers with default settings in 1/730 of a month, including
// merging, snapshots, collection and retention, and a consumer that keeps up. The brokers run
// concurrently.
func TestCosts(t *testing.T) {
	t.Parallel()
	server := testenv.CountedS3(t)
	topics := []int{1, 20, 1000}
	if *costsMeasure < time.Minute {
		topics = topics[:2]
	}
	var rows []*costRow
	for _, wait := range []time.Duration{250 * time.Millisecond, time.Second} {
		for _, n := range topics {
			rows = append(rows, startRow(t, server.Endpoint(), &costRow{topics: n, wait: wait}))
		}
	}
	watch(*costsWarm)
	begin := time.Now()
	for _, r := range rows {
		r.from = r.proxy.Counts()
	}
	watch(*costsMeasure)
	took := time.Since(begin) // longer on a busy machine
	for _, r := range rows {
		r.counts = r.proxy.Counts().Sub(r.from)
	}
	t.Logf("on %v; %v counted after %v; per hour:", machine.Here(), took.Round(time.Second), *costsWarm)
	hour := float64(time.Hour) / float64(took)
	prices, _ := cost.Preset("s3-standard")
	t.Log("| topics | batch wait | PUT | GET | LIST | DELETE | requests a month | one object per topic |")
	for _, r := range rows {
		r.stop()
		c := r.counts
		bill := func(puts, lists, gets int) float64 {
			return hour * cost.HoursPerMonth * (float64(puts)*prices.Put + float64(lists)*prices.List + float64(gets)*prices.Get) / 1e6
		}
		puts, gets, lists, deletes := c.Of(testenv.Put), c.Of(testenv.Get), c.Of(testenv.List), c.Of(testenv.Delete)
		t.Logf("| %d | %v | %.0f | %.0f | %.0f | %.0f | $%.2f | $%.2f |", r.topics, r.wait, hour*float64(puts), hour*float64(gets), hour*float64(lists),
			hour*float64(deletes), bill(puts, lists, gets), bill(c.Of(testenv.Put, "wal")*r.topics, 0, 0))
		t.Logf("  counted: %v; snapshots of at most %d bytes; %d records sent, %d read; %d packs", c, r.proxy.Puts()["snap"].Max, r.sent, r.read, len(r.node.View().Packs()))
		r.judge(t, took)
	}
}

// judge checks the counts.
func (r *costRow) judge(t *testing.T, took time.Duration) {
	t.Helper()
	// One per batch wait, for any number of topics; fewer on a slow machine.
	if slots := r.counts.Of(testenv.Put, "wal"); float64(slots) > 1.1*float64(took)/float64(r.wait)+5 {
		t.Errorf("%d topics at %v: %d slots in %v", r.topics, r.wait, slots, took)
	}
	// The consumer reads from the tail or the cache, except for slots that arrive while the cache
	// has too many to write.
	if n := r.counts.Of(testenv.Get, "wal"); n > r.counts.Of(testenv.Put, "wal")/100 {
		t.Errorf("%d topics at %v: %d GETs of slots", r.topics, r.wait, n)
	}
	if other := r.counts.Total() - r.counts.Of(testenv.Put); took < time.Minute && other > 0 {
		t.Errorf("%d topics at %v: %d requests other than PUT, before any background work: %v", r.topics, r.wait, other, r.counts)
	}
	if r.sent < int64(r.topics) || r.read == 0 {
		t.Errorf("%d topics at %v: the consumer read %d of %d records", r.topics, r.wait, r.read, r.sent)
	}
}

// startRow starts a broker with default settings, producers that keep every topic busy, and a
// consumer of the first topic.
func startRow(t *testing.T, endpoint string, r *costRow) *costRow {
	t.Helper()
	var err error
	if r.proxy, err = testenv.NewS3Proxy(endpoint); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(r.proxy.Close)
	if r.node, err = node.Open(t.Context(), node.Options{
		Bucket: r.proxy.Spec(fmt.Sprintf("costs/%d-%v", r.topics, r.wait)), DataDir: t.TempDir(), CacheDir: t.TempDir(), CacheBytes: 1 << 30, BatchWait: r.wait,
	}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range r.topics {
		wg.Go(func() { // they share one slot
			spec := broker.TopicSpec{Settings: map[string]string{"retention-time": retention.String()}}
			if _, err := r.node.CreateTopic(t.Context(), fmt.Sprint("t", i), spec); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	ctx, cancel := context.WithCancel(t.Context())
	wg.Go(func() { r.read = consume(ctx, t, r.node) })
	wg.Go(func() { r.sent = keepBusy(ctx, t, r.node, r) })
	r.stop = sync.OnceFunc(func() {
		cancel()
		wg.Wait()
		check.NoError(t, r.node.Close(context.Background()))
	})
	t.Cleanup(r.stop)
	return r
}

// retention of every topic: short enough to take effect within the hour.
const retention = 20 * time.Minute

// ticksPerWait is how evenly the records of a row are spread, so that an object is begun soon after
// the previous one was frozen.
const ticksPerWait = 25

// keepBusy sends a record to each topic per batch wait, or more often with few topics, until ctx
// ends. Each topic has an idempotent producer.
func keepBusy(ctx context.Context, t *testing.T, n *node.Node, row *costRow) (sent int64) {
	tick := time.NewTicker(row.wait / ticksPerWait)
	defer tick.Stop()
	value := []byte(strings.Repeat("x", 100))
	sequences := make([]int32, row.topics)
	var waiting sync.WaitGroup
	defer waiting.Wait()
	for next := 0; ; {
		select {
		case <-ctx.Done():
			return sent
		case <-tick.C:
		}
		appends := make([]broker.Append, max(1, row.topics/ticksPerWait))
		for i := range appends {
			to := next % row.topics
			next++
			data, sum := recordtest.Encode([]record.Record{{Value: value, Timestamp: time.Now().UnixMilli()}}, record.EncodeOptions{
				Producer: &record.Producer{ID: int64(to + 1), Sequence: sequences[to]},
			})
			sequences[to]++
			appends[i] = broker.Append{Topic: fmt.Sprint("t", to), Data: data, Summary: sum, ExpectedOffset: -1}
		}
		sent += int64(len(appends))
		ticket := n.Submit(t.Context(), appends)
		waiting.Go(func() {
			for _, r := range ticket.Wait(t.Context()) {
				check.NoErrorf(t, r.Err, "append")
			}
		})
	}
}

// consume follows the first topic until ctx ends.
func consume(ctx context.Context, t *testing.T, n *node.Node) (records int64) {
	for at := int64(0); ; {
		f, err := n.Fetch(ctx, []broker.Want{{Topic: "t0", Offset: at}}, 1, 30*time.Second)
		switch {
		case ctx.Err() != nil:
			return at
		case errors.Is(err, state.ErrOverBudget):
			continue
		case err != nil:
			t.Error(err)
			return at
		}
		part := &f.Parts[0]
		check.NoError(t, part.Err)
		for i := range part.Chunks {
			at = part.Chunks[i].End
		}
		f.Release()
	}
}
