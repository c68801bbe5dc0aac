package workload_test

import (
	"bytes"
	"compress/flate"
	"testing"

	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func encode(size int, h workload.MessageHeader) []byte {
	b := workload.NewMessageBuffer(size, 0.5, h.Sequence)
	b.Prepare(size)
	return b.Encode(h)
}

func TestDecode(t *testing.T) {
	want := workload.MessageHeader{Run: 1 << 63, Producer: 7, Sequence: 1 << 40, Intended: 123, Sent: -4}
	t.Run("gives back what was encoded, at every length", func(t *testing.T) {
		b := workload.NewMessageBuffer(1000, 0, 1)
		for _, size := range []int{workload.MessageHeaderBytes, 1000, 49, 1000} {
			b.Prepare(size)
			p := b.Encode(want)
			got, err := workload.DecodeMessage(p)
			if err != nil || got != want || len(p) != size {
				t.Errorf("%d bytes: %+v in %d, error %v", size, got, len(p), err)
			}
		}
	})
	t.Run("finds any byte that changed", func(t *testing.T) {
		p := encode(300, want)
		for i := range p {
			p[i] ^= 0x10
			check.Error(t, check.Err(workload.DecodeMessage(p)), "byte %d changed without an error", i)
			p[i] ^= 0x10
		}
	})
	t.Run("says what is wrong", func(t *testing.T) {
		p := encode(300, want)
		swapped := append(encode(300, workload.MessageHeader{Sequence: 1})[:workload.MessageHeaderBytes:workload.MessageHeaderBytes], p[workload.MessageHeaderBytes:]...)
		for err, p := range map[error][]byte{
			workload.ErrShort: p[:47], workload.ErrForeign: make([]byte, 100), workload.ErrLength: p[:299], workload.ErrChecksum: swapped,
		} {
			check.ErrorIsf(t, check.Err(workload.DecodeMessage(p)), err, "error")
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(100, workload.MessageHeader{Run: 1}))
	f.Add([]byte("SEBm"))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := workload.DecodeMessage(p)
		if err != nil {
			return
		}
		b := workload.NewMessageBuffer(len(p), 0, 0)
		b.Prepare(len(p))
		if again, err := workload.DecodeMessage(b.Encode(h)); err != nil || again != h {
			t.Errorf("%+v became %+v, error %v", h, again, err)
		}
	})
}

func TestCompressible(t *testing.T) {
	for _, part := range []float64{0, 0.3, 0.9, 1} {
		p := encodeFiller(part)
		var packed bytes.Buffer
		w := must.Get(flate.NewWriter(&packed, flate.BestCompression))(t)
		_, _ = w.Write(p)
		_ = w.Close()
		got := 1 - float64(packed.Len())/float64(len(p))
		if got < part-0.05 || got > part+0.02 {
			t.Errorf("a filler of which %.2f is compressible gets smaller by %.2f", part, got)
		}
	}
}

func encodeFiller(compressible float64) []byte {
	b := workload.NewMessageBuffer(100_000, compressible, 3)
	b.Prepare(100_000)
	return b.Encode(workload.MessageHeader{})[workload.MessageHeaderBytes:]
}

func TestTracker(t *testing.T) {
	const ok, re, dup = workload.InOrder, workload.Reordered, workload.Duplicate
	for name, c := range map[string]struct {
		seqs []uint64
		want []workload.Verdict
	}{
		"in order":          {[]uint64{0, 1, 2}, []workload.Verdict{ok, ok, ok}},
		"twice":             {[]uint64{0, 0, 1, 0}, []workload.Verdict{ok, dup, ok, dup}},
		"two change places": {[]uint64{1, 0, 2}, []workload.Verdict{ok, re, ok}},
		"a hole":            {[]uint64{0, 64, 200}, []workload.Verdict{ok, ok, ok}},
		"late, then twice":  {[]uint64{5, 3, 3}, []workload.Verdict{ok, re, dup}},
	} {
		t.Run(name, func(t *testing.T) {
			var tracker workload.Tracker
			var got []workload.Verdict
			for _, seq := range c.seqs {
				got = append(got, tracker.Saw(seq))
			}
			check.EqualSlicesf(t, got, c.want, "%v", c.seqs)
		})
	}
}

func TestMessageSet(t *testing.T) {
	var a, b workload.SequenceSet
	for seq := range uint64(1000) {
		a.Add(seq)
		if seq%3 == 0 && seq < 700 {
			b.Add(seq)
		}
	}
	if a.Len() != 1000 || b.Len() != 234 || a.Without(&b) != 766 || b.Without(&a) != 0 {
		t.Errorf("%d, %d, %d, %d", a.Len(), b.Len(), a.Without(&b), b.Without(&a))
	}
	if !b.Has(699) || b.Has(698) || b.Has(1<<40) {
		t.Error("a set has what was not added")
	}
}

func TestSetsTravel(t *testing.T) {
	var odd, all workload.SequenceSet
	for i := range uint64(100_000) {
		all.Add(i)
		if i%2 == 1 && i%7 != 0 {
			odd.Add(i)
		}
	}
	t.Run("what was packed is what was there", func(t *testing.T) {
		for _, s := range []*workload.SequenceSet{{}, &odd, &all} {
			got, err := workload.UnpackSequenceSet(s.Pack(), 100_000)
			if err != nil || got.Len() != s.Len() || got.Without(s) != 0 || s.Without(got) != 0 {
				t.Errorf("%d of %d numbers, error %v", got.Len(), s.Len(), err)
			}
		}
		if n := len(all.Pack()); n > 1000 {
			t.Errorf("a set without holes takes %d bytes", n)
		}
	})
	t.Run("sets are joined", func(t *testing.T) {
		var s workload.SequenceSet
		s.Add(0)
		s.Add(1)
		if common := s.Join(&odd); common != 1 || s.Len() != odd.Len()+1 || !s.Has(0) || !s.Has(99_999) {
			t.Errorf("%d in common, %d in all of %d", common, s.Len(), odd.Len())
		}
	})
	t.Run("bytes that are none are refused, and those that grow too large", func(t *testing.T) {
		packed := all.Pack()
		for _, p := range [][]byte{nil, {1, 2, 3}, packed[:len(packed)/2]} {
			check.ErrorIsf(t, check.Err(workload.UnpackSequenceSet(p, 100_000)), workload.ErrSequenceSet, "%d bytes: error", len(p))
		}
		check.ErrorIsf(t, check.Err(workload.UnpackSequenceSet(packed, 50_000)), workload.ErrSequenceSet, "100,000 numbers below 50,000: error")
	})
}

func FuzzUnpack(f *testing.F) {
	var s workload.SequenceSet
	for i := range uint64(1000) {
		if i%3 != 0 {
			s.Add(i)
		}
	}
	f.Add(s.Pack())
	f.Add([]byte{})
	f.Add([]byte{3, 0})
	f.Fuzz(func(t *testing.T, p []byte) {
		const limit = 10_000
		got, err := workload.UnpackSequenceSet(p, limit)
		if err != nil {
			return
		}
		if got.Len() > limit+64 {
			t.Errorf("%d numbers below %d", got.Len(), limit)
		}
		again, err := workload.UnpackSequenceSet(got.Pack(), limit)
		if err != nil || again.Len() != got.Len() || again.Without(got) != 0 {
			t.Errorf("packed again it holds %d of %d, error %v", again.Len(), got.Len(), err)
		}
	})
}
