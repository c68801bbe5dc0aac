package log_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// names lists the names below a prefix.
func names(t testing.TB, s objstore.Store, prefix string) []string {
	t.Helper()
	var all []string
	o := objstore.ListOptions{Prefix: prefix}
	for {
		entries, more := must.Get2(s.List(context.Background(), o))(t)
		for _, e := range entries {
			all = append(all, e.Key)
			o.After = e.Key
		}
		if !more {
			return all
		}
	}
}

func whole(t testing.TB, s objstore.Store, key string) []byte {
	t.Helper()
	obj, err := s.Get(context.Background(), key, objstore.Whole)
	if err != nil {
		t.Fatal(key, err)
	}
	defer obj.Body.Close()
	b, err := io.ReadAll(obj.Body)
	if err != nil {
		t.Fatal(key, err)
	}
	return b
}

// view returns the committed state.
func view(l *log.Log) (v *state.State) {
	l.Read(func(s *state.State) {
		b := state.EncodeSnapshot(s)
		v, _ = state.DecodeSnapshot(b)
	})
	return v
}

// history is the acknowledged records of a partition and its expected start offset.
type history struct {
	id    record.ID
	part  uint32
	acked map[int64]string
	start int64
	next  int64
}

func newHistory(id record.ID, part uint32) *history {
	return &history{id: id, part: part, acked: map[int64]string{}}
}

func (h *history) append(t testing.TB, l *log.Log, value string) {
	t.Helper()
	r := wait(t, l.Submit([]log.Append{batch(t, h.id, h.part, value)}))[0]
	must.NoError(t, r.Err())
	h.acked[r.Base] = value
	h.next = r.Base + 1
}

func (h *history) trim(t testing.TB, l *log.Log, start int64) {
	t.Helper()
	r := wait(t, l.Propose(state.Record{Kind: state.TopicTrim, Topic: h.id, Partition: h.part, Offset: start}))[0]
	must.NoError(t, r.Err())
	h.start = start
}

// verify reads all records from the start offset.
func (h *history) check(t testing.TB, s objstore.Store, v *state.State) {
	t.Helper()
	p := v.Topic(h.id).Partitions.At(int(h.part))
	if p.Start != h.start || p.Next != h.next {
		t.Fatalf("partition %d is [%d,%d), want [%d,%d)", h.part, p.Start, p.Next, h.start, h.next)
	}
	next := h.start
	for _, r := range p.Ranges {
		b := whole(t, s, v.Key(r.Epoch, r.Slot))[r.Pos:][:r.Len]
		must.Get(record.Verify(b))(t)
		var reader record.Reader
		for reader.Reset(b, r.Base); reader.Next(); {
			rec := reader.Record()
			if rec.Offset < next {
				continue // below the start, or a duplicate, which the count below detects
			}
			if want, ok := h.acked[rec.Offset]; !ok || want != string(rec.Value) || rec.Offset != next {
				t.Fatalf("partition %d has %q at offset %d, want offset %d and acknowledged value %q", h.part, rec.Value, rec.Offset, next, want)
			}
			next++
		}
		must.NoError(t, reader.Err())
	}
	must.Equalf(t, next, h.next, "partition %d ends at", h.part)
}

// checkSeals checks that every SEAL of the chain exists.
func checkSeals(t testing.TB, s objstore.Store, v *state.State) {
	t.Helper()
	for _, e := range v.Epochs[:len(v.Epochs)-1] {
		h, err := record.DecodeHead(whole(t, s, v.Key(e.Number, e.Seal))[:record.HeadSize])
		if err != nil || h.Kind != record.KindSeal {
			t.Fatalf("the seal of epoch %d: kind %d, %v", e.Number, h.Kind, err)
		}
	}
}

const slotsBetween = 8 // slots between snapshots in these tests

// settle appends until only needed objects remain: those with data, the SEALs, the slots since the
// older of two snapshots, and objects stored during a pass.
func settle(t testing.TB, l *log.Log, s objstore.Store, h *history) {
	t.Helper()
	for range 5000 {
		h.append(t, l, "settle")
		h.trim(t, l, h.next)
		v := view(l)
		most := core.NewCollector(v, nil).Referenced() + len(v.Epochs) + 4*slotsBetween
		if len(names(t, s, "s0000/wal/")) <= most && len(names(t, s, "s0000/snap/")) <= 3 {
			return
		}
	}
	t.Fatalf("%d slots and %d snapshots remain", len(names(t, s, "s0000/wal/")), len(names(t, s, "s0000/snap/")))
}

