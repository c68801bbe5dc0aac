package damage_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// folderNode returns the options of a node on a bucket in a folder.
func folderNode(dir, data string) node.Options {
	return node.Options{
		Bucket: "file:" + dir + "?fsync=false", DataDir: data, BatchWait: node.BatchNone, NoMerge: true, Logger: silent,
	}
}

// newKept makes a bucket in a folder and the data directory of its leader. It returns both as they are
// after a kill, when the data directory has saved the position, and the bucket at an earlier moment.
func newKept(t testing.TB, dir, data string) (b *bucket, saved, older *image) {
	t.Helper()
	w := newTruth(t)
	ctx := t.Context()
	n := must.Get(node.Open(ctx, folderNode(dir, data)))(t)
	w.b = n.Broker
	w.create("a", 2)
	w.produceMany(4)
	must.NoError(t, n.Close(ctx))
	n = must.Get(node.Open(ctx, folderNode(dir, data)))(t)
	if !n.Status().Journaled {
		t.Skip("no journals on this file system")
	}
	w.b = n.Broker
	w.produceMany(3)
	older = readImage(t, dir)
	w.produceMany(8)
	sebtest.Eventually(t, "the data directory has the position", func() bool {
		seen, err := node.ReadSeen(data, n.StoreName())
		must.NoError(t, err)
		return len(seen) == 1 && seen[0].Epoch == w.seen.Epoch && seen[0].Slot >= w.seen.Slot
	})
	b = &bucket{name: "killed", image: readImage(t, dir), truth: w.truth, newest: 2}
	saved = readImage(t, data)
	must.NoError(t, n.Close(ctx))
	return b, saved, older
}

// TestMovedBuckets damages the newest epoch of a bucket whose data directory remains, at the path of
// both and after both were moved. The data directory has seen every record, so no loss is silent.
func TestMovedBuckets(t *testing.T) {
	t.Parallel()
	root := filepath.Dir(folder(t))
	b, saved, older := newKept(t, filepath.Join(root, "bucket"), filepath.Join(root, "data"))
	cases := slices.DeleteFunc(b.cases(), func(c *damageCase) bool {
		return !strings.HasPrefix(c.kind, "newest journal") && c.damage != removed
	})
	cases = sample(t, cases)
	cases = append(cases,
		&damageCase{b, "none", "none", "undamaged", func(*image) {}},
		&damageCase{b, "older", "all", "an older copy", func(img *image) { *img = *older.clone() }})
	tb := newTable()
	for _, c := range cases {
		for _, moved := range []bool{false, true} {
			img := c.damaged()
			dir := filepath.Join(root, map[bool]string{false: "bucket", true: "moved"}[moved])
			data := filepath.Join(root, map[bool]string{false: "data", true: "moved-data"}[moved])
			must.NoError(t, os.RemoveAll(dir))
			must.NoError(t, os.RemoveAll(data))
			img.write(t, dir)
			saved.write(t, data)
			as := role{name: fmt.Sprintf("leader with its data, moved %t", moved), seen: true}
			r := b.serveNode(t, dir, data)
			v := c.judge(img, as, r)
			if img.equal(b.image) && v.outcome != whole {
				v = fault("an undamaged bucket is not served whole", "%v %s", r.err, v.detail)
			}
			tb.add(c, as.name, v)
		}
	}
	tb.report(t)
}

func (b *bucket) serveNode(t testing.TB, dir, data string) result {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	n, err := node.Open(ctx, folderNode(dir, data))
	if err != nil {
		return result{err: err}
	}
	defer n.Close(ctx)
	r := result{seen: b.read(ctx, n.Broker)}
	maps.DeleteFunc(r.seen.next, func(name string, _ int64) bool { return !strings.HasPrefix(name, "a/") }) // internal topics
	return r
}
