package httpapi

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// threeBatches returns three batches of two records each.
func threeBatches(f *testing.F) []byte {
	var whole []byte
	for i := range 3 {
		b, _ := recordtest.Encode([]record.Record{{Value: bytes.Repeat([]byte("v"), 100*i)}, {Value: []byte("w")}}, record.EncodeOptions{})
		record.Patch(b, int64(2*i), 1)
		whole = append(whole, b...)
	}
	return whole
}

// FuzzChunks iterates over arbitrary chunks, cut into arbitrary parts or windows, and cuts them.
// Nothing panics, memory and file give the same batches, and all memory is released.
func FuzzChunks(f *testing.F) {
	whole := threeBatches(f)
	f.Add(whole, int64(0), uint16(100), int64(1))
	f.Add(whole, int64(3), uint16(0), int64(100))
	f.Add(whole[:len(whole)-1], int64(5), uint16(61), int64(3))
	f.Add([]byte("not a batch"), int64(0), uint16(3), int64(3))
	file := must.Get(os.Create(filepath.Join(f.TempDir(), "chunk")))(f)
	f.Cleanup(func() { file.Close() })
	total := budget.New(64 << 20)
	a := &Source{fetch: total.Class(budget.Fetch), buffers: total.Buffers(), requestMax: total.RequestMax()}
	f.Fuzz(func(t *testing.T, data []byte, from int64, split uint16, maxRecords int64) {
		at := min(int(split), len(data))
		inMemory := broker.Chunk{Base: 0, End: 6, Size: int64(len(data)), Parts: [][]byte{data[:at], data[at:]}}
		// A file that has other bytes around the section.
		must.NoError(t, file.Truncate(0))
		must.Get(file.WriteAt(append(append([]byte("before"), data...), "behind"...), 0))(t)
		inFile := inMemory
		inFile.Parts, inFile.Section = nil, &objstore.Section{File: file, Off: 6, Len: int64(len(data))}

		newAnswer := func() answer {
			s := a.newAnswer()
			s.window = record.BatchHeadSize + int(split)%400
			return s
		}
		collect := func(c *broker.Chunk) (all []byte, err error) {
			s := newAnswer()
			err = s.eachBatch(c, from, func(b record.Batch, _ bool) error {
				if b.BaseOffset()+b.Span() <= from {
					t.Errorf("got a batch below offset %d", from)
				}
				all = append(all, b...)
				return nil
			})
			s.release()
			return all, err
		}
		fromMemory, err1 := collect(&inMemory)
		fromFile, err2 := collect(&inFile)
		if err1 == nil && (err2 != nil || !bytes.Equal(fromMemory, fromFile)) {
			t.Errorf("from memory %d bytes, from the file %d, %v", len(fromMemory), len(fromFile), err2)
		}
		for _, c := range []broker.Chunk{inMemory, inFile} {
			g := Reading{answer: newAnswer(), Offset: from, MaxRecords: maxRecords}
			list, err := g.cut([]broker.Chunk{c})
			for i := range list {
				if list[i].Size < 0 || list[i].Size > c.Size || err == nil && list[i].End < list[i].Base {
					t.Errorf("cut to %+v", list[i])
				}
			}
			g = Reading{answer: newAnswer(), Offset: from, MaxRecords: maxRecords}
			v := &encoding.Values{}
			_ = g.part(&broker.FetchedPart{Chunks: []broker.Chunk{c}}, v)
			if int64(v.Count) != g.Count {
				t.Errorf("%d values, %d counted", v.Count, g.Count)
			}
			g.release()
		}
		check.Equalf(t, a.fetch.Used(), 0, "bytes still in use")
	})
}
