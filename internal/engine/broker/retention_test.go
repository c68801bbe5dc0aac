package broker_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

func TestKeepFrom(t *testing.T) {
	// Four ranges of ten offsets and 100 bytes each, appended at 1, 2, 3 and 4 hours.
	now := time.UnixMicro(0).Add(5 * time.Hour)
	all := state.Partition{Next: 40, Bytes: 400}
	for i := range 4 {
		all.Ranges = append(all.Ranges, state.Range{
			Base: int64(10 * i), Span: 10, Len: 100, AppendTime: (time.Duration(i+1) * time.Hour).Microseconds(),
		})
	}
	inside := all
	inside.Start = 13
	inside.Ranges, inside.Bytes = all.Ranges[1:], 300
	empty := state.Partition{Start: 40, Next: 40}
	open := all
	open.Open = []state.OpenTransaction{{Producer: 1, First: 35}, {Producer: 2, First: 20}}
	for _, c := range []struct {
		name     string
		p        state.Partition
		settings string
		want     int64
	}{
		{"no retention", all, "", 0},
		{"younger than the limit", all, "retention-time=5h", 0},
		{"exactly at the time limit stays", all, "retention-time=4h", 0},
		{"older by a second", all, "retention-time=3h59m59s", 10},
		{"some", all, "retention-time=150m", 20},
		{"all", all, "retention-time=1s", 40},
		{"none of the past", all, "retention-time=0s", 40},
		{"none at all", all, "retention-bytes=0", 40},
		{"longer than a time.Duration", all, "retention-time=9223372036854775807ms", 0},
		{"longer than a partition can be", all, "retention-bytes=9223372036854775807", 0},
		{"no ranges", empty, "retention-time=1s", 40},
		{"exactly at the size limit", all, "retention-bytes=400", 0},
		{"the range across the limit stays", all, "retention-bytes=301", 0},
		{"a whole range beyond the limit is trimmed", all, "retention-bytes=300", 10},
		{"the newest stays", all, "retention-bytes=1", 30},
		{"one of the two limits, size first", all, "retention-bytes=200 retention-time=210m", 20},
		{"one of the two limits, time first", all, "retention-bytes=399 retention-time=90m", 30},
		{"a start within a range stays", inside, "retention-time=3h", 13},
		{"a start within an overdue range", inside, "retention-time=150m", 20},
		{"a compacted topic keeps everything", all, "cleanup-policy=compact retention-time=1s retention-bytes=1", 0},
		{"all below the last stable offset", open, "retention-bytes=0 retention-time=1s", 20},
		{"unless it deletes too", all, "cleanup-policy=compact,delete retention-time=1s", 40},
	} {
		t.Run(c.name, func(t *testing.T) {
			given := map[string]string{}
			for _, s := range strings.Fields(c.settings) {
				k, v, _ := strings.Cut(s, "=")
				given[k] = v
			}
			canonical := must.Get(state.CheckSettings(given))(t)
			s := state.Resolve(canonical)
			must.Equalf(t, c.p.KeepFrom(&s, now), c.want, "keeps from")
		})
	}
}

// clock is a clock that a test sets. It counts its readings.
type clock struct{ ahead, looks atomic.Int64 }

func (c *clock) now() time.Time {
	c.looks.Add(1)
	return time.Now().Add(time.Duration(c.ahead.Load()))
}

// passes waits for a few readings by retention, so that at least one pass began after the call.
func (c *clock) passes() {
	for from := c.looks.Load(); c.looks.Load() < from+3; {
		time.Sleep(time.Millisecond)
	}
}

func partition(t testing.TB, b *broker.Broker, topic string, i int) broker.PartitionInfo {
	t.Helper()
	info := must.Get(b.Topic(context.Background(), topic, false))(t)
	return info.Partitions[i]
}

