package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

func commit(t testing.TB, b *broker.Broker, group string, c ...broker.OffsetCommit) []error {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
	defer cancel()
	return b.CommitOffsets(ctx, group, c)
}

func group(t testing.TB, b *broker.Broker, name string) string {
	t.Helper()
	g, err := b.Group(context.Background(), name, true)
	if err != nil {
		return err.Error()
	}
	var all []string
	for _, o := range g.Offsets {
		if d := time.Since(o.Committed); d < 0 || d > time.Minute {
			t.Errorf("committed %s ago", d)
		}
		all = append(all, fmt.Sprintf("%s/%d=%d%s of [%d,%d)", o.Topic, o.Partition, o.Offset, o.Metadata, o.Start, o.Next))
	}
	return strings.Join(all, " ")
}

func TestGroups(t *testing.T) {
	ctx := context.Background()
	stores(t, func(t *testing.T, s objstore.Store) {
		b := open(t, options(s))
		create(t, b, "b", 1)
		create(t, b, "a", 2)
		mustProduce(t, b, "a", 1, "x", "y", "z")
		for i, err := range commit(t, b, "g", broker.OffsetCommit{Topic: "b", Offset: 1},
			broker.OffsetCommit{Topic: "a", Partition: 1, Offset: 2, Metadata: "!"}, broker.OffsetCommit{Topic: "a", Offset: 0}) {
			if err != nil {
				t.Fatal(i, err)
			}
		}
		const all = "a/0=0 of [0,0) a/1=2! of [0,3) b/0=1 of [0,0)"
		verify := func(b *broker.Broker, want string) {
			t.Helper()
			must.Equal(t, group(t, b, "g"), want)
		}
		verify(b, all)
		o := options(s)
		o.Core.ReadOnly = true
		follower := open(t, o)
		verify(follower, all)
		must.ErrorIs(t, commit(t, follower, "g", broker.OffsetCommit{Topic: "a"})[0], state.ErrReadOnly)
		kill(b)
		b = open(t, options(s))
		verify(b, all)
		commit(t, b, "h", broker.OffsetCommit{Topic: "a", Offset: 7})
		if gs := b.Groups(ctx); len(gs) != 2 || gs[0].Name != "g" || len(gs[0].Offsets) != 3 || gs[1].Name != "h" || gs[1].Offsets[0].Offset != 7 {
			t.Fatalf("%+v", gs)
		}
		for _, err := range []error{
			// the second changes nothing
			b.DeleteOffset(ctx, "g", "a", 0), b.DeleteOffset(ctx, "g", "a", 0),
			b.DeleteTopic(ctx, "b"),
		} {
			must.NoError(t, err)
		}
		verify(b, "a/1=2! of [0,3)")
		must.NoError(t, b.DeleteGroup(ctx, "g"))
		verify(b, "unknown consumer group")
		for err, want := range map[error]error{
			b.DeleteGroup(ctx, "g"):              state.ErrUnknownGroup,
			b.DeleteOffset(ctx, "g", "a", 0):     state.ErrUnknownGroup,
			b.DeleteOffset(ctx, "h", "a", 2):     state.ErrUnknownPartition,
			b.DeleteOffset(ctx, "h", "other", 0): state.ErrUnknownTopic,
		} {
			check.ErrorIs(t, err, want)
		}
	})
}

func TestConditionalOffsets(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "a", 2)
	at := func(offset, expected int64) broker.OffsetCommit {
		return broker.OffsetCommit{Topic: "a", Offset: offset, Expected: &expected}
	}
	other := broker.OffsetCommit{Topic: "a", Partition: 1, Offset: 1}
	for _, c := range []struct {
		commit    broker.OffsetCommit
		committed int64 // of the mismatch, or -2
	}{
		{at(3, 0), -1}, {at(3, -1), -2}, {at(4, -1), 3}, {at(5, 3), -2}, {at(9, 4), 5}, {at(2, 5), -2},
	} {
		errs := commit(t, b, "g", c.commit, other)
		var mismatch *state.OffsetMismatchError
		switch {
		case errs[1] != nil:
			t.Fatal(errs[1])
		case c.committed == -2 && errs[0] == nil:
		case !errors.As(errs[0], &mismatch) || *mismatch != state.OffsetMismatchError{Group: "g", Expected: *c.commit.Expected, Next: c.committed}:
			t.Fatalf("%d when %d is expected: %v, want %d", c.commit.Offset, *c.commit.Expected, errs[0], c.committed)
		}
	}
	must.Equal(t, group(t, b, "g"), "a/0=2 of [0,0) a/1=1 of [0,0)")
}

