package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// one fetches one partition without waiting.
func one(t testing.TB, b *broker.Broker, w broker.Want) *broker.Fetched {
	t.Helper()
	f := must.Get(b.Fetch(context.Background(), []broker.Want{w}, 0, 0))(t)
	return f
}

func TestFetchErrorsAreOfOnePart(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "a", 2)
	mustProduce(t, b, "a", 0, "x", "y")
	begin := time.Now()
	f := must.Get(b.Fetch(context.Background(), []broker.Want{
		{Topic: "a", Offset: 1},
		{Topic: "b"},
		{Topic: "a", Partition: 2},
		{Topic: "a", Partition: -1},
		{Topic: "a", Offset: -1},
		{Topic: "a", Partition: 1},
		{Topic: "a", Offset: 5},
	}, 1<<20, time.Hour))(t)
	defer f.Release()
	if time.Since(begin) > time.Minute {
		t.Fatal("waited although wants had errors")
	}
	want := []error{nil, state.ErrUnknownTopic, state.ErrUnknownPartition, state.ErrUnknownPartition, broker.ErrBelowStart, nil, nil}
	for i, p := range f.Parts {
		check.ErrorIsf(t, p.Err, want[i], "part %d", i)
	}
	if vals, next := values(t, &f.Parts[0], 1); fmt.Sprint(vals) != "[y]" || next != 2 {
		t.Fatalf("%v", vals)
	}
	var below *broker.BelowStartError
	if !errors.As(f.Parts[4].Err, &below) || below.Start != 0 || below.Offset != -1 {
		t.Fatalf("%v", f.Parts[4].Err)
	}
	if p := f.Parts[6]; len(p.Chunks) != 0 || p.HighWatermark != 2 || p.Start != 0 {
		t.Fatalf("beyond the end: %+v", p)
	}
}

func TestLongPoll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, options(objstore.NewMemory()))
		create(t, b, "a", 2)
		ctx := t.Context()
		poll := func(minBytes int, wait time.Duration, wants ...broker.Want) (n int, took time.Duration) {
			begin := time.Now()
			f := must.Get(b.Fetch(ctx, wants, minBytes, wait))(t)
			for i := range f.Parts {
				vals, _ := values(t, &f.Parts[i], wants[i].Offset)
				n += len(vals)
			}
			f.Release()
			return n, time.Since(begin)
		}
		want := []broker.Want{{Topic: "a"}, {Topic: "a", Partition: 1}}
		if n, took := poll(0, time.Hour, want...); n != 0 || took != 0 {
			t.Fatalf("minBytes 0: %d after %s", n, took)
		}
		if n, took := poll(1, 0, want...); n != 0 || took != 0 {
			t.Fatalf("maxWait 0: %d after %s", n, took)
		}
		if n, took := poll(1, 3*time.Second, want...); n != 0 || took != 3*time.Second {
			t.Fatalf("no commit: %d after %s", n, took)
		}
		go func() {
			time.Sleep(time.Second)
			mustProduce(t, b, "a", 1, "x")
			time.Sleep(time.Second)
			mustProduce(t, b, "a", 0, strings.Repeat("y", 200))
		}()
		if n, took := poll(1, time.Hour, want...); n != 1 || took < time.Second || took > 1100*time.Millisecond {
			t.Fatalf("the first record: %d after %s", n, took)
		}
		if n, took := poll(250, time.Hour, want...); n != 2 || took < 900*time.Millisecond || took > 1100*time.Millisecond {
			t.Fatalf("250 bytes of both partitions: %d after %s", n, took)
		}
		if n, took := poll(1<<20, 5*time.Second, want...); n != 2 || took != 5*time.Second {
			t.Fatalf("less than minBytes: %d after %s", n, took)
		}
		go func() {
			time.Sleep(time.Second)
			check.NoError(t, b.DeleteTopic(ctx, "a"))
		}()
		begin := time.Now()
		f, err := b.Fetch(ctx, []broker.Want{{Topic: "a", Offset: 1}}, 1, time.Hour)
		if err != nil || !errors.Is(f.Parts[0].Err, state.ErrUnknownTopic) || time.Since(begin) > time.Minute {
			t.Fatalf("a deleted topic: %v", err)
		}
		f.Release()
		kill(b)
	})
}

