package fsck_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// bucket holds the objects of a bucket by name.
type bucket map[string][]byte

func contentOf(t testing.TB, s objstore.Store) bucket {
	b := bucket{}
	for key := range keys(t, s) {
		b[key] = read(t, s, key)
	}
	return b
}

func (b bucket) store(t testing.TB) *objstore.Memory {
	s := objstore.NewMemory()
	for key, body := range b {
		put(t, s, key, body)
	}
	return s
}

// reading holds the values that a reader gets by partition and offset, or the error that ends a
// partition.
type reading struct {
	values map[string]string // by "topic/partition@offset"
	next   map[string]int64  // by "topic/partition"
	errs   map[string]error
}

// errNothing: a reader below the end gets no records and no error. Only offsets that a recovery
// skips read so.
var errNothing = errors.New("nothing to read")

func readAll(t testing.TB, b *broker.Broker) *reading {
	r := &reading{values: map[string]string{}, next: map[string]int64{}, errs: map[string]error{}}
	for _, topic := range b.Topics(t.Context()) {
		for i, p := range topic.Partitions {
			r.partition(t, b, topic.Name, int32(i), p.Start, p.Next)
		}
	}
	return r
}

func (r *reading) partition(t testing.TB, b *broker.Broker, topic string, partition int32, from, to int64) {
	name := fmt.Sprintf("%s/%d", topic, partition)
	r.next[name] = to
	var reader record.Reader
	for from < to {
		f, err := b.Fetch(t.Context(), []broker.Want{{Topic: topic, Partition: partition, Offset: from}}, 0, 0)
		if err == nil {
			err = f.Parts[0].Err
		}
		if err != nil {
			r.errs[name] = err
			f.Release()
			return
		}
		before := from
		to = min(to, f.Parts[0].LastStable)
		for _, c := range f.Parts[0].Chunks {
			for reader.Reset(slices.Concat(c.Parts...), from); reader.Next(); {
				r.values[fmt.Sprintf("%s@%d", name, reader.Offset())] = string(reader.Record().Value)
			}
			from = c.End
		}
		f.Release()
		if from == before && from < to {
			r.errs[name] = fmt.Errorf("%s: %w at offset %d of %d", name, errNothing, from, to)
			return
		}
	}
}

// manyEpochs makes a small bucket with epochs with and without data, one that ended with a kill, a
// pack, snapshots, epochs after the newest snapshot, and transactions of which one is open over a kill.
func manyEpochs(t testing.TB) bucket {
	s := objstore.NewMemory()
	live(t, s, 12)
	settled(t, s)
	const never = 1000 // snapshots
	var left state.ProducerEpoch
	for run := range 5 {
		b := open(t, options(s, never))
		if run != 1 && run != 3 { // two epochs hold only their SEAL
			for i := range 2 {
				produce(t, b, "a", i%2, fmt.Sprintf("late %d.%d", run, i))
			}
		}
		switch run {
		case 0:
			now := initialized(t, b, "committed")
			transact(t, b, now, 0, "in a transaction")
			transact(t, b, now, 1, "in the same transaction")
			ended(t, b, "committed", now, true)
		case 2:
			left = initialized(t, b, "aborted")
			transact(t, b, left, 0, "aborted")
		case 4:
			ended(t, b, "aborted", left, false)
		}
		if run == 2 {
			kill(b)
		} else {
			closeBroker(t, b)
		}
	}
	return contentOf(t, s)
}

// history is the log of a bucket before a loss.
type history struct {
	whole  bucket
	chain  []string // names of the slots on the log, in order
	heads  map[string]record.Head
	snaps  map[string]state.Position
	expect *reading
}

// refers reports whether an object refers to the log after a slot. It implements rule R13
// independently, from the references between objects.
func (h *history) refers(key string, slot record.Head) bool {
	if pos, _, ok := state.ParseSnapKey(0, key); ok {
		return state.Position{Epoch: slot.Epoch, Slot: slot.Slot}.Less(pos)
	}
	if epoch, _, _, ok := state.ParsePackKey(0, key); ok {
		return epoch > slot.Epoch
	}
	o, on := h.heads[key]
	return on && (o.Epoch > slot.Epoch || o.Epoch == slot.Epoch && o.Low > slot.Slot)
}

