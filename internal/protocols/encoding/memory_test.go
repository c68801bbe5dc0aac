package encoding

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func newMemory(limit int64) (*budget.Arena, *budget.Class) {
	b := budget.New(limit)
	b.Buffers().Poison()
	return &budget.Arena{Class: b.Class(budget.Produce), Buffers: b.Buffers()}, b.Class(budget.Produce)
}

func TestArenaCountsMemory(t *testing.T) {
	m, class := newMemory(64 << 20)
	if err := m.Need(100_000); err != nil || class.Used() != 100_000 {
		t.Fatal(err, class.Used())
	}
	a, err := m.Get(50_000) // fits into the reservation
	if err != nil || class.Used() != 100_000 {
		t.Fatal(err, class.Used())
	}
	if err := m.Hold(1000); err != nil || class.Used() != 100_000 {
		t.Fatal(err, class.Used())
	}
	b, err := m.Get(60_000) // does not
	if err != nil || class.Used() < 110_000 {
		t.Fatal(err, class.Used())
	}
	release := m.Detach(b[:10])
	m.Put(a)
	if b, err = m.Get(50_000); err != nil || &b[0] != &a[0] {
		t.Fatal("a returned buffer was not reused")
	}
	m.Release()
	m.Release()
	if used := class.Used(); used < 60_000 || used > 70_000 {
		t.Errorf("%d bytes in use for the detached buffer", used)
	}
	release()
	check.Equalf(t, class.Used(), 0, "bytes in use")
}

func TestArenaOverLimit(t *testing.T) {
	m, class := newMemory(64 << 20)
	other := must.Get(class.Reserve(class.Limit() - 10_000))(t)
	must.NoError(t, m.Need(5000))
	must.ErrorIs(t, check.Err(m.Get(50_000)), budget.ErrOver)
	// An arena that may wait releases its spare memory first and keeps the rest counted.
	must.NoError(t, m.Hold(2000))
	waited := int64(0)
	m.Wait = func(n int64) (*budget.Reservation, error) {
		waited = n
		if used := class.Used(); used != other.Size() {
			t.Errorf("waits while %d bytes are reserved", used-other.Size())
		}
		other.Release()
		return class.Reserve(n)
	}
	if err := m.Need(50_000); err != nil || waited != 52_000 || class.Used() != 52_000 {
		t.Errorf("%v, waited for %d, used %d", err, waited, class.Used())
	}
	check.ErrorIs(t, m.Need(class.Limit()+1), budget.ErrTooLarge)
	m.Release()
	check.Equalf(t, class.Used(), 0, "bytes in use")
}

// list is a source of the given records.
type list []record.Record

func (l *list) Next() (*record.Record, *api.Problem) {
	if len(*l) == 0 {
		return nil, nil
	}
	r := &(*l)[0]
	*l = (*l)[1:]
	return r, nil
}

// TestEncoderReturnsInput checks that records of all shapes, distributed over partitions, are in
// the batches unchanged.
func TestEncoderReturnsInput(t *testing.T) {
	for seed := range uint64(sebtest.Runs(10, 2)) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		some := func(n int) []byte {
			if rnd.IntN(8) == 0 {
				return nil
			}
			b := make([]byte, rnd.IntN(n))
			for i := range b {
				b[i] = byte(rnd.Uint32())
			}
			return b
		}
		var in list
		for range 1 + rnd.IntN(sebtest.Runs(4000, 1000)) {
			r := record.Record{Timestamp: rnd.Int64N(1 << 45), Key: some(20), Value: some([]int{2, 20, 400}[rnd.IntN(3)])}
			if rnd.IntN(500) == 0 {
				r.Value = make([]byte, rnd.IntN(2<<20))
			}
			for range max(0, rnd.IntN(6)-3) {
				r.Headers = append(r.Headers, record.Header{Key: string(some(5)), Value: some(5)})
			}
			in = append(in, r)
		}
		partitions := 1 + rnd.IntN(5)
		want := map[int32][]string{}
		for i := range in {
			p := record.PartitionOf(in[i].Key, partitions)
			want[p] = append(want[p], fmt.Sprint(show(&in[i]), in[i].Timestamp))
		}
		m, class := newMemory(1 << 30)
		e := Encoder{Memory: m, Partition: -1, Partitions: partitions, Codec: record.Compression(seed % 5), RecordsMax: len(in)}
		out, err := e.Encode(&in)
		must.NoErrorf(t, err, "seed %d", seed)
		for _, o := range out {
			verify(t, seed, o, want[o.Partition])
			delete(want, o.Partition)
		}
		if m.Release(); len(want) != 0 || class.Used() != 0 {
			t.Errorf("seed %d: partitions %v missing, %d bytes in use", seed, want, class.Used())
		}
	}
}

func verify(t *testing.T, seed uint64, o *Encoded, want []string) {
	t.Helper()
	record.Patch(o.Data, 0, 1)
	sum, err := record.Check(o.Data, record.Limits{BatchBytes: 4 << 20})
	if err != nil || sum != o.Summary {
		t.Fatalf("seed %d: %v, %+v, reported as %+v", seed, err, sum, o.Summary)
	}
	var r record.Reader
	i := 0
	for r.Reset(o.Data, 0); r.Next(); i++ {
		if got := fmt.Sprint(show(r.Record()), r.Record().Timestamp); i >= len(want) || got != want[i] {
			t.Fatalf("seed %d: record %d of partition %d: %.200s", seed, i, o.Partition, got)
		}
	}
	if r.Err() != nil || i != len(want) {
		t.Fatalf("seed %d: %d records of %d, %v", seed, i, len(want), r.Err())
	}
}
