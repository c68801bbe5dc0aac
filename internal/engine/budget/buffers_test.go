package budget

import (
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestBufferSizes(t *testing.T) {
	last := -1
	for n := range bufferMax + 1 {
		index, size := sizeClass(n)
		if size < n || index < 0 || index >= sizeCount {
			t.Fatalf("%d bytes go to class %d of size %d", n, index, size)
		}
		if n > bufferMin && float64(size-n) > 0.25*float64(n) {
			t.Fatalf("%d bytes take %d", n, size)
		}
		if again, exact := sizeClass(size); again != index || exact != size {
			t.Fatalf("size %d of class %d is of class %d itself", size, index, again)
		}
		if index != last && index != last+1 {
			t.Fatalf("class %d follows %d", index, last)
		}
		last = index
	}
	if last != sizeCount-1 {
		t.Errorf("the largest class is %d of %d", last, sizeCount)
	}
}

func TestBuffersAreReused(t *testing.T) {
	b := NewBuffers(1 << 20)
	first := b.Get(1000)
	if len(first) != 1000 || cap(first) != SizeFor(1000) {
		t.Fatalf("length %d, capacity %d", len(first), cap(first))
	}
	first[0] = 7
	b.Put(first[:3])
	if b.Idle() != int64(SizeFor(1000)) {
		t.Errorf("%d bytes idle", b.Idle())
	}
	second := b.Get(SizeFor(1000))
	if &second[0] != &first[0] || b.Idle() != 0 {
		t.Error("the buffer was not reused")
	}
}

func TestForeignBuffersAreIgnored(t *testing.T) {
	b := NewBuffers(1 << 30)
	b.Put(nil)
	b.Put(make([]byte, 0, 513))
	b.Put(b.Get(2048)[1:])
	b.Put(b.Get(bufferMax + 1))
	if b.Idle() != 0 {
		t.Errorf("%d bytes idle", b.Idle())
	}
	if n := len(b.Get(0)); n != 0 {
		t.Errorf("length %d", n)
	}
	if SizeFor(bufferMax+1) != bufferMax+1 {
		t.Error("a large buffer is rounded")
	}
}

func TestIdleBuffersAreBounded(t *testing.T) {
	b := NewBuffers(10 << 10)
	for range 5 {
		var got [][]byte
		for range 20 {
			got = append(got, b.Get(1<<10))
		}
		for _, buf := range got {
			b.Put(buf)
			if b.Idle() > 10<<10 {
				t.Fatalf("%d bytes idle", b.Idle())
			}
		}
	}
	b.Put(b.Get(16 << 10))
	if b.Idle() != 10<<10 {
		t.Errorf("a buffer above the bound changed what is idle: %d", b.Idle())
	}
	// a size in use displaces one that is not
	large := b.Get(4 << 10)
	b.Put(large)
	if again := b.Get(4 << 10); &again[0] != &large[0] {
		t.Error("idle buffers of another size kept this one out")
	}
}

func TestPoisonShowsUseAfterPut(t *testing.T) {
	b := NewBuffers(1 << 20)
	b.Poison()
	buf := b.Get(600)
	buf[599] = 1
	b.Put(buf)
	if buf[0] != 0xdb || buf[599] != 0xdb {
		t.Error("content survived")
	}
}

func TestBuffersConcurrently(t *testing.T) {
	b := NewBuffers(64 << 10)
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			for i := range 500 {
				buf := b.Get((i*37+worker)%9000 + 1)
				for j := range buf {
					buf[j] = byte(worker)
				}
				for j := range buf {
					if buf[j] != byte(worker) {
						t.Error("a buffer has two owners")
						return
					}
				}
				b.Put(buf)
			}
		})
	}
	wg.Wait()
}

// TestIdleBuffersStayWithinFreeShares checks two bounds. During requests more than the pool's share
// may idle, but idle and used bytes never exceed the shares. Once all requests have been gone for
// idleAfter, at most the pool's share idles.
func TestIdleBuffersStayWithinFreeShares(t *testing.T) {
	synctest.Test(t, idleBuffersStayWithinFreeShares)
}

func idleBuffersStayWithinFreeShares(t *testing.T) {
	type held struct {
		res *Reservation
		buf []byte
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	b := New(256 << 20)
	classes := []*Class{b.Class(Produce), b.Class(Objects), b.Class(Fetch)}
	all := b.Class(Pool).Limit()
	for _, c := range classes {
		all += c.Limit()
	}
	var have []held
	beyond := false
	take := func(c *Class, n int) {
		if res, err := c.Reserve(int64(SizeFor(n))); err == nil {
			have = append(have, held{res, b.Buffers().Get(n)})
		}
	}
	drop := func(i int) {
		b.Buffers().Put(have[i].buf)
		have[i].res.Release()
		have[i] = have[len(have)-1]
		have = have[:len(have)-1]
	}
	for range 20_000 {
		if rnd.IntN(40) == 0 {
			for range rnd.IntN(len(have) + 1) { // an object is settled
				drop(rnd.IntN(len(have)))
			}
		}
		take(classes[rnd.IntN(len(classes))], 1<<(10+rnd.IntN(11))-rnd.IntN(500))
		if len(have) > 0 && rnd.IntN(3) == 0 {
			drop(rnd.IntN(len(have)))
		}
		idle, used := b.Buffers().Idle(), int64(0)
		for _, c := range classes {
			used += c.Used()
		}
		beyond = beyond || idle > b.Class(Pool).Limit()
		if idle+used > all {
			t.Fatalf("%d idle and %d used, of %d", idle, used, all)
		}
	}
	if !beyond {
		t.Error("never more than the pool's share was idle")
	}
	for len(have) < 100 {
		take(classes[rnd.IntN(len(classes))], 100<<10)
	}
	for _, h := range have { // like an object: all buffers, then their reservation
		b.Buffers().Put(h.buf)
	}
	for _, h := range have {
		h.res.Release()
	}
	if idle := b.Buffers().Idle(); idle <= b.Class(Pool).Limit() {
		t.Errorf("only %d bytes idle right after the requests", idle)
	}
	time.Sleep(idleAfter) // in synctest's time
	synctest.Wait()
	if idle := b.Buffers().Idle(); idle > b.Class(Pool).Limit() {
		t.Errorf("%d bytes idle after idleAfter without requests", idle)
	}
}
