package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// term is the lifetime of one broker with the results of its clients.
type term struct {
	n     *Node
	set   *metrics.Set
	first int64 // records written before it began to lead

	mu      sync.Mutex // guards the following fields
	acked   map[string]position
	unknown map[string]bool
	appends int // acknowledged
	changes int // acknowledged trims and creations
}

// position is the position of a record.
type position struct {
	part   int32
	offset int64
}

const agreeParts = 2

// ledger has everything that was ever in the log, trimmed records included.
type ledger struct {
	there        map[string]position
	sum, unheard int64 // counted by all brokers; with an unknown outcome but stored
}

// TestMetricsAgreeWithTheLog: brokers are closed, killed and replaced on a faulty store. The
// records that each one counted equal the growth of the log while it led, except for stored records
// whose outcome was unknown to it and to its clients.
func TestMetricsAgreeWithTheLog(t *testing.T) {
	t.Parallel()
	rates := storetest.Rates{storetest.Before: .05, storetest.Lost: .1, storetest.Late: .05, storetest.Throttle: .03}
	faults := storetest.Faults{Put: rates, LatencyMax: 2 * time.Millisecond, LateMax: 20 * time.Millisecond}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	s := storetest.NewFaulty(objstore.NewMemory(), seed, storetest.Faults{})
	log := &ledger{there: map[string]position{}}
	l := log.begin(t, s)
	must.Get(l.n.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: agreeParts}))(t)
	l.changes++
	for run := range sebtest.Runs(8, 4) {
		quiet := run%4 == 0
		if !quiet {
			s.SetFaults(faults)
		}
		l.load(t, run, quiet)
		log.see(t, l.n)
		l.trim(t)
		switch run % 4 {
		case 0, 1:
			shut(t, l.n)
		case 2:
			kill(l.n)
		}
		s.SetFaults(storetest.Faults{})
		next := log.begin(t, s) // in run 3 it takes over from a running broker
		kill(l.n)
		log.check(t, run, l, next.first)
		l = next
	}
	s.Settle()
	start, all := int64(0), int64(0)
	for _, p := range partsOf(t, l.n) {
		start, all = start+p.Start, all+p.Next
	}
	if start == 0 || int64(len(log.there)) != all || log.sum > all || log.sum < all-log.unheard {
		t.Errorf("%d records were seen, %d of %d offsets trimmed; the brokers counted %d, %d more are of unknown outcome", len(log.there), start, all, log.sum, log.unheard)
	}
}

// begin opens the next broker.
func (l *ledger) begin(t *testing.T, s objstore.Store) *term {
	t.Helper()
	o := &term{set: metrics.NewSet(), acked: map[string]position{}, unknown: map[string]bool{}}
	o.n = open(t, Options{Store: s, BatchWait: time.Millisecond, NoMerge: true, RetentionEvery: time.Hour, SnapshotSlots: 10, Metrics: o.set})
	o.first = l.see(t, o.n)
	return o
}

func partsOf(t *testing.T, n *Node) []broker.PartitionInfo {
	t.Helper()
	for _, topic := range n.Topics(t.Context()) {
		return topic.Partitions
	}
	return nil
}

func kill(n *Node) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = n.Close(ctx)
}

// load writes from several producers. With quiet they wait for all answers, otherwise only for a
// moment.
func (l *term) load(t *testing.T, run int, quiet bool) {
	var wg sync.WaitGroup
	for p := range 3 {
		wg.Go(func() {
			for i := range 40 {
				l.write(t, int32(i%agreeParts), quiet, fmt.Sprintf("%d.%d.%d a", run, p, i), fmt.Sprintf("%d.%d.%d b", run, p, i))
			}
		})
	}
	wg.Wait()
}

func (l *term) trim(t *testing.T) {
	for i, p := range partsOf(t, l.n) {
		_, err := l.n.Trim(t.Context(), "t", int32(i), p.Start+(p.Next-p.Start)/4)
		if err != nil {
			t.Errorf("trim: %v", err)
		}
		l.changes++
	}
}

func (l *term) write(t *testing.T, part int32, quiet bool, values ...string) {
	ctx := t.Context()
	if !quiet {
		short, cancel := context.WithTimeout(ctx, time.Duration(2+rand.IntN(60))*time.Millisecond)
		defer cancel()
		ctx = short
	}
	r := brokertest.Try(ctx, l.n, brokertest.Append("t", int(part), recordtest.Values(values...)...))
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.Err == nil:
		l.appends++
		for i, v := range values {
			l.acked[v] = position{part, r.Base + int64(i)}
		}
	case errors.Is(r.Err, state.ErrOutcomeUnknown):
		for _, v := range values {
			l.unknown[v] = true
		}
	}
}

// see records the content of the log. Offsets never change, so a record that is seen twice must be
// the same.
func (l *ledger) see(t *testing.T, n *Node) (next int64) {
	t.Helper()
	for i, p := range partsOf(t, n) {
		next += p.Next
		end := brokertest.Each(t, n, "t", i, p.Start, func(r *record.Record) {
			v, at := string(r.Value), position{int32(i), r.Offset}
			if was, ok := l.there[v]; ok && was != at {
				t.Fatalf("%s at %v and at %v", v, was, at)
			}
			l.there[v] = at
		})
		if end < p.Next {
			t.Fatalf("partition %d ends at %d, want %d", i, end, p.Next)
		}
	}
	return next
}

// check compares a term's counters with the growth of the log until the next term, which began at
// next records.
func (l *ledger) check(t *testing.T, i int, o *term, next int64) {
	t.Helper()
	unheard := int64(0) // unknown to clients, but stored
	for v := range o.unknown {
		if _, ok := l.there[v]; ok {
			unheard++
		}
	}
	for v, at := range o.acked {
		if l.there[v] != at {
			t.Errorf("broker %d: %s was acknowledged at %v, but is at %v", i, v, at, l.there[v])
		}
	}
	gained, heard := next-o.first, int64(len(o.acked))
	counted := int64(stat(t, o.set, "seb_log_records_total"))
	appends := int(stat(t, o.set, `seb_log_appends_total{outcome="acked"}`))
	t.Logf("broker %d: the log gained %d records, it counted %d, clients heard of %d; %d unknown ones are there", i, gained, counted, heard, unheard)
	if gained != heard+unheard {
		t.Errorf("broker %d: the log gained %d records, its clients heard of %d and %d of unknown outcome are there", i, gained, heard, unheard)
	}
	if counted < heard || counted > gained {
		t.Errorf("broker %d counted %d records, its clients heard of %d, the log gained %d", i, counted, heard, gained)
	}
	if known := o.appends + o.changes; appends < known || len(o.unknown) == 0 && appends != known {
		t.Errorf("broker %d counted %d acknowledgements, its clients heard %d", i, appends, known)
	}
	l.unheard += unheard
	l.sum += counted
}
