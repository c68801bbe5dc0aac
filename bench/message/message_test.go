package message_test

import (
	"bytes"
	"compress/flate"
	"errors"
	"slices"
	"testing"

	"github.com/sebbroker/seb/bench/message"
)

func encode(size int, h message.Header) []byte {
	b := message.NewBuffer(size, 0.5, h.Sequence)
	b.Prepare(size)
	return b.Encode(h)
}

func TestDecode(t *testing.T) {
	want := message.Header{Run: 1 << 63, Producer: 7, Sequence: 1 << 40, Intended: 123, Sent: -4}
	t.Run("gives back what was encoded, at every length", func(t *testing.T) {
		b := message.NewBuffer(1000, 0, 1)
		for _, size := range []int{message.HeaderBytes, 1000, 49, 1000} {
			b.Prepare(size)
			p := b.Encode(want)
			got, err := message.Decode(p)
			if err != nil || got != want || len(p) != size {
				t.Errorf("%d bytes: %+v in %d, error %v", size, got, len(p), err)
			}
		}
	})
	t.Run("finds any byte that changed", func(t *testing.T) {
		p := encode(300, want)
		for i := range p {
			p[i] ^= 0x10
			if _, err := message.Decode(p); err == nil {
				t.Errorf("byte %d changed and nobody noticed", i)
			}
			p[i] ^= 0x10
		}
	})
	t.Run("says what is wrong", func(t *testing.T) {
		p := encode(300, want)
		swapped := append(encode(300, message.Header{Sequence: 1})[:message.HeaderBytes:message.HeaderBytes], p[message.HeaderBytes:]...)
		for err, p := range map[error][]byte{
			message.ErrShort: p[:47], message.ErrForeign: make([]byte, 100), message.ErrLength: p[:299], message.ErrChecksum: swapped,
		} {
			if _, got := message.Decode(p); !errors.Is(got, err) {
				t.Errorf("error %v, want %v", got, err)
			}
		}
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(encode(100, message.Header{Run: 1}))
	f.Add([]byte("SEBm"))
	f.Fuzz(func(t *testing.T, p []byte) {
		h, err := message.Decode(p)
		if err != nil {
			return
		}
		b := message.NewBuffer(len(p), 0, 0)
		b.Prepare(len(p))
		if again, err := message.Decode(b.Encode(h)); err != nil || again != h {
			t.Errorf("%+v became %+v, error %v", h, again, err)
		}
	})
}

func TestCompressible(t *testing.T) {
	for _, part := range []float64{0, 0.3, 0.9, 1} {
		p := encodeFiller(part)
		var packed bytes.Buffer
		w, err := flate.NewWriter(&packed, flate.BestCompression)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(p)
		_ = w.Close()
		got := 1 - float64(packed.Len())/float64(len(p))
		if got < part-0.05 || got > part+0.02 {
			t.Errorf("a filler of which %.2f is compressible gets smaller by %.2f", part, got)
		}
	}
}

func encodeFiller(compressible float64) []byte {
	b := message.NewBuffer(100_000, compressible, 3)
	b.Prepare(100_000)
	return b.Encode(message.Header{})[message.HeaderBytes:]
}

func TestTracker(t *testing.T) {
	const ok, re, dup = message.InOrder, message.Reordered, message.Duplicate
	for name, c := range map[string]struct {
		seqs []uint64
		want []message.Verdict
	}{
		"in order":          {[]uint64{0, 1, 2}, []message.Verdict{ok, ok, ok}},
		"twice":             {[]uint64{0, 0, 1, 0}, []message.Verdict{ok, dup, ok, dup}},
		"two change places": {[]uint64{1, 0, 2}, []message.Verdict{ok, re, ok}},
		"a hole":            {[]uint64{0, 64, 200}, []message.Verdict{ok, ok, ok}},
		"late, then twice":  {[]uint64{5, 3, 3}, []message.Verdict{ok, re, dup}},
	} {
		t.Run(name, func(t *testing.T) {
			var tracker message.Tracker
			var got []message.Verdict
			for _, seq := range c.seqs {
				got = append(got, tracker.Saw(seq))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("%v gives %v, want %v", c.seqs, got, c.want)
			}
		})
	}
}

func TestSet(t *testing.T) {
	var a, b message.Set
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

func BenchmarkEncode(b *testing.B) {
	m := message.NewBuffer(1024, 0, 1)
	b.ReportAllocs()
	for b.Loop() {
		m.Prepare(1024)
		m.Encode(message.Header{Run: 1})
	}
}

func TestSetsTravel(t *testing.T) {
	var odd, all message.Set
	for i := range uint64(100_000) {
		all.Add(i)
		if i%2 == 1 && i%7 != 0 {
			odd.Add(i)
		}
	}
	t.Run("what was packed is what was there", func(t *testing.T) {
		for _, s := range []*message.Set{{}, &odd, &all} {
			got, err := message.Unpack(s.Pack(), 100_000)
			if err != nil || got.Len() != s.Len() || got.Without(s) != 0 || s.Without(got) != 0 {
				t.Errorf("%d of %d numbers, error %v", got.Len(), s.Len(), err)
			}
		}
		if n := len(all.Pack()); n > 1000 {
			t.Errorf("a set without holes takes %d bytes", n)
		}
	})
	t.Run("sets are joined", func(t *testing.T) {
		var s message.Set
		s.Add(0)
		s.Add(1)
		if common := s.Join(&odd); common != 1 || s.Len() != odd.Len()+1 || !s.Has(0) || !s.Has(99_999) {
			t.Errorf("%d in common, %d in all of %d", common, s.Len(), odd.Len())
		}
	})
	t.Run("bytes that are none are refused, and those that grow too large", func(t *testing.T) {
		packed := all.Pack()
		for _, p := range [][]byte{nil, {1, 2, 3}, packed[:len(packed)/2]} {
			if _, err := message.Unpack(p, 100_000); !errors.Is(err, message.ErrSet) {
				t.Errorf("%d bytes: error %v", len(p), err)
			}
		}
		if _, err := message.Unpack(packed, 50_000); !errors.Is(err, message.ErrSet) {
			t.Errorf("100,000 numbers below 50,000: error %v", err)
		}
	})
}

func FuzzUnpack(f *testing.F) {
	var s message.Set
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
		got, err := message.Unpack(p, limit)
		if err != nil {
			return
		}
		if got.Len() > limit+64 {
			t.Errorf("%d numbers below %d", got.Len(), limit)
		}
		again, err := message.Unpack(got.Pack(), limit)
		if err != nil || again.Len() != got.Len() || again.Without(got) != 0 {
			t.Errorf("packed again it holds %d of %d, error %v", again.Len(), got.Len(), err)
		}
	})
}
