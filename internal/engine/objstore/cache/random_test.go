package cache

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestReadsMatchTheBucket reads at random through a small cache and without it. Meanwhile objects
// are stored and deleted, the cache is closed and reopened, and its files are damaged. Both results
// are always equal, and the folder never exceeds its bound.
func TestReadsMatchTheBucket(t *testing.T) {
	for seed := range uint64(sebtest.Runs(40, 3)) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed)
			for range 150 {
				w.step()
			}
			mustClose(t, w.c)
			if w.hits == 0 || w.asked == 0 {
				t.Errorf("%d hits, %d requests: nothing was tested", w.hits, w.asked)
			}
		})
	}
}

type world struct {
	t     *testing.T
	rnd   *rand.Rand
	b     *bucket
	dir   string
	o     Options
	tune  tuning
	c     *Cache
	keys  []string
	next  int
	hits  uint64
	asked int
	// damaged is true until the cache has opened a damaged folder, whose files may have grown.
	damaged bool
}

func newWorld(t *testing.T, seed uint64) *world {
	w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, 1)), b: newBucket(), dir: t.TempDir(), o: options()}
	w.o.Bytes = int64(1+w.rnd.IntN(12)) * pageBytes
	w.o.Admit = func(key string, start []byte) bool { return start[0]%5 != 0 }
	w.tune = tuning{block: int64(10 + w.rnd.IntN(5000)), openMax: w.rnd.IntN(4), hook: func(string) error {
		if got := onDisk(t, w.dir); got > w.o.Bytes && !w.damaged {
			t.Errorf("%d bytes on disk, the bound is %d", got, w.o.Bytes)
		}
		return nil
	}}
	w.c = mustTune(t, w.dir, w.b, w.o, w.tune)
	return w
}

func (w *world) step() {
	switch n := w.rnd.IntN(20); {
	case n < 3 || len(w.keys) == 0:
		w.put()
	case n == 3:
		i := w.rnd.IntN(len(w.keys))
		check.NoError(w.t, w.c.Delete(w.t.Context(), w.keys[i]))
	case n == 4:
		w.hits += w.c.Stats().Hits
		mustClose(w.t, w.c)
		for range w.rnd.IntN(4) {
			w.damage()
		}
		w.damaged = true
		w.c = mustTune(w.t, w.dir, w.b, w.o, w.tune)
		w.damaged = false
	case n < 7:
		w.ahead()
	default:
		w.read()
	}
}

func (w *world) put() {
	w.next++
	key, data := fmt.Sprintf("k/%d", w.next), pattern(w.rnd.IntN(3*int(w.tune.block)+100), w.next)
	w.b.fill(w.t, key, data)
	w.keys = append(w.keys, key)
	if w.rnd.IntN(2) == 0 {
		cut := w.rnd.IntN(len(data) + 1)
		var kept sync.WaitGroup
		kept.Add(1)
		w.c.Keep(key, [][]byte{data[:cut], data[cut:]}, kept.Done)
		kept.Wait()
	}
}

func (w *world) ahead() {
	var next []objstore.Extent
	for range w.rnd.IntN(4) {
		key := w.keys[w.rnd.IntN(len(w.keys))]
		next = append(next, objstore.Extent{Key: key, Range: objstore.Range{Offset: w.rnd.Int64N(2 * w.tune.block), Length: 1 + w.rnd.Int64N(3*w.tune.block)}})
	}
	w.c.FetchAhead(next, w.rnd.Int64N(3*w.tune.block), w.rnd.Int64N(9*w.tune.block))
}

