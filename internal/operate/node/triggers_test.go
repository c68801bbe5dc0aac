package node

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/triggers/rules"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// TestNoTriggers: without triggers there is no file, and no request other than those for records.
func TestNoTriggers(t *testing.T) {
	dir := t.TempDir()
	store := storetest.NewCounter(objstore.NewMemory())
	n := open(t, Options{Store: store, DataDir: dir, BatchWait: BatchNone, NoMerge: true})
	produce(t, n, []byte("x"))
	sebtest.Eventually(t, "a record takes one PUT", func() bool { // the start may still send requests
		before := store.Counts()
		produce(t, n, []byte("y"))
		now := store.Counts()
		return now.Puts == before.Puts+1 && now.Gets == before.Gets && now.Lists == before.Lists
	})
	if list, err := n.Triggers().Triggers(); err != nil || len(list) != 0 {
		t.Errorf("triggers %v, %v", list, err)
	}
	if _, err := n.Triggers().Firing(t.Context(), rule.ID{1}); !errors.Is(err, rules.ErrUnknownFiring) {
		t.Errorf("a firing: %v", err)
	}
	if list, err := n.Triggers().Firings(t.Context(), rules.FiringQuery{Limit: 1}); err != nil || len(list) != 0 {
		t.Errorf("firings %v, %v", list, err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "view", "*")); len(files) != 0 {
		t.Errorf("files %q", files)
	}
}

// TestFollowerHasNoTriggers: a read-only node has no trigger engine.
func TestFollowerHasNoTriggers(t *testing.T) {
	store := objstore.NewMemory()
	open(t, Options{Store: store})
	n := open(t, Options{Store: store, ReadOnly: true})
	if n.Triggers() != nil || n.EventLog() != nil {
		t.Error("a follower has an engine")
	}
}

// TestEventLog: a position covers existing and missing topics at one moment, and grows with each
// slot.
func TestEventLog(t *testing.T) {
	n := open(t, Options{Store: objstore.NewMemory(), DataDir: t.TempDir(), BatchWait: BatchNone})
	l := n.EventLog()
	must.NoError(t, l.Create(t.Context(), "ev", 2, map[string]string{"timestamp-type": "append"}))
	if err := l.Create(t.Context(), "ev", 1, nil); err != nil {
		t.Errorf("created twice: %v", err)
	}
	topic, ok := l.Topic("ev")
	if !ok || topic.Partitions != 2 || !topic.AppendTime {
		t.Fatalf("topic is %+v, %v", topic, ok)
	}
	if _, ok := l.Topic("none"); ok {
		t.Error("an unknown topic was found")
	}
	before, _ := l.Position(topic.ID)
	base, err := l.Append(t.Context(), topic.ID, 1, []record.Record{{Key: []byte("k")}, {Key: []byte("k")}})
	if err != nil || base != 0 {
		t.Fatalf("append: %d, %v", base, err)
	}
	p, known := l.Position(record.NewID(), topic.ID)
	if !known || len(p.Topics[0]) != 0 || len(p.Topics[1]) != 2 || p.Topics[1][1] != (views.Span{Next: 2}) || p.Time <= before.Time {
		t.Errorf("position is %+v after %+v", p, before)
	}
	b, err := l.Read(t.Context(), topic.ID, 1, 1, 1)
	if err != nil || len(b.Parts) != 1 {
		t.Fatalf("read: %v, %v", b, err)
	}
	var r record.Reader
	if r.Reset(b.Parts[0], 1); !r.Next() || r.Offset() != 1 || r.Record().Timestamp != p.Time/1000 {
		t.Errorf("record is %+v, the slot's time %d", r.Record(), p.Time)
	}
	b.Release()
	if l.Origin(topic.ID, 1, 1).IsZero() || !l.Leads() {
		t.Error("the writer is unknown, or there is no leader")
	}
	if _, err := l.Append(t.Context(), record.NewID(), 0, []record.Record{{}}); !errors.Is(err, state.ErrUnknownTopic) {
		t.Errorf("append to an unknown topic: %v", err)
	}
}

// TestTriggersOutliveTheirFile: a file that is rebuilt from the log has the same firing.
func TestTriggersOutliveTheirFile(t *testing.T) {
	dir := t.TempDir()
	o := Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone}
	n := open(t, o)
	expr := must.Get(driplang.Parse("a THEN b"))(t)
	must.Get(n.Triggers().Put(t.Context(), rule.Definition{ID: "x", Expr: expr}, nil))(t)
	topic, _ := n.EventLog().Topic("events")
	for _, name := range []string{"a", "b"} {
		value, _ := json.Marshal(rule.Event{Name: name, EntityID: "e"})
		must.Get(n.EventLog().Append(t.Context(), topic.ID, 0, []record.Record{{Key: []byte("e"), Value: value}}))(t)
	}
	first := theFiring(t, n)
	shut(t, n)
	files, _ := filepath.Glob(filepath.Join(o.DataDir, "view", "triggers.db*"))
	for _, f := range files {
		must.NoError(t, os.Remove(f))
	}
	if len(files) == 0 {
		t.Error("there was no file")
	}
	n = open(t, o)
	if again := theFiring(t, n); again.ID != first.ID || again.Recorded != first.Recorded {
		t.Errorf("firing %+v, then %+v", first, again)
	}
}

