package node

import (
	"bytes"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/keyindex"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// createKeyed creates a topic with a key index.
func createKeyed(t *testing.T, n *Node, name string, partitions int) record.ID {
	t.Helper()
	info := must.Get(n.CreateTopic(t.Context(), name, broker.TopicSpec{
		Partitions: partitions, Settings: map[string]string{"key-index": "true"},
	}))(t)
	return info.ID
}

// put stores records of one key with values, "" a tombstone, and returns the offset of the last.
func put(t *testing.T, n *Node, topic string, part int, key string, values ...string) int64 {
	t.Helper()
	recs := make([]record.Record, len(values))
	for i, v := range values {
		if recs[i] = (record.Record{Key: []byte(key), Timestamp: int64(i)}); v != "" {
			recs[i].Value = []byte(v)
		}
	}
	return brokertest.Produce(t, n, topic, part, recs...) + int64(len(recs)) - 1
}

// newest returns the position of the newest record of a key, once the index has the record at an
// offset.
func newest(t *testing.T, n *Node, topic record.ID, key string, part int, offset int64) string {
	t.Helper()
	must.NoError(t, n.Keys().WaitFor(t.Context(), topic, uint32(part), offset))
	e, ok := must.Get2(n.Keys().Get(t.Context(), topic, []byte(key), -1))(t)
	return fmt.Sprintf("%d/%d %v %v", e.Partition, e.Offset, e.Deleted, ok)
}

func stat(t *testing.T, set *metrics.Set, name string) (v float64) {
	t.Helper()
	var b bytes.Buffer
	set.WritePrometheus(&b)
	for line := range strings.Lines(b.String()) {
		if rest, ok := strings.CutPrefix(line, name+" "); ok {
			must.Get(fmt.Sscan(rest, &v))(t)
			return v
		}
	}
	t.Fatalf("no metric %s in:\n%s", name, b.String())
	return 0
}

func TestKeysOutliveTheBroker(t *testing.T) {
	dir := t.TempDir()
	o := Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone, Metrics: metrics.NewSet()}
	n := open(t, o)
	topic := createKeyed(t, n, "t", 2)
	put(t, n, "t", 0, "a", "1", "2")
	last := put(t, n, "t", 1, "a", "3", "4", "")
	if got := newest(t, n, topic, "a", 1, last); got != "1/2 true true" {
		t.Errorf("newest record at %s", got)
	}
	last = put(t, n, "t", 1, "b", "1")
	if got := newest(t, n, topic, "b", 1, last); got != "1/3 false true" {
		t.Errorf("newest record at %s", got)
	}
	if taken := stat(t, o.Metrics, "seb_view_records_total"); taken != 6 {
		t.Errorf("%v records indexed", taken)
	}
	shut(t, n)

	o.Metrics = metrics.NewSet()
	n = open(t, o)
	if got := newest(t, n, topic, "a", 1, last); got != "1/2 true true" {
		t.Errorf("newest record after a restart at %s", got)
	}
	if taken := stat(t, o.Metrics, "seb_view_records_total"); taken != 0 {
		t.Errorf("%v records indexed again", taken)
	}
	must.Get(n.Trim(t.Context(), "t", 1, 3))(t)
	if got := newest(t, n, topic, "a", 1, last); got != "0/1 false true" {
		t.Errorf("newest record after a trim at %s", got)
	}
	shut(t, n)
	must.NoError(t, os.RemoveAll(o.DataDir))

	// The index is rebuilt, while a broker that knows only the bucket takes over.
	o.Metrics = metrics.NewSet()
	n = open(t, o)
	if got := newest(t, n, topic, "b", 1, last); got != "1/3 false true" {
		t.Errorf("newest record after the loss of the file at %s", got)
	}
	if taken := stat(t, o.Metrics, "seb_view_records_total"); taken != 3 {
		t.Errorf("%v records indexed", taken)
	}
	if lag := stat(t, o.Metrics, "seb_view_lag_records"); lag != 0 {
		t.Errorf("lags by %v", lag)
	}
	must.NoError(t, n.DeleteTopic(t.Context(), "t"))
	if _, _, err := n.Keys().Get(t.Context(), topic, []byte("a"), -1); err != keyindex.ErrNotIndexed {
		t.Errorf("a topic that was deleted: %v", err)
	}
	again := createKeyed(t, n, "t", 1)
	if got := newest(t, n, again, "a", 0, put(t, n, "t", 0, "c", "1")); got != "0/0 false false" {
		t.Errorf("another topic of the name: %s", got)
	}
}

