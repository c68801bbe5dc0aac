package damage_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// remote is a store in memory that a node treats as a remote one.
type remote struct{ objstore.Store }

func (remote) String() string { return "s3://damage" }

// objects are the objects of a remote bucket by name.
type objects map[string][]byte

func (o objects) store(t testing.TB) objstore.Store {
	s := objstore.NewMemory()
	for key, body := range o {
		must.NoError(t, s.Put(t.Context(), key, objstore.NewBody(body)))
	}
	return remote{s}
}

func objectsOf(t testing.TB, s objstore.Store) objects {
	t.Helper()
	all := objects{}
	entries, more := must.Get2(s.List(t.Context(), objstore.ListOptions{}))(t)
	must.Equalf(t, more, false, "more than a page of objects")
	for _, e := range entries {
		body := must.Get(s.Get(t.Context(), e.Key, objstore.Whole))(t)
		b := make([]byte, e.Size)
		_, err := body.Body.Read(b)
		must.NoError(t, errors.Join(err, body.Body.Close()))
		all[e.Key] = b
	}
	return all
}

// cachedBucket is a remote bucket, and the data directory of its leader, whose disk cache has every
// commit object and pack.
type cachedBucket struct {
	objects
	data *image
	truth
}

func nodeOptions(s objstore.Store, data string, snapshotSlots int) node.Options {
	return node.Options{
		Store: s, DataDir: data, CacheDir: filepath.Join(data, "cache"), CacheBytes: 64 << 20, BatchWait: node.BatchNone,
		NoMerge: true, SnapshotSlots: snapshotSlots, Logger: silent,
	}
}

func newCachedBucket(t testing.TB) *cachedBucket {
	t.Helper()
	s, data := remote{objstore.NewMemory()}, filepath.Join(t.TempDir(), "data")
	w := newTruth(t)
	ctx := t.Context()
	n := must.Get(node.Open(ctx, nodeOptions(s, data, 4)))(t)
	w.b = n.Broker
	w.create("a", 2)
	w.produceMany(8)
	m := compact.Open(compact.Options{
		Log: n, Store: s, TempDir: t.TempDir(), Every: time.Hour, Logger: silent,
		Policy: compact.Policy{Target: 1 << 10, Age: time.Microsecond, Small: 3},
	})
	must.Get(m.Once(ctx))(t)
	m.Close()
	sebtest.Eventually(t, "two snapshots exist", func() bool {
		entries, _ := must.Get2(s.List(ctx, objstore.ListOptions{Prefix: "s0000/snap/"}))(t)
		if len(entries) >= 2 {
			return true
		}
		w.produce(0, 0)
		return false
	})
	must.NoError(t, n.Close(ctx))
	for range 2 {
		n = must.Get(node.Open(ctx, nodeOptions(s, data, never)))(t)
		w.b = n.Broker
		w.produceMany(6)
		if got := w.read(ctx, n.Broker); len(got.errs) > 0 || !maps.Equal(got.values, w.values) { // fills the cache
			t.Fatalf("a whole bucket: %v", got.errs)
		}
		must.NoError(t, n.Close(ctx))
	}
	return &cachedBucket{objectsOf(t, s), readImage(t, data), w.truth}
}

// serve starts a leader with a copy of the data directory.
func (b *cachedBucket) serve(t testing.TB, s objstore.Store) (r result) {
	t.Helper()
	dir := folder(t)
	defer os.RemoveAll(filepath.Dir(dir))
	b.data.write(t, dir)
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	n, err := node.Open(ctx, nodeOptions(s, dir, never))
	if err != nil {
		return result{err: err}
	}
	defer n.Close(ctx)
	return result{seen: b.read(ctx, n.Broker)}
}

// TestLostBehindACache damages every object of a remote bucket whose leader has all of them in its disk
// cache. A leader does not lead a bucket that another machine is refused. By rule R16 it serves records
// of an object below the replayed slots from its cache until it compares its state with the bucket, and
// fsck finds the damage.
func TestLostBehindACache(t *testing.T) {
	t.Parallel()
	b := newCachedBucket(t)
	counts, failures := map[string]int{}, map[string][]string{}
	names := slices.Sorted(maps.Keys(b.objects))
	for i, key := range names {
		other := names[(i+1)%len(names)]
		if !strings.HasPrefix(other, filepath.Dir(key)) {
			other = names[max(i-1, 0)]
		}
		body := b.objects[key]
		for damage, to := range map[string][]byte{
			"none": body, "deleted": nil, "truncated": body[:len(body)/2], "replaced": b.objects[other],
			"flipped": content{body, int64(len(body))}.flipped(int64(len(body)/2), 3).bytes(),
		} {
			if strings.HasPrefix(key, "probe/") || damage == "none" && i > 0 {
				continue
			}
			left := maps.Clone(b.objects)
			if left[key] = to; to == nil {
				delete(left, key)
			}
			outcome, wrong := b.try(t, left, damage)
			counts[fmt.Sprintf("%-10s %-10s %s", objectKind(key), damage, outcome)]++
			if wrong {
				failures[outcome] = append(failures[outcome], damage+" "+key)
			}
		}
	}
	for _, row := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[row], row)
	}
	for outcome, list := range failures {
		t.Errorf("%d times %s:\n  %s", len(list), outcome, strings.Join(list, "\n  "))
	}
}

// objectKind is the kind of an object of a remote bucket.
func objectKind(key string) string {
	if parts := strings.Split(key, "/"); parts[0] == "s0000" {
		return parts[1]
	}
	return strings.Split(key, "/")[0]
}

// try compares a leader with a cache with a machine without one.
func (b *cachedBucket) try(t testing.TB, left objects, damage string) (outcome string, wrong bool) {
	damages := 0
	_, err := fsck.Run(t.Context(), fsck.Options{Store: left.store(t), Found: func(f fsck.Finding) {
		if f.Severity == fsck.Damage {
			damages++
		}
	}})
	found := err != nil || damages > 0
	o := options(left.store(t), never)
	o.Core.ReadOnly = true
	var bare result
	if bare.err = func() error {
		other, err := broker.Open(t.Context(), o)
		if err == nil {
			defer kill(other)
			bare.seen = b.read(t.Context(), other)
		}
		return err
	}(); bare.err != nil && !found {
		return fmt.Sprintf("another machine is refused, and fsck finds nothing: %v", bare.err), true
	}
	r := b.serve(t, left.store(t))
	switch served := r.err == nil && len(r.seen.errs) == 0 && maps.Equal(r.seen.values, b.values); {
	case damage == "none" && (!served || found):
		return fmt.Sprintf("an undamaged bucket is refused: %v", r.err), true
	case r.err != nil && bare.err == nil:
		return fmt.Sprintf("only the leader with a cache is refused: %v", r.err), false
	case r.err != nil:
		return "both are refused", false
	case bare.err != nil && damage == "deleted":
		return "a cache hides a lost object, and another machine is refused", true
	case bare.err != nil: // a LIST does not show it
		return "a cache hides damage of an object, another machine is refused, and fsck finds it", false
	case !served && len(r.seen.errs) == 0:
		return "records are missing without an error", true
	case served && len(bare.seen.errs) > 0 && !found:
		return "a cache hides damage, and fsck finds nothing", true
	case served && len(bare.seen.errs) > 0:
		return "a cache serves records that another machine cannot read, and fsck finds it", false
	case served:
		return "both serve every record", false
	}
	return "reads name the damage", false
}