// TestCollection appends and trims while logs are killed, closed and taken over. The number of
// objects stays bounded, all untrimmed records stay readable, and no SEAL is deleted.
func TestCollection(t *testing.T) {
	disk := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
	defer disk.Close()
	rates := storetest.Rates{storetest.Before: .05, storetest.Lost: .08, storetest.Late: .05, storetest.Hang: .01, storetest.Throttle: .05, storetest.Truncate: .05}
	faults := storetest.All(rates)
	faults.LateMax = 20 * time.Millisecond
	for name, c := range map[string]struct {
		inner  objstore.Store
		faults storetest.Faults
	}{"memory": {objstore.NewMemory(), storetest.Faults{}}, "disk": {disk, storetest.Faults{}}, "faults": {objstore.NewMemory(), faults}} {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			s := storetest.NewFaulty(c.inner, seed, c.faults)
			o := options(s)
			o.Core.SnapshotSlots = slotsBetween
			o.Timeouts.Put, o.Timeouts.Read = 50*time.Millisecond, 50*time.Millisecond
			o.NoWait = true
			l := open(t, o)
			trimmed, kept := topic(t, l, "trimmed", 2), topic(t, l, "kept", 1)
			parts := []*history{newHistory(trimmed, 0), newHistory(trimmed, 1), newHistory(kept, 0)}
			for run := range 6 {
				for i := range 60 {
					h := parts[i%2]
					h.append(t, l, fmt.Sprintf("%d.%d", run, i))
					if i%10 == 9 {
						parts[2].append(t, l, fmt.Sprintf("kept %d.%d", run, i))
					}
					if i%15 == 14 {
						h.trim(t, l, h.next-5)
					}
				}
				switch run % 3 {
				case 0:
					l.Kill()
				case 1: // the next log takes over
				case 2:
					must.NoError(t, l.Close(context.Background()))
				}
				l = open(t, o)
			}
			s.SetFaults(storetest.Faults{})
			s.Settle()
			settle(t, l, c.inner, parts[0])
			verify := func() {
				v := view(l)
				for _, h := range parts {
					h.check(t, c.inner, v)
				}
				checkSeals(t, c.inner, v)
			}
			verify()
			l.Kill()
			l = open(t, o)
			verify()
		})
	}
}

// passes is a store that observes collections: each starts with a LIST of all snapshots.
type passes struct {
	objstore.Store
	mu       sync.Mutex
	all      []pass
	throttle int          // number of passes to throttle
	log      bytes.Buffer // of the log that collecting has opened; read it after Kill
}

type pass struct{ listed, requests, deleted, largest int }

func (p *passes) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	entries, more, err := p.Store.List(ctx, o)
	p.mu.Lock()
	defer p.mu.Unlock()
	if o.Prefix == "s0000/snap/" && o.Max >= 1000 && o.After == "" {
		p.all = append(p.all, pass{})
	}
	if n := len(p.all); n > 0 && o.Max >= 1000 {
		p.all[n-1].listed += len(entries)
	}
	return entries, more, err
}

func (p *passes) Delete(ctx context.Context, keys ...string) error {
	p.mu.Lock()
	now := &p.all[len(p.all)-1]
	now.requests++
	if len(p.all) <= p.throttle {
		p.mu.Unlock()
		return fmt.Errorf("delete: %w", objstore.ErrThrottled)
	}
	now.deleted += len(keys)
	now.largest = max(now.largest, len(keys))
	p.mu.Unlock()
	return p.Store.Delete(ctx, keys...)
}

func (p *passes) seen() []pass {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]pass(nil), p.all...)
}

// collecting opens a log on an observed store, with a topic and a slot of DATA whose bytes make
// litter.
func collecting(t *testing.T, s *passes) (l *log.Log, h *history, slot []byte) {
	o := options(s)
	o.Core.SnapshotSlots = slotsBetween
	o.NoWait, o.Logger = true, slog.New(slog.NewTextHandler(&s.log, nil))
	l = open(t, o)
	h = newHistory(topic(t, l, "a", 1), 0)
	h.append(t, l, "x")
	v := view(l)
	r := v.Topic(h.id).Partitions.At(0).Ranges[0]
	return l, h, whole(t, s, v.Key(r.Epoch, r.Slot))
}

func put(t testing.TB, s objstore.Store, key string, b []byte) {
	t.Helper()
	must.NoError(t, s.Put(context.Background(), key, objstore.NewBody(b)))
}

