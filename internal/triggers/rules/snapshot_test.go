package rules

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views"
	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/test/storetest"

	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// bucket stores copies of files.
type bucket struct {
	store objstore.Store
	saves int
	// reached is the lowest position of all readers of the last copy, per partition.
	reached map[store.CursorKey]int64
	behind  bool // a trigger has not caught up
}

func newBucket() *bucket { return &bucket{store: objstore.NewMemory()} }

// saver saves copies for a broker.
type saver struct {
	*snapshot.Snapshots
	*bucket
	t   testing.TB
	log *fakeBroker
}

func (b *bucket) saver(t testing.TB, log *fakeBroker, logger *slog.Logger) *saver {
	place := func() snapshot.LogPosition {
		log.mu.Lock()
		defer log.mu.Unlock()
		return snapshot.LogPosition{Position: state.Position{Slot: uint64(log.seen)}, Nonce: log.cluster}
	}
	return &saver{snapshot.Open(snapshot.Options{
		Store: b.store, View: "triggers", Schema: store.Schema, Cluster: log.Cluster, PieceBytes: 50_000, Logger: logger, RetryMin: time.Microsecond,
		At: func() (snapshot.LogPosition, bool) { return place(), true },
		On: func(p snapshot.LogPosition) bool { return !place().Less(p.Position) && p.Nonce == log.cluster },
	}), b, t, log}
}

// Save also reads the contents of the copy.
func (s *saver) Save(ctx context.Context, path string, note snapshot.Note, only bool) (snapshot.Info, error) {
	f, err := store.Open(ctx, store.Options{Path: path, Cluster: s.log.cluster.String(), Unsafe: true})
	if err != nil {
		s.t.Error(err)
		return snapshot.Info{}, err
	}
	defer f.Close()
	cursors, err := f.Cursors(ctx)
	check.NoError(s.t, err)
	var list []*store.Trigger
	for g, err := f.NextTrigger(ctx, 0); g != nil || err != nil; g, err = f.NextTrigger(ctx, g.No) {
		must.NoError(s.t, err)
		list = append(list, g)
	}
	info, err := s.Snapshots.Save(ctx, path, note, only)
	if err == nil {
		s.saves++
		s.reached = map[store.CursorKey]int64{}
		for k, c := range cursors {
			key := store.CursorKey{Topic: k.Topic, Partition: k.Partition}
			if old, ok := s.reached[key]; !ok || c.Next < old {
				s.reached[key] = c.Next
			}
		}
		s.behind = slices.ContainsFunc(list, func(g *store.Trigger) bool { return g.Status == store.Behind })
	}
	return info, err
}

// saving are sizes with frequent copies.
var saving = func() Sizes {
	s := small
	s.SaveEvery, s.SaveRecords = 7200*time.Microsecond, 10
	return s
}()

// step opens an engine that saves its copies in the bucket and restores from it.
func (b *bucket) step(t testing.TB, log *fakeBroker, path string, change ...func(o *Options)) *stepped {
	t.Helper()
	return stepBy(t, log, path, &saving, append(change, func(o *Options) {
		o.Snapshots = b.saver(t, log, o.Logger)
	})...)
}

func lose(t testing.TB, s *stepped) {
	t.Helper()
	s.end()
	must.NoError(t, store.Remove(s.path))
}

// reads counts the records that are read.
type reads struct {
	*fakeBroker
	records int64
}

func (r *reads) Read(ctx context.Context, id record.ID, part uint32, offset int64, bytesMax int) (views.Batches, error) {
	b, err := r.fakeBroker.Read(ctx, id, part, offset, bytesMax)
	for _, p := range b.Parts {
		r.records += record.Batch(p).Span()
	}
	return b, err
}

// trimSaved trims the events that the last copy has read.
func (b *bucket) trimSaved(log *fakeBroker) {
	topic, _ := log.Topic("events")
	for part := range uint32(topic.Partitions) {
		log.trim("events", part, b.reached[store.CursorKey{Topic: topic.ID, Partition: part}])
	}
}

