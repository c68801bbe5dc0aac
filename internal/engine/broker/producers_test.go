package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// idempotent is a producer's batch of one record for topic a.
func idempotent(t testing.TB, partition int, p record.Producer, value string) broker.Append {
	t.Helper()
	return brokertest.AppendWith("a", partition, record.EncodeOptions{Producer: &p}, record.Record{Value: []byte(value)})
}

func submitted(t testing.TB, b *broker.Broker, a ...broker.Append) []broker.Result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	return b.Submit(ctx, a).Wait(ctx)
}

func TestIdempotentProducer(t *testing.T) {
	stores(t, func(t *testing.T, s objstore.Store) {
		b := open(t, options(s))
		create(t, b, "a", 2)
		send := func(epoch int16, sequence int32) broker.Result {
			return submitted(t, b, idempotent(t, 0, record.Producer{ID: 7, Epoch: epoch, Sequence: sequence}, fmt.Sprint(epoch, ".", sequence)))[0]
		}
		want := func(when string, r broker.Result, base int64, duplicate bool, err error) {
			t.Helper()
			if !errors.Is(r.Err, err) || err == nil && (r.Base != base || r.Span != 1 || r.Duplicate != duplicate || r.AppendTime.IsZero() != duplicate) {
				t.Fatalf("%s: %+v, want base %d, duplicate %v, error %v", when, r, base, duplicate, err)
			}
		}
		mustProduce(t, b, "a", 0, "other")
		for i := range 7 {
			want("first time", send(0, int32(i)), int64(1+i), false, nil)
		}
		again := func(when string) {
			t.Helper()
			for i := 2; i < 7; i++ {
				want(when, send(0, int32(i)), int64(1+i), true, nil)
			}
			want(when+", too old", send(0, 1), 0, false, state.ErrSequenceGap)
			want(when+", beyond the next", send(0, 8), 0, false, state.ErrSequenceGap)
		}
		again("again")
		second := open(t, options(s)) // fences the first
		b = second
		again("after a takeover")
		kill(b)
		b = open(t, options(s))
		again("after a restart")
		must.Get(b.Trim(context.Background(), "a", 0, 8))(t)
		again("after a trim of its records")
		want("new epoch not from 0", send(1, 7), 0, false, state.ErrSequenceGap)
		want("new epoch", send(1, 0), 8, false, nil)
		want("old epoch", send(0, 7), 0, false, state.ErrProducerFenced)
		if got := consume(t, b, "a", 0, 8); fmt.Sprint(got) != "[1.0]" {
			t.Fatal(got)
		}
		r := submitted(t, b, idempotent(t, 1, record.Producer{ID: 7, Sequence: 3}, "other partition"))[0]
		want("each partition has its own state", r, 0, false, nil)
	})
}

func TestDuplicateInOneObject(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "a", 1)
	one := func(sequence int32) broker.Append {
		return idempotent(t, 0, record.Producer{ID: 1, Sequence: sequence}, fmt.Sprint(sequence))
	}
	r := submitted(t, b, one(0), one(1), one(0), one(1), one(3), one(2))
	for i, want := range []broker.Result{{Base: 0}, {Base: 1}, {Base: 0, Duplicate: true}, {Base: 1, Duplicate: true}, {Err: state.ErrSequenceGap}, {Base: 2}} {
		if got := r[i]; got.Base != want.Base || got.Duplicate != want.Duplicate || !errors.Is(got.Err, want.Err) {
			t.Errorf("append %d: %+v, want %+v", i, got, want)
		}
	}
	if got := consume(t, b, "a", 0, 0); fmt.Sprint(got) != "[0 1 2]" {
		t.Fatal(got)
	}
}

func TestDuplicateInFlightWaits(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	o := options(s)
	o.Batch.Wait, o.NoWait = 0, true
	b := open(t, o)
	create(t, b, "a", 1)
	begun, release := make(chan struct{}, 8), make(chan struct{})
	hold := func(ctx context.Context, _ string) error {
		begun <- struct{}{}
		select {
		case <-release:
		case <-ctx.Done():
		}
		return nil
	}
	s.onPut.Store(&hold)
	ctx := context.Background()
	p := record.Producer{ID: 1}
	first := b.Submit(ctx, []broker.Append{idempotent(t, 0, p, "x")})
	<-begun
	second := b.Submit(ctx, []broker.Append{idempotent(t, 0, p, "x")})
	third := b.Submit(ctx, []broker.Append{data(t, "a", 0, "y")})
	<-begun // so the second append was checked
	select {
	case <-first.Done():
		t.Fatal("acknowledged before it is durable")
	case <-second.Done():
		t.Fatal("a duplicate was acknowledged before its original is durable")
	default:
	}
	close(release)
	if r := second.Wait(ctx)[0]; r.Err != nil || !r.Duplicate || r.Base != 0 {
		t.Fatalf("%+v", r)
	}
	for _, k := range []*broker.Ticket{first, third} {
		if r := k.Wait(ctx)[0]; r.Err != nil || r.Duplicate {
			t.Fatalf("%+v", r)
		}
	}
	s.onPut.Store(nil)
	if got := consume(t, b, "a", 0, 0); fmt.Sprint(got) != "[x y]" {
		t.Fatal(got)
	}
}