// inFlight returns DATA that was in flight when its epoch ended: epoch 0, which has its SEAL in
// slot 0.
func inFlight(t testing.TB, v *state.State, slot uint64) (key string, body []byte) {
	t.Helper()
	h := record.Head{Kind: record.KindData, Time: 1, Cluster: v.Cluster, Nonce: v.Cluster, Slot: slot}
	body = must.Get(record.EncodeObject(&h, nil, nil, nil))(t)
	return state.SlotKey(0, 0, v.Cluster, slot), body
}

// TestLitter checks that a collection finds the objects of zombies, and keeps everything that is
// not garbage permanently (rules R7, R9).
func TestLitter(t *testing.T) {
	s := &passes{Store: objstore.NewMemory()}
	l, h, data := collecting(t, s)
	v := view(l)
	seal := whole(t, s, v.Key(0, v.Epochs[0].Seal))
	zombie := func(epoch uint32, slot int) string {
		return fmt.Sprintf("s0000/wal/%010d-%s/%020d", epoch, record.NewID(), slot)
	}
	unreadable := bytes.Clone(data)
	unreadable[40] ^= 1
	other := record.NewID()
	branch := func(slot uint64) string { return state.SlotKey(0, 1, other, slot) }
	foreign, err := record.EncodeObject(&record.Head{Kind: record.KindData, Time: 1, Cluster: v.Cluster, Epoch: 1, Nonce: other, Slot: 1}, nil, nil, nil)
	must.NoError(t, err)
	pack := func(epoch uint32, nonce record.ID) string {
		return fmt.Sprintf("s0000/pack/%010d-%s-%020d", epoch, nonce, 1)
	}
	left, body := inFlight(t, v, 3)
	garbage := []string{left, pack(0, v.Cluster)}
	stays := map[string][]byte{
		pack(1, v.Nonce):        nil, // may still be installed
		pack(1, record.NewID()): nil, // not a lower epoch
		pack(0, record.NewID()): nil, // epoch not on the log: a lost branch
		zombie(1, 0):            data,
		branch(1):               foreign,
		pack(2, record.NewID()): nil,
		"s0000/pack/readme":     nil,
		zombie(1, 3):            seal,
		zombie(1, 4):            unreadable,
		zombie(0, 2):            []byte("short"),
		zombie(1, 5):            nil,
		zombie(2, 0):            data, // a higher epoch than ours: perhaps our successor's
		"s0000/wal/readme":      data,
		"s0000/snap/readme":     data,
		"s0000/wal/0000000001-" + v.Nonce.String():    data,
		strings.ToUpper(v.Key(v.Pos.Epoch, 0)) + ".x": data,
	}
	for _, key := range garbage {
		put(t, s, key, body)
	}
	for key, b := range stays {
		put(t, s, key, b)
	}
	there := func(key string) bool {
		for _, n := range names(t, s.Store, "") {
			if n == key {
				return true
			}
		}
		return false
	}
	for _, key := range garbage {
		for there(key) {
			h.append(t, l, "x")
		}
	}
	settle(t, l, onlyOurs{s.Store, stays}, h)
	for key := range stays {
		if !there(key) {
			t.Errorf("%s was deleted", key)
		}
	}
	h.check(t, s, view(l))
}

// onlyOurs removes names from a LIST.
type onlyOurs struct {
	objstore.Store
	not map[string][]byte
}

func (s onlyOurs) List(ctx context.Context, o objstore.ListOptions) ([]objstore.Entry, bool, error) {
	entries, more, err := s.Store.List(ctx, o)
	var ours []objstore.Entry
	for _, e := range entries {
		if _, left := s.not[e.Key]; !left {
			ours = append(ours, e)
		}
	}
	return ours, more, err
}

// damagedOnce damages the first answer for a name.
type damagedOnce struct {
	objstore.Store
	key  atomic.Pointer[string]
	once sync.Once
}

func (s *damagedOnce) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	obj, err := s.Store.Get(ctx, key, r)
	if name := s.key.Load(); err != nil || name == nil || key != *name {
		return obj, err
	}
	b, err := io.ReadAll(obj.Body)
	if err != nil {
		return obj, err
	}
	s.once.Do(func() { b = bytes.Clone(b); b[40] ^= 1 })
	obj.Body = io.NopCloser(bytes.NewReader(b))
	return obj, nil
}

