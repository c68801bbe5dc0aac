package core_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// bench drives one core by hand against a map of objects; a test takes over where it wants another answer.
type bench struct {
	t       *testing.T
	core    *core.Core
	now     int64
	objects map[string][]byte
	open    []core.Effect // requests not answered yet
	told    []core.Effect // everything else
	nonces  uint32
}

func newBench(t *testing.T, cfg core.Config) *bench {
	b := &bench{t: t, core: core.New(cfg), now: 1e9, objects: map[string][]byte{}}
	b.step(&core.Event{Kind: core.EvStart})
	return b
}

func (b *bench) step(ev *core.Event) {
	b.t.Helper()
	var fx core.Effects
	b.now++
	b.core.Step(b.now, ev, &fx)
	for _, e := range fx.List {
		switch e.Kind {
		case core.EffGetMeta, core.EffPutMeta, core.EffList, core.EffGetSnapshot, core.EffGetSlot,
			core.EffNonce, core.EffPutSeal, core.EffPutSnapshot:
			b.open = append(b.open, e)
		case core.EffPutData:
			b.open = append(b.open, e)
			if e.Attempt == 0 {
				b.step(&core.Event{Kind: core.EvEncoded, Op: e.Op, HeadCRC: encode(b.t, e.Frozen)})
			}
		default:
			b.told = append(b.told, e)
		}
	}
}

var payload = func() []byte {
	data, _, err := record.Append(nil, []record.Record{{Value: []byte("v")}}, record.EncodeOptions{})
	if err != nil {
		panic(err)
	}
	return data
}()

func bodyOf(f *core.Frozen) (parts [][]byte) {
	for _, i := range f.Order {
		data := slices.Clone(payload)
		f.Place(i, data)
		parts = append(parts, data)
	}
	return parts
}

func encode(t *testing.T, f *core.Frozen) uint32 {
	t.Helper()
	_, crc, err := f.Encode(bodyOf(f))
	if err != nil {
		t.Fatal(err)
	}
	return crc
}

// next takes the oldest open request.
func (b *bench) next() core.Effect {
	b.t.Helper()
	if len(b.open) == 0 {
		b.t.Fatal("no request is open")
	}
	e := b.open[0]
	b.open = b.open[1:]
	return e
}

// answer does what an honest store does.
func (b *bench) answer(e core.Effect) {
	b.t.Helper()
	ev := &core.Event{Op: e.Op, Outcome: core.OutcomeOK}
	body, there := b.objects[e.Key]
	switch e.Kind {
	case core.EffNonce:
		b.nonces++
		ev.Kind = core.EvNonce
		binary.BigEndian.PutUint32(ev.Nonce[:], b.nonces)
	case core.EffList:
		ev.Kind, ev.Names = core.EvList, b.list(e)
	case core.EffGetMeta:
		ev.Kind = core.EvMeta
		if there {
			ev.Cluster, _, _ = core.DecodeMeta(body)
		}
	case core.EffGetSnapshot:
		ev.Kind = core.EvSnapshot
		if there {
			ev.State, ev.Err = state.DecodeSnapshot(body)
		}
	case core.EffGetSlot:
		ev.Kind = core.EvSlot
		if there {
			ev.Slot = decode(b.t, body)
		}
	default:
		b.answerPut(e)
		return
	}
	if !there && e.Kind != core.EffNonce && e.Kind != core.EffList {
		ev.Outcome = core.OutcomeNotFound
	}
	b.step(ev)
}

func (b *bench) answerPut(e core.Effect) {
	out := core.OutcomeOK
	if _, there := b.objects[e.Key]; there {
		out = core.OutcomeExists
	} else {
		b.objects[e.Key] = b.body(e)
	}
	b.step(&core.Event{Kind: core.EvPut, Op: e.Op, Outcome: out})
}

func (b *bench) body(e core.Effect) []byte {
	switch e.Kind {
	case core.EffPutData:
		parts := bodyOf(e.Frozen)
		prefix, _, err := e.Frozen.Encode(parts)
		if err != nil {
			b.t.Fatal(err)
		}
		return slices.Concat(append([][]byte{prefix}, parts...)...)
	case core.EffPutSnapshot:
		return state.EncodeSnapshot(e.View)
	}
	return e.Body
}

