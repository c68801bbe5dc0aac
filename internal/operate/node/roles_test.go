package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// turns are two nodes on one bucket that take over from each other.
type turns struct {
	nodes [2]*Node
	dirs  []string // of their files
}

func openTurns(t *testing.T, bucket func(i int) Options) *turns {
	t.Helper()
	w := &turns{}
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	w.dirs = append(w.dirs, temp)
	for i := range w.nodes {
		o := bucket(i)
		o.DataDir, o.BatchWait = t.TempDir(), BatchNone
		o.Standby, o.Follow = true, i == 1
		o.SnapshotSlots, o.RetentionEvery, o.AuditTopic, o.RiemannTopic = 20, 2*time.Millisecond, "audit", "riemann"
		o.Pack, o.MergeEvery = compact.Policy{Target: 64 << 10, Age: time.Microsecond, Small: 3}, 5*time.Millisecond
		w.dirs = append(w.dirs, o.DataDir)
		w.nodes[i] = open(t, o)
	}
	return w
}

// takeOver makes a node the leader, which follows.
func takeOver(t *testing.T, n *Node) {
	t.Helper()
	must := func(err error) {
		t.Helper()
		must.NoError(t, err)
	}
	must(n.Confirm(t.Context()))
	err := n.Stand(t.Context())
	for errors.Is(err, state.ErrNotLeader) { // the leader writes on its own account, for example packs
		must(n.Confirm(t.Context()))
		err = n.Stand(t.Context())
	}
	must(err)
}

// files is the number of files of the nodes.
func (w *turns) files(t *testing.T) (n int) {
	t.Helper()
	for _, dir := range w.dirs {
		must.NoError(t, filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				n++
			}
			return nil // files of the merger come and go
		}))
	}
	return n
}

// post appends an event of a trigger.
func post(t *testing.T, n *Node, name, entity string) error {
	t.Helper()
	topic, _ := n.EventLog().Topic("events")
	value, err := json.Marshal(rule.Event{Name: name, EntityID: entity})
	must.NoError(t, err)
	_, err = n.EventLog().Append(t.Context(), topic.ID, 0, []record.Record{{Key: []byte(entity), Value: value}})
	return err
}

// awaitFirings waits until so many firings are recorded.
func awaitFirings(t *testing.T, n *Node, want int) {
	t.Helper()
	for {
		changed := n.Triggers().Changed()
		list, err := n.Triggers().Firings(t.Context(), rules.FiringQuery{Limit: want + 10})
		recorded := 0
		for i := range list {
			if list[i].Recorded != 0 {
				recorded++
			}
		}
		if err == nil && recorded == want {
			return
		}
		if len(list) > want {
			t.Fatalf("%d firings, want %d", len(list), want)
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("no firing")
		}
	}
}

// TestNodesTakeTurns: a node follows after it was fenced, and leads again, in one process. What only a
// leader does starts and stops with its epochs: firings, packs, retention, audit records. It leaves
// nothing behind.
func TestNodesTakeTurns(t *testing.T) {
	memory, dir := objstore.NewMemory(), t.TempDir()
	for name, bucket := range map[string]func(i int) Options{
		"memory": func(int) Options { return Options{Store: memory} },
		"disk":   func(int) Options { return Options{Bucket: dir} },
	} {
		t.Run(name, func(t *testing.T) { takeTurns(t, openTurns(t, bucket)) })
	}
}

func takeTurns(t *testing.T, w *turns) {
	settled, rounds := sebtest.Runs(6, 3), sebtest.Runs(18, 9)
	leader, next := w.nodes[0], w.nodes[1]
	expr := must.Get(driplang.Parse("a THEN b"))(t)
	must.Get(leader.Triggers().Put(t.Context(), rule.Definition{ID: "x", Expr: expr}, nil))(t)
	var goroutines, files int
	for round := range rounds {
		entity := fmt.Sprint("e", round)
		must.NoError(t, post(t, leader, "a", entity))
		produce(t, leader, []byte("x"))
		if err := post(t, next, "b", entity); !errors.Is(err, state.ErrNotLeader) && !errors.Is(err, state.ErrUnknownTopic) {
			t.Fatalf("round %d: append to a follower: %v", round, err)
		}
		takeOver(t, next)
		must.NoError(t, post(t, next, "b", entity))
		awaitFirings(t, next, round+1)
		if err := post(t, leader, "b", entity); !errors.Is(err, state.ErrOutcomeUnknown) && !errors.Is(err, state.ErrFenced) && !errors.Is(err, state.ErrNotLeader) {
			t.Fatalf("round %d: append to a deposed leader: %v", round, err)
		}
		sebtest.Eventually(t, "the deposed leader follows", leader.Follows)
		leader, next = next, leader
		if round == settled {
			goroutines, files = runtime.NumGoroutine(), w.files(t)
		}
	}
	sebtest.Eventually(t, "no goroutine of an earlier term runs", func() bool { return runtime.NumGoroutine() <= goroutines+4 })
	if now := w.files(t); now > files+4 {
		t.Errorf("%d files after %d rounds, %d after %d", now, rounds, files, settled)
	}
	for _, n := range w.nodes {
		if err := n.Err(); err != nil {
			t.Errorf("a node has ended: %v", err)
		}
		shut(t, n)
	}
}

// TestTakeoverRequests counts the requests of a takeover by a node that has followed.
func TestTakeoverRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		memory := objstore.NewMemory()
		leader := open(t, Options{Store: memory, BatchWait: BatchNone, NoMerge: true})
		store := storetest.NewCounter(memory)
		n := open(t, Options{Store: store, BatchWait: BatchNone, Follow: true, NoMerge: true})
		for range 50 {
			produce(t, leader, []byte("x"))
		}
		must.NoError(t, n.Confirm(t.Context()))
		synctest.Wait() // Confirm returns before its GETs beyond the end do
		before := store.Counts()
		must.NoError(t, n.Stand(t.Context()))
		synctest.Wait()
		if got := store.Counts().Sub(before); got.Puts != 2 || got.Gets != 0 || got.Lists != 3 {
			t.Errorf("a takeover took %+v, want 2 PUT, 3 LIST", got)
		}
		if n.Follows() || n.LeadingEpoch() == 0 {
			t.Error("the node does not lead")
		}
		before = store.Counts()
		produce(t, n, []byte("y"))
		synctest.Wait()
		if got := store.Counts().Sub(before); got.Requests() != 1 {
			t.Errorf("a record of the new leader took %+v", got)
		}
	})
}