// TestHeadDamagedInTransitIsReadAgain checks that such a head raises no alarm.
func TestHeadDamagedInTransitIsReadAgain(t *testing.T) {
	once := &damagedOnce{Store: objstore.NewMemory()}
	s := &passes{Store: once}
	var log bytes.Buffer
	o := options(s)
	o.Core.SnapshotSlots = slotsBetween
	o.NoWait, o.Logger = true, slog.New(slog.NewTextHandler(&log, nil))
	l := open(t, o)
	h := newHistory(topic(t, l, "a", 1), 0)
	h.append(t, l, "x")
	key, body := inFlight(t, view(l), 3)
	once.key.Store(&key)
	put(t, s, key, body)
	for range 1000 { // commits trigger collections
		if !slices.Contains(names(t, s.Store, ""), key) {
			break
		}
		h.append(t, l, "x")
	}
	l.Kill()
	if strings.Contains(log.String(), "alarm") {
		t.Errorf("log output %s", log.String())
	}
	if slices.Contains(names(t, s.Store, ""), key) {
		t.Error("the zombie's slot was not deleted")
	}
}

// TestPassIsBounded checks that one pass deletes at most a thousand objects, or half of the listed
// ones if that is more, and leaves the rest to later passes. A pass with several requests logs one
// line.
func TestPassIsBounded(t *testing.T) {
	s := &passes{Store: objstore.NewMemory()}
	l, h, _ := collecting(t, s)
	const litter = 3500
	for i := range litter {
		key, body := inFlight(t, view(l), uint64(3+i))
		put(t, s, key, body)
	}
	settle(t, l, s.Store, h)
	l.Kill()
	deleted, full := 0, 0
	var lines, want []string
	for line := range strings.Lines(s.log.String()) {
		if _, line, ok := strings.Cut(line, `msg="garbage deleted" `); ok {
			lines = append(lines, strings.Join(strings.Fields(line)[:2], " "))
		}
	}
	for i, p := range s.seen() {
		if p.deleted > 0 {
			want = append(want, fmt.Sprintf("objects=%d listed=%d", p.deleted, p.listed))
		}
		deleted += p.deleted
		if p.deleted > max(1000, p.listed/2) || p.largest > 1000 {
			t.Errorf("pass %d: %+v", i, p)
		}
		if p.deleted >= 1000 {
			full++
		}
	}
	if deleted < litter || full < 2 {
		t.Fatalf("%d deleted, %d passes reached their bound", deleted, full)
	}
	check.EqualSlicesf(t, lines, want, "lines")
}

// TestThrottledDelete checks that a throttled DELETE ends the pass without further effects.
func TestThrottledDelete(t *testing.T) {
	s := &passes{Store: objstore.NewMemory(), throttle: 3}
	l, h, _ := collecting(t, s)
	for i := range 1500 {
		key, body := inFlight(t, view(l), uint64(3+i))
		put(t, s, key, body)
	}
	settle(t, l, s.Store, h)
	all := s.seen()
	if len(all) < 4 {
		t.Fatalf("%d passes", len(all))
	}
	for i, p := range all[:3] {
		if p.requests > 1 || p.deleted != 0 {
			t.Errorf("throttled pass %d continued: %+v", i, p)
		}
	}
	h.check(t, s, view(l))
	must.NoError(t, l.Ready())
}

// TestCollectionKeepsUp commits many slots without records between two snapshots. The first pass
// deletes half of 10,000 names, and the second more than there were slots since the first.
func TestCollectionKeepsUp(t *testing.T) {
	sebtest.Long(t, "TestCollection and TestPassIsBounded remain")
	const perSnapshot = 12_000
	o := options(objstore.NewMemory())
	o.NoWait, o.Core.SnapshotSlots, o.Metrics = true, perSnapshot, metrics.NewSet()
	l := open(t, o)
	id := topic(t, l, "t", 1)
	deleted := o.Metrics.GetOrCreateCounter(`seb_log_objects_deleted_total`)
	commit := func(slots int) {
		t.Helper()
		for i := range slots {
			r := state.Record{Kind: state.OffsetCommit, Name: "g", Topic: id, Offset: int64(i % 2)}
			must.NoError(t, wait(t, l.Propose(r))[0].Err())
		}
	}
	commit(2 * perSnapshot)
	sebtest.Eventually(t, "the first pass", func() bool { return deleted.Get() >= 5_000 })
	commit(perSnapshot)
	sebtest.Eventually(t, "the second pass", func() bool { return deleted.Get() >= uint64(5_000+perSnapshot) })
}
