package fsck_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// timeout is far above the duration of any step on a slow machine.
const timeout = time.Minute

func options(s objstore.Store, snapshotSlots int) broker.Options {
	const ms = core.Duration(time.Millisecond)
	return broker.Options{
		Options:    log.Options{Store: s, Budget: budget.New(64 << 20), Batch: log.Config{Wait: time.Millisecond}, NoWait: true, Logger: slog.New(slog.NewTextHandler(io.Discard, nil)), Core: core.Config{RetryMin: ms, RetryMax: 5 * ms, RefusedRetry: 5 * ms, SnapshotSlots: snapshotSlots}},
		AutoCreate: true,
	}
}

func open(t testing.TB, o broker.Options) *broker.Broker {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	b := must.Get(broker.Open(ctx, o))(t)
	t.Cleanup(func() { kill(b) })
	return b
}

// kill ends a broker without flushing.
func kill(b *broker.Broker) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	_ = b.Close(ctx)
}

func closeBroker(t testing.TB, b *broker.Broker) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	must.NoError(t, b.Close(ctx))
}

func produce(t testing.TB, b *broker.Broker, topic string, partition int, values ...string) {
	t.Helper()
	brokertest.Produce(t, b, topic, partition, recordtest.Values(values...)...)
}

func create(t testing.TB, b *broker.Broker, topic string, partitions int) {
	t.Helper()
	must.Get(b.CreateTopic(context.Background(), topic, broker.TopicSpec{Partitions: partitions}))(t)
}

// initialized gives a transactional ID to a producer.
func initialized(t testing.TB, b *broker.Broker, id string) state.ProducerEpoch {
	t.Helper()
	return must.Get(b.InitTransactions(t.Context(), broker.InitTransactions{ID: id, Timeout: time.Hour, Was: state.ProducerEpoch{ID: -1}}))(t)
}

// transact appends a record of the open transaction of a producer to a partition of topic a. It is the only one.
func transact(t testing.TB, b *broker.Broker, p state.ProducerEpoch, partition int, value string) {
	t.Helper()
	o := record.EncodeOptions{Transactional: true, Producer: &record.Producer{ID: p.ID, Epoch: p.Epoch}}
	brokertest.Send(t, b, brokertest.AppendWith("a", partition, o, recordtest.Values(value)...))
}

func ended(t testing.TB, b *broker.Broker, id string, p state.ProducerEpoch, commit bool) {
	t.Helper()
	must.Get(b.EndTransaction(t.Context(), broker.EndTransaction{ID: id, Producer: p, Commit: commit}))(t)
}

// live writes three epochs with created and deleted topics, trims and consumer offsets. It returns
// the number of readable records.
func live(t testing.TB, s objstore.Store, snapshotSlots int) (records int64) {
	t.Helper()
	ctx := t.Context()
	for run := range 3 {
		b := open(t, options(s, snapshotSlots))
		if run == 0 {
			create(t, b, "a", 2)
			create(t, b, "gone", 1)
		}
		for i := range 8 {
			produce(t, b, "a", i%2, fmt.Sprintf("a%d.%d", run, i), strings.Repeat("x", 100*i))
			records += 2
			if run < 2 {
				produce(t, b, "gone", 0, "g")
			}
		}
		if run == 1 {
			must.NoError(t, b.DeleteTopic(ctx, "gone"))
			must.Get(b.Trim(ctx, "a", 0, 4))(t)
			records -= 4
			for _, err := range b.CommitOffsets(ctx, "g", []broker.OffsetCommit{{Topic: "a", Offset: 5}}) {
				must.NoError(t, err)
			}
		}
		if snapshotSlots < 100 && run == 1 {
			merged(t, b, s)
		}
		// A closing broker does not wait for its snapshots, so they may not exist yet. Each try adds a
		// record, and Eventually tries less and less often: late snapshots leave the bucket small.
		if run == 2 && snapshotSlots < 100 {
			sebtest.Eventually(t, "two snapshots exist", func() bool {
				if snapshotsOf(t, s, b.Epoch()) >= 2 {
					return true
				}
				produce(t, b, "a", 1, "one more")
				records++
				return false
			})
		}
		if run == 2 { // state records in one of the last slots, however late the snapshots came
			must.NoError(t, b.DeleteOffset(ctx, "g", "a", 0))
			produce(t, b, "a", 1, "last", "of all")
			records += 2
		}
		if run == 0 {
			kill(b)
		} else {
			closeBroker(t, b)
		}
	}
	return records
}

