package fsck_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func flip(at int) func([]byte) []byte {
	return func(b []byte) []byte {
		b = bytes.Clone(b)
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 4
		return b
	}
}

// metaLen returns the ends of the state records and of the index of an object.
func metaLen(t *testing.T, b []byte) (stateEnd, indexEnd int) {
	t.Helper()
	h, st, index, need, err := record.DecodeMeta(b)
	if err != nil || need > 0 || h.IndexCount == 0 {
		t.Fatal(err, need)
	}
	return record.HeadSize + len(st), record.HeadSize + len(st) + len(index)*record.IndexEntrySize
}

// damages lists the kinds of damage and the expected findings. plant returns names, and the
// findings must contain at least one of them.
var damages = []struct {
	name  string
	kind  string
	plant func(t *testing.T, s objstore.Store) []string
}{
	{"bit in a head", "corrupt object", func(t *testing.T, s objstore.Store) []string {
		return one(t, s, needed(t, s), flip(60))
	}},
	{"bit in the index", "corrupt object", func(t *testing.T, s objstore.Store) []string {
		key := needed(t, s)
		_, end := metaLen(t, read(t, s, key))
		return one(t, s, key, flip(end-5))
	}},
	{"bit in the state records", "corrupt object", func(t *testing.T, s objstore.Store) []string {
		return one(t, s, last(slices.DeleteFunc(slots(t, s, record.KindData), func(k string) bool {
			h, err := record.DecodeHead(read(t, s, k)[:record.HeadSize])
			return err != nil || h.StateLen == 0
		})), flip(record.HeadSize+3))
	}},
	{"bit in a batch", "corrupt batches", func(t *testing.T, s objstore.Store) []string {
		return one(t, s, last(withData(t, s)), flip(-1))
	}},
	{"bit in a batch's offset", "corrupt batches", func(t *testing.T, s objstore.Store) []string {
		key := last(withData(t, s))
		_, end := metaLen(t, read(t, s, key))
		return one(t, s, key, flip(end+7))
	}},
	{"truncated", "corrupt batches", func(t *testing.T, s objstore.Store) []string {
		return one(t, s, last(withData(t, s)), func(b []byte) []byte { return b[:len(b)-1] })
	}},
	{"truncated to nothing", "corrupt object", func(t *testing.T, s objstore.Store) []string {
		return one(t, s, needed(t, s), func([]byte) []byte { return nil })
	}},
	{"longer than it was", "corrupt batches", func(t *testing.T, s objstore.Store) []string {
		return one(t, s, needed(t, s), func(b []byte) []byte { return append(bytes.Clone(b), 0) })
	}},
	{"two objects swapped", "wrong object", func(t *testing.T, s objstore.Store) []string {
		all := withData(t, s)
		a, b := all[len(all)-1], all[len(all)-2]
		x, y := read(t, s, a), read(t, s, b)
		one(t, s, a, func([]byte) []byte { return y })
		one(t, s, b, func([]byte) []byte { return x })
		return []string{a, b}
	}},
	{"an object of another cluster", "wrong object", func(t *testing.T, s objstore.Store) []string {
		other := objstore.NewMemory()
		live(t, other, 1000)
		foreign := read(t, other, withData(t, other)[2])
		return one(t, s, last(withData(t, s)), func([]byte) []byte { return foreign })
	}},
	{"seal deleted", "", func(t *testing.T, s objstore.Store) []string {
		key := slots(t, s, record.KindSeal)[1]
		remove(t, s, key)
		// Without a later snapshot no object names the next epoch, but that epoch has data.
		next := strings.Replace(slots(t, s, record.KindData)[0], "/0000000001-", "/0000000002-", 1)
		for _, k := range slots(t, s, record.KindData) {
			if k[:20] == next[:20] {
				return []string{key, k}
			}
		}
		return []string{key}
	}},
	{"seal broken", "corrupt object", func(t *testing.T, s objstore.Store) []string {
		return one(t, s, slots(t, s, record.KindSeal)[1], flip(121))
	}},
	{"cluster object deleted", "no cluster object", func(t *testing.T, s objstore.Store) []string {
		remove(t, s, core.MetaKey)
		return []string{core.MetaKey}
	}},
	{"cluster object broken", "corrupt cluster object", func(t *testing.T, s objstore.Store) []string {
		return one(t, s, core.MetaKey, func([]byte) []byte { return []byte("?") })
	}},
	{"data deleted", "", func(t *testing.T, s objstore.Store) []string {
		all := withData(t, s)
		key := all[len(all)-7]
		remove(t, s, key)
		return []string{key}
	}},
}

