package cache

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/storetest"
)

func TestContract(t *testing.T) {
	run := func(name string, test func(*testing.T)) {
		if name == "small" || !testing.Short() {
			t.Run(name, test)
		}
	}
	run("large", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) objstore.Store {
			return mustOpen(t, t.TempDir(), objstore.NewMemory(), options())
		})
	})
	run("small", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) objstore.Store {
			o := options()
			o.Bytes = 1 << 20
			return mustTune(t, t.TempDir(), objstore.NewMemory(), o, tuning{block: 64 << 10, openMax: 2})
		})
	})
	run("off", func(t *testing.T) {
		storetest.Run(t, func(t *testing.T) objstore.Store {
			return mustOpen(t, t.TempDir(), objstore.NewMemory(), Options{Cluster: "c"})
		})
	})
}

func TestOptionsAreChecked(t *testing.T) {
	for _, o := range []Options{{Bytes: -1, Cluster: "c"}, {}, {Cluster: strings.Repeat("c", 256)}, {Cluster: "c", Fetches: -1}} {
		if c, err := Open(t.TempDir(), newBucket(), o); err == nil {
			mustClose(t, c)
			t.Errorf("opened with %+v", o)
		}
	}
}

func TestSecondReadMakesNoRequest(t *testing.T) {
	b, dir := newBucket(), t.TempDir()
	data := pattern(3*blockBytes+17, 1)
	b.fill(t, "a/b", data)
	c := mustOpen(t, dir, b, options())
	want(t, c, "a/b", data)
	if asked := b.asked(); len(asked) != 1 {
		t.Errorf("a cold read of four blocks asked %q", asked)
	}
	want(t, c, "a/b", data)
	mustClose(t, c)
	c = mustOpen(t, dir, b, options())
	want(t, c, "a/b", data)
	part, _, err := read(t.Context(), c, "a/b", objstore.Range{Offset: blockBytes - 3, Length: 6})
	if err != nil || !bytes.Equal(part, data[blockBytes-3:blockBytes+3]) {
		t.Errorf("range over two blocks: %q, %v", part, err)
	}
	if asked := b.asked(); len(asked) != 0 {
		t.Errorf("warm reads asked %q", asked)
	}
}

func TestOneRequestFetchesMissingBlocks(t *testing.T) {
	b := newBucket()
	data := pattern(4000, 1)
	b.fill(t, "k", data)
	c := mustTune(t, t.TempDir(), b, options(), tuning{block: 1000, openMax: openMax})
	must.Get2(read(t.Context(), c, "k", objstore.Range{Offset: 2500, Length: 1}))(t)
	want(t, c, "k", data)
	check.Equalf(t, strings.Join(b.asked(), ", "), "k 2000+1000, k 0+2000, k 3000+1000", "asked")
}

func TestManyReadersOfOneColdBlockAreOneRequest(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		data := pattern(5000, 1)
		b.fill(t, "k", data)
		c := mustOpen(t, dir, b, options())
		defer mustClose(t, c)
		gate := make(chan struct{})
		b.before = func(context.Context, string) error { <-gate; return nil }
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() { // the first reader leaves: the others must still get their answer
			if _, _, err := read(ctx, c, "k", objstore.Whole); !errors.Is(err, context.Canceled) || !errors.Is(err, objstore.ErrNoVerdict) {
				t.Errorf("cancelled read: %v", err)
			}
		})
		synctest.Wait()
		for range 32 {
			wg.Go(func() { want(t, c, "k", data) })
		}
		synctest.Wait()
		cancel()
		synctest.Wait()
		close(gate)
		wg.Wait()
		if asked := b.asked(); len(asked) != 1 {
			t.Errorf("33 readers asked %q", asked)
		}
	})
}

// TestFewBlocksInMemoryDoNotHoldUpRequests: a replay of the log reads many small objects at a time,
// and no request waits for the response of another.
func TestFewBlocksInMemoryDoNotHoldUpRequests(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		o := options()
		o.Fetches = 1
		c := mustOpen(t, dir, b, o)
		defer mustClose(t, c)
		gate := make(chan struct{})
		b.before = func(context.Context, string) error { <-gate; return nil }
		var wg sync.WaitGroup
		for i := range asksMax + 3 {
			key := fmt.Sprint("k", i)
			b.fill(t, key, pattern(100, i))
			wg.Go(func() { want(t, c, key, pattern(100, i)) })
		}
		synctest.Wait()
		check.Equalf(t, len(b.asked()), asksMax, "requests under way")
		close(gate)
		wg.Wait()
	})
}

