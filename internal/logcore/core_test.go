package logcore_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/logcore"
	"github.com/sebbroker/seb/internal/state"
	"github.com/sebbroker/seb/record"
)

// bench drives one core by hand against a map of objects; a test takes over where it wants another answer.
type bench struct {
	t       *testing.T
	core    *logcore.Core
	now     int64
	objects map[string][]byte
	open    []logcore.Effect // requests not answered yet
	told    []logcore.Effect // everything else
	nonces  uint32
}

func newBench(t *testing.T, cfg logcore.Config) *bench {
	b := &bench{t: t, core: logcore.New(cfg), now: 1e9, objects: map[string][]byte{}}
	b.step(&logcore.Event{Kind: logcore.EvStart})
	return b
}

func (b *bench) step(ev *logcore.Event) {
	b.t.Helper()
	var fx logcore.Effects
	b.now++
	b.core.Step(b.now, ev, &fx)
	for _, e := range fx.List {
		switch e.Kind {
		case logcore.EffGetMeta, logcore.EffPutMeta, logcore.EffList, logcore.EffGetSnapshot, logcore.EffGetSlot,
			logcore.EffNonce, logcore.EffPutSeal, logcore.EffPutSnapshot:
			b.open = append(b.open, e)
		case logcore.EffPutData:
			b.open = append(b.open, e)
			if e.Attempt == 0 {
				b.step(&logcore.Event{Kind: logcore.EvEncoded, Op: e.Op, HeadCRC: encode(b.t, e.Frozen)})
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

func bodyOf(f *logcore.Frozen) (parts [][]byte) {
	for _, i := range f.Order {
		data := slices.Clone(payload)
		f.Place(i, data)
		parts = append(parts, data)
	}
	return parts
}

func encode(t *testing.T, f *logcore.Frozen) uint32 {
	t.Helper()
	_, crc, err := f.Encode(bodyOf(f))
	if err != nil {
		t.Fatal(err)
	}
	return crc
}

// next takes the oldest open request.
func (b *bench) next() logcore.Effect {
	b.t.Helper()
	if len(b.open) == 0 {
		b.t.Fatal("no request is open")
	}
	e := b.open[0]
	b.open = b.open[1:]
	return e
}

// answer does what an honest store does.
func (b *bench) answer(e logcore.Effect) {
	b.t.Helper()
	ev := &logcore.Event{Op: e.Op, Outcome: logcore.OutcomeOK}
	body, there := b.objects[e.Key]
	switch e.Kind {
	case logcore.EffNonce:
		b.nonces++
		ev.Kind = logcore.EvNonce
		binary.BigEndian.PutUint32(ev.Nonce[:], b.nonces)
	case logcore.EffList:
		ev.Kind, ev.Names = logcore.EvList, b.list(e)
	case logcore.EffGetMeta:
		ev.Kind = logcore.EvMeta
		if there {
			ev.Cluster, _, _ = logcore.DecodeMeta(body)
		}
	case logcore.EffGetSnapshot:
		ev.Kind = logcore.EvSnapshot
		if there {
			ev.State, ev.Err = state.DecodeSnapshot(body)
		}
	case logcore.EffGetSlot:
		ev.Kind = logcore.EvSlot
		if there {
			ev.Slot = decode(b.t, body)
		}
	default:
		b.answerPut(e)
		return
	}
	if !there && e.Kind != logcore.EffNonce && e.Kind != logcore.EffList {
		ev.Outcome = logcore.OutcomeNotFound
	}
	b.step(ev)
}

func (b *bench) answerPut(e logcore.Effect) {
	out := logcore.OutcomeOK
	if _, there := b.objects[e.Key]; there {
		out = logcore.OutcomeExists
	} else {
		b.objects[e.Key] = b.body(e)
	}
	b.step(&logcore.Event{Kind: logcore.EvPut, Op: e.Op, Outcome: out})
}

func (b *bench) body(e logcore.Effect) []byte {
	switch e.Kind {
	case logcore.EffPutData:
		parts := bodyOf(e.Frozen)
		prefix, _, err := e.Frozen.Encode(parts)
		if err != nil {
			b.t.Fatal(err)
		}
		return slices.Concat(append([][]byte{prefix}, parts...)...)
	case logcore.EffPutSnapshot:
		return state.EncodeSnapshot(e.View)
	}
	return e.Body
}

func (b *bench) list(e logcore.Effect) []string {
	var names []string
	for k := range b.objects {
		if len(k) >= len(e.Prefix) && k[:len(e.Prefix)] == e.Prefix && k > e.After {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names
}

func decode(t *testing.T, body []byte) *logcore.Slot {
	t.Helper()
	h, st, index, _, err := record.DecodeMeta(body)
	if err != nil {
		t.Fatal(err)
	}
	recs, err := state.DecodeRecords(st)
	if err != nil {
		t.Fatal(err)
	}
	return &logcore.Slot{Head: h, Records: recs, Index: index}
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

func (b *bench) freeze(ops []logcore.Op, appends ...logcore.Append) *logcore.Proposal {
	b.t.Helper()
	if !b.core.Room() {
		b.t.Fatal("no room")
	}
	p := &logcore.Proposal{Ops: ops, Appends: appends}
	b.step(&logcore.Event{Kind: logcore.EvFreeze, Proposal: p, Wall: b.now / 1000})
	return p
}

var topicID = record.ID{0xaa}

func one(expected int64) logcore.Append {
	return logcore.Append{Topic: topicID, Span: 1, Records: 1, Bytes: uint32(len(payload)), Expected: expected}
}

// leader is a bench whose core leads and has one topic.
func leader(t *testing.T, cfg logcore.Config) *bench {
	b := newBench(t, cfg)
	b.settle()
	b.freeze([]logcore.Op{{Record: state.Record{Kind: state.TopicCreate, Topic: topicID, Name: "t", Partitions: 2}}})
	b.settle()
	if b.core.Role() != logcore.RoleLeader || b.core.State().TopicByName("t") == nil {
		t.Fatalf("role %v", b.core.Role())
	}
	b.told = nil
	return b
}

func (b *bench) toldKinds() (kinds []logcore.EffectKind) {
	for _, e := range b.told {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (b *bench) wantTold(kinds ...logcore.EffectKind) {
	b.t.Helper()
	if got := b.toldKinds(); !slices.Equal(got, kinds) {
		b.t.Fatalf("told %v, want %v", got, kinds)
	}
}

func (b *bench) fail(e logcore.Effect, out logcore.Outcome) {
	b.step(&logcore.Event{Kind: logcore.EvPut, Op: e.Op, Outcome: out, Err: errors.New("planned")})
}

func TestSlotIsAcknowledgedWhenDurable(t *testing.T) {
	b := leader(t, logcore.Config{})
	p := b.freeze(nil, one(-1), one(-1))
	b.wantTold()
	b.settle()
	b.wantTold(logcore.EffCommit)
	if p.Appends[0].Base != 0 || p.Appends[1].Base != 1 || b.core.State().Topic(topicID).Partitions.At(0).Next != 2 {
		t.Fatalf("offsets %d and %d", p.Appends[0].Base, p.Appends[1].Base)
	}
}

func TestCommitIsInOrder(t *testing.T) {
	b := leader(t, logcore.Config{Window: 2})
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
	b.wantTold(logcore.EffCommit, logcore.EffCommit)
	if b.told[0].Frozen.Head.Slot+1 != b.told[1].Frozen.Head.Slot {
		t.Fatal("committed out of order")
	}
}

// TestNoVerdict: rule R3, the same name and bytes again, never an answer.
func TestNoVerdict(t *testing.T) {
	for _, out := range []logcore.Outcome{logcore.OutcomeNoVerdict, logcore.OutcomeConflict} {
		b := leader(t, logcore.Config{})
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
		b.wantTold(logcore.EffCommit)
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
		lies func(b *bench, f *logcore.Frozen) // puts something at f.Key, or nothing
		role logcore.Role
		told []logcore.EffectKind
	}{
		{"our own earlier attempt", func(b *bench, f *logcore.Frozen) {
			b.objects[f.Key] = b.body(logcore.Effect{Kind: logcore.EffPutData, Frozen: f})
		}, logcore.RoleLeader, []logcore.EffectKind{logcore.EffCommit}},
		{"nothing any more", func(*bench, *logcore.Frozen) {}, logcore.RoleLeader, []logcore.EffectKind{logcore.EffCommit}},
		{"a seal", func(b *bench, f *logcore.Frozen) {
			h := f.Head
			h.Kind, h.NextEpoch, h.NextNonce = record.KindSeal, h.Epoch+1, record.ID{9}
			hint := state.EncodeRecords(nil, []state.Record{{Kind: state.LeaderHint, Name: "other:1"}})
			b.objects[f.Key] = must(record.EncodeObject(&h, hint, nil, nil))
		}, logcore.RoleFenced, []logcore.EffectKind{logcore.EffUnknown, logcore.EffRole}},
		{"our identity with other bytes", func(b *bench, f *logcore.Frozen) {
			h := f.Head
			h.Time++
			b.objects[f.Key] = must(record.EncodeObject(&h, nil, nil, nil))
		}, logcore.RoleStopped, []logcore.EffectKind{logcore.EffUnknown, logcore.EffAlarm, logcore.EffRole}},
		{"data of another writer", func(b *bench, f *logcore.Frozen) {
			h := f.Head
			h.Nonce = record.ID{7}
			b.objects[f.Key] = must(record.EncodeObject(&h, nil, nil, nil))
		}, logcore.RoleStopped, []logcore.EffectKind{logcore.EffUnknown, logcore.EffAlarm, logcore.EffRole}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := leader(t, logcore.Config{})
			b.freeze(nil, one(-1))
			e := b.next()
			c.lies(b, e.Frozen)
			b.fail(e, logcore.OutcomeExists)
			b.settle()
			b.wantTold(c.told...)
			if b.core.Role() != c.role {
				t.Fatalf("role %v", b.core.Role())
			}
			if last := b.told[len(b.told)-1]; c.role == logcore.RoleFenced && last.Leader != "other:1" {
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
	b := leader(t, logcore.Config{Window: 1})
	b.freeze(nil, one(-1))
	e := b.next()
	b.fail(e, logcore.OutcomeRefused)
	b.freeze(nil, one(-1))
	b.wantTold(logcore.EffAlarm, logcore.EffReject)
	if b.told[1].Reject != logcore.RejectStore {
		t.Fatalf("rejected with %d", b.told[1].Reject)
	}
	again := b.next()
	if time.Duration(again.Delay) != 5*time.Second {
		t.Fatalf("repeated after %v", time.Duration(again.Delay))
	}
	b.answer(again)
	b.freeze(nil, one(-1))
	b.settle()
	b.wantTold(logcore.EffAlarm, logcore.EffReject, logcore.EffCommit, logcore.EffCommit)
}

// TestOverlayAnswersWait: rule R2, an answer that rests on a slot in flight waits for it.
func TestOverlayAnswersWait(t *testing.T) {
	b := leader(t, logcore.Config{})
	b.freeze(nil, one(-1))
	p := b.freeze(nil, one(0))
	if p.Appends[0].Err != logcore.RejectOffset || p.Appends[0].Next != 1 {
		t.Fatalf("%+v", p.Appends[0])
	}
	b.wantTold()
	b.settle()
	b.wantTold(logcore.EffCommit, logcore.EffReject)
}

// TestOverlayAnswersAreForgotten: what was said about a state that never came is not passed on.
func TestOverlayAnswersAreForgotten(t *testing.T) {
	b := leader(t, logcore.Config{})
	b.freeze(nil, one(-1))
	p := b.freeze(nil, one(0))
	e := b.next()
	h := e.Frozen.Head
	h.Kind, h.NextEpoch, h.NextNonce = record.KindSeal, h.Epoch+1, record.ID{9}
	b.objects[e.Key] = must(record.EncodeObject(&h, nil, nil, nil))
	b.answer(e)
	b.settle()
	b.wantTold(logcore.EffUnknown, logcore.EffReject, logcore.EffRole)
	if p.Appends[0].Err != logcore.RejectFenced || p.Appends[0].Next != 0 {
		t.Fatalf("%+v", p.Appends[0])
	}
}

// TestCorruptSlotStopsEveryWalker: rule R9, no candidate seals before it.
func TestCorruptSlotStopsEveryWalker(t *testing.T) {
	a := leader(t, logcore.Config{})
	for range 3 {
		a.freeze(nil, one(-1))
		a.settle()
	}
	for _, readOnly := range []bool{false, true} {
		b := newBench(t, logcore.Config{ReadOnly: readOnly})
		b.objects = a.objects
		for len(b.open) > 0 {
			e := b.next()
			if e.Kind == logcore.EffPutSeal {
				t.Fatal("sealed before a corrupt slot")
			}
			if e.Kind == logcore.EffGetSlot && decodesToSlot(b, e, 2) {
				b.step(&logcore.Event{Kind: logcore.EvSlot, Op: e.Op, Outcome: logcore.OutcomeCorrupt, Err: errors.New("bit rot")})
				continue
			}
			b.answer(e)
		}
		if b.core.Role() != logcore.RoleStopped {
			t.Fatalf("read-only %v: role %v", readOnly, b.core.Role())
		}
	}
}

func decodesToSlot(b *bench, e logcore.Effect, slot uint64) bool {
	body, ok := b.objects[e.Key]
	if !ok {
		return false
	}
	h := decode(b.t, body).Head
	return h.Kind == record.KindData && h.Slot == slot
}

// TestHoleIsNotTheEnd: rule R5 (2), a missing slot below one that saw it committed.
func TestHoleIsNotTheEnd(t *testing.T) {
	a := leader(t, logcore.Config{})
	for range 4 {
		a.freeze(nil, one(-1))
		a.settle()
	}
	s := a.core.State()
	delete(a.objects, s.Key(s.Pos.Epoch, 2))
	b := newBench(t, logcore.Config{})
	b.objects = a.objects
	b.settle()
	if b.core.Role() != logcore.RoleStopped {
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
	a := leader(t, logcore.Config{SnapshotSlots: 4})
	for range 20 {
		a.freeze(nil, one(-1))
		a.settle()
	}
	s := a.core.State()
	for slot := range s.Pos.Slot {
		delete(a.objects, s.Key(s.Pos.Epoch, slot)) // and all that would show that it is a hole
	}
	for _, tries := range []int{1, 100} { // damaged on the way once, or for good
		b := newBench(t, logcore.Config{SnapshotSlots: 4})
		b.objects = maps.Clone(a.objects)
		snapshots := len(b.list(logcore.Effect{Prefix: logcore.SnapPrefix(0)}))
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
			case e.Kind == logcore.EffGetSnapshot && unreadable > 0:
				unreadable--
				b.step(&logcore.Event{Kind: logcore.EvSnapshot, Op: e.Op, Outcome: logcore.OutcomeCorrupt, Err: errors.New("of a newer version")})
				continue
			case e.Kind == logcore.EffPutSeal && unreadable > 0:
				t.Fatalf("seals %s", e.Key)
			}
			b.answer(e)
		}
		var chain *state.ChainError
		switch role := b.core.Role(); {
		case tries == 1 && role != logcore.RoleLeader:
			t.Errorf("damaged on the way: %v, %v", role, b.core.Err())
		case tries > 1 && (role != logcore.RoleStopped || !errors.As(b.core.Err(), &chain) || !strings.Contains(chain.Error(), "cannot be read")):
			t.Errorf("%v, %v", role, b.core.Err())
		}
	}
}

func TestStoreThatTakesANameTwiceIsRefused(t *testing.T) {
	b := newBench(t, logcore.Config{})
	for len(b.open) > 0 {
		e := b.next()
		if e.Kind == logcore.EffPutSeal {
			b.step(&logcore.Event{Kind: logcore.EvPut, Op: e.Op, Outcome: logcore.OutcomeOK})
			continue
		}
		b.answer(e)
	}
	if b.core.Role() != logcore.RoleStopped {
		t.Fatalf("role %v", b.core.Role())
	}
}

func TestBucketWithoutMetaIsRefused(t *testing.T) {
	b := newBench(t, logcore.Config{})
	b.objects["s0000/snap/x"] = []byte("x")
	b.settle()
	if !errors.Is(b.core.Err(), logcore.ErrForeignBucket) {
		t.Fatalf("role %v, %v", b.core.Role(), b.core.Err())
	}
}

// TestIdleLeaderAsksNothing: rule R11, without readers there is no request; with readers one a minute.
func TestIdleLeaderAsksNothing(t *testing.T) {
	b := leader(t, logcore.Config{})
	tick := func(d time.Duration) {
		b.now += int64(d)
		b.step(&logcore.Event{Kind: logcore.EvTick})
	}
	for range 10 {
		tick(time.Minute)
	}
	if len(b.open) != 0 {
		t.Fatalf("%d requests of an idle broker", len(b.open))
	}
	b.step(&logcore.Event{Kind: logcore.EvReaders, Waiting: true})
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
	a := leader(t, logcore.Config{})
	b := newBench(t, logcore.Config{Advertised: "b:1"})
	b.objects = a.objects
	b.nonces = 100
	b.settle()
	if b.core.Role() != logcore.RoleLeader {
		t.Fatalf("role %v", b.core.Role())
	}
	a.now += int64(2 * time.Minute)
	a.step(&logcore.Event{Kind: logcore.EvConfirm, Tag: 5})
	a.settle()
	a.wantTold(logcore.EffConfirmed, logcore.EffRole)
	if a.told[0].Tag != 5 || a.told[0].Reject != logcore.RejectFenced || a.told[1].Leader != "b:1" {
		t.Fatalf("%+v", a.told)
	}
}

// TestReplayIsBounded: a start loads the newest snapshot and replays little.
func TestReplayIsBounded(t *testing.T) {
	a := leader(t, logcore.Config{SnapshotSlots: 10})
	for range 95 {
		a.freeze(nil, one(-1))
		a.settle()
	}
	b := newBench(t, logcore.Config{SnapshotSlots: 10})
	b.objects = a.objects
	b.nonces = 100
	reads := 0
	for len(b.open) > 0 {
		e := b.next()
		if e.Kind == logcore.EffGetSlot && b.objects[e.Key] != nil {
			reads++
		}
		b.answer(e)
	}
	if b.core.Role() != logcore.RoleLeader || reads > 11 {
		t.Fatalf("role %v after reading %d slots", b.core.Role(), reads)
	}
	if got := b.core.State().Topic(topicID).Partitions.At(0).Next; got != 95 {
		t.Fatalf("next offset %d", got)
	}
}

// TestSealAhead: a candidate that loses every race at the end still takes over.
func TestSealAhead(t *testing.T) {
	a := leader(t, logcore.Config{})
	b := newBench(t, logcore.Config{})
	b.objects = a.objects
	b.nonces = 100
	for range 2000 {
		if len(b.open) == 0 {
			break
		}
		e := b.next()
		if e.Kind == logcore.EffPutSeal && a.core.Role() == logcore.RoleLeader {
			a.freeze(nil, one(-1)) // the incumbent is always a little faster
			a.settle()
		}
		b.answer(e)
	}
	if b.core.Role() != logcore.RoleLeader {
		t.Fatalf("the candidate is %v", b.core.Role())
	}
	if a.core.Role() == logcore.RoleLeader && a.core.Room() {
		a.freeze(nil, one(-1))
		a.settle()
	}
	if a.core.Role() != logcore.RoleFenced {
		t.Fatalf("the incumbent is %v", a.core.Role())
	}
}

func TestFollowerSeesCommits(t *testing.T) {
	a := leader(t, logcore.Config{})
	b := newBench(t, logcore.Config{ReadOnly: true})
	b.objects = a.objects
	b.settle()
	if b.core.Role() != logcore.RoleFollower {
		t.Fatalf("role %v, %v", b.core.Role(), b.core.Err())
	}
	a.freeze(nil, one(-1))
	a.settle()
	b.now += int64(time.Hour)
	b.step(&logcore.Event{Kind: logcore.EvTick})
	if len(b.open) != 0 {
		t.Fatal("a follower without readers reads")
	}
	b.step(&logcore.Event{Kind: logcore.EvReaders, Waiting: true})
	b.settle()
	if got := b.core.State().Topic(topicID).Partitions.At(0).Next; got != 1 {
		t.Fatalf("next offset %d", got)
	}
	for _, e := range b.told {
		if e.Kind == logcore.EffAlarm {
			t.Fatal(e.Err)
		}
	}
}

func TestMeta(t *testing.T) {
	id := record.ID{1, 2, 3}
	good := logcore.EncodeMeta(id)
	got, checked, err := logcore.DecodeMeta(good)
	if err != nil || !checked || got != id {
		t.Fatalf("%v, %v, %v", got, checked, err)
	}
	old := `{"format":1,"cluster":"` + id.String() + `"}`
	if got, checked, err = logcore.DecodeMeta([]byte(old)); err != nil || checked || got != id {
		t.Errorf("without a checksum: %v, %v, %v", got, checked, err)
	}
	for _, bad := range []string{"", "{}", strings.Replace(old, "1", "2", 1), `{"format":1,"cluster":"xx"}`} {
		if _, _, err := logcore.DecodeMeta([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
	for i := range len(good) * 8 {
		b := slices.Clone(good)
		b[i/8] ^= 1 << (i % 8)
		if got, _, err := logcore.DecodeMeta(b); err == nil && got != id {
			t.Errorf("%q: %v", b, got)
		}
	}
}

// BenchmarkFlush: 100 appends a slot over 20 partitions; 1,000 flushes a second may take a fifth of a core.
func BenchmarkFlush(b *testing.B) {
	bb := leader(&testing.T{}, logcore.Config{})
	var ops []logcore.Op
	for i := range 10 {
		ops = append(ops, logcore.Op{Record: state.Record{Kind: state.TopicCreate, Topic: record.ID{1, byte(i)}, Name: fmt.Sprint(i), Partitions: 2}})
	}
	bb.freeze(ops)
	bb.settle()
	var fx logcore.Effects
	b.ReportAllocs()
	for b.Loop() {
		appends := make([]logcore.Append, 100)
		for i := range appends {
			appends[i] = one(-1)
			appends[i].Topic, appends[i].Partition = record.ID{1, byte(i % 10)}, uint32(i%2)
		}
		fx.Reset()
		bb.now++
		bb.core.Step(bb.now, &logcore.Event{Kind: logcore.EvFreeze, Proposal: &logcore.Proposal{Appends: appends}, Wall: bb.now}, &fx)
		e := fx.List[0]
		h := &e.Frozen.Head
		h.IndexCount, h.CRC = uint32(len(e.Frozen.Index)), uint32(h.Slot)
		bb.core.Step(bb.now, &logcore.Event{Kind: logcore.EvEncoded, Op: e.Op, HeadCRC: h.CRC}, &fx)
		bb.core.Step(bb.now, &logcore.Event{Kind: logcore.EvPut, Op: e.Op, Outcome: logcore.OutcomeOK}, &fx)
	}
}
