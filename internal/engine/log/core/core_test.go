package core_test

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// bench drives one core against a map of objects. Its default answers are those of a correct store;
// a test answers a request itself where it needs another answer.
type bench struct {
	t        *testing.T
	core     *core.Core
	now      int64
	objects  map[string][]byte
	open     []core.Effect // unanswered requests
	emitted  []core.Effect // all other effects
	nonces   uint32
	onEffect func(e core.Effect) // if not nil, called with each effect
	noOwn    bool                // the store refuses claims
	caches   bool                // it reads copies of lost slots
	hidden   map[string]bool     // omitted from lists
	raiseMax uint32              // of the next EvFreeze
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
		if b.onEffect != nil {
			b.onEffect(e)
		}
		switch e.Kind {
		case core.EffGetMeta, core.EffPutMeta, core.EffList, core.EffGetSnapshot, core.EffGetSlot,
			core.EffNonce, core.EffPutSeal, core.EffPutSnapshot, core.EffOwn:
			b.open = append(b.open, e)
		case core.EffPutData:
			b.open = append(b.open, e)
			if e.Attempt == 0 {
				b.step(&core.Event{Kind: core.EvEncoded, Op: e.Op, HeadCRC: encode(b.t, e.Frozen)})
			}
		default:
			b.emitted = append(b.emitted, e)
		}
	}
}

var payload = func() []byte {
	data, _ := recordtest.Encode([]record.Record{{Value: []byte("v")}}, record.EncodeOptions{})
	return data
}()

func bodyOf(f *core.Frozen) (parts [][]byte) {
	for _, i := range f.Order {
		data := slices.Clone(payload)
		if m := f.Proposal.Appends[i].Marker; m != nil {
			data = record.AppendMarker(nil, m)
		}
		f.Patch(i, data)
		parts = append(parts, data)
	}
	return parts
}

func encode(t *testing.T, f *core.Frozen) uint32 {
	t.Helper()
	_, crc := must.Get2(f.Encode(bodyOf(f)))(t)
	return crc
}

// next removes the oldest open request.
func (b *bench) next() core.Effect {
	b.t.Helper()
	if len(b.open) == 0 {
		b.t.Fatal("no request is open")
	}
	e := b.open[0]
	b.open = b.open[1:]
	return e
}

// answer answers like a correct store.
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
		for _, name := range ev.Names {
			ev.Sizes = append(ev.Sizes, int64(len(b.objects[name])))
		}
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
	case core.EffOwn:
		b.step(&core.Event{Kind: core.EvOwned, Op: e.Op, Outcome: core.OutcomeOK, Journaled: !b.noOwn})
		return
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
	b.step(&core.Event{Kind: core.EvPut, Op: e.Op, Outcome: out, Size: int64(len(b.objects[e.Key]))})
}

func (b *bench) body(e core.Effect) []byte {
	switch e.Kind {
	case core.EffPutData:
		parts := bodyOf(e.Frozen)
		prefix, _ := must.Get2(e.Frozen.Encode(parts))(b.t)
		return slices.Concat(append([][]byte{prefix}, parts...)...)
	case core.EffPutSnapshot:
		return state.EncodeSnapshot(e.View)
	}
	return e.Body
}

func (b *bench) list(e core.Effect) []string {
	var names []string
	for k := range b.objects {
		if len(k) >= len(e.Prefix) && k[:len(e.Prefix)] == e.Prefix && k > e.After && !b.hidden[k] {
			names = append(names, k)
		}
	}
	slices.Sort(names)
	return names
}

func decode(t *testing.T, body []byte) *core.Slot {
	t.Helper()
	h, st, index, _, err := record.DecodeMeta(body)
	must.NoError(t, err)
	recs := must.Get(state.DecodeRecords(st))(t)
	return &core.Slot{Head: h, Records: recs, Index: index}
}

// settle answers requests until none is open.
func (b *bench) settle() {
	b.t.Helper()
	for range 10_000 {
		if len(b.open) == 0 {
			return
		}
		b.answer(b.next())
	}
	b.t.Fatal("requests remain open after all answers")
}

