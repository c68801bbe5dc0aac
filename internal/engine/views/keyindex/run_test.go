package keyindex

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// blocks is a store in memory.
type blocks map[int64][]byte

func (b blocks) put(id int64, data []byte) error {
	if _, there := b[id]; there {
		return fmt.Errorf("block %d was written twice", id)
	}
	b[id] = bytes.Clone(data)
	return nil
}

func (b blocks) read(ids []int64, block func(id int64, data []byte) error) error {
	for _, id := range ids {
		if data, there := b[id]; there {
			if err := block(id, data); err != nil {
				return err
			}
		}
	}
	return nil
}

// entries draws sorted entries of few topics and partitions. Keys share prefixes, some are very
// long, and some have many records.
func entries(r *rand.Rand, n int) []RunEntry {
	var list []RunEntry
	for len(list) < n {
		e := RunEntry{Topic: uint32(r.IntN(3)), Part: uint32(r.IntN(2)), Offset: r.Int64N(1 << 40), Time: r.Int64N(1<<45) - 1000}
		switch r.IntN(12) {
		case 0:
			e.Key = []byte{}
		case 1:
			if r.IntN(30) > 0 {
				e.Key = fmt.Appendf(nil, "%d", r.IntN(n))
				break
			}
			e.Key = []byte(strings.Repeat("long", 3000+r.IntN(5)))
		case 2:
			e.Topic, e.Part, e.Key = 1, 1, []byte("hot")
			hot := 0
			if r.IntN(1+n/100) == 0 {
				hot = r.IntN(1 + n/3)
			}
			for range hot {
				e.Offset += 1 + r.Int64N(5)
				list = append(list, e)
			}
		case 3:
			e.Key = fmt.Appendf(nil, "k%0100d", r.IntN(50))
		default:
			e.Key = fmt.Appendf(nil, "key-%d", r.IntN(n))
		}
		e.Flags = []uint8{0, 0, 0, Deleted, Gone, Deleted | Gone}[r.IntN(6)]
		list = append(list, e)
	}
	return Sort(list)
}

// keyrunWritten writes a run of entries.
func keyrunWritten(t testing.TB, id int64, list []RunEntry) (blocks, *Run) {
	t.Helper()
	b := blocks{}
	w := NewWriter(id, b.put)
	for i := range list {
		must.NoError(t, w.Add(&list[i]))
	}
	info, err := w.Finish()
	if err != nil || info.ID != id || w.ID() != id || info.Entries != int64(len(list)) {
		t.Fatalf("%+v of %d entries: %v", info, len(list), err)
	}
	run := must.Get(NewStore(b.read, 200<<10).Run(info))(t) // some of the blocks
	return b, run
}

func keyrunSeeded(t *testing.T) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

func same(a, b RunEntry) bool {
	return Compare(&a, &b) == 0 && a.Time == b.Time && a.Flags == b.Flags
}

func TestRunsReadAsTheyWereWritten(t *testing.T) {
	r := keyrunSeeded(t)
	for _, n := range []int{1, 2, 10, 200, 5000, 60_000} {
		list := entries(r, n)
		b, run := keyrunWritten(t, int64(n), list)
		first, end := IDs(int64(n))
		for id := range b {
			if id < first || id >= end || RunOf(id) != int64(n) {
				t.Fatalf("block %d of run %d", id, n)
			}
		}
		if n == 60_000 && run.Height < 2 {
			t.Errorf("%d entries in an index of height %d", len(list), run.Height)
		}
		c := Cursor{Source: run}
		var got []RunEntry
		for err := c.Seek(&RunEntry{}); ; err = c.Next() {
			must.NoError(t, err)
			if c.At() == nil {
				break
			}
			got = append(got, *c.At())
		}
		if !slices.EqualFunc(got, list, same) {
			t.Fatalf("%d entries are read as %d others", len(list), len(got))
		}
		for i := len(list) - 1; i >= 0; i-- {
			if err := c.Prev(); err != nil || !same(*c.At(), list[i]) {
				t.Fatalf("entry %d backwards: %v", i, err)
			}
		}
		if err := c.Prev(); err != nil || c.At() != nil {
			t.Errorf("before the first: %v", err)
		}
	}
}