func TestMissesAreNotRemembered(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		c := mustOpen(t, dir, b, options())
		defer mustClose(t, c)
		gate := make(chan struct{})
		b.before = func(context.Context, string) error {
			if len(b.gets) == 1 {
				<-gate
				return objstore.ErrNotFound // the state when this request was answered
			}
			return nil
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, _, err := read(t.Context(), c, "k", objstore.Whole); !errors.Is(err, objstore.ErrNotFound) {
				t.Errorf("read of a missing object: %v", err)
			}
		})
		synctest.Wait()
		b.fill(t, "k", []byte("there now"))
		// joins a request that began before the put
		wg.Go(func() { want(t, c, "k", []byte("there now")) })
		synctest.Wait()
		close(gate)
		wg.Wait()
		want(t, c, "k", []byte("there now"))
	})
}

func TestOnlyAdmittedObjectsAreCached(t *testing.T) {
	b, dir := newBucket(), t.TempDir()
	o := options()
	o.Cacheable = func(key string) bool { return strings.HasPrefix(key, "wal/") }
	o.Admit = func(_ string, start []byte) bool { return start[0] == 'D' }
	c := mustOpen(t, dir, b, o)
	for key, content := range map[string]string{"snap/1": "D", "wal/seal": "S", "wal/empty": ""} {
		b.fill(t, key, []byte(content))
		c.Keep(key, [][]byte{[]byte(content)}, nil)
		for range 2 {
			want(t, c, key, []byte(content))
		}
		if asked := b.asked(); len(asked) < 2 {
			t.Errorf("two reads of %s made %d requests", key, len(asked))
		}
	}
	b.fill(t, "wal/data", []byte("D"))
	for range 2 {
		want(t, c, "wal/data", []byte("D"))
	}
	if asked := b.asked(); len(asked) != 1 || len(files(t, dir)) != 1 {
		t.Errorf("asked %q; files %q", asked, files(t, dir))
	}
}

func TestReadersOfUnadmittedObjectShareNothing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		b := newBucket()
		b.fill(t, "seal", []byte("S"))
		o := options()
		o.Admit = func(string, []byte) bool { return false }
		c := mustOpen(t, dir, b, o)
		defer mustClose(t, c)
		gate := make(chan struct{})
		b.before = func(context.Context, string) error { <-gate; return nil }
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() { want(t, c, "seal", []byte("S")) })
		}
		synctest.Wait()
		close(gate)
		wg.Wait()
		if asked := b.asked(); len(asked) != 3 {
			t.Errorf("3 readers asked %q", asked)
		}
	})
}

func TestKeptObjectIsReadFromDisk(t *testing.T) {
	b := newBucket()
	data := pattern(2500, 1)
	b.fill(t, "k", data)
	c := mustTune(t, t.TempDir(), b, options(), tuning{block: 1000, openMax: openMax})
	done := make(chan struct{})
	c.Keep("k", [][]byte{data[:1], data[1:1300], nil, data[1300:]}, func() { close(done) })
	<-done
	want(t, c, "k", data)
	if asked := b.asked(); len(asked) != 0 {
		t.Errorf("asked %q", asked)
	}
}

func TestKeepNeverWaits(t *testing.T) {
	b := newBucket()
	gate := make(chan struct{})
	c := mustTune(t, t.TempDir(), b, options(), tuning{block: 1000, openMax: openMax, hook: func(op string) error {
		if op == "create" {
			<-gate
		}
		return nil
	}})
	var done atomic.Int64
	const objects = queueMax + 10
	for i := range objects {
		c.Keep(fmt.Sprint(i), [][]byte{[]byte("x")}, func() { done.Add(1) })
	}
	if turned := c.Stats().Unkept; turned < 9 || done.Load() != int64(turned) {
		t.Errorf("%d of %d objects were refused, %d released", turned, objects, done.Load())
	}
	close(gate)
	mustClose(t, c)
	c.Keep("late", [][]byte{[]byte("x")}, func() { done.Add(1) })
	if done.Load() != objects+1 {
		t.Errorf("%d of %d objects were released", done.Load(), objects+1)
	}
}