func TestOffsetsThatAreRefused(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "a", 1)
	below := int64(-2)
	for _, c := range []struct {
		name, group string
		commit      broker.OffsetCommit
		err         error
		says        string
	}{
		{"no name", "", broker.OffsetCommit{Topic: "a"}, state.ErrInvalid, "1 to 249"},
		{"long name", strings.Repeat("g", 250), broker.OffsetCommit{Topic: "a"}, state.ErrInvalid, "250 bytes"},
		{"control character", "g\n", broker.OffsetCommit{Topic: "a"}, state.ErrInvalid, "U+000A"},
		{"not UTF-8", "g\xff", broker.OffsetCommit{Topic: "a"}, state.ErrInvalid, "UTF-8"},
		{"topic", "g", broker.OffsetCommit{Topic: "b"}, state.ErrUnknownTopic, ""},
		{"partition", "g", broker.OffsetCommit{Topic: "a", Partition: 1}, state.ErrUnknownPartition, ""},
		{"offset", "g", broker.OffsetCommit{Topic: "a", Offset: -1}, state.ErrInvalid, "offset: -1"},
		{"offset beyond all", "g", broker.OffsetCommit{Topic: "a", Offset: math.MaxInt64}, state.ErrInvalid, "offset: 9223372036854775807"},
		{"condition", "g", broker.OffsetCommit{Topic: "a", Expected: &below}, state.ErrInvalid, "-2"},
		{"metadata", "g", broker.OffsetCommit{Topic: "a", Metadata: strings.Repeat("m", 4097)}, state.ErrInvalid, "4097"},
		{"metadata not UTF-8", "g", broker.OffsetCommit{Topic: "a", Metadata: "\xff"}, state.ErrInvalid, "UTF-8"},
	} {
		t.Run(c.name, func(t *testing.T) {
			err := commit(t, b, c.group, c.commit)[0]
			if !errors.Is(err, c.err) || !strings.Contains(err.Error(), c.says) {
				t.Fatal(err)
			}
		})
	}
	if gs := b.Groups(context.Background()); len(gs) != 0 {
		t.Fatalf("%+v", gs)
	}
	most := broker.OffsetCommit{Topic: "a", Offset: 1, Metadata: strings.Repeat("m", 4096)}
	must.NoError(t, commit(t, b, strings.Repeat("é", 124)+" ", most)[0])
}

// TestManyOffsetsAtOnce: their bytes count toward the size of an object.
func TestManyOffsetsAtOnce(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	var puts atomic.Int64
	count := func(context.Context, string) error { puts.Add(1); return nil }
	o := options(s)
	o.Batch.BytesMax = 100_000
	b := open(t, o)
	create(t, b, "a", 1000)
	s.onPut.Store(&count)
	var many []broker.OffsetCommit
	for p := range 1000 {
		many = append(many, broker.OffsetCommit{Topic: "a", Partition: int32(p), Offset: int64(p), Metadata: strings.Repeat("m", 1000)})
	}
	for _, err := range commit(t, b, "g", many...) {
		must.NoError(t, err)
	}
	if n := puts.Load(); n < 10 {
		t.Fatalf("a million bytes in %d objects of at most 100,000", n)
	}
	kill(b)
	g, err := open(t, options(s)).Group(context.Background(), "g", false)
	if err != nil || len(g.Offsets) != 1000 || g.Offsets[999].Offset != 999 {
		t.Fatalf("%d offsets, %v", len(g.Offsets), err)
	}
}

// TestOffsetsUseTheNextObject: offsets without other data wait, and use the next object if there is
// one.
func TestOffsetsUseTheNextObject(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	o := options(s)
	o.Batch.DeferWait = time.Hour
	b := open(t, o)
	create(t, b, "a", 1)
	var puts atomic.Int64
	count := func(context.Context, string) error { puts.Add(1); return nil }
	s.onPut.Store(&count)
	done := make(chan []error, 1)
	go func() {
		done <- b.CommitOffsets(context.Background(), "g", []broker.OffsetCommit{{Topic: "a", Offset: 1}})
	}()
	appends := int64(0)
	for riding := true; riding; {
		mustProduce(t, b, "a", 0, "x")
		appends++
		select {
		case errs := <-done:
			must.NoError(t, errs[0])
			riding = false
		default:
		}
	}
	if n := puts.Load(); n != appends {
		t.Fatalf("%d objects for %d appends", n, appends)
	}
	go func() {
		done <- b.CommitOffsets(context.Background(), "g", []broker.OffsetCommit{{Topic: "a", Offset: 2}})
	}()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Millisecond)
	defer cancel()
	must.ErrorIs(t, b.CommitOffsets(ctx, "h", []broker.OffsetCommit{{Topic: "a"}})[0], broker.ErrNotSent)
	if err := b.Close(context.Background()); err != nil { // does not wait
		t.Fatal(err)
	}
	if err := (<-done)[0]; err != nil && !errors.Is(err, broker.ErrClosed) {
		t.Fatal(err)
	}
}

// TestOffsetsOnFaultyStore: an acknowledged offset is never lost, and never decreases.
func TestOffsetsOnFaultyStore(t *testing.T) {
	rates := storetest.Rates{storetest.Before: .05, storetest.Lost: .1, storetest.Late: .05, storetest.Hang: .01, storetest.Throttle: .03, storetest.Truncate: .05}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	inner := objstore.NewMemory()
	s := storetest.NewFaulty(inner, seed, storetest.Faults{Put: rates, Get: rates, Delete: rates, LatencyMax: 2 * time.Millisecond, LateMax: 20 * time.Millisecond})
	var acked, sent int64
	for run := range 8 {
		o := options(s)
		o.Core.SnapshotSlots = 10
		o.Timeouts.Put, o.Timeouts.Read = 50*time.Millisecond, 50*time.Millisecond
		b := open(t, o)
		if run == 0 {
			create(t, b, "a", 1)
		} else if g, err := b.Group(context.Background(), "g", false); err != nil || g.Offsets[0].Offset < acked || g.Offsets[0].Offset > sent {
			t.Fatalf("run %d: %+v %v, acknowledged %d, sent %d", run, g, err, acked, sent)
		}
		for range 20 {
			sent++
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(5+sent%5*30)*time.Millisecond)
			err := b.CommitOffsets(ctx, "g", []broker.OffsetCommit{{Topic: "a", Offset: sent}})[0]
			cancel()
			switch {
			case err == nil:
				acked = sent
			case !errors.Is(err, state.ErrOutcomeUnknown) && !errors.Is(err, broker.ErrNotSent):
				t.Fatal(err)
			}
		}
		if run%2 == 0 {
			kill(b)
		}
	}
	if acked < 50 {
		t.Fatalf("acknowledged %d of %d", acked, sent)
	}
}
