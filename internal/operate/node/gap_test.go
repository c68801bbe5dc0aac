package node

import (
	"encoding/json"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestFollowersPassSkippedOffsets: a restore skips offsets in each partition. The key index and the
// triggers pass them, both at the end of a partition and before later records.
func TestFollowersPassSkippedOffsets(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	o := Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone}
	n := open(t, o)
	topic := createKeyed(t, n, "t", 1)
	put(t, n, "t", 0, "a", "1", "2")
	for id, text := range map[string]string{"then": "a THEN b", "absent": "a THEN (NOT c WITHIN 1 second)"} {
		expr := must.Get(driplang.Parse(text))(t)
		must.Get(n.Triggers().Put(t.Context(), rule.Definition{ID: id, Expr: expr}, nil))(t)
	}
	event(t, n, "a")
	shut(t, n)

	var stores []objstore.Store
	for _, name := range []string{"bucket", "backup", "restored"} {
		s := must.Get(objstore.OpenDisk(filepath.Join(dir, name), objstore.DiskOptions{}))(t)
		defer s.Close()
		stores = append(stores, s)
	}
	must.Get(fsck.Backup(t.Context(), fsck.CopyOptions{From: stores[0], To: stores[1]}))(t)
	must.Get2(fsck.Restore(t.Context(), fsck.CopyOptions{From: stores[1], To: stores[2]}))(t)

	o.Bucket, o.DataDir = filepath.Join(dir, "restored"), filepath.Join(dir, "data2")
	n = open(t, o)
	info, err := n.Topic(t.Context(), "t", false)
	if err != nil || info.Partitions[0].Next < 1<<32 {
		t.Fatalf("the restore skipped no offsets: %+v, %v", info, err)
	}
	indexed := func() bool { return n.Keys().Lag(topic) == 0 }
	sebtest.Eventually(t, "the key index passes the gap at the end", indexed)
	if got := newest(t, n, topic, "a", 0, info.Partitions[0].Next-1); got != "0/1 false true" {
		t.Errorf("newest record of a: %s", got)
	}
	fired(t, n, "absent") // by time alone
	last := put(t, n, "t", 0, "b", "3")
	sebtest.Eventually(t, "the key index passes the gap", indexed)
	if got := newest(t, n, topic, "b", 0, last); got != "0/4294967297 false true" {
		t.Errorf("newest record of b: %s", got)
	}
	event(t, n, "b")
	fired(t, n, "then")
}

// fired waits for the firing of a trigger.
func fired(t *testing.T, n *Node, id string) {
	t.Helper()
	sebtest.Eventually(t, "trigger "+id+" fires", func() bool {
		list, err := n.Triggers().Firings(t.Context(), rules.FiringQuery{Limit: 10})
		return err == nil && slices.ContainsFunc(list, func(f rules.Firing) bool { return f.Trigger == id && f.Recorded != 0 })
	})
}

// event appends an event of the entity e.
func event(t *testing.T, n *Node, name string) {
	t.Helper()
	topic, _ := n.EventLog().Topic("events")
	value := must.Get(json.Marshal(rule.Event{Name: name, EntityID: "e"}))(t)
	must.Get(n.EventLog().Append(t.Context(), topic.ID, 0, []record.Record{{Key: []byte("e"), Value: value}}))(t)
}