func TestForgottenWhileFetchedIsNotCached(t *testing.T) {
	b, dir := newBucket(), t.TempDir()
	b.fill(t, "k", []byte("x"))
	b.fill(t, "other", []byte("y"))
	c := mustOpen(t, dir, b, options())
	want(t, c, "other", []byte("y"))
	c.hook = func(op string) error {
		if op == "create" {
			c.Forget("k")
		}
		return nil
	}
	want(t, c, "k", []byte("x"))
	if s := c.Stats(); s.Blocks != 1 || len(files(t, dir)) != 1 {
		t.Errorf("stats %+v, files %q", s, files(t, dir))
	}
	must.NoError(t, c.Delete(t.Context(), "k"))
	if _, _, err := read(t.Context(), c, "k", objstore.Whole); !errors.Is(err, objstore.ErrNotFound) {
		t.Errorf("a deleted object: %v", err)
	}
	if got := files(t, dir); len(got) != 1 {
		t.Errorf("files %q", got)
	}
	if s := c.Stats(); s.Blocks != 1 || s.Bytes != pageBytes {
		t.Errorf("stats %+v", s)
	}
}

// TestReadAfterADelete: a read that begins after a delete does not join a read that began before it.
func TestReadAfterADelete(t *testing.T) {
	b := newBucket()
	b.fill(t, "k", []byte("x"))
	c := mustOpen(t, t.TempDir(), b, options())
	var later error
	var reader sync.WaitGroup
	c.hook = func(op string) error {
		if op == "create" {
			check.NoError(t, c.Delete(context.Background(), "k"))
			reader.Go(func() { _, _, later = read(context.Background(), c, "k", objstore.Whole) })
			for c.Stats().Misses < 2 {
				runtime.Gosched() // until the reader waits
			}
		}
		return nil
	}
	want(t, c, "k", []byte("x"))
	if reader.Wait(); !errors.Is(later, objstore.ErrNotFound) {
		t.Errorf("a read after the delete: %v", later)
	}
}

func TestReadersKeepWhatTheyRead(t *testing.T) {
	b := newBucket()
	data := pattern(3000, 1)
	b.fill(t, "k", data)
	b.fill(t, "next", data)
	o := options()
	o.Bytes = 2 * pageBytes // one block
	dir := t.TempDir()
	c := mustTune(t, dir, b, o, tuning{block: 4000, openMax: openMax})
	got := must.Get(c.Get(t.Context(), "k", objstore.Whole))(t)
	first := make([]byte, 10)
	must.Get(io.ReadFull(got.Body, first))(t)
	o2 := pattern(4000+200, 2) // larger than the space next to the block that is being read
	b.fill(t, "large", o2)
	want(t, c, "large", o2)
	want(t, c, "next", data)
	c.Forget("k")
	mustClose(t, c)
	rest, err := io.ReadAll(got.Body)
	if err != nil || !bytes.Equal(append(first, rest...), data) {
		t.Errorf("reading continued after Forget and Close: %d bytes, %v", len(rest), err)
	}
	check.NoError(t, got.Body.Close())
	check.NoErrorf(t, got.Body.Close(), "second close")
}

func TestConnectionGetsTheBytes(t *testing.T) {
	b := newBucket()
	data := pattern(2*blockBytes+999, 3)
	b.fill(t, "k", data)
	c := mustOpen(t, t.TempDir(), b, options())
	want(t, c, "k", data)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	received := make(chan []byte)
	go func() {
		conn, err := l.Accept()
		if err != nil {
			close(received)
			return
		}
		defer conn.Close()
		all, _ := io.ReadAll(conn)
		received <- all
	}()
	conn := must.Get(net.Dial("tcp", l.Addr().String()))(t)
	got := must.Get(c.Get(t.Context(), "k", objstore.Range{Offset: 5, Length: int64(len(data)) - 10}))(t)
	defer got.Body.Close()
	if n, err := io.Copy(conn, got.Body); err != nil || n != int64(len(data)-10) {
		t.Errorf("copied %d: %v", n, err)
	}
	conn.Close()
	if all := <-received; !bytes.Equal(all, data[5:len(data)-5]) {
		t.Errorf("%d bytes arrived with other content", len(all))
	}
}