func (b *bench) list(e core.Effect) []string {
	var names []string
	for k := range b.objects {
		if len(k) >= len(e.Prefix) && k[:len(e.Prefix)] == e.Prefix && k > e.After {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names
}

func decode(t *testing.T, body []byte) *core.Slot {
	t.Helper()
	h, st, index, _, err := record.DecodeMeta(body)
	if err != nil {
		t.Fatal(err)
	}
	recs, err := state.DecodeRecords(st)
	if err != nil {
		t.Fatal(err)
	}
	return &core.Slot{Head: h, Records: recs, Index: index}
}

// settle answers everything until nothing is open.
func (b *bench) settle() {
	b.t.Helper()
	for range 10_000 {
		if len(b.open) == 0 {
			return
		}
		b.answer(b.next())
	}
	b.t.Fatal("it never comes to rest")
}

func (b *bench) freeze(ops []core.Op, appends ...core.Append) *core.Proposal {
	b.t.Helper()
	if !b.core.Room() {
		b.t.Fatal("no room")
	}
	p := &core.Proposal{Ops: ops, Appends: appends}
	b.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: b.now / 1000})
	return p
}

var topicID = record.ID{0xaa}

func one(expected int64) core.Append {
	return core.Append{Topic: topicID, Span: 1, Records: 1, Bytes: uint32(len(payload)), Expected: expected}
}

// leader is a bench whose core leads and has one topic.
func leader(t *testing.T, cfg core.Config) *bench {
	b := newBench(t, cfg)
	b.settle()
	b.freeze([]core.Op{{Record: state.Record{Kind: state.TopicCreate, Topic: topicID, Name: "t", Partitions: 2}}})
	b.settle()
	if b.core.Role() != core.RoleLeader || b.core.State().TopicByName("t") == nil {
		t.Fatalf("role %v", b.core.Role())
	}
	b.told = nil
	return b
}