// TestLostFileIsRestored: the file has the state of its last copy, and only later records are read.
func TestLostFileIsRestored(t *testing.T) {
	log, b := newLog().broker(true), newBucket()
	s := b.step(t, log, "")
	s.put(s.definition("x", "A THEN (NOT B WITHIN 1 hour)", nil))
	for i := range 500 {
		log.post(ev(fmt.Sprint("u", i%50), "A"))
	}
	s.settle()
	log.until(time.Second)
	log.post(ev("u1", "A"))
	s.settle()
	if b.saves == 0 {
		t.Fatalf("no copy was saved\n%s", s.logs)
	}
	lose(t, s)
	b.trimSaved(log)
	log.until(2 * time.Second)
	for i := range 50 {
		log.post(ev(fmt.Sprint("u", i), "B"))
	}
	log.until(3 * time.Second)
	log.post(ev("u7", "A"))
	r := &reads{fakeBroker: log}
	s = b.step(t, log, s.path, func(o *Options) { o.Log = r })
	s.settle()
	if s.counted("restores_total") != 1 || r.records > 60 || r.records < 51 {
		t.Fatalf("%d records read\n%s", r.records, s.logs)
	}
	log.until(2 * time.Hour)
	s.settle()
	same(t, s.fires(), []string{"x u7 +3603000 pending"})
}

// TestSnapshotHasTrimmedEvents: without the snapshot, a trigger fires that would not fire with the
// original file.
func TestSnapshotHasTrimmedEvents(t *testing.T) {
	for name, want := range map[string][]string{"snapshot": {}, "none": {"x ann +9000 pending"}} {
		t.Run(name, func(t *testing.T) {
			log, b := newLog().broker(true), newBucket()
			s := b.step(t, log, "")
			s.put(s.definition("x", "(NOT B) THEN A", nil))
			log.post(ev("ann", "B"))
			s.settle()
			saves := b.saves
			log.until(time.Second)
			topic, _ := log.Topic("events")
			log.trim("events", log.partOf(topic, "ann"), 1) // makes a copy due
			s.settle()
			if b.saves != saves+1 {
				t.Fatalf("%d copies, then %d\n%s", saves, b.saves, s.logs)
			}
			lose(t, s)
			if name == "none" {
				s = step(t, log, s.path)
			} else {
				s = b.step(t, log, s.path)
			}
			log.until(9 * time.Second)
			log.post(ev("ann", "A"))
			s.settle()
			same(t, s.fires(), want)
		})
	}
}

// TestIdleSavesNoCopies: an idle engine makes no request.
func TestIdleSavesNoCopies(t *testing.T) {
	log, b := newLog().broker(true), newBucket()
	counter := storetest.NewCounter(b.store)
	b.store = counter
	s := b.step(t, log, "")
	s.put(s.definition("x", "A", nil))
	for i := range 100 {
		log.post(ev(fmt.Sprint("u", i), "A"))
	}
	s.settle()
	log.until(time.Second)
	s.settle()
	saves, before := b.saves, counter.Counts()
	if saves == 0 || before.Puts == 0 {
		t.Fatalf("no copy was saved\n%s", s.logs)
	}
	for i := range 50 {
		log.until(time.Duration(i+2) * time.Hour)
		s.settle()
	}
	if after := counter.Counts(); after != before {
		t.Errorf("requests of an idle engine: %+v, then %+v", before, after)
	}
	log.post(ev("u1", "A")) // too few records for a copy
	s.settle()
	log.advance(time.Hour)
	s.settle()
	check.Equalf(t, b.saves, saves, "%d copies, want 0", b.saves-saves)
}