func TestTailBeginsAtTheWantedBatch(t *testing.T) {
	b := open(t, options(objstore.NewMemory()))
	create(t, b, "a", 2)
	var appends []broker.Append
	for i := range 6 { // two batches each
		a, second := data(t, "a", i%2, "x", strings.Repeat("y", i*10_000)), data(t, "a", i%2, "x", "z")
		a.Data = append(a.Data, second.Data...)
		a.Summary.Records, a.Summary.Span = 4, 4
		appends = append(appends, a)
	}
	for _, r := range b.Submit(t.Context(), appends).Wait(t.Context()) {
		must.NoError(t, r.Err)
	}
	for offset := range int64(12) {
		f := one(t, b, broker.Want{Topic: "a", Offset: offset, MaxBytes: 1})
		if c := f.Parts[0].Chunks; len(c) != 1 || c[0].Base != offset/2*2 || c[0].End != c[0].Base+2 {
			t.Fatalf("from offset %d: %+v", offset, c)
		}
		f.Release()
	}
}

// TestNoWakeUpIsLost: a record that is committed while a long poll begins ends that poll.
func TestNoWakeUpIsLost(t *testing.T) {
	o := options(objstore.NewMemory())
	o.NoWait = true
	b := open(t, o)
	create(t, b, "a", 1)
	for i := range int64(3000) {
		k := b.Submit(t.Context(), []broker.Append{data(t, "a", 0, "x")})
		begin := time.Now()
		f := must.Get(b.Fetch(t.Context(), []broker.Want{{Topic: "a", Offset: i}}, 1, 30*time.Second))(t)
		if n := len(f.Parts[0].Chunks); n != 1 || time.Since(begin) > 20*time.Second {
			t.Fatalf("round %d: %d chunks after %s", i, n, time.Since(begin))
		}
		f.Release()
		if r := k.Wait(t.Context())[0]; r.Err != nil {
			t.Fatal(r.Err)
		}
	}
}

// compare reads n times from random offsets and returns the number of file sections.
func compare(t *testing.T, b *broker.Broker, want [2][]string, n int) (sections int) {
	t.Helper()
	for range n {
		p := rand.IntN(2)
		w := broker.Want{
			Topic: "a", Partition: int32(p), Offset: rand.Int64N(int64(len(want[p]))),
			MaxBytes: []int{1, 500, 50_000, 300_000, 10 << 20}[rand.IntN(5)],
		}
		f := one(t, b, w)
		must.NoError(t, f.Parts[0].Err)
		vals, next := values(t, &f.Parts[0], w.Offset)
		if next == w.Offset {
			t.Fatalf("no data at %+v", w)
		}
		for i, v := range vals {
			must.Equalf(t, v, want[p][w.Offset+int64(i)], "other data at offset %d of partition %d", w.Offset+int64(i), p)
		}
		for _, c := range f.Parts[0].Chunks {
			if c.Section != nil {
				sections++
			}
		}
		f.Release()
	}
	return sections
}