// TestSeek checks that cursors find existing entries and the neighbors of missing ones from any
// position.
func TestSeek(t *testing.T) {
	r := keyrunSeeded(t)
	list := entries(r, 20_000)
	_, run := keyrunWritten(t, 1, list)
	for name, s := range map[string]Source{"run": run, "memory": Memory(list)} {
		c := Cursor{Source: s}
		for range sebtest.Runs(2000, 200) {
			e := list[r.IntN(len(list))]
			switch r.IntN(5) {
			case 0:
				e.Offset += r.Int64N(5) - 2
			case 1:
				e = Lowest(e.Topic, After(e.Key), 0)
			case 2:
				e = Highest(e.Topic, e.Key, math.MaxUint32)
			case 3:
				e.Key = append(bytes.Clone(e.Key[:r.IntN(len(e.Key)+1)]), byte(r.Uint32()))
			}
			want, _ := slices.BinarySearchFunc(list, e, func(a, b RunEntry) int { return Compare(&a, &b) })
			must.NoError(t, c.Seek(&e))
			if at := c.At(); (at == nil) != (want == len(list)) || at != nil && !same(*at, list[want]) {
				t.Fatalf("%s: sought %+v, found %+v, want entry %d of %d", name, e, at, want, len(list))
			}
			must.NoError(t, c.SeekBefore(&e))
			if at := c.At(); (at == nil) != (want == 0) || at != nil && !same(*at, list[want-1]) {
				t.Fatalf("%s: sought before %+v, found %+v, want entry %d", name, e, at, want-1)
			}
		}
	}
}

// TestMergedSources checks that several sources are one, in which the newer decides.
func TestMergedSources(t *testing.T) {
	r := keyrunSeeded(t)
	for range 20 {
		var sources []Source
		var all []RunEntry
		for i := range 1 + r.IntN(5) {
			list := entries(r, 1+r.IntN(2000))
			for range 20 { // some records of older sources
				if len(all) > 0 {
					e := all[r.IntN(len(all))]
					e.Flags, e.Time = Gone, int64(i)
					list = append(list, e)
				}
			}
			list = Sort(list)
			all = MergeTwo(all, list)
			if r.IntN(2) == 0 {
				sources = append(sources, Memory(list))
				continue
			}
			_, run := keyrunWritten(t, int64(i), list)
			sources = append(sources, run)
		}
		m := NewMerged(append(sources, Memory(nil)))
		must.NoError(t, m.Seek(&RunEntry{}))
		for i, want := range all {
			e := m.First()
			if e == nil || !same(*e, want) {
				t.Fatalf("entry %d is %+v, want %+v", i, e, want)
			}
			must.NoError(t, m.Next(e))
		}
		if e := m.First(); e != nil {
			t.Fatalf("behind the last is %+v", e)
		}
		must.NoError(t, m.SeekBefore(&RunEntry{Topic: math.MaxUint32}))
		for i, want := range slices.Backward(all) {
			e := m.Last()
			if e == nil || !same(*e, want) {
				t.Fatalf("backwards entry %d is %+v, want %+v", i, e, want)
			}
			must.NoError(t, m.Prev(e))
		}
		takeKeys(t, m, all)
	}
}

// takeKeys visits sources key by key.
func takeKeys(t *testing.T, m Merged, all []RunEntry) {
	t.Helper()
	must.NoError(t, m.Seek(&RunEntry{}))
	for len(all) > 0 {
		n := 1
		for n < len(all) && CompareKey(&all[n], &all[0]) == 0 {
			n++
		}
		var want []RunEntry // the last of each partition
		for i := range n {
			if i+1 == n || all[i+1].Part != all[i].Part {
				want = append(want, all[i])
			}
		}
		e := m.First()
		if e == nil || CompareKey(e, &all[0]) != 0 {
			t.Fatalf("the next key is %+v, want %+v", e, all[0])
		}
		got := must.Get(m.TakeKey(*e))(t)
		slices.SortFunc(got, func(a, b RunEntry) int { return Compare(&a, &b) })
		if !slices.EqualFunc(got, want, same) {
			t.Fatalf("newest of %.20q are %+v, want %+v", e.Key, got, want)
		}
		all = all[n:]
	}
}