func newHistory(t testing.TB, whole bucket) *history {
	h := &history{whole: whole, heads: map[string]record.Head{}, snaps: map[string]state.Position{}}
	id, _ := must.Get2(core.DecodeMeta(whole[core.MetaKey]))(t)
	s := state.Genesis(id, 0)
	pos, nonce := s.Pos, s.Nonce
	for key := range whole {
		if p, _, ok := state.ParseSnapKey(0, key); ok {
			h.snaps[key] = p
		}
		if _, _, _, ok := state.ParseSlotKey(0, key); ok {
			head := must.Get(record.DecodeHead(whole[key]))(t)
			h.heads[key] = head
		}
	}
	for {
		key := state.SlotKey(0, pos.Epoch, nonce, pos.Slot)
		head, ok := h.heads[key]
		if ok {
			h.chain = append(h.chain, key)
		}
		switch {
		case ok && head.Kind == record.KindSeal:
			pos, nonce = state.Position{Epoch: head.NextEpoch}, head.NextNonce
		case ok:
			pos.Slot++
		case pos.Slot < 64 && h.collected(pos, nonce): // below the oldest snapshot
			pos.Slot++
		default:
			b := open(t, options(whole.store(t), 1000))
			h.expect = readAll(t, b)
			if len(h.expect.errs) > 0 || slices.Contains(slices.Collect(maps.Values(h.expect.values)), "aborted") {
				t.Fatal(h.expect)
			}
			return h
		}
	}
}

// collected reports whether later slots of the epoch exist.
func (h *history) collected(pos state.Position, nonce record.ID) bool {
	for _, head := range h.heads {
		if head.Epoch == pos.Epoch && head.Nonce == nonce && head.Slot > pos.Slot {
			return true
		}
	}
	return false
}

// cut returns the first missing slot that a walk needs. proven reports whether a remaining object
// refers to the log after it. ok is false if a walk needs no missing slot.
func (h *history) cut(left bucket) (slot string, proven, ok bool) {
	var from state.Position
	for key, pos := range h.snaps {
		if body := left[key]; body != nil && from.Less(pos) {
			if _, err := state.DecodeSnapshot(body); err == nil {
				from = pos
			}
		}
	}
	for _, key := range h.chain {
		head := h.heads[key]
		if at := (state.Position{Epoch: head.Epoch, Slot: head.Slot}); at.Less(from) || left[key] != nil {
			continue
		}
		for other := range left {
			proven = proven || h.refers(other, head)
		}
		return key, proven, true
	}
	return "", false, false
}

// result is the result of starting a role on a damaged bucket.
type result struct {
	err  error // the refusal
	seen *reading
	at   map[string]int64 // offsets of the records that the leader accepted later
}

func start(t testing.TB, s objstore.Store, readOnly bool) (r result) {
	o := options(s, 1000)
	o.Core.ReadOnly = readOnly
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	b, err := broker.Open(ctx, o)
	if err != nil {
		return result{err: err}
	}
	defer kill(b)
	r = result{seen: readAll(t, b), at: map[string]int64{}}
	for name := range r.seen.next {
		if !readOnly {
			topic, partition, _ := strings.Cut(name, "/")
			answer := brokertest.Try(ctx, b, brokertest.Append(topic, int(partition[0]-'0'), recordtest.Values("new")...))
			check.NoErrorf(t, answer.Err, "%s", name)
			r.at[name] = answer.Base
		}
	}
	return r
}