// theFiring waits for the only firing.
func theFiring(t *testing.T, n *Node) rules.Firing {
	t.Helper()
	for {
		changed := n.Triggers().Changed()
		list, err := n.Triggers().Firings(t.Context(), rules.FiringQuery{Limit: 10})
		if err == nil && len(list) == 1 && list[0].Recorded != 0 {
			return list[0]
		}
		if len(list) > 1 {
			t.Fatalf("firings are %+v", list)
		}
		select {
		case <-changed:
		case <-t.Context().Done():
			t.Fatal("no firing")
		}
	}
}

// TestTheTopicOfTriggersIsDeletedByForceOnly: the state of a trigger survives the deletion of the
// topic, a restart and the loss of the machine. The trigger follows the next topic of that name.
func TestTheTopicOfTriggersIsDeletedByForceOnly(t *testing.T) {
	dir := t.TempDir()
	o := Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone}
	n := open(t, o)
	expr := must.Get(driplang.Parse("a THEN b"))(t)
	must.Get(n.Triggers().Put(t.Context(), rule.Definition{ID: "x", Expr: expr}, nil))(t)
	event := func(name string) {
		t.Helper()
		topic := must.Get(rules.Ensure(t.Context(), n.EventLog(), "events", 1, rules.AppendTimes))(t)
		value, _ := json.Marshal(rule.Event{Name: name, EntityID: "e"})
		must.Get(n.EventLog().Append(t.Context(), topic.ID, 0, []record.Record{{Key: []byte("e"), Value: value}}))(t)
	}
	until := func(done func() bool) {
		t.Helper()
		for {
			changed := n.Triggers().Changed()
			if done() {
				return
			}
			select {
			case <-changed:
			case <-t.Context().Done():
				t.Fatal(t.Context().Err())
			}
		}
	}
	missing := func(want bool) {
		t.Helper()
		until(func() bool {
			x, err := n.Triggers().Trigger(t.Context(), "x")
			return err == nil && x.Missing == want
		})
	}
	event("a")
	until(func() bool { // the lag of the last position may be older than the event
		x, err := n.Triggers().Explain(t.Context(), "x", "e")
		return err == nil && x.Known
	})
	missing(false)
	must.ErrorIsf(t, n.DeleteTopic(t.Context(), "events"), broker.ErrTopicInUse, "delete")
	must.NoError(t, n.ForceDeleteTopic(t.Context(), "events"))
	missing(true)
	shut(t, n)
	n = open(t, o)
	missing(true)
	event("b")
	missing(false)
	if x := theFiring(t, n); x.Trigger != "x" || x.Entity != "e" {
		t.Errorf("firing %+v", x)
	}
}

// TestTriggersAfterATimeReset: a wrong clock moves the log time ten years ahead, and the time is
// reset. Triggers continue at the correct time.
func TestTriggersAfterATimeReset(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var off atomic.Int64
	o := Options{Bucket: filepath.Join(dir, "bucket"), DataDir: filepath.Join(dir, "data"), BatchWait: BatchNone}
	o.Clocks = func() log.Reading {
		now := time.Now().Add(time.Duration(off.Load()))
		return log.Reading{Mono: time.Now().UnixNano(), Wall: now.UnixMicro()}
	}
	n := open(t, o)
	expr := must.Get(driplang.Parse("a THEN (NOT b WITHIN 1 second)"))(t)
	must.Get(n.Triggers().Put(t.Context(), rule.Definition{ID: "x", Expr: expr}, nil))(t)
	event := func(entity string) {
		t.Helper()
		topic := must.Get(rules.Ensure(t.Context(), n.EventLog(), "events", 1, rules.AppendTimes))(t)
		value, _ := json.Marshal(rule.Event{Name: "a", EntityID: entity})
		must.Get(n.EventLog().Append(t.Context(), topic.ID, 0, []record.Record{{Key: []byte(entity), Value: value}}))(t)
	}
	fired := func(entity string) rules.Firing {
		t.Helper()
		for {
			changed := n.Triggers().Changed()
			list, err := n.Triggers().Firings(t.Context(), rules.FiringQuery{Limit: 10})
			for i := range list {
				if err == nil && list[i].Entity == entity && list[i].Recorded != 0 {
					return list[i]
				}
			}
			select {
			case <-changed:
			case <-t.Context().Done():
				t.Fatal("no firing for " + entity)
			}
		}
	}
	const years = 10 * 365 * 24 * time.Hour
	event("before")
	shut(t, n)
	off.Store(int64(years))
	o.AcceptClock = true
	n = open(t, o)
	event("future")
	fired("before") // by the wrong clock
	shut(t, n)
	off.Store(0)
	o.AcceptClock = false
	n = open(t, o)
	must.Get(n.ResetTime(t.Context()))(t)
	event("after")
	if x := fired("after"); time.Until(time.UnixMilli(x.At)) > time.Hour {
		t.Errorf("fired at %v", time.UnixMilli(x.At))
	}
}