// needed returns an object whose loss is damage. Loss of the last object looks like the end of the
// log.
func needed(t *testing.T, s objstore.Store) string {
	all := withData(t, s)
	return all[len(all)-2]
}

func last(all []string) string { return all[len(all)-1] }

func one(t *testing.T, s objstore.Store, key string, f func([]byte) []byte) []string {
	t.Helper()
	change(t, s, key, f)
	return []string{key}
}

func TestDamage(t *testing.T) {
	t.Parallel()
	for _, snapshotSlots := range []int{1000, 4} {
		for _, d := range damages {
			t.Run(strings.ReplaceAll(d.name, " ", "_")+map[int]string{1000: "", 4: "_with_snapshots"}[snapshotSlots], func(t *testing.T) {
				s := objstore.NewMemory()
				live(t, s, snapshotSlots)
				where := d.plant(t, s)
				before := keys(t, s)
				r, found, err := verify(t, fsck.Options{Store: s, Repair: true, Quiet: time.Millisecond})
				check.ErrorIsf(t, err, fsck.ErrDamaged, "repair of a damaged bucket")
				if len(keys(t, s)) != len(before) || r.Deleted.Objects != 0 {
					t.Error("a damaged bucket was changed")
				}
				named := slices.ContainsFunc(found, func(f fsck.Finding) bool {
					return f.Severity == fsck.Damage && slices.Contains(where, f.Key) && (d.kind == "" || f.Kind == d.kind)
				})
				if r.Damages == 0 || !named {
					t.Errorf("%s of %q not found: %d damages, %+v", d.kind, where, r.Damages, found)
				}
			})
		}
	}
}

// TestLostRecords: a finding of damaged data names the lost records.
func TestLostRecords(t *testing.T) {
	for _, snapshotSlots := range []int{1000, 4} {
		s := objstore.NewMemory()
		live(t, s, snapshotSlots)
		b := open(t, options(s, snapshotSlots))
		create(t, b, "lost", 1)
		produce(t, b, "lost", 0, "0", "1", "2")
		produce(t, b, "lost", 0, "3", "4")
		for range 12 {
			produce(t, b, "a", 0, "more")
		}
		closeBroker(t, b)
		all := withData(t, s)
		key := all[len(all)-13]
		change(t, s, key, flip(-1))
		_, found, err := verify(t, fsck.Options{Store: s})
		if err != nil || len(found) == 0 {
			t.Fatal(found, err)
		}
		want := []fsck.Records{{Topic: "lost", Partition: 0, From: 3, To: 5}}
		if f := found[len(found)-1]; f.Key != key || f.Kind != "corrupt batches" || !slices.Equal(f.Lost, want) {
			t.Errorf("%+v", found)
		}
	}
}

// TestDamageThatMattersNot: a damaged object that the log no longer needs is not damage.
func TestDamageThatMattersNot(t *testing.T) {
	s := objstore.NewMemory()
	live(t, s, 1000)
	b := open(t, options(s, 1000))
	must.NoError(t, b.DeleteTopic(t.Context(), "a"))
	closeBroker(t, b)
	change(t, s, withData(t, s)[0], flip(-1))
	r, found, err := verify(t, fsck.Options{Store: s})
	if err != nil || r.Damages != 0 || len(found) != 1 || found[0].Severity != fsck.Note {
		t.Errorf("%+v %+v %v", r, found, err)
	}
}

func TestPackDamage(t *testing.T) {
	for name, d := range map[string]struct {
		kind  string
		plant func(t *testing.T, s objstore.Store, key string)
	}{
		"deleted":     {"missing object", func(t *testing.T, s objstore.Store, key string) { remove(t, s, key) }},
		"bit in data": {"corrupt batches", func(t *testing.T, s objstore.Store, key string) { change(t, s, key, flip(-1)) }},
		"bit in head": {"corrupt object", func(t *testing.T, s objstore.Store, key string) { change(t, s, key, flip(20)) }},
		"of another": {"wrong object", func(t *testing.T, s objstore.Store, key string) {
			other := objstore.NewMemory()
			live(t, other, 4)
			foreign := read(t, other, packs(t, other)[0])
			change(t, s, key, func([]byte) []byte { return foreign })
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := objstore.NewMemory()
			live(t, s, 4)
			key := packs(t, s)[0]
			d.plant(t, s, key)
			_, found, err := verify(t, fsck.Options{Store: s})
			if err != nil || !slices.ContainsFunc(found, func(f fsck.Finding) bool {
				return f.Severity == fsck.Damage && f.Key == key && f.Kind == d.kind && len(f.Lost) > 0
			}) {
				t.Errorf("%+v %v", found, err)
			}
		})
	}
}

