package node

import (
	"bytes"
	"context"
	"io"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// distantStore is a remote store: a GET of a commit object takes a time, and its bytes arrive one
// after the other. It counts these GETs.
type distantStore struct {
	*remoteStore
	latency time.Duration
	mib     time.Duration // for a MiB of one GET

	mu                   sync.Mutex // guards the fields below
	gets, inFlight, most int
	bytes                int64
}

func (s *distantStore) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	if !strings.Contains(key, "/wal/") || s.latency == 0 {
		return s.remoteStore.Get(ctx, key, r)
	}
	s.mu.Lock()
	s.gets++
	s.inFlight++
	s.most = max(s.most, s.inFlight)
	s.mu.Unlock()
	time.Sleep(s.latency)
	o, err := s.remoteStore.Get(ctx, key, r)
	if err != nil {
		s.add(0, true)
		return o, err
	}
	o.Body = &distantBody{ReadCloser: o.Body, s: s}
	return o, nil
}

func (s *distantStore) add(n int, ends bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bytes += int64(n)
	if ends {
		s.inFlight--
	}
}

type distantBody struct {
	io.ReadCloser
	s *distantStore
}

func (b *distantBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	time.Sleep(b.s.mib * time.Duration(n) / (1 << 20))
	b.s.add(n, false)
	return n, err
}

func (b *distantBody) Close() error {
	b.s.add(0, true)
	return b.ReadCloser.Close()
}

const (
	historyObjects = 24
	historyBatches = 45 // of an object
)

// history writes 24 commit objects of 4.5 MB, in batches of 100 kB, into a new store.
func history(t *testing.T) *distantStore {
	t.Helper()
	s := &distantStore{remoteStore: &remoteStore{Store: objstore.NewMemory()}}
	n := open(t, Options{Store: s, DataDir: filepath.Join(t.TempDir(), "data"), BatchWait: BatchNone, NoMerge: true})
	must.NoError(t, n.EnsureTopic(t.Context(), "t"))
	batch, _ := must.Get2(record.Append(nil, []record.Record{{Value: make([]byte, 100_000), Timestamp: 1}}, record.EncodeOptions{}))(t)
	object := bytes.Repeat(batch, historyBatches)
	for range historyObjects {
		data := bytes.Clone(object)
		sum := must.Get(record.Check(data, record.Limits{}))(t)
		brokertest.Send(t, n, broker.Append{Topic: "t", Data: data, Summary: sum, ExpectedOffset: -1})
	}
	shut(t, n)
	return s
}

// cold opens a node whose disk cache has nothing but what the start has read. From now on GETs take
// time.
func (s *distantStore) cold(t *testing.T, memory int64) *Node {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data")
	n := open(t, Options{
		Store: s, DataDir: dir, CacheDir: filepath.Join(dir, "cache"), CacheBytes: 1 << 30, MemoryLimit: memory, NoMerge: true,
	})
	synctest.Wait() // no request of the start reads them
	s.latency, s.mib = 40*time.Millisecond, 10*time.Millisecond
	return n
}

// readFrom fetches about 1 MiB from an offset on and returns the next offset and the bytes read.
func readFrom(t *testing.T, n *Node, offset int64) (next, bytes int64) {
	t.Helper()
	f, err := n.Fetch(t.Context(), []broker.Want{{Topic: "t", Offset: offset, MaxBytes: 1 << 20}}, 0, 0)
	if err != nil || f.Parts[0].Err != nil || len(f.Parts[0].Chunks) == 0 {
		t.Fatalf("fetch from offset %d: %v, %+v", offset, err, f)
	}
	defer f.Release()
	for _, c := range f.Parts[0].Chunks {
		next, bytes = c.End, bytes+c.Size
	}
	return next, bytes
}

// TestAReaderInOrderIsReadAhead: where a GET takes 40 ms and 10 ms/MiB, a reader that asks for 1 MiB
// at a time gets 200 MB/s, which is 10 GETs in flight of that size. No byte is fetched twice.
func TestAReaderInOrderIsReadAhead(t *testing.T) {
	for _, memory := range []int64{64 << 20, 256 << 20}[:sebtest.Runs(2, 1)] {
		synctest.Test(t, func(t *testing.T) {
			s := history(t)
			n := s.cold(t, memory)
			began, sum, grown := time.Now(), int64(0), int64(0)
			for next := int64(0); next < historyObjects*historyBatches; {
				var bytes int64
				next, bytes = readFrom(t, n, next)
				if sum += bytes; grown == 0 && sum > 20e6 {
					began, grown = time.Now(), sum // the window has its size
				}
			}
			rate := float64(sum-grown) / 1e6 / time.Since(began).Seconds()
			shut(t, n)
			t.Logf("%d MiB of memory: %.0f MB/s, %d GETs, at most %d in flight, %d bytes of %d", memory>>20, rate, s.gets, s.most, s.bytes, sum)
			if rate < 200 || s.most < 4 || s.gets > 3*historyObjects || s.bytes > sum {
				t.Error("want 200 MB/s, 4 GETs in flight, 3 GETs per object, no byte twice")
			}
		})
	}
}

// TestARandomReaderIsNotReadAhead: reads at random offsets cause no request for what follows.
func TestARandomReaderIsNotReadAhead(t *testing.T) {
	sebtest.Long(t, "TestAReaderInOrderIsReadAhead remains")
	synctest.Test(t, func(t *testing.T) {
		s := history(t)
		n := s.cold(t, 256<<20)
		rnd := rand.New(rand.NewPCG(1, 2))
		for range sebtest.Runs(200, 60) {
			readFrom(t, n, rnd.Int64N(historyObjects*historyBatches))
		}
		if ahead := n.cache.cache.Load().Stats().Ahead; ahead > 0 {
			t.Errorf("%d requests read ahead", ahead)
		}
		shut(t, n)
	})
}

// TestAReaderThatStopsWastesLittle: of a reader that stops or goes elsewhere, at most as many bytes
// were fetched as it has read, besides the blocks that its reads touch.
func TestAReaderThatStopsWastesLittle(t *testing.T) {
	sebtest.Long(t, "TestAReaderInOrderIsReadAhead remains")
	synctest.Test(t, func(t *testing.T) {
		s := history(t)
		n := s.cold(t, 256<<20)
		next, sum := int64(0), int64(0)
		for sum < 20e6 {
			var bytes int64
			next, bytes = readFrom(t, n, next)
			sum += bytes
		}
		time.Sleep(time.Second)
		s.mu.Lock()
		gets, bytes := s.gets, s.bytes
		s.mu.Unlock()
		if bytes > 2*sum+4<<20 {
			t.Errorf("%d bytes were fetched for %d", bytes, sum)
		}
		readFrom(t, n, 900)
		time.Sleep(time.Second)
		if s.mu.Lock(); s.gets > gets+2 {
			t.Errorf("a read elsewhere sent %d GETs, want 2 for its blocks", s.gets-gets)
		}
		s.mu.Unlock()
		shut(t, n)
	})
}