func TestOpenFilesAndIndexAreBounded(t *testing.T) {
	b := newBucket()
	o := options()
	index := budget.New(budget.LimitMin).Class(budget.CacheIndex)
	o.Index = index
	held := must.Get(index.Reserve(index.Limit() - 10*entryBytes))(t)
	dir := t.TempDir()
	c := mustTune(t, dir, b, o, tuning{block: 1000, openMax: 3})
	for i := range 30 {
		key := fmt.Sprint(i)
		b.fill(t, key, pattern(10, i))
		want(t, c, key, pattern(10, i))
		if c.opened.list.Len() > 3 || c.Stats().Blocks > 10 || len(files(t, dir)) > 10 {
			t.Fatalf("%d files open, %d blocks, %d files", c.opened.list.Len(), c.Stats().Blocks, len(files(t, dir)))
		}
	}
	b.asked()
	for i := 29; i >= 20; i-- {
		want(t, c, fmt.Sprint(i), pattern(10, i))
	}
	if asked := b.asked(); len(asked) != 0 {
		t.Errorf("the ten most recently used blocks were requested: %q", asked)
	}
	mustClose(t, c)
	check.Equalf(t, index.Used(), held.Size(), "%d bytes of the index are still reserved", index.Used()-held.Size())
	must.NoError(t, held.Grow(5*entryBytes))
	c = mustTune(t, dir, b, o, tuning{block: 1000, openMax: 3})
	if c.Stats().Blocks != 5 || len(files(t, dir)) != 5 {
		t.Errorf("%d blocks and %d files, but the index has room for 5", c.Stats().Blocks, len(files(t, dir)))
	}
}

func TestLeftoversOfACrash(t *testing.T) {
	b, dir := newBucket(), t.TempDir()
	b.fill(t, "k", []byte("x"))
	c := mustOpen(t, dir, b, options())
	want(t, c, "k", []byte("x"))
	mustClose(t, c)
	block := filepath.Base(files(t, dir)[0])
	keep := map[string]string{
		"notes.txt":              "a foreign file",
		strings.ToUpper(block):   "a block name in upper case",
		block + "0":              "too long a name",
		"x" + block[1:]:          "not hexadecimal",
		block[:32] + "+0000000f": "no number",
	}
	gone := map[string]string{
		"tmp-1": "half a bl", "tmp-77": "",
		block[:31] + "0-00000009": strings.Repeat("z", blockBytes+trailerMax+1),
	}
	for _, group := range []map[string]string{keep, gone} {
		for file, text := range group {
			must.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
		}
	}
	must.NoError(t, os.Mkdir(filepath.Join(dir, "tmp-2"), 0o700))
	b.asked()
	c = mustOpen(t, dir, b, options())
	want(t, c, "k", []byte("x"))
	if asked := b.asked(); len(asked) != 0 || c.Stats().Blocks != 1 {
		t.Errorf("asked %q, stats %+v", asked, c.Stats())
	}
	for file := range gone {
		check.Error(t, check.Err(os.Stat(filepath.Join(dir, file))), "%s was not removed", file)
	}
	for file := range keep {
		check.NoErrorf(t, check.Err(os.Stat(filepath.Join(dir, file))), "%s", file)
	}
}

func TestRecentlyUsedBlocksStay(t *testing.T) {
	b, dir := newBucket(), t.TempDir()
	o := options()
	o.Bytes = 3 * pageBytes
	tune := tuning{block: 1000, openMax: 0} // every read opens the file again
	for i := range 5 {
		b.fill(t, fmt.Sprint(i), pattern(10, i))
	}
	c := mustTune(t, dir, b, o, tune)
	for _, i := range []int{0, 1, 2, 0, 3, 0, 4} {
		want(t, c, fmt.Sprint(i), pattern(10, i))
	}
	b.asked()
	for _, i := range []int{0, 3, 4} {
		want(t, c, fmt.Sprint(i), pattern(10, i))
	}
	if asked := b.asked(); len(asked) != 0 {
		t.Errorf("asked %q", asked)
	}
}

func TestSmallerBoundAtTheNextStart(t *testing.T) {
	b, dir := newBucket(), t.TempDir()
	c := mustOpen(t, dir, b, options())
	for i := range 8 {
		b.fill(t, fmt.Sprint(i), pattern(10, i))
		want(t, c, fmt.Sprint(i), pattern(10, i))
	}
	mustClose(t, c)
	o := options()
	o.Bytes = 3 * pageBytes
	c = mustOpen(t, dir, b, o)
	if s := c.Stats(); s.Blocks != 3 || s.Bytes != 3*pageBytes || onDisk(t, dir) > o.Bytes {
		t.Errorf("stats %+v, %d bytes on disk", s, onDisk(t, dir))
	}
}

func TestClustersDoNotSeeEachOthersObjects(t *testing.T) {
	dir := t.TempDir()
	for i, cluster := range []string{"one", "two", "one"} {
		b := newBucket()
		data := []byte(cluster)
		b.fill(t, "k", data)
		o := options()
		o.Cluster = cluster
		c := mustOpen(t, dir, b, o)
		want(t, c, "k", data)
		if asked := b.asked(); (len(asked) == 0) != (i == 2) {
			t.Errorf("run %d of %s asked %q", i, cluster, asked)
		}
		mustClose(t, c)
	}
}