func TestSnapshotDamage(t *testing.T) {
	for name, d := range map[string]struct {
		kind  string
		plant func(t *testing.T, s objstore.Store) string
	}{
		"broken": {"corrupt snapshot", func(t *testing.T, s objstore.Store) string {
			return one(t, s, snapshots(t, s)[0], flip(40))[0]
		}},
		"cut off": {"corrupt snapshot", func(t *testing.T, s objstore.Store) string {
			return one(t, s, snapshots(t, s)[0], func(b []byte) []byte { return b[:20] })[0]
		}},
		"of another position": {"foreign snapshot", func(t *testing.T, s objstore.Store) string {
			all := snapshots(t, s)
			older := read(t, s, all[1])
			return one(t, s, all[0], func([]byte) []byte { return older })[0]
		}},
		"of another cluster": {"foreign snapshot", func(t *testing.T, s objstore.Store) string {
			other := objstore.NewMemory()
			live(t, other, 4)
			foreign := read(t, other, snapshots(t, other)[0])
			return one(t, s, snapshots(t, s)[0], func([]byte) []byte { return foreign })[0]
		}},
		"not the fold": {"snapshot differs", func(t *testing.T, s objstore.Store) string {
			return one(t, s, snapshots(t, s)[0], func(b []byte) []byte {
				st := must.Get(state.DecodeSnapshot(b))(t)
				p := st.TopicByName("a").Partitions.At(1)
				p.Ranges[len(p.Ranges)-1].Len++
				return state.EncodeSnapshot(st)
			})[0]
		}},
		"off the log": {"snapshot off the log", func(t *testing.T, s objstore.Store) string {
			key := snapshots(t, s)[0]
			b := read(t, s, key)
			key = key[:len(key)-4] + "0000"
			st := must.Get(state.DecodeSnapshot(b))(t)
			copy(st.Nonce[14:], []byte{0, 0})
			st.Epochs[len(st.Epochs)-1].Nonce = st.Nonce
			put(t, s, key, state.EncodeSnapshot(st))
			return key
		}},
	} {
		t.Run(name, func(t *testing.T) {
			s := objstore.NewMemory()
			live(t, s, 4)
			key := d.plant(t, s)
			r, found := must.Get2(verify(t, fsck.Options{Store: s}))(t)
			if !slices.ContainsFunc(found, func(f fsck.Finding) bool {
				return f.Severity == fsck.Damage && f.Key == key && f.Kind == d.kind
			}) || r.Damages != 1 {
				t.Errorf("%d damages: %+v", r.Damages, found)
			}
		})
	}
}

// TestHole: a missing slot in the middle is a hole only if no later snapshot exists.
func TestHole(t *testing.T) {
	s := objstore.NewMemory()
	live(t, s, 1000)
	all := withData(t, s)
	remove(t, s, all[len(all)-3])
	_, found, err := verify(t, fsck.Options{Store: s})
	if err != nil || found[0].Kind != "hole" || found[0].Key != all[len(all)-3] {
		t.Errorf("%+v %v", found, err)
	}
	if n := len(found); n < 3 || !slices.ContainsFunc(found, func(f fsck.Finding) bool { return f.Kind == "unreachable" }) {
		t.Errorf("what lies beyond is not named: %+v", found)
	}
}

// orphans plants the orphans of fenced and killed brokers in a bucket with at least two snapshots.
// garbage lists the permanent garbage, and stays lists the others.
func orphans(t *testing.T, s objstore.Store) (garbage, stays []string) {
	t.Helper()
	st := must.Get(state.DecodeSnapshot(read(t, s, snapshots(t, s)[0])))(t)
	object := func(kind record.Kind, e state.Epoch, slot uint64) string {
		h := record.Head{Kind: kind, Time: 1, Cluster: st.Cluster, Epoch: e.Number, Nonce: e.Nonce, Slot: slot}
		if kind == record.KindSeal {
			h.NextEpoch, h.NextNonce = e.Number+1, record.NewID()
		}
		b := must.Get(record.EncodeObject(&h, nil, nil, nil))(t)
		key := state.SlotKey(0, e.Number, e.Nonce, slot)
		put(t, s, key, b)
		return key
	}
	ended, off := st.Epochs[1], state.Epoch{Number: 1, Nonce: record.NewID()}
	garbage = append(garbage, object(record.KindData, ended, ended.Seal+2))
	stays = append(stays, object(record.KindSeal, ended, ended.Seal+4), object(record.KindSeal, off, 1))
	higher := state.Epoch{Number: st.Pos.Epoch + 1, Nonce: record.NewID()}
	stays = append(stays, object(record.KindSeal, higher, 1))
	unreadable := state.SlotKey(0, 1, off.Nonce, 2)
	put(t, s, unreadable, []byte("nothing"))
	put(t, s, "probe/abc/racers/0001", []byte("x"))
	lower, own := state.PackKey(0, 1, st.Epochs[1].Nonce, 77), state.PackKey(0, st.Pos.Epoch, st.Nonce, 77)
	put(t, s, lower, []byte("given up"))
	put(t, s, own, []byte("being made"))
	garbage, stays = append(garbage, lower), append(stays, own)
	return append(garbage, "probe/abc/racers/0001"), append(stays, unreadable)
}

