package damage_test

import (
	"context"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// newestEpoch is the last epoch of the buckets.
const newestEpoch = 5

// never is a number of slots without a snapshot.
const never = 1000

var silent = slog.New(slog.NewTextHandler(io.Discard, nil))

func options(s objstore.Store, snapshotSlots int) broker.Options {
	const ms = core.Duration(time.Millisecond)
	return broker.Options{
		Options:    log.Options{Store: s, Budget: budget.New(64 << 20), Batch: log.Config{Wait: time.Millisecond}, NoWait: true, Logger: silent, Core: core.Config{RetryMin: ms, RetryMax: 5 * ms, RefusedRetry: 5 * ms, SnapshotSlots: snapshotSlots}},
		AutoCreate: true,
	}
}

// sum distinguishes values.
type sum uint64

var sumSeed = maphash.MakeSeed()

func sumOf(value []byte) sum { return sum(maphash.Bytes(sumSeed, value)) }

// truth is the log of a bucket: the acknowledged records and their positions.
type truth struct {
	values map[string]sum            // of values of values by "topic/partition@offset"
	behind map[string]state.Position // position behind the slot of a record
	next   map[string]int64          // next offset by "topic/partition"
	seen   core.Seen
}

// builder writes a bucket.
type builder struct {
	t   testing.TB
	dir string
	s   *objstore.Disk
	b   *broker.Broker
	truth
	rnd *rand.Rand
	// moment, if not nil, is called after steps, while no request is under way.
	moment func(*builder)
	busy   bool // a leader may collect garbage
}

func openDisk(t testing.TB, dir string) *objstore.Disk {
	t.Helper()
	s := must.Get(objstore.OpenDisk(dir, objstore.DiskOptions{NoSync: true}))(t)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func (w *builder) open(snapshotSlots int) {
	w.t.Helper()
	w.s = openDisk(w.t, w.dir)
	w.b, w.busy = must.Get(broker.Open(w.t.Context(), options(w.s, snapshotSlots)))(w.t), snapshotSlots != never
	if !w.b.Status().Journaled {
		w.t.Skip("no journals on this file system")
	}
	w.step()
}

func (w *builder) close() {
	w.t.Helper()
	must.NoError(w.t, w.b.Close(w.t.Context()))
	must.NoError(w.t, w.s.Close())
	w.busy = false
	w.step()
}

// step notes the position of the log.
func (w *builder) step() {
	w.seen, _ = w.b.Seen()
	if w.moment != nil && !w.busy {
		w.moment(w)
	}
}

func (w *builder) create(topic string, partitions int) {
	w.t.Helper()
	must.Get(w.b.CreateTopic(w.t.Context(), topic, broker.TopicSpec{Partitions: partitions}))(w.t)
	for i := range partitions {
		w.next[fmt.Sprintf("%s/%d", topic, i)] = 0
	}
	w.step()
}

func (w *builder) produce(partition, bytes int) {
	w.t.Helper()
	name := fmt.Sprintf("a/%d", partition)
	value := fmt.Sprintf("epoch %d offset %d %s ", w.seen.Epoch, w.next[name], name)
	if bytes > 0 {
		text := make([]byte, bytes)
		for i := range text {
			text[i] = 'a' + byte(w.rnd.UintN(26))
		}
		value += string(text)
	}
	base := brokertest.Produce(w.t, w.b, "a", partition, recordtest.Values(value)...)
	must.Equalf(w.t, base, w.next[name], "offset of %s", name)
	at := fmt.Sprintf("%s@%d", name, base)
	w.next[name]++
	w.seen, _ = w.b.Seen()
	w.values[at], w.behind[at] = sumOf([]byte(value)), state.Position{Epoch: w.seen.Epoch, Slot: w.seen.Slot}
	w.step()
}

func (w *builder) produceMany(n int) {
	w.t.Helper()
	for i := range n {
		w.produce(i%2, 0)
	}
}

// kill leaves the bucket that a killed process leaves: that of a running one.
func (w *builder) kill() {
	w.t.Helper()
	killed := filepath.Join(w.t.TempDir(), "killed")
	must.NoError(w.t, os.CopyFS(killed, os.DirFS(w.dir)))
	must.NoError(w.t, w.b.Close(w.t.Context()))
	must.NoError(w.t, w.s.Close())
	w.dir = killed
}

// newTruth returns a builder without a bucket.
func newTruth(t testing.TB) *builder {
	w := &builder{t: t, rnd: rand.New(rand.NewPCG(1, 2))}
	w.values, w.behind, w.next = map[string]sum{}, map[string]state.Position{}, map[string]int64{}
	return w
}

// newBuilder writes five epochs. The newest has two journal files and a large object, and its broker
// still runs:
//
//	1  closed; 2  killed; 3  snapshots, a pack, collected objects, closed; 4  closed; 5  runs
func newBuilder(t testing.TB, moment func(*builder)) *builder {
	t.Helper()
	w := newTruth(t)
	w.dir, w.moment = filepath.Join(t.TempDir(), "bucket"), moment
	w.open(never)
	w.create("a", 2)
	w.create("gone", 1)
	w.produceMany(6)
	w.close()
	w.open(never)
	w.produceMany(4)
	w.kill()
	w.collected()
	w.open(never)
	w.produceMany(3)
	w.close()
	w.open(never)
	w.produceMany(3)
	w.produce(0, 3<<19) // a file of its own
	for i := range 5 {
		w.produce(i%2, 800<<10) // together more than the first journal file
	}
	w.produceMany(30)
	return w
}

// collected writes an epoch with snapshots and a pack, in which a leader has deleted garbage.
func (w *builder) collected() {
	w.t.Helper()
	w.open(4)
	w.produceMany(8)
	must.NoError(w.t, w.b.DeleteTopic(w.t.Context(), "gone"))
	delete(w.next, "gone/0")
	m := compact.Open(compact.Options{
		Log: w.b, Store: w.s, TempDir: w.t.TempDir(), Every: time.Hour, Logger: silent,
		Policy: compact.Policy{Target: 1 << 10, Age: time.Microsecond, Small: 3},
	})
	for range 3 {
		must.Get(m.Once(w.t.Context()))(w.t)
	}
	m.Close()
	sebtest.Eventually(w.t, "a leader deletes garbage", func() bool {
		gone, err := filepath.Glob(filepath.Join(w.dir, "s0000/wal/*+journal/*.gone"))
		must.NoError(w.t, err)
		snaps, err := filepath.Glob(filepath.Join(w.dir, "s0000/snap/*"))
		must.NoError(w.t, err)
		if len(gone) > 0 && len(snaps) >= 2 {
			return true
		}
		w.produce(1, 0)
		return false
	})
	w.close()
}

// bucket is a bucket with its log.
type bucket struct {
	name string
	*image
	truth
	newest int  // the last epoch
	ended  bool // its journal was ended
}

// now returns the log at this moment. Later records do not change it.
func (l *truth) now() truth {
	return truth{maps.Clone(l.values), maps.Clone(l.behind), maps.Clone(l.next), l.seen}
}

// newBuckets makes a bucket whose last broker was killed, and the same after it was closed.
func newBuckets(t testing.TB) []*bucket {
	t.Helper()
	w := newBuilder(t, nil)
	killed := &bucket{name: "killed", image: readImage(t, w.dir), truth: w.now(), newest: newestEpoch}
	w.close()
	closed := &bucket{name: "closed", image: readImage(t, w.dir), truth: w.now(), newest: newestEpoch, ended: true}
	return []*bucket{killed, closed}
}

func kill(b *broker.Broker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = b.Close(ctx)
}