func (w *world) read() {
	key := w.keys[w.rnd.IntN(len(w.keys))]
	r := objstore.Range{Offset: w.rnd.Int64N(2*w.tune.block + 50), Length: w.rnd.Int64N(2*w.tune.block+100) - 10}
	if w.rnd.IntN(3) == 0 {
		r = objstore.Whole
	}
	wantData, wantSize, wantErr := read(w.t.Context(), w.b.Store, key, r)
	data, size, err := w.through(key, r)
	w.asked += len(w.b.asked())
	if !bytes.Equal(data, wantData) || size != wantSize || verdict(err) != verdict(wantErr) {
		w.t.Fatalf("%s %+v: %d bytes of %d, %v; without the cache %d bytes of %d, %v",
			key, r, len(data), size, err, len(wantData), wantSize, wantErr)
	}
}

// through reads in one of the possible ways to read a body.
func (w *world) through(key string, r objstore.Range) ([]byte, int64, error) {
	if w.rnd.IntN(2) == 0 {
		return read(w.t.Context(), w.c, key, r)
	}
	o, err := w.c.Get(w.t.Context(), key, r)
	if err != nil {
		return nil, 0, err
	}
	defer o.Body.Close()
	var buf bytes.Buffer
	if _, err := io.CopyN(&buf, o.Body, int64(w.rnd.IntN(20))); err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	_, err = io.Copy(&buf, o.Body)
	return buf.Bytes(), o.Size, err
}

// verdict is the store error that err matches.
func verdict(err error) error {
	for _, v := range []error{objstore.ErrNotFound, objstore.ErrThrottled, objstore.ErrNoVerdict, objstore.ErrRefused} {
		if errors.Is(err, v) {
			return v
		}
	}
	return err
}

// damage damages a file of the cache as a disk or an operator might do.
func (w *world) damage() {
	paths := files(w.t, w.dir)
	if len(paths) == 0 {
		return
	}
	path, other := paths[w.rnd.IntN(len(paths))], paths[w.rnd.IntN(len(paths))]
	data, err := os.ReadFile(path)
	must.NoError(w.t, err)
	switch w.rnd.IntN(5) {
	case 0:
		data[w.rnd.IntN(len(data))] ^= 1 << w.rnd.IntN(8)
	case 1:
		data = data[:w.rnd.IntN(len(data))]
	case 2:
		clear(data[w.rnd.IntN(len(data)):])
	case 3:
		if data, err = os.ReadFile(other); err != nil {
			w.t.Fatal(err)
		}
	case 4:
		must.NoError(w.t, os.Remove(path))
		return
	}
	if len(data) == 0 {
		data = []byte{0}
	}
	must.NoError(w.t, os.WriteFile(path, data, 0o600))
}

// TestManyReadersAtOnce reads, keeps and forgets from many goroutines. Run it with -race.
func TestManyReadersAtOnce(t *testing.T) {
	b, dir := newBucket(), t.TempDir()
	o := options()
	o.Bytes, o.Fetches = 10*pageBytes, 2
	c := mustTune(t, dir, b, o, tuning{block: 1000, openMax: 2, hook: func(string) error {
		if got := onDisk(t, dir); got > o.Bytes {
			t.Errorf("%d bytes on disk, the bound is %d", got, o.Bytes)
		}
		return nil
	}})
	data := make(map[string][]byte)
	for i := range 6 {
		key := fmt.Sprint(i)
		data[key] = pattern(700*i+100, i)
		b.fill(t, key, data[key])
	}
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			rnd := rand.New(rand.NewPCG(7, uint64(worker)))
			for range sebtest.Runs(150, 20) {
				key := fmt.Sprint(rnd.IntN(6))
				switch rnd.IntN(10) {
				case 0:
					c.Forget(key)
				case 1:
					c.Keep(key, [][]byte{data[key]}, nil)
				case 2:
					c.FetchAhead([]objstore.Extent{{Key: key, Range: objstore.Range{Length: 2000}}}, 1000, 1000)
				default:
					want(t, c, key, data[key])
				}
			}
		})
	}
	wg.Wait()
	mustClose(t, c)
	check.Equalf(t, len(c.slots), 0, "memory slots are still in use")
}