func (b *bench) toldKinds() (kinds []core.EffectKind) {
	for _, e := range b.told {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (b *bench) wantTold(kinds ...core.EffectKind) {
	b.t.Helper()
	if got := b.toldKinds(); !slices.Equal(got, kinds) {
		b.t.Fatalf("told %v, want %v", got, kinds)
	}
}

func (b *bench) fail(e core.Effect, out core.Outcome) {
	b.step(&core.Event{Kind: core.EvPut, Op: e.Op, Outcome: out, Err: errors.New("planned")})
}

func TestSlotIsAcknowledgedWhenDurable(t *testing.T) {
	b := leader(t, core.Config{})
	p := b.freeze(nil, one(-1), one(-1))
	b.wantTold()
	b.settle()
	b.wantTold(core.EffCommit)
	if p.Appends[0].Base != 0 || p.Appends[1].Base != 1 || b.core.State().Topic(topicID).Partitions.At(0).Next != 2 {
		t.Fatalf("offsets %d and %d", p.Appends[0].Base, p.Appends[1].Base)
	}
}

func TestCommitIsInOrder(t *testing.T) {
	b := leader(t, core.Config{Window: 2})
	b.freeze(nil, one(-1))
	b.freeze(nil, one(-1))
	if b.core.Room() {
		t.Fatal("room for a third slot with a window of two")
	}
	first, second := b.next(), b.next()
	b.answer(second)
	b.wantTold()
	if b.core.Room() {
		t.Fatal("the window counts committed slots, not answers")
	}
	b.answer(first)
	b.wantTold(core.EffCommit, core.EffCommit)
	if b.told[0].Frozen.Head.Slot+1 != b.told[1].Frozen.Head.Slot {
		t.Fatal("committed out of order")
	}
}

// TestNoVerdict: rule R3, the same name and bytes again, never an answer.
func TestNoVerdict(t *testing.T) {
	for _, out := range []core.Outcome{core.OutcomeNoVerdict, core.OutcomeConflict} {
		b := leader(t, core.Config{})
		b.freeze(nil, one(-1))
		e := b.next()
		for i := range 5 {
			b.fail(e, out)
			b.wantTold()
			again := b.next()
			if again.Op != e.Op || again.Frozen != e.Frozen || again.Key != e.Key || again.Attempt != i+1 || again.Delay == 0 {
				t.Fatalf("outcome %d: attempt %d is %+v", out, i, again)
			}
			e = again
		}
		b.answer(e)
		b.wantTold(core.EffCommit)
		b.fail(e, out) // a late answer is not heard
		if len(b.open) > 0 {
			t.Fatal("a settled request was repeated")
		}
	}
}

// TestTaken: rule R3, what lies in a slot whose PUT found the name taken.
func TestTaken(t *testing.T) {
	for _, c := range []struct {
		name string
		lies func(b *bench, f *core.Frozen) // puts something at f.Key, or nothing
		role core.Role
		told []core.EffectKind
	}{
		{"our own earlier attempt", func(b *bench, f *core.Frozen) {
			b.objects[f.Key] = b.body(core.Effect{Kind: core.EffPutData, Frozen: f})
		}, core.RoleLeader, []core.EffectKind{core.EffCommit}},
		{"nothing any more", func(*bench, *core.Frozen) {}, core.RoleLeader, []core.EffectKind{core.EffCommit}},
		{"a seal", func(b *bench, f *core.Frozen) {
			h := f.Head
			h.Kind, h.NextEpoch, h.NextNonce = record.KindSeal, h.Epoch+1, record.ID{9}
			hint := state.EncodeRecords(nil, []state.Record{{Kind: state.LeaderHint, Name: "other:1"}})
			b.objects[f.Key] = must(record.EncodeObject(&h, hint, nil, nil))
		}, core.RoleFenced, []core.EffectKind{core.EffUnknown, core.EffRole}},
		{"our identity with other bytes", func(b *bench, f *core.Frozen) {
			h := f.Head
			h.Time++
			b.objects[f.Key] = must(record.EncodeObject(&h, nil, nil, nil))
		}, core.RoleStopped, []core.EffectKind{core.EffUnknown, core.EffAlarm, core.EffRole}},
		{"data of another writer", func(b *bench, f *core.Frozen) {
			h := f.Head
			h.Nonce = record.ID{7}
			b.objects[f.Key] = must(record.EncodeObject(&h, nil, nil, nil))
		}, core.RoleStopped, []core.EffectKind{core.EffUnknown, core.EffAlarm, core.EffRole}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := leader(t, core.Config{})
			b.freeze(nil, one(-1))
			e := b.next()
			c.lies(b, e.Frozen)
			b.fail(e, core.OutcomeExists)
			b.settle()
			b.wantTold(c.told...)
			if b.core.Role() != c.role {
				t.Fatalf("role %v", b.core.Role())
			}
			if last := b.told[len(b.told)-1]; c.role == core.RoleFenced && last.Leader != "other:1" {
				t.Fatalf("hint %q", last.Leader)
			}
		})
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

func TestRefusedStoreRejectsAndRecovers(t *testing.T) {
	b := leader(t, core.Config{Window: 1})
	b.freeze(nil, one(-1))
	e := b.next()
	b.fail(e, core.OutcomeRefused)
	b.freeze(nil, one(-1))
	b.wantTold(core.EffAlarm, core.EffReject)
	if !errors.Is(b.told[1].Reject, state.ErrStoreUnavailable) {
		t.Fatalf("rejected with %v", b.told[1].Reject)
	}
	again := b.next()
	if time.Duration(again.Delay) != 5*time.Second {
		t.Fatalf("repeated after %v", time.Duration(again.Delay))
	}
	b.answer(again)
	b.freeze(nil, one(-1))
	b.settle()
	b.wantTold(core.EffAlarm, core.EffReject, core.EffCommit, core.EffCommit)
}

// TestOverlayAnswersWait: rule R2, an answer that rests on a slot in flight waits for it.
func TestOverlayAnswersWait(t *testing.T) {
	b := leader(t, core.Config{})
	b.freeze(nil, one(-1))
	p := b.freeze(nil, one(0))
	var mismatch *state.OffsetMismatchError
	if !errors.As(p.Appends[0].Err, &mismatch) || mismatch.Next != 1 {
		t.Fatalf("%+v", p.Appends[0])
	}
	b.wantTold()
	b.settle()
	b.wantTold(core.EffCommit, core.EffReject)
}

// TestOverlayAnswersAreForgotten: what was said about a state that never came is not passed on.
func TestOverlayAnswersAreForgotten(t *testing.T) {
	b := leader(t, core.Config{})
	b.freeze(nil, one(-1))
	p := b.freeze(nil, one(0))
	e := b.next()
	h := e.Frozen.Head
	h.Kind, h.NextEpoch, h.NextNonce = record.KindSeal, h.Epoch+1, record.ID{9}
	b.objects[e.Key] = must(record.EncodeObject(&h, nil, nil, nil))
	b.answer(e)
	b.settle()
	b.wantTold(core.EffUnknown, core.EffReject, core.EffRole)
	if !errors.Is(p.Appends[0].Err, state.ErrFenced) {
		t.Fatalf("%+v", p.Appends[0])
	}
}

// TestCorruptSlotStopsEveryWalker: rule R9, no candidate seals before it.
func TestCorruptSlotStopsEveryWalker(t *testing.T) {
	a := leader(t, core.Config{})
	for range 3 {
		a.freeze(nil, one(-1))
		a.settle()
	}
	for _, readOnly := range []bool{false, true} {
		b := newBench(t, core.Config{ReadOnly: readOnly})
		b.objects = a.objects
		for len(b.open) > 0 {
			e := b.next()
			if e.Kind == core.EffPutSeal {
				t.Fatal("sealed before a corrupt slot")
			}
			if e.Kind == core.EffGetSlot && decodesToSlot(b, e, 2) {
				b.step(&core.Event{Kind: core.EvSlot, Op: e.Op, Outcome: core.OutcomeCorrupt, Err: errors.New("bit rot")})
				continue
			}
			b.answer(e)
		}
		if b.core.Role() != core.RoleStopped {
			t.Fatalf("read-only %v: role %v", readOnly, b.core.Role())
		}
	}
}

func decodesToSlot(b *bench, e core.Effect, slot uint64) bool {
	body, ok := b.objects[e.Key]
	if !ok {
		return false
	}
	h := decode(b.t, body).Head
	return h.Kind == record.KindData && h.Slot == slot
}

// TestHoleIsNotTheEnd: rule R5 (2), a missing slot below one that saw it committed.
func TestHoleIsNotTheEnd(t *testing.T) {
	a := leader(t, core.Config{})
	for range 4 {
		a.freeze(nil, one(-1))
		a.settle()
	}
	s := a.core.State()
	delete(a.objects, s.Key(s.Pos.Epoch, 2))
	b := newBench(t, core.Config{})
	b.objects = a.objects
	b.settle()
	if b.core.Role() != core.RoleStopped {
		t.Fatalf("role %v", b.core.Role())
	}
	var chain *state.ChainError
	if !errors.As(b.core.Err(), &chain) || chain.Pos.Slot != 2 {
		t.Fatalf("stopped with %v", b.core.Err())
	}
}

// TestSnapshotsThatCanNotBeRead: rule R5 (1), (2). A program that can read no snapshot, being older than them for one, does
// not take a collected slot for the end of the log, and puts nothing.
func TestSnapshotsThatCanNotBeRead(t *testing.T) {
	a := leader(t, core.Config{SnapshotSlots: 4})
	for range 20 {
		a.freeze(nil, one(-1))
		a.settle()
	}
	s := a.core.State()
	for slot := range s.Pos.Slot {
		delete(a.objects, s.Key(s.Pos.Epoch, slot)) // and all that would show that it is a hole
	}
	for _, tries := range []int{1, 100} { // damaged on the way once, or for good
		b := newBench(t, core.Config{SnapshotSlots: 4})
		b.objects = maps.Clone(a.objects)
		snapshots := len(b.list(core.Effect{Prefix: core.SnapPrefix(0)}))
		if snapshots < 2 {
			t.Fatalf("%d snapshots", snapshots)
		}
		unreadable := tries * snapshots
		for range 1000 {
			if len(b.open) == 0 {
				break
			}
			e := b.next()
			switch {
			case e.Kind == core.EffGetSnapshot && unreadable > 0:
				unreadable--
				b.step(&core.Event{Kind: core.EvSnapshot, Op: e.Op, Outcome: core.OutcomeCorrupt, Err: errors.New("of a newer version")})
				continue
			case e.Kind == core.EffPutSeal && unreadable > 0:
				t.Fatalf("seals %s", e.Key)
			}
			b.answer(e)
		}
		var chain *state.ChainError
		switch role := b.core.Role(); {
		case tries == 1 && role != core.RoleLeader:
			t.Errorf("damaged on the way: %v, %v", role, b.core.Err())
		case tries > 1 && (role != core.RoleStopped || !errors.As(b.core.Err(), &chain) || !strings.Contains(chain.Error(), "cannot be read")):
			t.Errorf("%v, %v", role, b.core.Err())
		}
	}
}

func TestStoreThatTakesANameTwiceIsRefused(t *testing.T) {
	b := newBench(t, core.Config{})
	for len(b.open) > 0 {
		e := b.next()
		if e.Kind == core.EffPutSeal {
			b.step(&core.Event{Kind: core.EvPut, Op: e.Op, Outcome: core.OutcomeOK})
			continue
		}
		b.answer(e)
	}
	if b.core.Role() != core.RoleStopped {
		t.Fatalf("role %v", b.core.Role())
	}
}

func TestBucketWithoutMetaIsRefused(t *testing.T) {
	b := newBench(t, core.Config{})
	b.objects["s0000/snap/x"] = []byte("x")
	b.settle()
	if !errors.Is(b.core.Err(), core.ErrForeignBucket) {
		t.Fatalf("role %v, %v", b.core.Role(), b.core.Err())
	}
}

// TestIdleLeaderAsksNothing: rule R11, without readers there is no request; with readers one a minute.
func TestIdleLeaderAsksNothing(t *testing.T) {
	b := leader(t, core.Config{})
	tick := func(d time.Duration) {
		b.now += int64(d)
		b.step(&core.Event{Kind: core.EvTick})
	}
	for range 10 {
		tick(time.Minute)
	}
	if len(b.open) != 0 {
		t.Fatalf("%d requests of an idle broker", len(b.open))
	}
	b.step(&core.Event{Kind: core.EvReaders, Waiting: true})
	n := 0
	for range 60 * 10 {
		tick(time.Second)
		n += len(b.open)
		b.settle()
	}
	if n < 9 || n > 11 {
		t.Fatalf("%d requests in ten minutes with readers", n)
	}
}

func TestDeposedIdleLeaderFindsOut(t *testing.T) {
	a := leader(t, core.Config{})
	b := newBench(t, core.Config{Advertised: "b:1"})
	b.objects = a.objects
	b.nonces = 100
	b.settle()
	if b.core.Role() != core.RoleLeader {
		t.Fatalf("role %v", b.core.Role())
	}
	a.now += int64(2 * time.Minute)
	a.step(&core.Event{Kind: core.EvConfirm, Tag: 5})
	a.settle()
	a.wantTold(core.EffConfirmed, core.EffRole)
	if a.told[0].Tag != 5 || !errors.Is(a.told[0].Reject, state.ErrFenced) || a.told[1].Leader != "b:1" {
		t.Fatalf("%+v", a.told)
	}
}

// TestReplayIsBounded: a start loads the newest snapshot and replays little.
func TestReplayIsBounded(t *testing.T) {
	a := leader(t, core.Config{SnapshotSlots: 10})
	for range 95 {
		a.freeze(nil, one(-1))
		a.settle()
	}
	b := newBench(t, core.Config{SnapshotSlots: 10})
	b.objects = a.objects
	b.nonces = 100
	reads := 0
	for len(b.open) > 0 {
		e := b.next()
		if e.Kind == core.EffGetSlot && b.objects[e.Key] != nil {
			reads++
		}
		b.answer(e)
	}
	if b.core.Role() != core.RoleLeader || reads > 11 {
		t.Fatalf("role %v after reading %d slots", b.core.Role(), reads)
	}
	if got := b.core.State().Topic(topicID).Partitions.At(0).Next; got != 95 {
		t.Fatalf("next offset %d", got)
	}
}

// TestSealAhead: a candidate that loses every race at the end still takes over.
func TestSealAhead(t *testing.T) {
	a := leader(t, core.Config{})
	b := newBench(t, core.Config{})
	b.objects = a.objects
	b.nonces = 100
	for range 2000 {
		if len(b.open) == 0 {
			break
		}
		e := b.next()
		if e.Kind == core.EffPutSeal && a.core.Role() == core.RoleLeader {
			a.freeze(nil, one(-1)) // the incumbent is always a little faster
			a.settle()
		}
		b.answer(e)
	}
	if b.core.Role() != core.RoleLeader {
		t.Fatalf("the candidate is %v", b.core.Role())
	}
	if a.core.Role() == core.RoleLeader && a.core.Room() {
		a.freeze(nil, one(-1))
		a.settle()
	}
	if a.core.Role() != core.RoleFenced {
		t.Fatalf("the incumbent is %v", a.core.Role())
	}
}

func TestFollowerSeesCommits(t *testing.T) {
	a := leader(t, core.Config{})
	b := newBench(t, core.Config{ReadOnly: true})
	b.objects = a.objects
	b.settle()
	if b.core.Role() != core.RoleFollower {
		t.Fatalf("role %v, %v", b.core.Role(), b.core.Err())
	}
	a.freeze(nil, one(-1))
	a.settle()
	b.now += int64(time.Hour)
	b.step(&core.Event{Kind: core.EvTick})
	if len(b.open) != 0 {
		t.Fatal("a follower without readers reads")
	}
	b.step(&core.Event{Kind: core.EvReaders, Waiting: true})
	b.settle()
	if got := b.core.State().Topic(topicID).Partitions.At(0).Next; got != 1 {
		t.Fatalf("next offset %d", got)
	}
	for _, e := range b.told {
		if e.Kind == core.EffAlarm {
			t.Fatal(e.Err)
		}
	}
}

func TestMeta(t *testing.T) {
	id := record.ID{1, 2, 3}
	good := core.EncodeMeta(id)
	got, checked, err := core.DecodeMeta(good)
	if err != nil || !checked || got != id {
		t.Fatalf("%v, %v, %v", got, checked, err)
	}
	old := `{"format":1,"cluster":"` + id.String() + `"}`
	if got, checked, err = core.DecodeMeta([]byte(old)); err != nil || checked || got != id {
		t.Errorf("without a checksum: %v, %v, %v", got, checked, err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(old, "1", "2", 1), `{"format":1,"cluster":"xx"}`} {
		if _, _, err := core.DecodeMeta([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for i := range len(good) * 8 {
		b := slices.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		if got, _, err := core.DecodeMeta(b); err == nil && got != id {
			t.Errorf("%q: %v", b, got)
		}
	}
}

// BenchmarkFlush: 100 appends a slot over 20 partitions; 1,000 flushes a second may take a fifth of a core.
func BenchmarkFlush(b *testing.B) {
	bb := leader(&testing.T{}, core.Config{})
	var ops []core.Op
	for i := range 10 {
		ops = append(ops, core.Op{Record: state.Record{Kind: state.TopicCreate, Topic: record.ID{1, byte(i)}, Name: fmt.Sprint(i), Partitions: 2}})
	}
	bb.freeze(ops)
	bb.settle()
	var fx core.Effects
	b.ReportAllocs()
	for b.Loop() {
		appends := make([]core.Append, 100)
		for i := range appends {
			appends[i] = one(-1)
			appends[i].Topic, appends[i].Partition = record.ID{1, byte(i % 10)}, uint32(i%2)
		}
		fx.Reset()
		bb.now++
		bb.core.Step(bb.now, &core.Event{Kind: core.EvFreeze, Proposal: &core.Proposal{Appends: appends}, Wall: bb.now}, &fx)
		e := fx.List[0]
		h := &e.Frozen.Head
		h.IndexCount, h.CRC = uint32(len(e.Frozen.Index)), uint32(h.Slot)
		bb.core.Step(bb.now, &core.Event{Kind: core.EvEncoded, Op: e.Op, HeadCRC: h.CRC}, &fx)
		bb.core.Step(bb.now, &core.Event{Kind: core.EvPut, Op: e.Op, Outcome: core.OutcomeOK}, &fx)
	}
}