// readers are the ways to read a run. Each reads all blocks of it.
var readers = map[string]func(q *lookup, all []RunEntry) error{
	"merge": func(q *lookup, all []RunEntry) error {
		f := &file{runs: []*run{{Run: q.sources[0].(*Run)}}}
		f.begin(f.runs, 1, rules{{1, 0}: {}})
		m := f.merges[0]
		m.w = NewWriter(100, blocks{}.put)
		m.prune.out = m.w.Add
		if err := m.src.Seek(&RunEntry{}); err != nil {
			return err
		}
		info, err := m.step(len(all) + 1)
		if err == nil && info.Entries != int64(len(all)) {
			err = fmt.Errorf("merged %d entries, want %d", info.Entries, len(all))
		}
		return err
	},
	"lookup": func(q *lookup, all []RunEntry) error { return lookupAll(q, all, 0) },
	"lookup in any partition": func(q *lookup, all []RunEntry) error {
		q.parts = make([]views.Partition, 2)
		return lookupAll(q, all, -1)
	},
	"list": func(q *lookup, all []RunEntry) error {
		list, err := q.list(&ListQuery{Limit: len(all)})
		if err == nil && len(list) != len(all) {
			err = fmt.Errorf("%d keys, want %d", len(list), len(all))
		}
		return err
	},
	"history": func(q *lookup, all []RunEntry) error {
		for i := 0; i < len(all); i += 50 {
			list, err := q.history(all[i].Key, &HistoryQuery{Partition: 0, Limit: 10})
			if err != nil || len(list) != 1 {
				return cmp.Or(err, fmt.Errorf("%d records of key %d", len(list), i))
			}
		}
		return nil
	},
	"forget": func(q *lookup, all []RunEntry) error {
		for i := 0; i < len(all); i += 50 {
			if ok, err := q.exists(&all[i]); err != nil || !ok {
				return cmp.Or(err, fmt.Errorf("key %d does not exist", i))
			}
		}
		return nil
	},
}