// TestErasedEntityLeavesCopies: soon after an erasure no copy contains the entity.
func TestErasedEntityLeavesCopies(t *testing.T) {
	log, b := newLog().broker(true), newBucket()
	s := b.step(t, log, "")
	s.put(s.definition("x", "A THEN (NOT B WITHIN 1 hour)", nil))
	for round := range 3 {
		for i := range 200 {
			log.post(ev(fmt.Sprint("known-as-", i), "A"))
		}
		log.post(ev("forget-me", "A"))
		s.settle()
		log.until(time.Duration(round+1) * time.Second)
		s.settle()
	}
	must.Equalf(t, b.copiesWith(t, log, "forget-me"), 2, "copies contain it")
	topic, _ := log.Topic("events")
	log.mu.Lock()
	for part := range uint32(2) {
		log.appendLocked(topic.ID, part, []record.Record{{Key: []byte("forget-me")}})
	}
	log.mu.Unlock()
	log.advance(time.Second)
	s.settle()
	if n, other := b.copiesWith(t, log, "forget-me"), b.copiesWith(t, log, "known-as-8"); n != 0 || other != 1 {
		t.Fatalf("%d copies contain it, %d another one; want 0 and 1\n%s", n, other, s.logs)
	}
}

// copiesWith returns the number of copies that contain a text, as bytes.
func (b *bucket) copiesWith(t *testing.T, log *fakeBroker, text string) (n int) {
	t.Helper()
	refused := map[string]bool{}
	for {
		path := filepath.Join(t.TempDir(), "file")
		info, ok := must.Get2(b.saver(t, log, slog.Default()).Restore(t.Context(), path, true, func(name string) bool { return refused[name] }))(t)
		if !ok {
			return n
		}
		refused[info.Name] = true
		data := must.Get(os.ReadFile(path))(t)
		if bytes.Contains(data, []byte(text)) {
			n++
		}
	}
}

// TestDamagedFileIsRestored from the copy, or from the previous one if that is not usable.
func TestDamagedFileIsRestored(t *testing.T) {
	log, b := newLog().broker(true), newBucket()
	s := b.step(t, log, "")
	s.put(s.definition("x", "A THEN B", nil))
	for round := range 2 {
		for i := range 200 {
			log.post(ev(fmt.Sprint("u", i), "A"))
		}
		s.settle()
		log.until(time.Duration(round+1) * time.Second)
		s.settle()
	}
	s.end()
	for range 2 {
		must.NoError(t, os.WriteFile(s.path, []byte("not a database"), 0o600))
		s = b.step(t, log, s.path)
		s.settle()
		if s.counted("restores_total") != 1 || s.counted("rebuilds_total") != 1 {
			t.Fatalf("%d restores, %d rebuilds\n%s", s.counted("restores_total"), s.counted("rebuilds_total"), s.logs)
		}
		s.end()
	}
	// A copy with rows of another log differs only in its cursors.
	other, saves := log.Cluster(), b.saves
	log.mu.Lock()
	for _, topic := range log.topics {
		for _, p := range topic.parts {
			for i := range p.origins {
				p.origins[i] = other
			}
		}
	}
	log.mu.Unlock()
	s = b.step(t, log, s.path)
	s.settle()
	if s.counted("restores_total") != 2 || s.counted("rebuilds_total") != 3 {
		t.Fatalf("%d restores, %d rebuilds\n%s", s.counted("restores_total"), s.counted("rebuilds_total"), s.logs)
	}
	check.Equalf(t, b.saves, saves+1, "%d copies replaced the unusable ones, want 1", b.saves-saves)
	log.until(9 * time.Second)
	log.post(ev("u7", "B"))
	s.settle()
	same(t, s.fires(), []string{"x u7 +9000 pending"})
}

// TestCopyFindsDamage that no read has found: the file is rebuilt from the previous copy, which is
// not damaged.
func TestCopyFindsDamage(t *testing.T) {
	log, b := newLog().broker(true), newBucket()
	s := b.step(t, log, "")
	s.put(s.definition("x", "A THEN B", nil))
	for i := range 200 {
		log.post(ev(fmt.Sprint("u", i), "A"))
	}
	s.settle()
	log.until(time.Second)
	s.settle()
	s.end()
	db := must.Get(localdb.Open(s.path, 1, nil))(t)
	res := must.Get(db.Exec("UPDATE inst SET data = x'00112233445566' WHERE entity = ?", []byte("u7")))(t)
	if n, _ := res.RowsAffected(); n != 1 {
		t.Fatalf("%d rows", n)
	}
	must.NoError(t, db.Close())
	s = b.step(t, log, s.path)
	for i := range 200 {
		log.post(ev(fmt.Sprint("v", i), "A"))
	}
	log.until(2 * time.Second)
	s.settle()
	if s.counted("rebuilds_total") != 1 || s.counted("restores_total") != 1 {
		t.Fatalf("%d rebuilds, %d restores\n%s", s.counted("rebuilds_total"), s.counted("restores_total"), s.logs)
	}
	log.until(3 * time.Second)
	log.post(ev("u7", "B"))
	s.settle()
	same(t, s.fires(), []string{"x u7 +3000 pending"})
}