func TestRetention(t *testing.T) {
	stores(t, func(t *testing.T, inner objstore.Store) {
		s := storetest.NewCounter(inner)
		c := &clock{}
		o := options(s)
		o.Now, o.RetentionEvery = c.now, time.Millisecond
		b := open(t, o)
		ctx := context.Background()
		for name, settings := range map[string]map[string]string{
			"hour": {"retention-time": "1h"}, "small": {"retention-bytes": "2000"}, "ever": nil,
		} {
			must.Get(b.CreateTopic(ctx, name, broker.TopicSpec{Partitions: 2, Settings: settings}))(t)
			for range 3 {
				mustProduce(t, b, name, 1, strings.Repeat("x", 500))
			}
		}
		c.passes()
		before := s.Counts()
		c.passes()
		must.Equalf(t, s.Counts().Sub(before).Requests(), 0, "requests with nothing overdue")
		for range 3 {
			mustProduce(t, b, "small", 1, strings.Repeat("x", 500))
		}
		for partition(t, b, "small", 1).Start != 2 {
			time.Sleep(time.Millisecond)
		}
		c.ahead.Store(int64(2 * time.Hour))
		for partition(t, b, "hour", 1).Start != 3 {
			time.Sleep(time.Millisecond)
		}
		c.passes()
		for name, want := range map[string]int64{"hour": 3, "small": 2, "ever": 0} {
			check.Equalf(t, partition(t, b, name, 1).Start, want, "%s starts at", name)
		}
		c.ahead.Store(0)
		must.Equalf(t, mustProduce(t, b, "hour", 1, "y"), 3, "continues at")
		follower := options(s)
		follower.Core.ReadOnly = true
		follower.Now, follower.RetentionEvery = c.now, time.Millisecond
		f := open(t, follower)
		kill(b)
		c.ahead.Store(int64(2 * time.Hour))
		for range 10 { // a follower does not trim
			time.Sleep(time.Millisecond)
			if p := partition(t, f, "hour", 1); p.Start != 3 {
				t.Fatalf("%+v", p)
			}
		}
	})
}

// skewed is a store with another clock.
type skewed struct {
	objstore.Store
	skew atomic.Int64
}

func (s *skewed) ClockSkew() (time.Duration, bool) { return time.Duration(s.skew.Load()), true }

func TestNoRetentionByWrongClock(t *testing.T) {
	s := &skewed{Store: objstore.NewMemory()}
	c := &clock{}
	o := options(s)
	o.Now, o.RetentionEvery = c.now, time.Millisecond
	b := open(t, o)
	must.Get(b.CreateTopic(context.Background(), "a", broker.TopicSpec{Settings: map[string]string{"retention-time": "1m"}}))(t)
	mustProduce(t, b, "a", 0, "x")
	s.skew.Store(int64(2 * time.Minute))
	c.ahead.Store(int64(time.Hour))
	for range 10 {
		time.Sleep(time.Millisecond)
		must.Equalf(t, partition(t, b, "a", 0).Start, 0, "trimmed by a clock that is wrong")
	}
	s.skew.Store(0)
	for partition(t, b, "a", 0).Start != 1 {
		time.Sleep(time.Millisecond)
	}
}

// fetchOne reads topic a once; maxBytes 0 means no limit.
func fetchOne(t testing.TB, b *broker.Broker, offset int64, maxBytes int) (vals []string, part broker.FetchedPart) {
	t.Helper()
	f := must.Get(b.Fetch(context.Background(), []broker.Want{{Topic: "a", Offset: offset, MaxBytes: maxBytes}}, 0, 0))(t)
	defer f.Release()
	vals, _ = values(t, &f.Parts[0], offset)
	return vals, f.Parts[0]
}

func wantBelow(t testing.TB, part broker.FetchedPart, offset, start int64) {
	t.Helper()
	var below *broker.BelowStartError
	if !errors.As(part.Err, &below) || *below != (broker.BelowStartError{Offset: offset, Start: start}) || part.Start != start {
		t.Fatalf("offset %d: %v, part starts at %d; want a start of %d", offset, part.Err, part.Start, start)
	}
}

