package codec

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestStreams(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var text []byte
	for i := range 20_000 {
		text = fmt.Appendf(text, `{"offset":%d,"value":"%x"}`+"\n", i, rnd.Uint32())
	}
	for _, kind := range []Kind{Gzip, Zstd} {
		s, err := NewStream(kind)
		must.NoError(t, err)
		for _, size := range []int{0, 1, len(text)} { // the stream is reused
			var out bytes.Buffer
			s.Reset(&out)
			for rest := text[:size]; len(rest) > 0; {
				n := min(len(rest), 7000)
				must.Get(s.Write(rest[:n]))(t)
				rest = rest[n:]
			}
			must.NoError(t, s.Close())
			sent := out.Len()
			var r io.Reader
			if kind == Gzip {
				r, err = gzip.NewReader(&out)
			} else {
				r, err = zstd.NewReader(&out)
			}
			must.NoError(t, err)
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, text[:size]) {
				t.Errorf("%s: round trip of %d bytes gives %d bytes, %v", kind, size, len(got), err)
			}
			if size == len(text) && sent > size/2 {
				t.Errorf("%s: %d bytes compressed to %d", kind, size, sent)
			}
		}
	}
	check.Error(t, check.Err(NewStream(LZ4)), "NewStream(LZ4) succeeded")
}

// TestStreamMemory checks that a stream takes at most the memory that is reserved for it.
func TestStreamMemory(t *testing.T) {
	const n = 8
	data := make([]byte, 4<<20)
	rnd := rand.New(rand.NewPCG(1, 2))
	for i := range data {
		data[i] = byte(rnd.IntN(40))
	}
	for _, kind := range []Kind{Gzip, Zstd} {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		streams := make([]Stream, n)
		for i := range streams {
			s, err := NewStream(kind)
			must.NoError(t, err)
			s.Reset(io.Discard)
			if _, err := s.Write(data); err != nil {
				t.Fatal(err)
			}
			streams[i] = s
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		each := int64(after.HeapAlloc-before.HeapAlloc) / n
		t.Logf("%s: %d KiB", kind, each>>10)
		if each > StreamBytes {
			t.Errorf("a stream of %s takes %d bytes, StreamBytes is %d", kind, each, StreamBytes)
		}
		runtime.KeepAlive(streams)
	}
}
