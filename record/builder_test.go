package record_test

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// TestBuilder: a Builder makes the batches of Append, within the room that it asks for, and without
// an allocation.
func TestBuilder(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var b record.Builder
	for round := range 300 {
		recs := make([]record.Record, 1+random.IntN(1<<(round%10)))
		size := 0
		for i := range recs {
			r := &recs[i]
			r.Timestamp = 12345
			if random.IntN(5) > 0 {
				r.Key = bytes.Repeat([]byte{'k'}, random.IntN(300))
			}
			n := random.IntN(200)
			if random.IntN(50) == 0 {
				n = random.IntN(2 * record.BatchTarget)
			}
			r.Value = bytes.Repeat([]byte{byte(i)}, n)
			size += len(r.Key) + len(r.Value)
		}
		want, sum := recordtest.Encode(recs, record.EncodeOptions{})
		buf := make([]byte, 0, record.BuilderLen(len(recs), size))
		b.Reset(buf, 12345)
		for i := range recs {
			b.Add(recs[i].Key, append(b.Room(len(recs[i].Key)), recs[i].Value...))
		}
		got, given := b.Finish()
		if !bytes.Equal(got, want) || given != sum {
			t.Fatalf("round %d, %d records: %d bytes, %+v; want %d, %+v", round, len(recs), len(got), given, len(want), sum)
		}
		must.Equalf(t, &got[0], &buf[:1][0], "round %d: %d bytes do not fit into the room of %d", round, len(got), size)
	}
	b.Reset(nil, 1)
	if got, sum := b.Finish(); len(got) > 0 || sum.Records > 0 {
		t.Errorf("no records: %x %+v", got, sum)
	}
}
