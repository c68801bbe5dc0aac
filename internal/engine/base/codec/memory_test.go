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

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMemoryLimitIsBoundedAndFair(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := memoryLimit{size: 100, bytes: semaphore.NewWeighted(100)}
		var order []int64
		var wg sync.WaitGroup
		first := s.acquire(60)
		for _, n := range []int64{50, 500, 10} { // 10 would fit, but must not overtake
			wg.Go(func() {
				got := s.acquire(n)
				order = append(order, got.n)
				got.release()
			})
			synctest.Wait()
		}
		if len(order) != 0 || !s.contended() {
			t.Fatalf("%v granted while %d of 100 bytes are in use", order, first.n)
		}
		first.release()
		wg.Wait()
		if len(order) != 3 || order[0] != 50 || order[1] != 100 || order[2] != 25 || s.contended() || !s.bytes.TryAcquire(100) {
			t.Fatalf("granted %v, want [50 100 25]", order)
		}
	})
}

func TestInflateNeed(t *testing.T) {
	content := bytes.Repeat([]byte("0123456789abcdef"), 1<<15) // 512 KiB
	stream := func(window int) []byte {
		var b bytes.Buffer
		w := must.Get(zstd.NewWriter(&b, zstd.WithWindowSize(window)))(t)
		_, _ = w.Write(content[:1000])
		_ = w.Flush() // so that the frame does not state its size
		_, _ = w.Write(content)
		_ = w.Close()
		return b.Bytes()
	}
	blocks := func(size lz4.BlockSize) []byte {
		var b bytes.Buffer
		w := lz4.NewWriter(&b)
		must.NoError(t, w.Apply(lz4.BlockSizeOption(size)))
		_, _ = w.Write(content)
		_ = w.Close()
		return b.Bytes()
	}
	deflated := func(codec Kind) []byte {
		b := must.Get(Compress(nil, codec, content))(t)
		return b
	}
	for name, c := range map[string]struct {
		codec    Kind
		b        []byte
		min, max int64
	}{
		"gzip":                   {Gzip, deflated(Gzip), 40 << 10, 128 << 10},
		"snappy":                 {Snappy, deflated(Snappy), 32 << 10, 512 << 10},
		"snappy, huge claim":     {Snappy, []byte("\xff\xff\xff\xff\x0f"), 0, 24 * 5},
		"snappy, invalid claim":  {Snappy, []byte("\xff"), 0, 0},
		"lz4, small blocks":      {LZ4, blocks(lz4.Block64Kb), 64 << 10, 256 << 10},
		"lz4, large blocks":      {LZ4, blocks(lz4.Block4Mb), 4 << 20, 5 << 20},
		"lz4, empty":             {LZ4, nil, 0, 10 << 20},
		"zstd, size known":       {Zstd, deflated(Zstd), 512 << 10, 2 << 20},
		"zstd, small window":     {Zstd, stream(64 << 10), 128 << 10, 1 << 20},
		"zstd, large window":     {Zstd, stream(8 << 20), 8 << 20, 10 << 20},
		"zstd, window too large": {Zstd, stream(64 << 20), 8 << 20, 10 << 20},
		"zstd, no header":        {Zstd, []byte("xxxxxxxxxxxx"), 0, 10 << 20},
	} {
		if n := inflateNeed(c.codec, c.b); n < c.min || n > c.max {
			t.Errorf("%s: %d bytes, want %d to %d", name, n, c.min, c.max)
		}
	}
}

// TestInflaterIsHandedToWaiter checks that garbage collections do not discard an Inflater that a
// waiting caller needs, and that none is retained afterwards.
func TestInflaterIsHandedToWaiter(t *testing.T) {
	t.Cleanup(func() { SetMemory(DefaultMemory) })
	SetMemory(1 << 20)
	src := must.Get(Compress(nil, Zstd, bytes.Repeat([]byte("0123456789abcdef"), 1<<15)))(t)
	open := func() *Inflater {
		f := must.Get(Open(Zstd, src, 1<<30))(t)
		return f
	}
	first := open()
	next := make(chan share)
	go func() { next <- inflating.Load().acquire(1 << 20) }()
	for !inflating.Load().contended() {
		runtime.Gosched()
	}
	first.Close()
	share := <-next
	for range 3 {
		runtime.GC() // empties the pools
	}
	check.Equalf(t, idleInflater(Zstd, first.window), first, "the handed-off inflater is not used")
	handoff.Store(first)
	if f := idleInflater(Gzip, 0); f == first || handoff.Load() != nil {
		t.Error("an inflater of another codec was used or kept")
	}
	share.release()
	handoff.Store(first)
	open().Close()
	if handoff.Load() != nil {
		t.Error("an inflater is kept although no caller waits")
	}
}