// TestSnapshotFailures do not delay firings.
func TestSnapshotFailures(t *testing.T) {
	log, b := newLog().broker(true), newBucket()
	faulty := storetest.NewFaulty(b.store, 1, storetest.Faults{Put: storetest.Rates{storetest.Refuse: 1}})
	b.store = faulty
	sizes := saving
	sizes.SaveEvery = time.Hour
	hourly := func(o *Options) { o.Sizes = &sizes }
	s := b.step(t, log, "", hourly)
	s.put(s.definition("x", "A", nil))
	for i := range 200 {
		log.post(ev("ann", "A"))
		log.until(time.Duration(i) * time.Minute)
		s.settle()
	}
	same(t, s.fires(), []string{"x ann +0 pending"})
	if n := s.counted("snapshot_failures_total"); n == 0 || b.saves != 0 {
		t.Errorf("%d failures, %d copies", n, b.saves)
	}
	faulty.SetFaults(storetest.Faults{})
	log.advance(time.Hour)
	log.post(ev("bob", "A"))
	s.settle()
	check.Equalf(t, b.saves, 1, "copies")
	if left, _ := filepath.Glob(s.path + ".*"); len(left) != 0 {
		t.Errorf("left behind: %q", left)
	}
	// A bucket that does not answer is no reason to rebuild from the log.
	lose(t, s)
	faulty.SetFaults(storetest.Faults{Get: storetest.Rates{storetest.Before: 1}})
	s = b.step(t, log, s.path, hourly)
	s.w.Step(t.Context())
	check.ErrorIs(t, check.Err(s.Firings(t.Context(), FiringQuery{Limit: 1})), ErrUnavailable)
	faulty.SetFaults(storetest.Faults{})
	log.advance(time.Hour)
	s.settle()
	check.Equalf(t, s.counted("restores_total"), 1, "not restored\n%s", s.logs)
}

// TestLostFilesOfTrimmedLogs loses files whose log was trimmed: the firings are those of engines
// with their files.
func TestLostFilesOfTrimmedLogs(t *testing.T) {
	sebtest.Long(t, "TestLostFileIsRestored remains")
	t.Parallel()
	trims, restores := 0, uint64(0)
	n := max(1, *worlds*2/3)
	for i := range n {
		seed := *first + uint64(i)
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed, newBucket())
			for range 250 {
				if w.r.IntN(40) == 0 && w.trim() {
					trims++
				}
				w.act()
				restores += w.lost
				w.lost = 0
			}
			w.finish()
			w.check()
		})
	}
	t.Logf("%d times trimmed, %d times restored", trims, restores)
	if n > 10 && (trims < 20 || restores < 20) {
		t.Errorf("%d times trimmed, %d times restored", trims, restores)
	}
}

// trim trims events that the last copy has read, if all readers have read them and the copy has all
// triggers. A later trigger would read its history again.
func (w *world) trim() bool {
	defs, _ := w.log.Topic("triggers")
	p, _ := w.leader().b.Position(defs.ID)
	if w.saved.behind || w.saved.saves == 0 || w.saved.reached[store.CursorKey{Topic: defs.ID}] < p.Topics[0][0].Next {
		return false
	}
	for _, n := range []*stepped{w.leader(), w.nodes[1-w.lead]} {
		n.b.catchUp(1 << 30)
		n.settle()
	}
	w.saved.trimSaved(w.leader().b)
	w.trimmed = true
	return true
}