// TestViewWithoutADataFolder: its file is temporary, and exists only if a topic needs it.
func TestViewWithoutADataFolder(t *testing.T) {
	tmp := t.TempDir()
	t.Setenv("TMPDIR", tmp)
	n := open(t, Options{Bucket: "mem:", BatchWait: BatchNone})
	must.NoError(t, n.EnsureTopic(t.Context(), "plain"))
	put(t, n, "plain", 0, "a", "1")
	files := func() []string {
		list := must.Get(filepath.Glob(filepath.Join(tmp, "*", "*")))(t)
		return list
	}
	if list := files(); len(list) > 0 {
		t.Errorf("created %s", list)
	}
	topic := createKeyed(t, n, "t", 1)
	if got := newest(t, n, topic, "a", 0, put(t, n, "t", 0, "a", "1")); got != "0/0 false true" {
		t.Error(got)
	}
	if list := files(); len(list) == 0 {
		t.Error("no file below TMPDIR")
	}
	shut(t, n)
	if list, _ := os.ReadDir(tmp); len(list) > 0 {
		t.Errorf("left %s", list)
	}
}

// TestIdleViewAsksTheBucketForNothing: a broker with an idle key index sends no requests unless a
// reader waits. The same holds for a follower.
func TestIdleViewAsksTheBucketForNothing(t *testing.T) {
	dir := t.TempDir()
	// Packages must create their cached values outside the bubble.
	must.Get(state.DecodeSnapshot(state.EncodeSnapshot(state.Genesis(record.NewID(), 0))))(t)
	synctest.Test(t, func(t *testing.T) {
		memory := objstore.NewMemory()
		store, other := storetest.NewCounter(memory), storetest.NewCounter(memory)
		n := open(t, Options{Store: store, DataDir: filepath.Join(dir, "leader"), BatchWait: BatchNone})
		topic := createKeyed(t, n, "t", 1)
		last := put(t, n, "t", 0, "a", "1", "2", "3")
		if got := newest(t, n, topic, "a", 0, last); got != "0/2 false true" {
			t.Error(got)
		}
		f := open(t, Options{Store: other, DataDir: filepath.Join(dir, "follower"), ReadOnly: true})
		if got := newest(t, f, topic, "a", 0, last); got != "0/2 false true" {
			t.Errorf("on a follower: %s", got)
		}
		time.Sleep(time.Hour) // until pending work is done
		before, beforeOther := store.Counts(), other.Counts()
		time.Sleep(time.Hour)
		if d := store.Counts().Sub(before); d.Requests() != 0 {
			t.Errorf("%+v in an hour", d)
		}
		if d := other.Counts().Sub(beforeOther); d.Requests() != 0 {
			t.Errorf("a follower: %+v in an hour", d)
		}
		// A waiting reader makes a follower read the log; the record arrives during the wait.
		var wg sync.WaitGroup
		wg.Go(func() {
			if got := newest(t, f, topic, "a", 0, last+1); got != "0/3 true true" {
				t.Errorf("on a follower: %s", got)
			}
		})
		time.Sleep(10 * time.Minute)
		put(t, n, "t", 0, "a", "")
		wg.Wait()
		before = store.Counts()
		answer := must.Get(n.Fetch(t.Context(), []broker.Want{{Topic: "t", Offset: last + 2}}, 1, time.Hour))(t)
		answer.Release()
		if d := store.Counts().Sub(before); d.Requests() == 0 {
			t.Error("no request of a waiting reader: the counter does not work")
		}
		shut(t, f)
		shut(t, n)
	})
}

// TestViewOfABucketThatWasRestored: the bucket lacks records that the index has read, or has other
// ones.
func TestViewOfABucketThatWasRestored(t *testing.T) {
	for name, more := range map[string]bool{"shorter": false, "as long": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			var log bytes.Buffer
			o := Options{
				Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone,
				Logger: slog.New(slog.NewTextHandler(&log, nil)),
			}
			n := open(t, o)
			topic := createKeyed(t, n, "t", 1)
			put(t, n, "t", 0, "a", "1", "2")
			shut(t, n)
			must.NoError(t, os.CopyFS(filepath.Join(dir, "copy"), os.DirFS(o.Bucket)))
			n = open(t, o)
			if got := newest(t, n, topic, "b", 0, put(t, n, "t", 0, "b", "1", "2")); got != "0/3 false true" {
				t.Error(got)
			}
			shut(t, n)

			must.NoError(t, ForgetSeen(o.DataDir, "", func(*core.Seen) bool { return true })) // an operator accepts it
			o.Bucket = filepath.Join(dir, "copy")
			if more {
				writer := open(t, Options{Bucket: o.Bucket, BatchWait: BatchNone})
				put(t, writer, "t", 0, "c", "1", "2")
				shut(t, writer)
			}
			n = open(t, o)
			if got := newest(t, n, topic, "b", 0, 1); got != "0/0 false false" {
				t.Errorf("record that is not in the bucket: %s", got)
			}
			if got := newest(t, n, topic, "a", 0, 1); got != "0/1 false true" {
				t.Errorf("record in the bucket: %s", got)
			}
			if !strings.Contains(log.String(), "keys of a topic") {
				t.Errorf("no message in the log: %s", &log)
			}
		})
	}
}

// TestKeysOfACompactedTopic: answers omit removed records, and have all others.
func TestKeysOfACompactedTopic(t *testing.T) {
	for name, retention := range map[string]string{"tombstones stay": "24h", "tombstones go": "1ms"} {
		t.Run(name, func(t *testing.T) { keysOfACompactedTopic(t, retention) })
	}
}