func TestTrim(t *testing.T) {
	stores(t, func(t *testing.T, inner objstore.Store) {
		s := storetest.NewCounter(inner)
		o := options(s)
		o.Metrics = metrics.NewSet()
		b := open(t, o)
		ctx := context.Background()
		create(t, b, "a", 1)
		for i := range 5 {
			mustProduce(t, b, "a", 0, fmt.Sprint(2*i), fmt.Sprint(2*i+1))
		}
		waiting := make(chan broker.FetchedPart)
		go func() {
			f, err := b.Fetch(ctx, []broker.Want{{Topic: "a", Offset: 2, MaxBytes: 1 << 20}}, 1<<19, time.Hour)
			check.NoError(t, err)
			waiting <- f.Parts[0]
		}()
		sebtest.Eventually(t, "a fetch waits", func() bool { return waitingFetches(o.Metrics) == 1 })
		if p, err := b.Trim(ctx, "a", 0, 5); err != nil || p.Start != 5 || p.Next != 10 {
			t.Fatalf("%+v %v", p, err)
		}
		wantBelow(t, <-waiting, 2, 5)
		for range 2 {
			_, part := fetchOne(t, b, 4, 0)
			wantBelow(t, part, 4, 5)
			if vals, _ := fetchOne(t, b, 5, 0); fmt.Sprint(vals) != "[5 6 7 8 9]" {
				t.Fatal(vals)
			}
			kill(b)
			b = open(t, options(s))
		}
		before := s.Counts()
		for _, offset := range []int64{0, 4, 5} {
			if p, err := b.Trim(ctx, "a", 0, offset); err != nil || p.Start != 5 {
				t.Fatalf("%d: %+v %v", offset, p, err)
			}
		}
		must.Equalf(t, s.Counts().Sub(before).Puts, 0, "objects for trims that change nothing")
		_, unknown := b.Trim(ctx, "b", 0, 1)
		_, partition := b.Trim(ctx, "a", 1, 1)
		_, beyond := b.Trim(ctx, "a", 0, 11)
		_, negative := b.Trim(ctx, "a", 0, -1)
		for i, want := range []error{state.ErrUnknownTopic, state.ErrUnknownPartition, state.ErrBeyondEnd, state.ErrInvalid} {
			check.ErrorIs(t, []error{unknown, partition, beyond, negative}[i], want)
		}
		if p, err := b.Trim(ctx, "a", 0, 10); err != nil || p.Start != 10 || p.Next != 10 || p.Bytes != 0 {
			t.Fatalf("%+v %v", p, err)
		}
		must.Equal(t, mustProduce(t, b, "a", 0, "10"), 10)
	})
}

// TestMissingBecauseTrimmed: an object that is deleted between the plan and the read is not
// corruption.
func TestMissingBecauseTrimmed(t *testing.T) {
	ctx := context.Background()
	for name, change := range map[string]struct {
		change func(*broker.Broker) error
		check  func(*testing.T, broker.FetchedPart)
	}{
		"trimmed": {
			func(b *broker.Broker) error { _, err := b.Trim(ctx, "a", 0, 2); return err },
			func(t *testing.T, p broker.FetchedPart) { wantBelow(t, p, 0, 2) },
		},
		"deleted": {
			func(b *broker.Broker) error { return b.DeleteTopic(ctx, "a") },
			func(t *testing.T, p broker.FetchedPart) { must.ErrorIs(t, p.Err, state.ErrUnknownTopic) },
		},
		"deleted and created again": {
			func(b *broker.Broker) error {
				err := b.DeleteTopic(ctx, "a")
				_, again := b.CreateTopic(ctx, "a", broker.TopicSpec{})
				return errors.Join(err, again)
			},
			func(t *testing.T, p broker.FetchedPart) { must.ErrorIs(t, p.Err, state.ErrUnknownTopic) },
		},
		"lost": {
			func(*broker.Broker) error { return nil },
			func(t *testing.T, p broker.FetchedPart) { must.ErrorIs(t, p.Err, state.ErrCorrupt) },
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := &hooked{Store: objstore.NewMemory()}
			first := open(t, options(s))
			create(t, first, "a", 1)
			mustProduce(t, first, "a", 0, "x")
			mustProduce(t, first, "a", 0, "y")
			kill(first)
			b := open(t, options(s)) // with an empty tail
			once := atomic.Bool{}
			delete := func(_ context.Context, key string, r objstore.Range) error {
				if r.Offset == 0 || once.Swap(true) { // does not read data
					return nil
				}
				return errors.Join(change.change(b), s.Delete(ctx, key))
			}
			s.onGet.Store(&delete)
			_, part := fetchOne(t, b, 0, 1) // one object
			change.check(t, part)
		})
	}
}

