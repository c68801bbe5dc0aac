package core_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/forged"
)

// raiseAfter is longer than anything in these tests takes on their clock.
const raiseAfter = 1e12

// old is a bench whose core leads a bucket at format level 1 that has one topic.
func old(t *testing.T, cfg core.Config) *bench {
	t.Helper()
	store := objstore.NewMemory()
	if _, err := forged.Old(t.Context(), store); err != nil {
		t.Fatal(err)
	}
	b := &bench{t: t, core: core.New(cfg), now: 1e9, objects: objectsOf(t, store)}
	b.step(&core.Event{Kind: core.EvStart})
	b.settle()
	b.freeze([]core.Op{{Record: state.Record{Kind: state.TopicCreate, Topic: topicID, Name: "t", Partitions: 2}}})
	b.settle()
	b.told = nil
	b.wantLevel(state.LevelFirst)
	return b
}

func objectsOf(t *testing.T, store objstore.Store) map[string][]byte {
	t.Helper()
	entries, _, err := store.List(context.Background(), objstore.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string][]byte{}
	for _, e := range entries {
		o, err := store.Get(context.Background(), e.Key, objstore.Whole)
		if err != nil {
			t.Fatal(err)
		}
		if objects[e.Key], err = io.ReadAll(o.Body); err != nil {
			t.Fatal(err)
		}
	}
	return objects
}

func (b *bench) wantLevel(want uint32) {
	b.t.Helper()
	if b.core.Role() != core.RoleLeader || b.core.State().Level != want {
		b.t.Fatalf("role %v, format level %d, want %d", b.core.Role(), b.core.State().Level, want)
	}
}

// last are the state records of the newest slot.
func (b *bench) last() []state.Record {
	b.t.Helper()
	s := b.core.State()
	return decode(b.t, b.objects[s.Key(s.Pos.Epoch, s.Pos.Slot-1)]).Records
}

func TestANewBucketIsAtTheHighestLevel(t *testing.T) {
	b := leader(t, core.Config{})
	b.wantLevel(state.LevelMax)
	if _, ok := b.core.RaiseAt(); ok {
		t.Error("it will be raised")
	}
}

func TestTheFirstCommitOfAClientRaisesTheLevel(t *testing.T) {
	create := core.Op{Record: state.Record{Kind: state.TopicCreate, Topic: record.ID{2}, Name: "u", Partitions: 1}}
	for name, c := range map[string]struct {
		commit func(*bench)
		kinds  []state.RecordKind
	}{
		"with records":    {func(b *bench) { b.freeze(nil, one(-1)) }, []state.RecordKind{state.FormatLevel}},
		"of an operation": {func(b *bench) { b.freeze([]core.Op{create}) }, []state.RecordKind{state.FormatLevel, state.TopicCreate}},
	} {
		t.Run(name, func(t *testing.T) {
			b := old(t, core.Config{RaiseAfter: raiseAfter})
			at, ok := b.core.RaiseAt()
			if !ok || at <= b.now || at > b.now+raiseAfter {
				t.Fatalf("it is %d and is raised at %d, %v", b.now, at, ok)
			}
			b.now = at - 10
			b.freeze(nil, one(-1))
			b.settle()
			b.wantLevel(state.LevelFirst)
			b.now = at
			c.commit(b)
			b.wantLevel(state.LevelFirst) // not before it is committed
			b.settle()
			b.wantLevel(state.LevelMax)
			recs := b.last()
			var kinds []state.RecordKind
			for i := range recs {
				kinds = append(kinds, recs[i].Kind)
			}
			if !slices.Equal(kinds, c.kinds) || recs[0].Level != state.LevelMax || recs[0].Name == "" {
				t.Errorf("records %+v", recs)
			}
			b.freeze(nil, one(-1))
			b.settle()
			if recs := b.last(); len(recs) != 0 {
				t.Errorf("the slot after it holds %+v", recs)
			}
		})
	}
}