// verdict returns the fault in a role's start, if any, and whether the loss is undetectable.
func (h *history) verdict(left bucket, r result) (wrong string, unseen bool) {
	slot, proven, needed := h.cut(left)
	switch {
	case r.err != nil && errors.Is(r.err, context.DeadlineExceeded):
		return fmt.Sprintf("no verdict: %v", r.err), false
	case r.err != nil:
		return "", false
	case needed && proven:
		return fmt.Sprintf("%s is lost, other objects refer to the log behind it, and the start went well", slot), false
	}
	unseen = needed
	for name, next := range h.expect.next {
		switch got, there := r.seen.next[name]; {
		case unseen:
		case !there || got != next:
			return fmt.Sprintf("%s ends at %d, want %d", name, got, next), false
		case len(r.at) > 0 && r.at[name] != next:
			return fmt.Sprintf("%s: the next record got offset %d, want %d", name, r.at[name], next), false
		}
	}
	for at, value := range r.seen.values {
		if want, ok := h.expect.values[at]; !ok || want != value {
			return fmt.Sprintf("%s holds %q, want %q", at, value, want), false
		}
	}
	for at := range h.expect.values {
		name, _, _ := strings.Cut(at, "@")
		if _, ok := r.seen.values[at]; !ok && !unseen && r.seen.errs[name] == nil {
			return fmt.Sprintf("%s was not served, and no error says why", at), false
		}
	}
	for name, err := range r.seen.errs {
		if !errors.Is(err, state.ErrCorrupt) {
			return fmt.Sprintf("%s: %v", name, err), false
		}
	}
	return "", unseen
}

// damageCase is one way to damage a bucket.
type damageCase struct {
	name  string
	apply func(bucket)
}

func damageCases(b bucket, pairs bool) (all []damageCase) {
	names := slices.Sorted(maps.Keys(b))
	for i, key := range names {
		all = append(all, damageCase{"delete " + key, func(b bucket) { delete(b, key) }})
		cuts := []int{0, 100, len(b[key]) / 2, len(b[key]) - 1}
		if !pairs {
			cuts = cuts[i/2%4:][:i%2]
		}
		for _, n := range cuts {
			all = append(all, damageCase{fmt.Sprintf("truncate %s to %d", key, n), func(b bucket) { b[key] = b[key][:min(n, len(b[key]))] }})
		}
		if !pairs {
			continue
		}
		for j, other := range names[i+1:] {
			if !*allPairs && (i+j)%8 != 0 {
				continue
			}
			all = append(all,
				damageCase{"swap " + key + " and " + other, func(b bucket) { b[key], b[other] = b[other], b[key] }},
				damageCase{"delete " + key + " and " + other, func(b bucket) { delete(b, key); delete(b, other) }})
		}
	}
	return all
}

var allPairs = flag.Bool("pairs", false, "TestLostObjects takes every pair of objects, not every eighth")

// TestLostObjects deletes, truncates and swaps every object of a small bucket, and deletes and
// swaps pairs. Each role then serves exactly the acknowledged records, or refuses with the cause.
// fsck finds the same.
func TestLostObjects(t *testing.T) {
	t.Parallel()
	h := newHistory(t, manyEpochs(t))
	cases := damageCases(h.whole, !testing.Short())
	t.Logf("%d objects, %d slots on the log, %d ways to damage them", len(h.whole), len(h.chain), len(cases))
	var mu sync.Mutex
	counts, unseenCases := map[string]int{}, []string{}
	work := make(chan damageCase)
	var workers sync.WaitGroup
	for range 64 { // a start mostly waits between reads
		workers.Go(func() {
			for c := range work {
				left := maps.Clone(h.whole)
				c.apply(left)
				outcomes, unseen := h.try(t, c.name, left)
				mu.Lock()
				for _, o := range outcomes {
					counts[o]++
				}
				if unseen {
					unseenCases = append(unseenCases, c.name)
				}
				mu.Unlock()
			}
		})
	}
	for _, c := range cases {
		work <- c
	}
	close(work)
	workers.Wait()
	for _, name := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%6d %s", counts[name], name)
	}
	t.Logf("%d losses of the end of the log to which no remaining object refers: %s", len(unseenCases), strings.Join(unseenCases, "\n  "))
}