// TestFetchMatchesStore: for random offsets and sizes, the tail, the store in memory and file
// sections return the same records.
func TestFetchMatchesStore(t *testing.T) {
	stores(t, func(t *testing.T, s objstore.Store) {
		o := options(s)
		o.Batch = log.Config{Wait: 20 * time.Millisecond, BytesMax: 1 << 20}
		b := open(t, o)
		create(t, b, "a", 2)
		var want [2][]string
		for round := range 6 {
			var appends []broker.Append
			for i := range 40 {
				p := i % 2
				vals := []string{}
				for j := range 1 + rand.IntN(4) {
					vals = append(vals, fmt.Sprintf("%d.%d.%d.%s", round, i, j, strings.Repeat("z", []int{1, 100, 3000, 20000}[rand.IntN(4)])))
				}
				appends = append(appends, data(t, "a", p, vals...))
				want[p] = append(want[p], vals...)
			}
			for _, r := range b.Submit(t.Context(), appends).Wait(t.Context()) {
				must.NoError(t, r.Err)
			}
		}
		compare(t, b, want, sebtest.Runs(200, 30))
		kill(b)
		o2 := options(s) // with an empty tail
		b = open(t, o2)
		sections := compare(t, b, want, sebtest.Runs(400, 60))
		if _, ok := s.(*objstore.Disk); ok && sections == 0 {
			t.Fatal("the disk store returned no section")
		}
		for p := range want {
			must.Equalf(t, strings.Join(consume(t, b, "a", p, 0), ""), strings.Join(want[p], ""), "partition %d differs", p)
		}
		must.Equalf(t, o2.Budget.Class(budget.Fetch).Used(), 0, "bytes of fetches still reserved")
	})
}

// TestCanceledPollsLeaveNoWaiters: canceled polls are neither counted nor kept in memory.
func TestCanceledPollsLeaveNoWaiters(t *testing.T) {
	o := options(objstore.NewMemory())
	o.Metrics = metrics.NewSet()
	b := open(t, o)
	create(t, b, "a", 256)
	var all []broker.Want
	for p := range int32(256) {
		all = append(all, broker.Want{Topic: "a", Partition: p})
	}
	poll := func(i int, wants ...broker.Want) {
		ctx, cancel := context.WithCancel(context.Background())
		if i%2 == 0 {
			cancel()
		} else {
			time.AfterFunc(time.Duration(i%50)*time.Microsecond, cancel)
		}
		_, err := b.Fetch(ctx, wants, 1, time.Hour)
		check.ErrorIsf(t, err, context.Canceled, "canceled poll")
		cancel()
	}
	poll(1, all...)
	before := sebtest.Heap()
	var wg sync.WaitGroup
	for p := range 10 {
		wg.Go(func() {
			for i := range sebtest.Runs(1000, 200) {
				poll(i, all[p%4], all[i%4])
			}
			for i := range sebtest.Runs(200, 40) {
				poll(i, all...)
			}
		})
	}
	wg.Wait()
	if n, grown := waitingFetches(o.Metrics), sebtest.Heap()-before; n != 0 || grown > 4<<20 {
		t.Fatalf("%v fetches wait, the heap has grown by %d bytes", n, grown)
	}
}

func TestDamageInTheBucket(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := must.Get(objstore.OpenDisk(dir, objstore.DiskOptions{NoSync: true, NoJournal: true}))(t)
	defer s.Close()
	b := open(t, options(s))
	create(t, b, "a", 2)
	big := strings.Repeat("v", 100_000)
	var appends []broker.Append
	for p := range 2 {
		for range 3 {
			appends = append(appends, data(t, "a", p, big))
		}
	}
	for _, r := range b.Submit(t.Context(), appends).Wait(t.Context()) {
		must.NoError(t, r.Err)
	}
	mustProduce(t, b, "a", 0, "later")
	mustProduce(t, b, "a", 1, "later")
	kill(b)
	// Partition 0's batches lie first in the object, each about 100,070 bytes long.
	for _, c := range []struct {
		name   string
		change func(b []byte) []byte
		bad    []int // partitions
		first  int   // readable records of a bad partition
	}{
		{"bit in a value", func(b []byte) []byte { b[600] ^= 4; return b }, []int{0}, 0},
		{"bit in the second batch", func(b []byte) []byte { b[150_000] ^= 4; return b }, []int{0}, 1},
		{"base offset of the second batch", func(b []byte) []byte { b[at(b, 1)+7] ^= 1; return b }, []int{0}, 1},
		{"epoch of the second batch", func(b []byte) []byte { b[at(b, 1)+15] ^= 8; return b }, []int{0}, 1},
		{"length of the second batch", func(b []byte) []byte { b[at(b, 1)+9] ^= 1; return b }, []int{0}, 1},
		{"truncated in the last batch", func(b []byte) []byte { return b[:len(b)-1] }, []int{1}, 0},
		{"truncated in the first partition", func(b []byte) []byte { return b[:200_000] }, []int{0, 1}, 0},
		{"missing", func([]byte) []byte { return nil }, []int{0, 1}, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			testDamage(t, dir, c.change, c.bad, c.first)
		})
	}
}