func TestWithoutAClientTheLevelStays(t *testing.T) {
	own := func(kind state.RecordKind) core.Op {
		return core.Op{Own: true, Record: state.Record{Kind: kind, Topic: topicID}}
	}
	for name, act := range map[string]func(*bench){
		"idle": func(*bench) {},
		"a tick": func(b *bench) {
			b.step(&core.Event{Kind: core.EvTick})
		},
		"retention": func(b *bench) { b.freeze([]core.Op{own(state.TopicTrim)}) },
		"garbage of a trim": func(b *bench) {
			b.freeze([]core.Op{own(state.TopicTrim)})
			b.settle()
			for range 20 { // snapshots, empty slots
				b.now += raiseAfter
				b.step(&core.Event{Kind: core.EvTick})
				b.settle()
			}
		},
		"an append that is rejected": func(b *bench) {
			b.freeze([]core.Op{own(state.TopicTrim)}, one(7))
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := old(t, core.Config{RaiseAfter: raiseAfter})
			b.freeze(nil, one(-1))
			b.settle()
			b.now += raiseAfter
			act(b)
			b.settle()
			b.wantLevel(state.LevelFirst)
		})
	}
}

func TestANegativeRaiseAfterHoldsTheLevel(t *testing.T) {
	b := old(t, core.Config{RaiseAfter: -1})
	b.now += 1e18
	b.freeze(nil, one(-1))
	b.settle()
	b.wantLevel(state.LevelFirst)
	if _, ok := b.core.RaiseAt(); ok {
		t.Error("it will be raised")
	}
	raise := []core.Op{{Record: state.RaiseTo(state.LevelMax)}}
	b.freeze(raise)
	b.settle()
	b.wantLevel(state.LevelMax)
	p := b.freeze(raise)
	b.settle()
	if p.Ops[0].Err != state.ErrLevelKnown {
		t.Errorf("once more: %v", p.Ops[0].Err)
	}
}

func TestARaiseThatIsProposedStandsOnce(t *testing.T) {
	b := old(t, core.Config{RaiseAfter: raiseAfter})
	b.now += raiseAfter
	b.freeze([]core.Op{{Record: state.RaiseTo(state.LevelMax)}}, one(-1))
	b.settle()
	b.wantLevel(state.LevelMax)
	if recs := b.last(); len(recs) != 1 || recs[0].Kind != state.FormatLevel {
		t.Errorf("records %+v", recs)
	}
}

func TestWhatNeedsAHigherLevelIsRejected(t *testing.T) {
	b := old(t, core.Config{RaiseAfter: raiseAfter})
	p := b.freeze([]core.Op{{Record: state.Record{Kind: state.TimeReset, Time: 1}}})
	b.settle()
	if !errors.Is(p.Ops[0].Err, state.ErrLevel) {
		t.Errorf("rejected with %v", p.Ops[0].Err)
	}
}

// TestATakeoverKeepsTheLevel: at level 1 the next leader waits anew; a raised bucket stays raised, with its snapshot and
// from the log alone.
func TestATakeoverKeepsTheLevel(t *testing.T) {
	for _, slots := range []int{1, 1000} {
		b := old(t, core.Config{RaiseAfter: raiseAfter, SnapshotSlots: slots})
		next := func() {
			b.core, b.open, b.told = core.New(core.Config{RaiseAfter: raiseAfter, SnapshotSlots: slots}), nil, nil
			b.step(&core.Event{Kind: core.EvStart})
			b.settle()
		}
		b.freeze(nil, one(-1))
		b.settle()
		b.now += raiseAfter
		next()
		b.wantLevel(state.LevelFirst)
		if at, ok := b.core.RaiseAt(); !ok || at <= b.now {
			t.Errorf("it is %d and is raised at %d, %v", b.now, at, ok)
		}
		b.now += raiseAfter
		b.freeze(nil, one(-1))
		b.settle()
		b.wantLevel(state.LevelMax)
		next()
		b.wantLevel(state.LevelMax)
	}
}

func TestALaterLayoutIsNoDamage(t *testing.T) {
	id := record.ID{1, 2, 3}
	var meta map[string]any
	if err := json.Unmarshal(core.EncodeMeta(id), &meta); err != nil {
		t.Fatal(err)
	}
	meta["format"] = state.Layout + 1
	meta["cluster"] = "of another kind"
	later, err := json.Marshal(meta)
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = core.DecodeMeta(later)
	if newer, ok := err.(*state.NewerError); !ok || newer.Layout != state.Layout+1 || !strings.Contains(err.Error(), "layout 2, which needs a newer Seb") {
		t.Errorf("%v", err)
	}
}