// snapshotsOf counts the snapshots of an epoch.
func snapshotsOf(t testing.TB, s objstore.Store, epoch uint32) (n int) {
	t.Helper()
	for _, key := range snapshots(t, s) {
		if strings.HasPrefix(key, fmt.Sprintf("%s%010d-", core.SnapPrefix(0), math.MaxUint32-epoch)) {
			n++
		}
	}
	return n
}

// merged merges into packs every object that the merger accepts.
func merged(t testing.TB, b *broker.Broker, s objstore.Store) {
	t.Helper()
	m := compact.Open(compact.Options{
		Log: b, Store: s, TempDir: t.TempDir(), Every: time.Hour, Policy: compact.Policy{Target: 1 << 10, Age: time.Microsecond, Small: 3},
		Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	defer m.Close()
	for range 3 {
		must.Get(m.Once(t.Context()))(t)
	}
}

// packs lists the names of packs.
func packs(t testing.TB, s objstore.Store) []string {
	t.Helper()
	all := slices.Sorted(maps.Keys(keys(t, s)))
	return slices.DeleteFunc(all, func(k string) bool { return !strings.HasPrefix(k, "s0000/pack/") })
}

// verify runs fsck and returns the report and the findings.
func verify(t testing.TB, o fsck.Options) (*fsck.Report, []fsck.Finding, error) {
	t.Helper()
	var found []fsck.Finding
	o.Found = func(f fsck.Finding) { found = append(found, f) }
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	r, err := fsck.Run(ctx, o)
	return r, found, err
}

// clean runs fsck on a bucket that must be undamaged and may hold orphans.
func clean(t testing.TB, s objstore.Store) *fsck.Report {
	t.Helper()
	r, found := must.Get2(verify(t, fsck.Options{Store: s}))(t)
	for _, f := range found {
		if f.Severity == fsck.Damage {
			t.Errorf("a clean bucket: %+v", f)
		}
	}
	check.Equalf(t, r.Damages, 0, "damages")
	return r
}

func keys(t testing.TB, s objstore.Store) map[string]int64 {
	t.Helper()
	all := map[string]int64{}
	o := objstore.ListOptions{}
	for {
		entries, more := must.Get2(s.List(context.Background(), o))(t)
		for _, e := range entries {
			all[e.Key] = e.Size
			o.After = e.Key
		}
		if !more {
			return all
		}
	}
}

// settled waits for the last DELETE of a stopped broker.
func settled(t testing.TB, s objstore.Store) map[string]int64 {
	t.Helper()
	same := 0
	for before := keys(t, s); ; {
		time.Sleep(100 * time.Millisecond)
		now := keys(t, s)
		if same++; !maps.Equal(before, now) {
			same = 0
		}
		if same == 5 {
			return now
		}
		before = now
	}
}

func read(t testing.TB, s objstore.Store, key string) []byte {
	t.Helper()
	o := must.Get(s.Get(context.Background(), key, objstore.Whole))(t)
	defer o.Body.Close()
	b := must.Get(io.ReadAll(o.Body))(t)
	return b
}

func remove(t testing.TB, s objstore.Store, key string) {
	t.Helper()
	must.NoError(t, s.Delete(context.Background(), key))
}

func put(t testing.TB, s objstore.Store, key string, b []byte) {
	t.Helper()
	must.NoError(t, s.Put(context.Background(), key, objstore.NewBody(b)))
}

// change replaces the bytes of an object. Seb itself never does that.
func change(t testing.TB, s objstore.Store, key string, f func([]byte) []byte) {
	t.Helper()
	b := f(read(t, s, key))
	remove(t, s, key)
	put(t, s, key, b)
}

// slots lists the names of the commit objects of a kind, in the order of the log.
func slots(t testing.TB, s objstore.Store, kind record.Kind) []string {
	t.Helper()
	var found []string
	for _, key := range slices.Sorted(maps.Keys(keys(t, s))) {
		if !strings.HasPrefix(key, "s0000/wal/") {
			continue
		}
		h := must.Get(record.DecodeHead(read(t, s, key)[:record.HeadSize]))(t)
		if h.Kind == kind {
			found = append(found, key)
		}
	}
	return found
}

func snapshots(t testing.TB, s objstore.Store) []string {
	t.Helper()
	all := slices.Sorted(maps.Keys(keys(t, s)))
	return slices.DeleteFunc(all, func(k string) bool { return !strings.HasPrefix(k, "s0000/snap/") })
}

// withData lists the commit objects that hold batches.
func withData(t testing.TB, s objstore.Store) []string {
	t.Helper()
	return slices.DeleteFunc(slots(t, s, record.KindData), func(k string) bool {
		h, err := record.DecodeHead(read(t, s, k)[:record.HeadSize])
		return err != nil || h.IndexCount == 0
	})
}