func TestOrphansAndRepair(t *testing.T) {
	s := objstore.NewMemory()
	want := live(t, s, 4)
	garbage, stays := orphans(t, s)
	r, found, err := verify(t, fsck.Options{Store: s})
	if err != nil || r.Damages != 0 {
		t.Fatalf("%+v %v", found, err)
	}
	for _, key := range slices.Concat(garbage, stays) {
		if !slices.ContainsFunc(found, func(f fsck.Finding) bool { return f.Key == key && f.Severity == fsck.Orphan }) {
			t.Errorf("%s is not reported", key)
		}
	}
	before := keys(t, s)
	r, found = must.Get2(verify(t, fsck.Options{Store: s, Repair: true, Quiet: time.Millisecond}))(t)
	after := keys(t, s)
	for _, key := range garbage {
		if _, there := after[key]; there {
			t.Errorf("%s was not removed", key)
		}
	}
	for key := range before {
		if _, there := after[key]; there {
			continue
		}
		if slices.Contains(stays, key) || !slices.ContainsFunc(found, func(f fsck.Finding) bool { return f.Kind == "removed" && f.Key == key }) {
			t.Errorf("%s was removed", key)
		}
	}
	check.Equalf(t, int64(len(before)-len(after)), r.Deleted.Objects, "removed, %+v", r)
	if r := clean(t, s); r.Records != want {
		t.Errorf("%d of %d records after the repair", r.Records, want)
	}
	b := open(t, options(s, 4))
	if got := readable(t, b); got != want {
		t.Errorf("%d of %d records can be read", got, want)
	}
}

func readable(t *testing.T, b *broker.Broker) (n int64) {
	t.Helper()
	for _, topic := range b.Topics(t.Context()) {
		for _, p := range topic.Partitions {
			n += p.Next - p.Start
		}
	}
	return n
}

// TestRepairBesideABroker: fsck deletes no object if a leader writes during the check.
func TestRepairBesideABroker(t *testing.T) {
	t.Parallel()
	s := objstore.NewMemory()
	live(t, s, 4)
	orphans(t, s)
	b := open(t, options(s, 1000))
	before := len(keys(t, s))
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			case <-time.After(time.Millisecond):
				produce(t, b, "a", 0, "one more")
			}
		}
	}()
	r, _, err := verify(t, fsck.Options{Store: s, Repair: true, Quiet: 200 * time.Millisecond})
	close(done)
	<-ended
	if !errors.Is(err, fsck.ErrActive) || r.Deleted.Objects > 0 {
		t.Errorf("%+v %v", r, err)
	}
	if len(keys(t, s)) < before {
		t.Error("objects were removed under a broker's hands")
	}
}

// TestRepairBesideAnIdleLeader: fsck cannot detect an idle leader and does not harm it.
func TestRepairBesideAnIdleLeader(t *testing.T) {
	t.Parallel()
	for name, snapshotSlots := range map[string]int{"with snapshots of its own": 2, "with those of others": 1000} {
		t.Run(name, func(t *testing.T) {
			s := objstore.NewMemory()
			want := live(t, s, 4)
			idle := open(t, options(s, snapshotSlots))
			for range 6 {
				produce(t, idle, "a", 0, "before")
			}
			settled(t, s)
			garbage, stays := orphans(t, s)
			r, found, err := verify(t, fsck.Options{Store: s, Repair: true, Quiet: time.Millisecond})
			if err != nil || r.Deleted.Objects < int64(len(garbage)) {
				t.Fatalf("%+v, %v, %+v", r, err, found)
			}
			after := keys(t, s)
			for _, key := range stays {
				if _, there := after[key]; !there {
					t.Errorf("%s was removed", key)
				}
			}
			for range 6 {
				produce(t, idle, "a", 1, "after")
			}
			if got := readable(t, idle); got != want+12 {
				t.Errorf("the leader knows %d of %d records", got, want+12)
			}
			closeBroker(t, idle)
			if r := clean(t, s); r.Records != want+12 {
				t.Errorf("%d of %d records", r.Records, want+12)
			}
			if got := readable(t, open(t, options(s, 4))); got != want+12 {
				t.Errorf("the next leader knows %d of %d records", got, want+12)
			}
		})
	}
}
