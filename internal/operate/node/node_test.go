package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"go.uber.org/goleak"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, o Options) *Node {
	t.Helper()
	n := must.Get(Open(t.Context(), o))(t)
	t.Cleanup(func() { shut(t, n) })
	return n
}

func shut(t *testing.T, n *Node) {
	t.Helper()
	if err := n.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

func produce(t *testing.T, n *Node, value []byte) {
	t.Helper()
	must.NoError(t, n.EnsureTopic(t.Context(), "t"))
	brokertest.Produce(t, n, "t", 0, record.Record{Value: value, Timestamp: 1})
}

// fetch reads the whole topic and returns the bytes of the chunks.
func fetch(t *testing.T, n *Node) int64 {
	t.Helper()
	f := must.Get(n.Fetch(t.Context(), []broker.Want{{Topic: "t", MaxBytes: 64 << 20}}, 1, 0))(t)
	defer f.Release()
	must.NoError(t, f.Parts[0].Err)
	var size int64
	for _, c := range f.Parts[0].Chunks {
		size += c.Size
	}
	return size
}

func useS3(t *testing.T) string {
	t.Helper()
	s := testenv.S3ForTest(t)
	t.Setenv("AWS_ACCESS_KEY_ID", testenv.AccessKey)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testenv.SecretKey)
	return s.Spec("a/b")
}

func TestRemoteStoreIsCheckedOnceForADataFolder(t *testing.T) {
	bucket := useS3(t)
	checks := func(dir string, readOnly bool) int {
		var log bytes.Buffer
		shut(t, open(t, Options{Bucket: bucket, DataDir: dir, ReadOnly: readOnly, Logger: slog.New(slog.NewTextHandler(&log, nil))}))
		return strings.Count(log.String(), "store check started")
	}
	first := t.TempDir()
	if n := checks(first, false); n != 1 {
		t.Errorf("first start: %d checks", n)
	}
	if n := checks(first, false); n != 0 {
		t.Errorf("second start: %d checks", n)
	}
	if n := checks(t.TempDir(), true); n != 0 {
		t.Errorf("reader: %d checks", n)
	}
	if n := checks(t.TempDir(), false); n != 1 {
		t.Errorf("another data folder: %d checks", n)
	}
	must.NoError(t, os.WriteFile(filepath.Join(first, checksFile), []byte("{broken"), 0o600))
	if n := checks(first, false); n != 1 {
		t.Errorf("damaged file: %d checks", n)
	}
}