// try starts each role on a damaged bucket.
func (h *history) try(t testing.TB, name string, left bucket) (outcomes []string, unseen bool) {
	damages := -1
	r, _, err := verify(t, fsck.Options{Store: left.store(t)})
	if err == nil {
		damages = r.Damages
	}
	for _, readOnly := range []bool{false, true} {
		role := map[bool]string{false: "leader", true: "follower"}[readOnly]
		res := start(t, left.store(t), readOnly)
		wrong, lost := h.verdict(left, res)
		unseen = unseen || lost
		whole := res.err == nil && len(res.seen.errs) == 0
		switch {
		case wrong != "":
			t.Errorf("%s: %s: %s", name, role, wrong)
		case !whole && damages == 0:
			t.Errorf("%s: %s refused (%v %v), and fsck finds nothing", name, role, res.err, res.seen)
		}
		if res.err != nil && !readOnly {
			outcomes = append(outcomes, h.ends(t, name, left, res.err))
		}
		outcomes = append(outcomes, role+" "+map[bool]string{true: "serves", false: "refuses"}[res.err == nil])
		if res.err == nil && len(res.seen.errs) > 0 {
			outcomes = append(outcomes, role+" names records that cannot be read")
		}
	}
	if damages > 0 {
		outcomes = append(outcomes, "fsck finds damage")
	}
	return outcomes, unseen
}

// ends runs the command that a refusal names, and starts a leader again. The leader serves only
// written records and assigns no offset twice.
func (h *history) ends(t testing.TB, name string, left bucket, refusal error) (outcome string) {
	s := left.store(t)
	_, ends := left[h.chain[len(h.chain)-1]] // no other object refers to the last slot
	if strings.Contains(refusal.Error(), "delete it") {
		remove(t, s, core.MetaKey)
	}
	var at *state.Position
	if _, command, named := strings.Cut(refusal.Error(), "--accept-loss "); named {
		at = &state.Position{}
		check.NoErrorf(t, check.Err(fmt.Sscanf(command, "%d:%d", &at.Epoch, &at.Slot)), "%s: %v", name, refusal)
	} else if !strings.Contains(refusal.Error(), "seb recover") {
		t.Errorf("%s: %v: no command", name, refusal)
	}
	_, err := fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s, Accept: at})
	if _, command, next := strings.Cut(fmt.Sprint(err), "--accept-loss "); next && at == nil { // another loss besides meta/cluster
		at = &state.Position{}
		check.NoErrorf(t, check.Err(fmt.Sscanf(command, "%d:%d", &at.Epoch, &at.Slot)), "%s: %v", name, refusal)
		_, err = fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s, Accept: at})
	}
	if err != nil {
		t.Errorf("%s: %v: the command fails: %v", name, refusal, err)
		return "the command of a refusal fails"
	}
	res := start(t, s, false)
	if res.err != nil {
		t.Errorf("%s: %v: after the command: %v", name, refusal, res.err)
		return "the command of a refusal does not help"
	}
	for place, value := range res.seen.values {
		if h.expect.values[place] != value {
			t.Errorf("%s: after the recovery %s holds %q, want %q", name, place, value, h.expect.values[place])
		}
	}
	for partition, next := range res.at {
		if next < h.expect.next[partition] && ends {
			t.Errorf("%s: after the recovery %s got offset %d, and %d was given out before", name, partition, next, h.expect.next[partition]-1)
		}
	}
	return "a refusal ends with its command"
}

