package codec

import (
	"bytes"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"golang.org/x/sync/semaphore"
)

func TestTurnsAreBoundedAndInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := turns{size: 100, bytes: semaphore.NewWeighted(100)}
		var order []int64
		var wg sync.WaitGroup
		first := s.take(60)
		for _, n := range []int64{50, 500, 10} { // the last is small enough, but not first
			wg.Go(func() {
				got := s.take(n)
				order = append(order, got.n)
				got.give()
			})
			synctest.Wait()
		}
		if len(order) != 0 || !s.awaited() {
			t.Fatalf("%v came beside %d bytes of 100", order, first.n)
		}
		first.give()
		wg.Wait()
		if len(order) != 3 || order[0] != 50 || order[1] != 100 || order[2] != 25 || s.awaited() || !s.bytes.TryAcquire(100) {
			t.Fatalf("%v came", order)
		}
	})
}

func TestWhatDecompressingTakes(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<15) // 512 KiB
	stream := func(window int) []byte {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithWindowSize(window))
		if err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(content[:1000])
		_ = w.Flush() // so that the size is not known
		_, _ = w.Write(content)
		_ = w.Close()
		return b.Bytes()
	}
	blocks := func(size lz4.BlockSize) []byte {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		if err := w.Apply(lz4.BlockSizeOption(size)); err != nil {
			t.Fatal(err)
		}
		_, _ = w.Write(content)
		_ = w.Close()
		return b.Bytes()
	}
	deflated := func(codec Kind) []byte {
		b, err := Compress(nil, codec, content)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	for name, c := range map[string]struct {
		codec    Kind
		b        []byte
		min, max int64
	}{
		"gzip":                     {Gzip, deflated(Gzip), 40 << 10, 128 << 10},
		"snappy":                   {Snappy, deflated(Snappy), 32 << 10, 512 << 10},
		"snappy that claims much":  {Snappy, []byte("\xff\xff\xff\xff\x0f"), 0, 24 * 5},
		"snappy that claims wrong": {Snappy, []byte("\xff"), 0, 0},
		"lz4 of small blocks":      {LZ4, blocks(lz4.Block64Kb), 128 << 10, 512 << 10},
		"lz4 of large blocks":      {LZ4, blocks(lz4.Block4Mb), 8 << 20, 10 << 20},
		"lz4 that ends at once":    {LZ4, nil, 0, 10 << 20},
		"zstd, its size known":     {Zstd, deflated(Zstd), 512 << 10, 2 << 20},
		"zstd, a small window":     {Zstd, stream(64 << 10), 128 << 10, 1 << 20},
		"zstd, a large window":     {Zstd, stream(8 << 20), 8 << 20, 10 << 20},
		"zstd, too large a window": {Zstd, stream(64 << 20), 8 << 20, 10 << 20},
		"zstd that is none":        {Zstd, []byte("xxxxxxxxxxxx"), 0, 10 << 20},
	} {
		if n := inflateNeed(c.codec, c.b); n < c.min || n > c.max {
			t.Errorf("%s: %d bytes, want %d to %d", name, n, c.min, c.max)
		}
	}
}

// TestWhoWaitsInherits: while somebody waits for a turn, collections do not take away what the next one needs; afterwards nothing is kept.
func TestWhoWaitsInherits(t *testing.T) {
	t.Cleanup(func() { SetMemory(DefaultMemory) })
	SetMemory(1 << 20)
	src, err := Compress(nil, Zstd, bytes.Repeat([]byte("0123456789abcdef"), 1<<15))
	if err != nil {
		t.Fatal(err)
	}
	open := func() *Inflater {
		f, err := Open(Zstd, src, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	first := open()
	next := make(chan turn)
	go func() { next <- inflating.Load().take(1 << 20) }()
	for !inflating.Load().awaited() {
		runtime.Gosched()
	}
	first.Close()
	turn := <-next
	for range 3 {
		runtime.GC() // which empties the pools
	}
	if f := idleInflater(Zstd, first.window); f != first {
		t.Error("another one was made")
	}
	heir.Store(first)
	if f := idleInflater(Gzip, 0); f == first || heir.Load() != nil {
		t.Error("one of another sort is kept")
	}
	turn.give()
	heir.Store(first)
	open().Close()
	if heir.Load() != nil {
		t.Error("one is kept, though nobody waits")
	}
}