// names lists a store's objects with a prefix.
func names(t testing.TB, s objstore.Store, prefix string) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	o := objstore.ListOptions{Prefix: prefix}
	for {
		entries, more := must.Get2(s.List(context.Background(), o))(t)
		for _, e := range entries {
			all[e.Key] = true
			o.After = e.Key
		}
		if !more {
			return all
		}
	}
}

// TestFollowerBehindCollection: a follower whose state references collected objects reads the
// newest snapshot before it reports corruption (rules R9, R11).
func TestFollowerBehindCollection(t *testing.T) {
	for name, takeover := range map[string]bool{"one leader": false, "another leader took over": true} {
		t.Run(name, func(t *testing.T) {
			s := objstore.NewMemory()
			o := options(s)
			o.Core.SnapshotSlots = 4
			leader := open(t, o)
			create(t, leader, "a", 1)
			create(t, leader, "b", 1)
			for i := range 20 {
				mustProduce(t, leader, "a", 0, fmt.Sprint(i))
			}
			readOnly := options(s)
			readOnly.Core.ReadOnly = true
			readOnly.Core.FollowPoll = core.Duration(time.Hour)
			follower := open(t, readOnly)
			before := names(t, s, "s0000/wal/")
			must.Get(leader.Trim(context.Background(), "a", 0, 16))(t)
			if takeover {
				leader = open(t, o)
			}
			for gone := 0; gone < 16; {
				mustProduce(t, leader, "b", 0, "x")
				gone = 0
				after := names(t, s, "s0000/wal/")
				for name := range before {
					if !after[name] {
						gone++
					}
				}
			}
			if p := partition(t, follower, "a", 0); p.Start != 0 {
				t.Fatalf("the follower has the new state already: %+v", p)
			}
			_, part := fetchOne(t, follower, 3, 0)
			wantBelow(t, part, 3, 16)
			if vals, _ := fetchOne(t, follower, 16, 0); fmt.Sprint(vals) != "[16 17 18 19]" {
				t.Fatal(vals)
			}
		})
	}
}

// TestDeposedLeaderBehindCollection: a leader that is fenced without knowing it asks the store
// before it reports an object as corrupt that its successor has collected.
func TestDeposedLeaderBehindCollection(t *testing.T) {
	s := objstore.NewMemory()
	o := options(s)
	o.Core.SnapshotSlots = 4
	first := open(t, o)
	create(t, first, "a", 1)
	create(t, first, "b", 1)
	for i := range 20 {
		mustProduce(t, first, "a", 0, fmt.Sprint(i))
	}
	kill(first)
	deposed := open(t, options(s)) // with an empty tail
	before := names(t, s, "s0000/wal/")
	leader := open(t, o)
	must.Get(leader.Trim(context.Background(), "a", 0, 16))(t)
	for gone := 0; gone < 16; {
		mustProduce(t, leader, "b", 0, "x")
		gone = 0
		after := names(t, s, "s0000/wal/")
		for name := range before {
			if !after[name] {
				gone++
			}
		}
	}
	_, part := fetchOne(t, deposed, 3, 0)
	if !errors.Is(part.Err, state.ErrFenced) || errors.Is(part.Err, state.ErrCorrupt) {
		t.Fatal(part.Err)
	}
}