func TestSummaryWithAnotherProducerIsRefused(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "a", 1)
	for name, change := range map[string]func(*record.Summary){
		"none":           func(s *record.Summary) { s.ProducerID = -1 },
		"other":          func(s *record.Summary) { s.ProducerID = 8 },
		"other epoch":    func(s *record.Summary) { s.ProducerEpoch++ },
		"other sequence": func(s *record.Summary) { s.BaseSequence++ },
	} {
		a := idempotent(t, 0, record.Producer{ID: 7, Epoch: 1, Sequence: 5}, "x")
		change(&a.Summary)
		if r := submitted(t, b, a)[0]; !errors.Is(r.Err, state.ErrInvalid) || !strings.Contains(r.Err.Error(), "batch has id 7, epoch 1 and sequence 5") {
			t.Errorf("%s: %+v", name, r)
		}
	}
}

// TestIdempotentProducersOnFaultyStore: producers send each batch until it is acknowledged, several
// at a time, on a store with all faults. Meanwhile brokers are killed and replaced. Each record is
// stored exactly once, in order.
func TestIdempotentProducersOnFaultyStore(t *testing.T) {
	rates := storetest.Rates{storetest.Before: .05, storetest.Lost: .1, storetest.Late: .05, storetest.Hang: .01, storetest.Throttle: .03, storetest.Truncate: .05}
	const producers = 4
	batches := sebtest.Runs(60, 20)
	stores(t, func(t *testing.T, inner objstore.Store) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		s := storetest.NewFaulty(inner, seed, storetest.Faults{Put: rates, Get: rates, Delete: rates, LatencyMax: 2 * time.Millisecond, LateMax: 20 * time.Millisecond})
		next := func() *broker.Broker {
			o := options(s)
			o.Core.SnapshotSlots = 20
			o.Timeouts.Put, o.Timeouts.Read = 50*time.Millisecond, 50*time.Millisecond
			return open(t, o)
		}
		var now atomic.Pointer[broker.Broker]
		now.Store(next())
		create(t, now.Load(), "a", 2)
		var wg sync.WaitGroup
		var left atomic.Int32
		left.Store(producers)
		for p := range producers {
			wg.Go(func() {
				defer left.Add(-1)
				produceOnce(t, &now, p, batches)
			})
		}
		for run := 0; left.Load() > 0; run++ {
			time.Sleep(20 * time.Millisecond)
			old := now.Load()
			if run%2 == 0 {
				kill(old)
			} // else the next broker fences it
			now.Store(next())
		}
		wg.Wait()
		s.SetFaults(storetest.Faults{})
		s.Settle()
		b := open(t, options(inner))
		counts := map[int]int{}
		for part := range 2 {
			for _, v := range consume(t, b, "a", part, 0) {
				var p, i int
				if _, err := fmt.Sscanf(v, "%d.%d", &p, &i); err != nil || i != counts[p] || p%2 != part {
					t.Fatalf("%s in partition %d after %d of its producer", v, part, counts[p])
				}
				counts[p]++
			}
		}
		for p := range producers {
			if counts[p] != batches {
				t.Errorf("%d of producer %d's %d records are there", counts[p], p, batches)
			}
		}
	})
}

// produceOnce sends batches 0 to n-1 until each is acknowledged, at most as many at once as the log
// remembers.
func produceOnce(t *testing.T, now *atomic.Pointer[broker.Broker], producer, n int) {
	bases := map[int]int64{}
	last := int64(-1)
	for acked := 0; acked < n; {
		var window []broker.Append
		for i := acked; i < min(n, acked+5); i++ {
			p := record.Producer{ID: int64(producer), Epoch: 3, Sequence: int32(i)}
			window = append(window, idempotent(t, producer%2, p, fmt.Sprintf("%d.%d", producer, i)))
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Duration(5+rand.IntN(60))*time.Millisecond)
		results := now.Load().Submit(ctx, window).Wait(ctx)
		cancel()
		gap := false
		for i, r := range results {
			base, known := bases[acked+i]
			switch {
			case r.Err != nil:
				gap = true
				continue
			case known && base != r.Base || r.Base <= last && !known && !gap:
				t.Errorf("%d.%d acknowledged at %d, before at %d, the one before it at %d", producer, acked+i, r.Base, base, last)
			}
			bases[acked+i] = r.Base
		}
		for _, ok := bases[acked]; ok; _, ok = bases[acked] {
			last = bases[acked]
			acked++
		}
	}
}