func keysOfACompactedTopic(t *testing.T, tombstones string) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	o := Options{
		Store: objstore.NewMemory(), DataDir: dir, BatchWait: BatchNone, SnapshotSlots: 50,
		Pack: compact.Policy{Target: 64 << 10, Age: time.Microsecond, Small: 3}, MergeEvery: time.Hour, NoMerge: true,
	}
	n := open(t, o)
	must.Get(n.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 2, Settings: map[string]string{
		"cleanup-policy": "compact", "delete-retention-time": tombstones,
	}}))(t)
	written, left := 0, 0
	for round := range 6 {
		for range sebtest.Runs(150, 60) {
			part := rng.IntN(2)
			recs := make([]record.Record, 1+rng.IntN(30))
			for i := range recs {
				recs[i] = record.Record{Key: fmt.Appendf(nil, "k%d", 2*rng.IntN(300)+part), Timestamp: int64(written + i)}
				if rng.IntN(6) > 0 {
					recs[i].Value = make([]byte, rng.IntN(100))
				}
			}
			brokertest.Produce(t, n, "t", part, recs...)
			written += len(recs)
		}
		merger := compact.Open(n.merging)
		for made := true; made; {
			var err error
			if made, err = merger.Once(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		merger.Close()
		info := must.Get(n.Topic(t.Context(), "t", false))(t)
		left = compareKeys(t, n, &info)
		switch round {
		case 2: // an index that has read all records
			shut(t, n)
			n = open(t, o)
		case 4: // an index that reads only the remaining records
			shut(t, n)
			o.DataDir = t.TempDir()
			n = open(t, o)
		}
	}
	if left > written/2 {
		t.Errorf("%d of %d records are left: nothing was compacted", left, written)
	}
}

// keysChild is the environment variable of a child of TestKilledBrokers: its folder.
const keysChild = "SEB_TEST_KEYS_CHILD"

// TestKilledBrokers: a broker that is killed while it writes its index leaves a file that the next
// one continues with.
func TestKilledBrokers(t *testing.T) {
	if testing.Short() {
		t.Skip("starts many processes")
	}
	t.Parallel()
	if dir := os.Getenv(keysChild); dir != "" {
		busyBroker(t, dir)
		return
	}
	dir := t.TempDir()
	for range sebtest.Runs(3, 1) {
		killed(t, dir)
	}
	o := busyOptions(dir)
	o.Metrics = metrics.NewSet()
	n := open(t, o)
	must.NoError(t, n.EnsureTopic(t.Context(), "t"))
	info := must.Get(n.Topic(t.Context(), "t", false))(t)
	total := compareKeys(t, n, &info)
	if again := stat(t, o.Metrics, "seb_view_rebuilds_total"); again != 0 {
		t.Errorf("the index was rebuilt %v times", again)
	}
	t.Logf("%d records, %v of them indexed after the last kill", total, stat(t, o.Metrics, "seb_view_records_total"))
}

func busyOptions(dir string) Options {
	return Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: time.Millisecond}
}

// compareKeys compares the index of a topic with its records.
func compareKeys(t *testing.T, n *Node, info *broker.TopicInfo) (total int) {
	t.Helper()
	want := map[string][]string{}
	for part, p := range info.Partitions {
		if p.Next > 0 {
			must.NoError(t, n.Keys().WaitFor(t.Context(), info.ID, uint32(part), p.Next-1))
		}
		eachRecord(t, n, info.Name, part, func(r *record.Record) {
			want[string(r.Key)] = append(want[string(r.Key)], fmt.Sprintf("%d/%d %v", part, r.Offset, r.Value == nil))
			total++
		})
	}
	var live []string
	for key, list := range want {
		got := must.Get(n.Keys().History(t.Context(), info.ID, []byte(key), keyindex.HistoryQuery{Partition: -1, Limit: keyindex.LimitMax}))(t)
		shown := make([]string, len(got))
		for i, e := range got {
			shown[i] = fmt.Sprintf("%d/%d %v", e.Partition, e.Offset, e.Deleted)
		}
		must.EqualSlicesf(t, shown, list, "history of %s", key)
		if !strings.HasSuffix(list[len(list)-1], "true") {
			live = append(live, key)
		}
	}
	slices.Sort(live)
	var keys []string
	for q := (keyindex.ListQuery{Limit: 1000}); ; q.After = []byte(keys[len(keys)-1]) {
		page := must.Get(n.Keys().List(t.Context(), info.ID, q))(t)
		if len(page) == 0 {
			break
		}
		for _, e := range page {
			keys = append(keys, string(e.Key))
		}
	}
	if !slices.Equal(keys, live) {
		t.Fatalf("%d keys, want %d", len(keys), len(live))
	}
	return total
}

// eachRecord reads all records of a partition.
func eachRecord(t *testing.T, n *Node, topic string, part int, f func(*record.Record)) {
	t.Helper()
	info := must.Get(n.Topic(t.Context(), topic, false))(t)
	brokertest.Each(t, n, topic, part, info.Partitions[part].Start, f)
}