// at returns the position of the n-th batch of the first partition in an object.
func at(b []byte, n int) int {
	o, err := record.DecodeObject(b)
	if err != nil {
		panic(err)
	}
	rest := o.Batches(0)
	for range n {
		if _, rest, err = record.Split(rest); err != nil {
			panic(err)
		}
	}
	return int(o.Index[0].Pos+o.Index[0].Len) - len(rest)
}

func testDamage(t *testing.T, dir string, change func([]byte) []byte, bad []int, first int) {
	// The object with all the data is the only large one. A start needs its header, so a missing or
	// truncated object is damaged after the start.
	whole := objstoreOf(t, dir)
	o := options(whole)
	o.Metrics = metrics.NewSet()
	b := open(t, o)
	defer kill(b)
	err := filepath.Walk(whole.dir, func(path string, info os.FileInfo, err error) error {
		if err != nil || info.IsDir() || info.Size() < 500_000 {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if content = change(content); content == nil {
			return os.Remove(path)
		}
		return os.WriteFile(path, content, 0o644)
	})
	must.NoError(t, err)
	for p := range 2 {
		isBad := false
		for _, q := range bad {
			isBad = isBad || p == q
		}
		f := one(t, b, broker.Want{Topic: "a", Partition: int32(p), MaxBytes: 10 << 20})
		var corrupt *broker.CorruptError
		switch err := f.Parts[0].Err; {
		case isBad && (!errors.As(err, &corrupt) || !errors.Is(err, state.ErrCorrupt) || corrupt.Partition != int32(p) || corrupt.Topic != "a"):
			t.Errorf("partition %d: %v", p, err)
		case !isBad && err != nil:
			t.Errorf("partition %d: %v", p, err)
		}
		if vals, _ := values(t, &f.Parts[0], 0); !isBad && len(vals) != 4 || isBad && len(vals) != 0 {
			t.Errorf("partition %d: %d records", p, len(vals))
		}
		f.Release()
		if isBad && first > 0 { // records before the damage
			f := one(t, b, broker.Want{Topic: "a", Partition: int32(p), MaxBytes: 1})
			if vals, _ := values(t, &f.Parts[0], 0); len(vals) != first || f.Parts[0].Err != nil {
				t.Errorf("before the damage: %d records, %v", len(vals), f.Parts[0].Err)
			}
			f.Release()
		}
		// Records after the damage.
		f = one(t, b, broker.Want{Topic: "a", Partition: int32(p), Offset: 3})
		if vals, _ := values(t, &f.Parts[0], 3); fmt.Sprint(vals) != "[later]" {
			t.Errorf("partition %d after the damage: %v %v", p, vals, f.Parts[0].Err)
		}
		f.Release()
	}
	check.NoErrorf(t, b.Ready(), "damage to data made the broker unready")
	if o.Metrics.GetOrCreateCounter("seb_broker_corrupt_reads_total").Get() == 0 {
		t.Error("no alarm")
	}
}

type diskDir struct {
	objstore.Store
	dir string
}

// objstoreOf opens a store on a copy of a directory.
func objstoreOf(t *testing.T, dir string) diskDir {
	t.Helper()
	to := t.TempDir()
	must.NoError(t, os.CopyFS(to, os.DirFS(dir)))
	s := must.Get(objstore.OpenDisk(to, objstore.DiskOptions{NoSync: true, NoJournal: true}))(t)
	t.Cleanup(func() { s.Close() })
	return diskDir{s, to}
}

func TestFetchStaysInItsBudget(t *testing.T) {
	s := objstore.NewMemory()
	b := open(t, options(s))
	create(t, b, "a", 1)
	for range 8 {
		mustProduce(t, b, "a", 0, strings.Repeat("x", 200_000), strings.Repeat("y", 200_000), strings.Repeat("z", 900_000))
	}
	kill(b)
	o := options(s)
	o.Budget = budget.New(20 << 20) // 2.6 MiB for fetches
	b = open(t, o)
	var held []*broker.Fetched
	var err error
	for err == nil && len(held) < 100 {
		var f *broker.Fetched
		f, err = b.Fetch(context.Background(), []broker.Want{{Topic: "a", MaxBytes: 5 << 20}}, 0, 0)
		if err == nil {
			if _, next := values(t, &f.Parts[0], 0); next == 0 {
				t.Fatal("a response without data")
			}
			held = append(held, f)
		}
	}
	if !errors.Is(err, state.ErrOverBudget) || len(held) == 0 {
		t.Fatalf("%d responses, then %v", len(held), err)
	}
	class := o.Budget.Class(budget.Fetch)
	if class.Peak() > class.Limit() {
		t.Fatalf("peak %d of %d", class.Peak(), class.Limit())
	}
	for _, f := range held {
		f.Release()
		f.Release()
	}
	must.Equalf(t, class.Used(), 0, "bytes still reserved")
	must.Equalf(t, len(consume(t, b, "a", 0, 0)), 24, "records")
}

func TestEqualReadsShareOneRequest(t *testing.T) {
	s := &hooked{Store: objstore.NewMemory()}
	b := open(t, options(s))
	create(t, b, "a", 1)
	mustProduce(t, b, "a", 0, "x", "y")
	kill(b)
	o := options(s)
	o.ShareReads = true
	b = open(t, o)
	block := make(chan struct{})
	began := make(chan struct{}, 100)
	hold := func(ctx context.Context, _ string, _ objstore.Range) error {
		began <- struct{}{}
		<-block
		return nil
	}
	s.onGet.Store(&hold)
	before := s.gets.Load()
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			ctx, cancel := context.WithCancel(context.Background())
			defer cancel()
			if i%4 == 0 {
				time.AfterFunc(time.Millisecond, cancel)
			}
			f, err := b.Fetch(ctx, []broker.Want{{Topic: "a", Offset: 1}}, 0, 0)
			if err != nil {
				if i%4 != 0 {
					t.Error(err)
				}
				return
			}
			if vals, _ := values(t, &f.Parts[0], 1); fmt.Sprint(vals) != "[y]" {
				t.Error(vals)
			}
			f.Release()
		})
	}
	<-began
	time.Sleep(20 * time.Millisecond)
	close(block)
	wg.Wait()
	must.Equalf(t, s.gets.Load()-before, 1, "GETs")
	must.Equalf(t, o.Budget.Class(budget.Fetch).Used(), 0, "bytes still reserved")
}

// TestFetchOverBudgetReturnsItsBeginning: concurrent pieces do not take the memory of the first
// one.
func TestFetchOverBudgetReturnsItsBeginning(t *testing.T) {
	s := objstore.NewMemory()
	b := open(t, options(s))
	create(t, b, "a", 1)
	for range 12 {
		mustProduce(t, b, "a", 0, strings.Repeat("x", 900_000), strings.Repeat("y", 900_000))
	}
	kill(b)
	o := options(s)
	o.Budget = budget.New(20 << 20) // 2.6 MiB for fetches
	b = open(t, o)
	for i := range sebtest.Runs(200, 20) {
		f, err := b.Fetch(t.Context(), []broker.Want{{Topic: "a", MaxBytes: 20 << 20}}, 0, 0)
		if err != nil || f.Parts[0].Err != nil || len(f.Parts[0].Chunks) == 0 || f.Parts[0].Chunks[0].Base != 0 {
			t.Fatalf("fetch %d: %v, %+v", i, err, f)
		}
		f.Release()
	}
	check.Equalf(t, o.Budget.Class(budget.Fetch).Used(), 0, "bytes are still reserved")
}