// TestForkedBucket: a program without rule R13 has led a fork of the log to epochs above those of
// the lost branch. A starting broker cannot detect that. fsck reports it after any number of
// starts, and no object of the branch is deleted.
func TestForkedBucket(t *testing.T) {
	t.Parallel()
	whole := manyEpochs(t)
	h := newHistory(t, whole)
	var seal string // the third from the end: after the snapshots
	for _, key := range h.chain {
		if head := h.heads[key]; head.Kind == record.KindSeal && head.Epoch == 5 {
			seal = key
		}
	}
	pos := h.heads[seal]
	s := whole.store(t)
	remove(t, s, seal)
	head := pos // the object that the old program put in the same slot
	head.NextNonce = record.NewID()
	b := must.Get(record.EncodeObject(&head, nil, nil, nil))(t)
	put(t, s, seal, b)
	// The old program leads and is killed until its epochs are above those of the branch. A hidden
	// end has the same effect.
	hidden := bucket{}
	for key, head := range h.heads {
		if head.Epoch > pos.Epoch {
			hidden[key] = read(t, s, key)
			remove(t, s, key)
		}
	}
	for range 5 {
		b := open(t, options(s, 4))
		for range 6 {
			produce(t, b, "a", 0, "on the fork")
		}
		closeBroker(t, b)
	}
	settled(t, s)
	for key, body := range hidden {
		put(t, s, key, body)
	}
	alarmed(t, s)
	left := keys(t, s)
	for key := range hidden {
		if _, there := left[key]; !there {
			t.Errorf("%s of the lost branch was deleted", key)
		}
	}
	r, found, err := verify(t, fsck.Options{Store: s, Repair: true, Quiet: 1})
	if !errors.Is(err, fsck.ErrDamaged) || r.Damages == 0 || !slices.ContainsFunc(found, func(f fsck.Finding) bool { return f.Kind == "lost branch" }) {
		t.Errorf("%d damages, %v: %v", r.Damages, err, found)
	}
	i := slices.IndexFunc(found, func(f fsck.Finding) bool { return f.Kind == "lost records" })
	if i < 0 || len(found[i].Lost) == 0 {
		t.Fatalf("the check does not say what lies on the branch: %v", found)
	}
	h.acceptBranch(t, s, found[i], hidden)
}

// alarmed leads a bucket with a fork until a broker raises an alarm about the lost branch.
func alarmed(t *testing.T, s objstore.Store) {
	var log sebtest.Log
	o := options(s, 4)
	o.Logger = log.Logger()
	for range 2 {
		b := open(t, o)
		for range 24 {
			produce(t, b, "a", 0, "on the fork")
		}
		settled(t, s)
		closeBroker(t, b)
	}
	b := open(t, o)
	sebtest.Eventually(t, "a broker raises an alarm", func() bool {
		produce(t, b, "a", 0, "on the fork") // collections follow snapshots, and snapshots follow records
		return log.Contains("a broker continued without it")
	})
	settled(t, s)
	closeBroker(t, b)
}

// acceptBranch recovers a bucket with a lost branch by the command that fsck's finding names.
func (h *history) acceptBranch(t *testing.T, s objstore.Store, f fsck.Finding, branch bucket) {
	b := open(t, options(s, 4))
	fork := readAll(t, b)
	closeBroker(t, b)
	_, command, _ := strings.Cut(f.Text, "--accept-loss ")
	var at state.Position
	must.NoErrorf(t, check.Err(fmt.Sscanf(command, "%d:%d", &at.Epoch, &at.Slot)), "%q", f.Text)
	if _, err := fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s, Accept: &state.Position{Epoch: at.Epoch, Slot: at.Slot + 1}}); !errors.Is(err, fsck.ErrOtherLoss) {
		t.Errorf("another position: %v", err)
	}
	r := must.Get(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s, Accept: &at}))(t)
	t.Logf("%+v", r)
	if len(r.Lost) == 0 {
		t.Error("no partition has a gap, and the branch had one that the fork did not write to")
	}
	if r.Branch == nil || *r.Branch != at {
		t.Errorf("branch %v, want %v", r.Branch, at)
	}
	b = open(t, options(s, 4))
	after := readAll(t, b)
	for place, value := range fork.values {
		check.Equalf(t, after.values[place], value, "%s holds", place)
	}
	for name, next := range after.next {
		if next < fork.next[name] || next < h.expect.next[name] {
			t.Errorf("%s continues at %d: the fork has given out %d, the branch %d", name, next, fork.next[name]-1, h.expect.next[name]-1)
		}
	}
	for i := range 24 {
		produce(t, b, "a", i%2, "after")
	}
	settled(t, s)
	closeBroker(t, b)
	kept := keys(t, s)
	for key := range branch {
		if _, there := kept[key]; !there {
			t.Errorf("%s of the lost branch was deleted", key)
		}
	}
	clean(t, s)
	check.ErrorIsf(t, check.Err(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s})), fsck.ErrNothingLost, "once it is recovered")
	if report, found, err := verify(t, fsck.Options{Store: s, Discard: true}); err != nil || report.Deleted.Objects == 0 {
		t.Errorf("discard: %v, %v: %v", report.Deleted, err, found)
	}
	kept = keys(t, s)
	for key := range branch {
		if _, there := kept[key]; there != (h.heads[key].Kind == record.KindSeal) {
			t.Errorf("%s of the lost branch after it was discarded: there is %t", key, there)
		}
	}
	clean(t, s)
	b = open(t, options(s, 4))
	if again := readAll(t, b); len(again.values) < len(fork.values)+24 {
		t.Errorf("%d records after the branch was discarded, want %d", len(again.values), len(fork.values)+24)
	}
	closeBroker(t, b)
}