func TestReadsOfARemoteStoreComeFromTheCache(t *testing.T) {
	bucket, dir := useS3(t), t.TempDir()
	o := Options{Bucket: bucket, DataDir: dir, CacheDir: filepath.Join(dir, "cache"), CacheBytes: 64 << 20, BatchWait: BatchNone}
	n := open(t, o)
	for range 3 {
		produce(t, n, make([]byte, 100_000))
	}
	shut(t, n)
	stat := func(set *metrics.Set, name string) (v float64) {
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
	o.Metrics = metrics.NewSet()
	n = open(t, o)
	if size := fetch(t, n); size < 300_000 {
		t.Errorf("%d bytes", size)
	}
	before := stat(o.Metrics, "seb_cache_requests_total")
	if size := fetch(t, n); size < 300_000 {
		t.Errorf("%d bytes", size)
	}
	if after := stat(o.Metrics, "seb_cache_requests_total"); after != before {
		t.Errorf("read again from the bucket: %v requests, then %v", before, after)
	}
	if hits := stat(o.Metrics, "seb_cache_hits_total"); hits < 3 {
		t.Errorf("%v hits", hits)
	}
}

func TestNoSealGetsIntoTheCache(t *testing.T) {
	data := record.Head{Kind: record.KindData, ObjectLen: record.HeadSize}
	seal := record.Head{Kind: record.KindSeal, ObjectLen: record.HeadSize, NextEpoch: 1, NextNonce: record.NewID()}
	damaged := data.Encode(nil)
	damaged[40] ^= 1
	for name, tc := range map[string]struct {
		start []byte
		want  bool
	}{
		"data": {data.Encode(nil), true}, "seal": {seal.Encode(nil), false}, "damaged": {damaged, false}, "short": {data.Encode(nil)[:50], false},
	} {
		if got := admit("s0000/wal/x/0", tc.start); got != tc.want {
			t.Errorf("%s: admitted %v", name, got)
		}
	}
	for key, want := range map[string]bool{"s0000/wal/x/0": true, "s0000/pack/x": true, "s0000/snap/x": false, "meta/cluster": false} {
		if cacheable(key) != want {
			t.Errorf("%s: cacheable %v", key, !want)
		}
	}
}

func TestBatchWaitFollowsTheStore(t *testing.T) {
	for _, tc := range []struct {
		given time.Duration
		local bool
		want  time.Duration
	}{
		{BatchAuto, true, 5 * time.Millisecond},
		{BatchAuto, false, 250 * time.Millisecond},
		{BatchNone, false, 0},
		{time.Second, true, time.Second},
	} {
		if got := (&Options{BatchWait: tc.given}).batchWait(tc.local); got != tc.want {
			t.Errorf("%v, local %v: %v, want %v", tc.given, tc.local, got, tc.want)
		}
	}
}

func TestOffsetWaitFollowsTheStore(t *testing.T) {
	for _, tc := range []struct {
		given time.Duration
		local bool
		want  time.Duration
	}{
		{0, true, 0},
		{0, false, time.Second},
		{time.Minute, true, time.Minute},
		{time.Millisecond, false, time.Millisecond},
	} {
		if got := (&Options{OffsetWait: tc.given}).offsetWait(tc.local); got != tc.want {
			t.Errorf("%v, local %v: %v, want %v", tc.given, tc.local, got, tc.want)
		}
	}
}

func TestFaultsOfOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"nothing": {}, "both": {Bucket: "mem:", Store: objstore.NewMemory()}, "spec": {Bucket: "dir"},
		"memory": {Bucket: "mem:", MemoryLimit: 1 << 20}, "cache": {Bucket: "mem:", CacheBytes: -1}, "offsets": {Bucket: "mem:", OffsetWait: -1},
	} {
		if n, err := Open(t.Context(), o); err == nil {
			t.Errorf("%s: opened", name)
			shut(t, n)
		}
	}
}

func TestDataFolderIsForOneProcess(t *testing.T) {
	dir := t.TempDir()
	n := open(t, Options{Bucket: "mem:", DataDir: dir})
	if _, err := Open(t.Context(), Options{Bucket: "mem:", DataDir: dir}); !errors.Is(err, ErrFolderInUse) {
		t.Errorf("got %v", err)
	}
	shut(t, n)
	shut(t, n) // a second call is allowed
	open(t, Options{Bucket: "mem:", DataDir: dir})
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if _, err := Open(ctx, Options{Bucket: "mem:", DataDir: dir}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	open(t, Options{Bucket: "mem:", DataDir: dir}) // the folder lock was released
}

// TestSnapshotsFollowTheMemoryLimit: a broker has an index of the objects of a journal that are not
// garbage yet, so with little memory it writes a snapshot after fewer objects.
func TestSnapshotsFollowTheMemoryLimit(t *testing.T) {
	dir := t.TempDir()
	n := open(t, Options{Bucket: "file:" + dir + "?fsync=false", MemoryLimit: 16 << 20, BatchWait: BatchNone})
	snapshots := func() int {
		found := must.Get(filepath.Glob(filepath.Join(dir, "s0000", "snap", "*")))(t)
		return len(found)
	}
	before := snapshots()
	for range 2 << 20 / 1024 { // 16 MiB need 16,384 objects, without a journal 4,096
		produce(t, n, []byte("x"))
	}
	sebtest.Eventually(t, "a snapshot", func() bool { return snapshots() > before })
}
