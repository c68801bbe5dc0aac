package node

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/anystore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/testenv"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// events posts events of an entity, and returns the end offset.
func events(t *testing.T, n *Node, entity string, names ...string) (end int64) {
	t.Helper()
	topic, _ := n.EventLog().Topic("events")
	for _, name := range names {
		value := must.Get(json.Marshal(rule.Event{Name: name, EntityID: entity}))(t)
		base := must.Get(n.EventLog().Append(t.Context(), topic.ID, 0, []record.Record{{Key: []byte(entity), Value: value}}))(t)
		end = base + 1
	}
	return end
}

// firingsOf waits until an entity has a recorded firing, and returns all firings by entity.
func firingsOf(t *testing.T, n *Node, entity string) map[string]rules.Firing {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		changed := n.Triggers().Changed()
		list, err := n.Triggers().Firings(ctx, rules.FiringQuery{Limit: 100})
		all := map[string]rules.Firing{}
		for _, x := range list {
			all[x.Entity] = x
		}
		if err == nil && len(all) != len(list) {
			t.Fatalf("an entity has fired twice: %+v", list)
		}
		if x, ok := all[entity]; ok && x.Recorded != 0 {
			return all
		}
		select {
		case <-changed:
		case <-ctx.Done():
			t.Fatalf("no firing of %s: %+v, %v", entity, list, err)
		}
	}
}

// copied waits until a snapshot of the engine's file is in the bucket.
func copied(t *testing.T, store objstore.Store) {
	t.Helper()
	sebtest.Eventually(t, "a snapshot is in the bucket", func() bool {
		list, _ := must.Get2(store.List(t.Context(), objstore.ListOptions{Prefix: snapshot.Prefix(0)}))(t)
		return slices.ContainsFunc(list, func(e objstore.Entry) bool {
			n, ok := snapshot.ParseName(0, e.Key)
			return ok && n.Manifest
		})
	})
}

func define(t *testing.T, n *Node, text string) {
	t.Helper()
	expr := must.Get(driplang.Parse(text))(t)
	must.Get(n.Triggers().Put(t.Context(), rule.Definition{ID: "x", Expr: expr}, nil))(t)
}

// TestALostFolderOfATrimmedLog: with only the bucket, a machine knows the state of trimmed events,
// and nothing fires twice.
func TestALostFolderOfATrimmedLog(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"disk", "s3"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // it waits for a snapshot
			o := Options{DataDir: filepath.Join(t.TempDir(), "data"), BatchWait: BatchNone}
			var err error
			if name == "disk" {
				o.Store, err = objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{})
			} else {
				o.Store, err = s3.Open(t.Context(), testenv.S3ForTest(t).Options("p"))
			}
			must.NoError(t, err)
			defer closeStore(o.Store)
			n := open(t, o)
			define(t, n, "(NOT b) THEN a")
			events(t, n, "known", "b")
			end := events(t, n, "first", "a")
			first := firingsOf(t, n, "first")["first"]
			must.Get(n.Trim(t.Context(), "events", 0, end))(t)
			copied(t, o.Store)
			shut(t, n)
			must.NoError(t, os.RemoveAll(o.DataDir))
			n = open(t, o)
			events(t, n, "known", "a")
			events(t, n, "last", "a")
			all := firingsOf(t, n, "last")
			if len(all) != 2 || all["first"].ID != first.ID || all["first"].Recorded != first.Recorded {
				t.Errorf("fired: %+v, before %+v", all, first)
			}
			shut(t, n)
			r, err := fsck.Run(t.Context(), fsck.Options{Store: o.Store})
			if err != nil || r.Damages != 0 || r.Views == 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// TestSnapshotsOfAReplacedLogAreIgnored: the log was restored to an earlier state, and the
// snapshots were not. They are not used.
func TestSnapshotsOfAReplacedLogAreIgnored(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone}
	n := open(t, o)
	define(t, n, "(NOT b) THEN a")
	events(t, n, "first", "a")
	firingsOf(t, n, "first")
	shut(t, n)
	earlier := filepath.Join(dir, "earlier")
	must.NoError(t, os.CopyFS(earlier, os.DirFS(o.Bucket)))
	n = open(t, o)
	events(t, n, "ann", "b")
	must.Get(n.Trim(t.Context(), "events", 0, 1))(t)
	later := must.Get(anystore.Open(t.Context(), o.Bucket, anystore.Options{Existing: true}))(t)
	defer closeStore(later)
	copied(t, later)
	shut(t, n)
	view := strings.TrimSuffix(snapshot.Prefix(0), "/")
	must.NoError(t, os.CopyFS(filepath.Join(earlier, view), os.DirFS(filepath.Join(o.Bucket, view))))
	o.Bucket = earlier
	must.NoError(t, os.RemoveAll(o.DataDir))
	// The snapshot is from after the end of this log: a part of the log is lost (rule R13).
	if n, err := Open(t.Context(), o); !errors.As(err, new(*core.LostError)) {
		t.Errorf("opened with a snapshot from after the end: %v", err)
		if err == nil {
			shut(t, n)
		}
	}
	aside := filepath.Join(dir, "aside")
	must.NoError(t, os.Rename(filepath.Join(earlier, view), aside))
	// the second time the log is longer than at the snapshot, which belongs to another branch
	for again := range 2 {
		if again == 1 {
			must.NoError(t, os.RemoveAll(filepath.Join(earlier, view)))
			must.NoError(t, os.CopyFS(filepath.Join(earlier, view), os.DirFS(aside)))
		}
		must.NoError(t, os.RemoveAll(o.DataDir))
		n = open(t, o)
		for range 30 {
			events(t, n, "first", "c")
		}
		events(t, n, "ann", "a")
		if all := firingsOf(t, n, "ann"); len(all) != 2 {
			t.Errorf("fired: %+v", all)
		}
		shut(t, n)
	}
}