// lookupAll looks up a key of each block.
func lookupAll(q *lookup, all []RunEntry, part int) error {
	for i := 0; i < len(all); i += 50 {
		e, err := q.get(all[i].Key, part)
		if err == nil && (e == nil || e.Offset != all[i].Offset) {
			err = fmt.Errorf("key %d is %+v", i, e)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// TestDamagedRuns damages each byte of each block of a run, and more. Each reader then finds the
// damage, or reads what was written: a flipped bit of a block that it does not need is no error.
func TestDamagedRuns(t *testing.T) {
	var all []RunEntry
	for i := range 600 {
		all = append(all, RunEntry{Key: fmt.Appendf(nil, "k%04d", i*3), Topic: 1, Offset: int64(7 * i % 600), Time: int64(i)})
	}
	whole, good := keyrunWritten(t, 1, all)
	twin, _ := keyrunWritten(t, 1, all) // the same run of a file that has lost the first one
	ids := slices.Sorted(maps.Keys(whole))
	verify := func(name string, change func(b blocks, info *Info)) {
		t.Helper()
		b, info := maps.Clone(whole), good.Info
		change(b, &info)
		for reader, read := range readers {
			bad, err := NewStore(b.read, 1<<20).Run(info)
			if err == nil {
				err = read(&lookup{sources: []Source{bad}, topic: 1, parts: make([]views.Partition, 1)}, all)
			}
			if !errors.Is(err, localdb.ErrDamaged) {
				t.Errorf("%s: %s: %v", name, reader, err)
			}
		}
	}
	for i, id := range ids {
		name, data := fmt.Sprintf("block %d of %d", i, len(ids)), whole[id]
		for at := 0; at < len(data); at += sebtest.Runs(1, 41) {
			bad := bytes.Clone(data)
			bad[at] ^= byte(1 << (at % 8))
			verify(fmt.Sprint("byte ", at, " of ", name), func(b blocks, _ *Info) { b[id] = bad })
			verify(fmt.Sprint(name, " with ", at, " bytes"), func(b blocks, _ *Info) { b[id] = data[:at] })
		}
		verify("without "+name, func(b blocks, _ *Info) { delete(b, id) })
		verify("another one instead of "+name, func(b blocks, _ *Info) { b[id] = whole[ids[(i+1)%len(ids)]] })
		verify("that of another run instead of "+name, func(b blocks, _ *Info) { b[id] = twin[id] })
	}
	verify("no blocks", func(_ blocks, info *Info) { info.Blocks = 0 })
	verify("a block too many", func(_ blocks, info *Info) { info.Blocks = 1 << 25 })
	verify("too high", func(_ blocks, info *Info) { info.Height = levelsMax })
	verify("higher", func(_ blocks, info *Info) { info.Height++ })
	verify("no nonce", func(_ blocks, info *Info) { info.Nonce = 0 })
	verify("another nonce", func(_ blocks, info *Info) { info.Nonce++ })
	verify("another run's", func(_ blocks, info *Info) { info.ID++ })
}

func FuzzDecode(f *testing.F) {
	r := rand.New(rand.NewPCG(1, 1))
	for _, n := range []int{1, 5, 50} {
		list := entries(r, n)
		var x Encoder
		for i := range list {
			list[i].Key = list[i].Key[:min(len(list[i].Key), 20)]
		}
		for _, e := range Sort(list) {
			x.Add(&e)
		}
		f.Add(bytes.Clone(x.buf))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		// Fuzzing does not find checksums.
		x := Encoder{buf: bytes.Clone(body)}
		list, err := Decode(7, 1, x.Seal(7, 1))
		if err != nil {
			must.ErrorIs(t, err, localdb.ErrDamaged)
			return
		}
		var again Encoder
		for i := range list {
			again.Add(&list[i])
		}
		if len(list) == 0 {
			t.Fatal("a block without entries")
		}
		back, err := Decode(9, 1, again.Seal(9, 1))
		if err != nil || !slices.EqualFunc(list, back, same) {
			t.Fatalf("%d entries came back as %d: %v", len(list), len(back), err)
		}
		if _, err := Decode(8, 1, x.buf); !errors.Is(err, localdb.ErrDamaged) {
			t.Fatalf("under another id: %v", err)
		}
	})
}

// TestInvalidEntriesAreDamage checks blocks with a right checksum whose entries are not in order or
// invalid, as no writer makes them.
func TestInvalidEntriesAreDamage(t *testing.T) {
	entry := func(key string, part uint32) RunEntry { return RunEntry{Key: []byte(key), Topic: 1, Part: part} }
	for name, list := range map[string][]RunEntry{
		"keys":       {entry("a", 0), entry("c", 0), entry("b", 0)},
		"equal":      {entry("a", 0), entry("b", 0), entry("b", 0)},
		"partitions": {entry("a", 0), entry("b", 1), entry("b", 0)},
		"cut off":    nil,
	} {
		var x Encoder
		for i := range list {
			x.Add(&list[i])
		}
		if list == nil {
			whole := entry("a", 0)
			x.Add(&whole)
			x.buf = append(x.buf, 0, 1, 0) // without the key
		}
		data := x.Seal(7, 1)
		_, err := Decode(7, 1, data)
		check.ErrorIsf(t, err, localdb.ErrDamaged, "%s: decoding", name)
		highest := Highest(9, nil, 0)
		e, err := lastBefore(7, must.Get(bodyOf(7, 1, data))(t), &highest)
		check.ErrorIsf(t, err, localdb.ErrDamaged, "%s: looking up found %v", name, e)
	}
}

// TestCacheOfBlocks checks that a data block is cached when it is read for the second time, and an
// index block when it is read.
func TestCacheOfBlocks(t *testing.T) {
	var all []RunEntry
	for i := range 3000 {
		all = append(all, RunEntry{Key: fmt.Appendf(nil, "%x", sha256.Sum256([]byte{byte(i), byte(i >> 8)})), Topic: 1, Offset: int64(i)})
	}
	b, run := keyrunWritten(t, 1, Sort(all))
	reads := map[int]int{} // by level
	store := NewStore(func(ids []int64, block func(id int64, data []byte) error) error {
		for _, id := range ids {
			reads[int(id>>blockBits)%levelsMax]++
		}
		return b.read(ids, block)
	}, 1<<20)
	q := &lookup{sources: []Source{must.Get(store.Run(run.Info))(t)}, topic: 1, parts: make([]views.Partition, 1)}
	for i, want := range []map[int]int{{0: 1, 1: 1}, {0: 2, 1: 1}, {0: 2, 1: 1}} {
		e := must.Get(q.get(all[5].Key, 0))(t)
		check.Equalf(t, e.Offset, all[5].Offset, "lookup %d", i)
		check.Equalf(t, fmt.Sprint(reads), fmt.Sprint(want), "blocks read by level after lookup %d, of height %d", i, run.Height)
	}
}