// TestRecover: a broker leads a bucket with a lost or unreadable slot once an operator accepts the
// loss. It serves the records before the slot and assigns no offset twice.
func TestRecover(t *testing.T) {
	t.Parallel()
	h := newHistory(t, manyEpochs(t))
	for _, kind := range []record.Kind{record.KindData, record.KindSeal} {
		for _, damage := range []string{"deleted", "truncated"} {
			t.Run(kind.String()+" "+damage, func(t *testing.T) {
				var lost string // the last one that other objects refer to
				for _, key := range h.chain {
					left := maps.Clone(h.whole)
					delete(left, key)
					if at, proven, _ := h.cut(left); at == key && proven && h.heads[key].Kind == kind {
						lost = key
					}
				}
				s := h.whole.store(t)
				if damage == "truncated" {
					change(t, s, lost, func(b []byte) []byte { return b[:record.HeadSize/2] })
				} else {
					remove(t, s, lost)
				}
				if r := start(t, s, false); r.err == nil {
					t.Fatalf("a broker leads without %s", lost)
				}
				head := h.heads[lost]
				at := state.Position{Epoch: head.Epoch, Slot: head.Slot}
				if _, err := fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s, Accept: &state.Position{Epoch: at.Epoch, Slot: at.Slot + 1}}); !errors.Is(err, fsck.ErrOtherLoss) {
					t.Errorf("another position: %v", err)
				}
				before := keys(t, s)
				r := must.Get(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s, Accept: &at}))(t)
				t.Logf("%+v", r)
				for range 2 {
					h.continues(t, s)
				}
				after := keys(t, s)
				for key := range before {
					if _, there := after[key]; !there && h.heads[key].Epoch > at.Epoch {
						t.Errorf("%s of the lost branch was deleted", key)
					}
				}
				if r := start(t, s, true); r.err != nil || len(r.seen.errs) > 0 {
					t.Errorf("a follower: %v", r)
				}
				report, found, err := verify(t, fsck.Options{Store: s})
				if err != nil || report.Damages != 0 {
					t.Errorf("%d damages, %v: %+v", report.Damages, err, found)
				}
				check.ErrorIsf(t, check.Err(fsck.Recover(t.Context(), fsck.RecoverOptions{Store: s})), fsck.ErrNothingLost, "a whole log")
			})
		}
	}
}

// continues starts a leader after a recovery. The leader serves the records before the loss and
// assigns no offset twice. Readers pass the gap.
func (h *history) continues(t *testing.T, s objstore.Store) {
	b := open(t, options(s, 4))
	seen := readAll(t, b)
	for _, err := range seen.errs {
		must.ErrorIs(t, err, errNothing)
	}
	for at, value := range seen.values {
		if h.expect.values[at] != value && value != "after" {
			t.Errorf("%s holds %q, want %q", at, value, h.expect.values[at])
		}
	}
	for name, next := range seen.next {
		if next < h.expect.next[name] {
			t.Errorf("%s continues at %d, and %d was given out before", name, next, h.expect.next[name]-1)
		}
	}
	for i := range 20 {
		produce(t, b, "a", i%2, "after")
	}
	for i := range 2 { // over the gap, from before it
		f, err := b.Fetch(t.Context(), []broker.Want{{Topic: "a", Partition: int32(i), Offset: seen.next[fmt.Sprintf("a/%d", i)] - 1}}, 1, timeout)
		if err != nil || f.Parts[0].Err != nil || len(f.Parts[0].Chunks) == 0 {
			t.Errorf("a reader in the gap: %v %+v", err, f)
		}
		f.Release()
	}
	closeBroker(t, b)
	settled(t, s)
}
