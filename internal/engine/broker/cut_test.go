package broker_test

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestCut: for each offset, size and split of the memory, Cut returns the batches from the one that
// holds the offset, as many as fit, at least one.
func TestCut(t *testing.T) {
	r := newRun(t, 5, 30, 300, 90, 90, 600, 30)
	inParts := map[string][][]byte{"one part": {r.bytes}, "a part each": nil, "three": nil}
	for i, b := range r.batches {
		of := r.bytes[b.pos : b.pos+b.size]
		inParts["a part each"] = append(inParts["a part each"], of)
		if i%2 == 0 {
			inParts["three"] = append(inParts["three"], r.bytes[b.pos:b.pos+b.size+r.batches[i+1].size])
		}
	}
	for name, parts := range inParts {
		for offset := r.at.Base; offset < r.at.End(); offset++ {
			for most := int64(0); most <= int64(len(r.bytes))+1; most += 7 {
				c := must.Get(broker.Cut(parts, r.at.Base, offset, most))(t)
				p := r.from(0, offset, most)
				p.Finish(c, func() {})
				n := r.check(t, &p)
				if last := r.batches[len(r.batches)-1]; c.End < last.end {
					first := int((offset - r.at.Base) / 3)
					if next := r.batches[first+n]; c.Size+int64(next.size) <= most {
						t.Fatalf("%s: from offset %d %d bytes of %d, the next batch of %d fits", name, offset, c.Size, most, next.size)
					}
				}
			}
		}
	}
}

// TestCutOfInvalidBatches: an error, and no chunk with a gap.
func TestCutOfInvalidBatches(t *testing.T) {
	r := newRun(t, 0, 30, 30, 30)
	second := r.batches[1]
	hole := [][]byte{r.bytes[:second.pos], r.bytes[second.pos+second.size:]}
	for name, parts := range map[string][][]byte{
		"hole": hole, "truncated": {r.bytes[:second.pos+20]}, "zeroes": {make([]byte, 100)}, "truncated header": {r.bytes[:7]},
	} {
		if c, err := broker.Cut(parts, 0, 7, 1000); err == nil {
			t.Errorf("%s: %+v", name, c)
		}
	}
}

// TestRecordsAreBounded: after compaction a range has fewer records than offsets.
func TestRecordsAreBounded(t *testing.T) {
	r := newRun(t, 0, 30, 30)
	p := r.whole(0)
	p.Range.Records = 4
	for most, want := range map[int64]int64{1: 3, 1000: 4} {
		c := must.Get(broker.Cut([][]byte{r.bytes}, 0, 0, most))(t)
		if p.Finish(c, func() {}); p.Chunk.Records != want {
			t.Errorf("at most %d records of [%d,%d), want %d", p.Chunk.Records, c.Base, c.End, want)
		}
	}
}

// FuzzCut: no input causes a panic, and every result is whole consecutive batches.
func FuzzCut(f *testing.F) {
	r := newRun(f, 0, 30, 300, 90)
	f.Add(r.bytes, uint16(len(r.bytes)), int64(4), int64(300))
	f.Add(r.bytes, uint16(r.batches[1].pos), int64(0), int64(1))
	f.Add(r.bytes[:40], uint16(0), int64(0), int64(1<<40))
	f.Fuzz(func(t *testing.T, b []byte, at uint16, offset, most int64) {
		parts := [][]byte{b[:min(int(at), len(b))], b[min(int(at), len(b)):]}
		c, err := broker.Cut(parts, 0, offset, most)
		if err != nil || c.Size == 0 {
			return
		}
		next, size := c.Base, int64(0)
		for rest := bytes.Join(c.Parts, nil); len(rest) > 0; {
			batch, more, err := record.Split(rest)
			if err != nil || batch.BaseOffset() != next {
				t.Fatal(fmt.Errorf("at offset %d: %w", next, err))
			}
			rest = more
			next += batch.Span()
			size += int64(batch.Len())
		}
		if next != c.End || size != c.Size || c.End <= offset {
			t.Fatalf("%+v holds offsets to %d in %d bytes", c, next, size)
		}
	})
}