func (b *bench) freeze(ops []core.Op, appends ...core.Append) *core.Proposal {
	b.t.Helper()
	if !b.core.Room() {
		b.t.Fatal("no room")
	}
	p := &core.Proposal{Ops: ops, Appends: appends}
	b.step(&core.Event{Kind: core.EvFreeze, Proposal: p, Wall: b.now / 1000, RaiseMax: b.raiseMax})
	return p
}

var (
	topicID = record.ID{0xaa}
	topicT  = core.Op{Record: state.Record{Kind: state.TopicCreate, Topic: topicID, Name: "t", Partitions: 2}}
)

func one(expected int64) core.Append {
	return core.Append{Topic: topicID, Span: 1, Records: 1, Bytes: uint32(len(payload)), Expected: expected}
}

// leader returns a bench whose core leads and has one topic.
func leader(t *testing.T, cfg core.Config) *bench {
	b := newBench(t, cfg)
	b.settle()
	b.freeze([]core.Op{topicT})
	b.settle()
	if b.core.Role() != core.RoleLeader || b.core.State().TopicByName("t") == nil {
		t.Fatalf("role %v", b.core.Role())
	}
	b.emitted = nil
	return b
}

func (b *bench) emittedKinds() (kinds []core.EffectKind) {
	for _, e := range b.emitted {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func (b *bench) wantTold(kinds ...core.EffectKind) {
	b.t.Helper()
	must.EqualSlicesf(b.t, b.emittedKinds(), kinds, "emitted")
}

func (b *bench) fail(e core.Effect, out core.Outcome) {
	b.step(&core.Event{Kind: core.EvPut, Op: e.Op, Outcome: out, Err: errors.New("planned")})
}

func encoded(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// TestSealAhead checks that a candidate that loses every race at the end still takes over.
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
			a.freeze(nil, one(-1)) // the incumbent always takes the end first
			a.settle()
		}
		b.answer(e)
	}
	must.Equalf(t, b.core.Role(), core.RoleLeader, "the candidate")
	if a.core.Role() == core.RoleLeader && a.core.Room() {
		a.freeze(nil, one(-1))
		a.settle()
	}
	must.Equalf(t, a.core.Role(), core.RoleFenced, "the incumbent")
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
		t.Errorf("meta without a checksum: %v, %v, %v", got, checked, err)
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

func TestLaterLayoutIsNotCorruption(t *testing.T) {
	id := record.ID{1, 2, 3}
	var meta map[string]any
	must.NoError(t, json.Unmarshal(core.EncodeMeta(id), &meta))
	meta["format"] = state.Layout + 1
	meta["cluster"] = "of another kind"
	later, err := json.Marshal(meta)
	must.NoError(t, err)
	_, _, err = core.DecodeMeta(later)
	if newer, ok := err.(*state.NewerError); !ok || newer.Layout != state.Layout+1 || !strings.Contains(err.Error(), "layout 2, which needs a newer Seb") {
		t.Errorf("%v", err)
	}
}

// BenchmarkFlush freezes 100 appends per slot over 20 partitions. 1,000 flushes a second should
// take at most a fifth of a core.
func BenchmarkFlush(b *testing.B) {
	b.Run("plain", func(b *testing.B) { flush(b, false) })
	b.Run("idempotent", func(b *testing.B) { flush(b, true) })
}

func flush(b *testing.B, idempotent bool) {
	bb := leader(&testing.T{}, core.Config{})
	var ops []core.Op
	for i := range 10 {
		ops = append(ops, core.Op{Record: state.Record{Kind: state.TopicCreate, Topic: record.ID{1, byte(i)}, Name: fmt.Sprint(i), Partitions: 2}})
	}
	bb.freeze(ops)
	bb.settle()
	var fx core.Effects
	b.ReportAllocs()
	for n := int32(0); b.Loop(); n++ {
		appends := make([]core.Append, 100)
		for i := range appends {
			appends[i] = one(-1)
			appends[i].Topic, appends[i].Partition = record.ID{1, byte(i % 10)}, uint32(i%2)
			appends[i].Idempotent, appends[i].Producer = idempotent, state.ProducerBatch{ID: int64(i / 20), Sequence: n, Span: 1}
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
