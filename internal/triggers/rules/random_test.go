package rules

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"

	"github.com/sebbroker/seb/internal/triggers/rules/store"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

var (
	worlds = flag.Int("worlds", 20, "number of random worlds")
	first  = flag.Uint64("world", 0, "seed of the first world")
)

var expressions = []string{
	"A", "A THEN B", "A THEN (NOT B WITHIN 20ms)", "A THEN (B WITHIN 30ms)", "(NOT A) THEN B", "A THEN (NOT B)", "A AND NOT C",
	"A THEN (NOT B WITHIN 10ms) THEN C", "A THEN ((NOT B WITHIN 15ms) AND (NOT C WITHIN 25ms))", "count(A) >= 2",
	"A[x > 2] THEN B", "A THEN (NOT B WITHIN 7ms) THEN (NOT C WITHIN 9ms)", "A OR (B THEN (NOT C WITHIN 12ms))",
	"B THEN (NOT (A THEN C) WITHIN 40ms)", "A THEN (C AFTER 10ms)",
}

// world is a log and two brokers with an engine each, and the expectations of both.
type world struct {
	opened int // engines
	t      *testing.T
	r      *rand.Rand
	log    *fakeLog
	nodes  [2]*stepped
	lead   int
	led    [2]bool           // since the engine was opened, or before
	defs   []rule.Definition // all versions, in the order of the log
	ends   []int64           // the last instant of each; 0: current
	until  []int64           // the time of the record that ended it

	known     int // definitions of the log that are in defs or pauses
	pauses    []pauseAt
	delivered map[message]bool // reported as delivered
	saved     *bucket          // copies of files; nil: none

	trimmed bool   // earlier events cannot be read any more
	lost    uint64 // restored files
}

// pauseAt is a change of a trigger's status, or its deletion, at a slot of the log.
type pauseAt struct {
	slot   int
	id     string
	paused bool
}

// message identifies the message of a firing or of its retraction.
type message struct {
	id         rule.ID
	retraction bool
}

func newWorld(t *testing.T, seed uint64, saved *bucket) *world {
	w := &world{t: t, r: seeded(t, seed), log: newLog(), delivered: map[message]bool{}, saved: saved}
	dir := t.TempDir()
	for i := range w.nodes {
		w.nodes[i] = w.open(w.log.broker(i == 0), filepath.Join(dir, fmt.Sprint(i, ".db")))
	}
	w.nodes[1].b.behind = true
	w.led[0] = true
	w.nodes[0].definition("x", "A", nil) // creates the topics
	return w
}

// open opens an engine with limit or much memory, so that transactions end at different records.
func (w *world) open(b *fakeBroker, path string) *stepped {
	limit := []int64{0, 1500, 4000}[w.opened%3]
	shared, costly := []int{0, 0, 10, 0, 1}[w.opened%5], []int{15, 0, 12, 20}[w.opened%4] // states move between rows
	w.opened++
	change := func(o *Options) {
		sizes := *o.Sizes
		sizes.Shared, sizes.Costly = shared, costly
		o.RowBytes, o.MemoryBytes, o.Sizes = limit, 20*limit, &sizes
	}
	if w.saved == nil {
		return stepBy(w.t, b, path, &small, change)
	}
	return w.saved.step(w.t, b, path, change)
}

func (w *world) leader() *stepped { return w.nodes[w.lead] }

// act runs a random step.
func (w *world) act() {
	switch n := w.r.IntN(100); {
	case n < 40:
		w.post()
	case n < 55:
		w.log.advance(time.Duration(w.r.IntN(12_000)) * time.Microsecond)
	case n < 57: // no engine runs for a while
		w.log.advance(time.Duration(w.r.IntN(80)) * time.Millisecond)
	case n < 80:
		for range 1 + w.r.IntN(6) {
			w.leader().w.Step(w.t.Context())
		}
	case n < 87:
		w.nodes[1-w.lead].b.catchUp(w.r.IntN(12))
		w.nodes[1-w.lead].w.Step(w.t.Context())
	case n < 90:
		w.crash(w.r.IntN(2))
	case n < 92:
		w.takeOver()
	case n < 94:
		w.fault()
	case n < 95:
		w.erase()
	case n < 97:
		w.deliver()
	case n < 98:
		w.pause()
	case n < 99:
		w.put()
	default:
		w.define()
	}
}

func (w *world) entity() string { return string(rune('a' + w.r.IntN(5))) }

func (w *world) post() {
	entity := w.entity()
	var list []rule.Event
	for range 1 + w.r.IntN(4)/3*2 {
		e := ev(entity, string(rune('A'+w.r.IntN(4))))
		if w.r.IntN(3) == 0 {
			e.ID = fmt.Sprint(w.r.IntN(30))
		}
		if w.r.IntN(2) == 0 {
			e.Data = json.RawMessage(fmt.Sprintf(`{"x":%d}`, w.r.IntN(5)))
		}
		list = append(list, e)
	}
	w.log.post(list...)
}

// crash ends an engine and opens it again, with or without its file.
func (w *world) crash(i int) {
	n := w.nodes[i]
	n.end()
	w.lost += n.counted("restores_total")
	if w.r.IntN(2) == 0 {
		if w.trimmed {
			n.b.catchUp(1 << 30) // a copy newer than all it knows would not be usable
		}
		must.NoError(w.t, store.Remove(n.path))
	}
	n.b.fault = nil
	w.nodes[i] = w.open(n.b, n.path)
}

// takeOver makes the other broker the leader. The old leader continues for a while without knowing.
// A fenced leader leads again, in the same process or in another one, which opens the engine again.
func (w *world) takeOver() {
	old := w.leader()
	w.lead = 1 - w.lead
	if w.led[w.lead] && w.r.IntN(2) == 0 {
		n := w.leader()
		n.end()
		w.lost += n.counted("restores_total")
		n.b.fault = nil
		w.nodes[w.lead] = w.open(n.b, n.path)
	}
	w.led[w.lead] = true
	w.log.takeOver(w.leader().b)
	old.b.mu.Lock()
	old.b.behind = true
	old.b.mu.Unlock()
	w.leader().w.Step(w.t.Context()) // the new leader reads its leadership
	if w.r.IntN(2) == 0 {
		old.w.Step(w.t.Context())
	}
}

// fault fails the leader's next append to the topic of firings, with or without storing it.
// Sometimes the leader crashes then.
func (w *world) fault() {
	n, kept, dies := w.leader(), w.r.IntN(2) == 0, w.r.IntN(2) == 0
	hit := false
	n.b.fault = func(topic string) (bool, bool) {
		if topic != "firings" {
			return true, true
		}
		hit, n.b.fault = true, nil
		return kept, false
	}
	for range 8 {
		n.w.Step(w.t.Context())
		if hit {
			break
		}
	}
	n.b.fault = nil
	if hit && dies {
		w.crash(w.lead)
	}
}

func (w *world) erase() {
	t, _ := w.log.Topic("events")
	entity := w.entity()
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	for part := range uint32(2) {
		w.log.appendLocked(t.ID, part, []record.Record{{Key: []byte(entity)}})
	}
}

// define creates a trigger or a new version.
func (w *world) define() {
	if w.trimmed {
		return // it would start from fewer events
	}
	id := fmt.Sprint("t", w.r.IntN(4))
	n := w.leader()
	n.settle() // as Put waits for the records
	old := w.current(id)
	d := n.definition(id, expressions[w.r.IntN(len(expressions))], w.vary)
	for _, e := range w.defs {
		if e.ID == id {
			d.Version = max(d.Version, e.Version+1)
		}
	}
	if old >= 0 {
		d.Created = w.defs[old].Created
	}
	n.put(d)
	w.learn()
}

// vary sets random options of a definition.
func (w *world) vary(d *rule.Definition) {
	d.Fire = []rule.Fire{rule.Once, rule.OnEdge, rule.OnReset}[w.r.IntN(3)]
	d.Backfill = []rule.Backfill{rule.Silent, rule.Current, rule.Replay, rule.None}[w.r.IntN(4)]
	d.CarryFired = w.r.IntN(2) == 0
	if d.Fire != rule.Once && w.r.IntN(3) == 0 {
		d.Cooldown = int64(1 + w.r.IntN(60))
	}
	if d.Fire != rule.OnReset && w.r.IntN(2) == 0 {
		d.OnRetract = rule.Notify
	}
}

// current returns the index of a trigger's current version; -1 if there is none.
func (w *world) current(id string) int {
	for i, d := range w.defs {
		if d.ID == id && w.ends[i] == 0 {
			return i
		}
	}
	return -1
}

// learn reads new definitions of the log.
func (w *world) learn() {
	t, _ := w.log.Topic("triggers")
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	p := w.log.topicLocked(t.ID).parts[0]
	var r record.Reader
	for ; w.known < len(p.batches); w.known++ {
		slot := p.slots[w.known]
		for r.Reset(p.batches[w.known], 0); r.Next(); {
			d := must.Get(rule.ParseDefinition(r.Record().Key, r.Record().Value))(w.t)
			d.ResolveBorder(r.Record().Timestamp)
			w.pauses = append(w.pauses, pauseAt{slot, d.ID, d.Status == rule.Paused})
			old := w.current(d.ID)
			if old >= 0 && w.defs[old].Version == d.Version {
				continue
			}
			if old >= 0 {
				w.ends[old], w.until[old] = d.At, w.log.slots[slot].time/1000
			}
			w.defs, w.ends, w.until = append(w.defs, d), append(w.ends, 0), append(w.until, 0)
		}
	}
}

// paused reports whether a trigger was paused when a slot was written.
func (w *world) paused(id string, slot int) (is bool) {
	for _, p := range w.pauses {
		if p.id == id && p.slot < slot {
			is = p.paused
		}
	}
	return is
}

// change runs a call of the leader's engine that waits, with other steps meanwhile; sometimes the
// other broker takes over.
func (w *world) change(f func(ctx context.Context, n *stepped) error) error {
	n := w.leader()
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	turns := 0
	n.park = func() {
		switch k := w.r.IntN(200); {
		case turns > 10_000:
			w.t.Errorf("the call does not return\n%s", n.logs)
			stop()
		case k < 120:
			n.w.Step(ctx)
		case k < 150:
			w.log.advance(time.Duration(w.r.IntN(5000)) * time.Microsecond)
		case k < 170:
			w.post()
		case k < 199:
			w.nodes[1-w.lead].b.catchUp(w.r.IntN(12))
			w.nodes[1-w.lead].w.Step(ctx)
		default:
			w.takeOver()
			stop()
		}
		turns++
	}
	err := f(ctx, n)
	n.park = nil
	w.learn()
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrUnavailable) {
		w.t.Fatalf("%v\n%s", err, n.logs)
	}
	return err
}

// put creates a version through Put.
func (w *world) put() {
	if w.trimmed {
		return // as in define
	}
	x := must.Get(driplang.Parse(expressions[w.r.IntN(len(expressions))]))(w.t)
	d := rule.Definition{ID: fmt.Sprint("t", w.r.IntN(4)), Expr: x}
	w.vary(&d)
	_ = w.change(func(ctx context.Context, n *stepped) error {
		_, err := n.Put(ctx, d, nil)
		return err
	})
}

// pause pauses or resumes a trigger.
func (w *world) pause() {
	_ = w.change(func(ctx context.Context, n *stepped) error {
		err := n.Pause(ctx, fmt.Sprint("t", w.r.IntN(4)), w.r.IntN(2) == 0)
		if errors.Is(err, ErrUnknownTrigger) {
			return nil
		}
		return err
	})
}

// deliver takes the due firings, and reports some of them.
func (w *world) deliver() {
	n := w.leader()
	ids, _, err := n.Due(w.t.Context(), w.log.now())
	if err != nil && !errors.Is(err, ErrUnavailable) {
		w.t.Fatal(err)
	}
	for _, id := range ids {
		if n != w.leader() {
			return
		}
		list, _ := must.Get2(n.Pending(w.t.Context(), id, w.log.now(), PendingQuery{Limit: 3}))(w.t)
		for _, x := range list {
			m := message{x.ID, x.Retraction}
			if w.delivered[m] {
				w.t.Fatalf("%+v was delivered, and is pending again\n%s", x, n.logs)
			}
			if n != w.leader() || w.r.IntN(3) == 0 {
				continue
			}
			_ = w.change(func(ctx context.Context, n *stepped) error {
				err := n.Report(ctx, x.ID, Attempt{State: rule.Delivered, Retraction: x.Retraction})
				if w.delivered[m] = err == nil; errors.Is(err, ErrUnknownFiring) { // the entity was erased
					return nil
				}
				return err
			})
		}
	}
}

// finish lets both engines read the whole log, with the clock after all deadlines.
func (w *world) finish() {
	for range 3 {
		w.leader().settle()
		w.log.advance(100 * time.Millisecond)
	}
	w.leader().settle()
	other := w.nodes[1-w.lead]
	other.b.catchUp(1 << 30)
	other.settle()
}

// firstRecord is the first record of a firing in the log.
type firstRecord struct {
	rule.Record
	time      int64
	slot      int
	retracted int64
}

func (w *world) records() map[rule.ID]*firstRecord {
	t, _ := w.log.Topic("firings")
	all := map[rule.ID]*firstRecord{}
	var r record.Reader
	p := w.log.topicLocked(t.ID).parts[0]
	for i, b := range p.batches {
		for r.Reset(b, 0); r.Next(); {
			rec, id := must.Get2(rule.ParseRecord(r.Record().Value))(w.t)
			switch x := all[id]; {
			case rec.Kind == rule.FiredRecord && x == nil:
				all[id] = &firstRecord{Record: rec, time: r.Record().Timestamp, slot: p.slots[i]}
			case rec.Kind == rule.FiredRecord: // a leader reads all records before it appends
				w.t.Fatalf("%+v is recorded twice\n%s%s", rec, w.nodes[0].logs, w.nodes[1].logs)
			case rec.Kind == rule.Retract && x.retracted == 0:
				x.retracted = rec.At
			}
		}
	}
	return all
}

// check compares the log's firings, and those of both engines, with the definitions.
func (w *world) check() {
	records := w.records()
	p, _ := w.leader().b.Position()
	left := maps.Clone(records)
	for i, d := range w.defs {
		until := w.until[i]
		if w.ends[i] == 0 {
			until = p.Complete()
		}
		want := w.log.expect(w.t, d, until)
		for id, x := range want {
			rec := records[id]
			delete(left, id)
			if rec == nil && w.ends[i] != 0 && (w.ends[i] == d.At || (&rule.Cut{Topic: d.TopicID, From: w.defs[w.after(i)].From, At: w.ends[i]}).After(x.cause, d.TopicID, x.at)) {
				continue // of the next version: it came at the end of this one, or replaced it
			}
			if x.erased || x.state == rule.Historic {
				continue
			}
			if x.state == rule.Pending && rec != nil && w.paused(d.ID, rec.slot) {
				x.state = rule.Suppressed
			}
			if d.CarryFired && x.state == rule.Pending && rec != nil {
				if yes, unless := w.carried(records, &d, x); yes && !(unless && rec.State == rule.Pending) {
					x.state = rule.Carried
				}
			}
			switch {
			case rec == nil:
				for j, e := range w.defs {
					if e.ID == d.ID {
						w.t.Logf("%+v ends %d", e, w.ends[j])
					}
				}
				for j, n := range w.nodes {
					list, _ := n.Firings(w.t.Context(), FiringQuery{Trigger: d.ID, Limit: LimitMax})
					for _, x := range list {
						w.t.Logf("%d: %+v", j, x)
					}
				}
				w.t.Fatalf("%s v%d: %+v was not recorded\n%+v\n%s%s", d.ID, d.Version, x, d, w.story(x.entity), w.leader().logs)
			case rec.State != x.state || rec.At != x.at || rec.time < x.at:
				w.t.Fatalf("%s v%d: recorded %+v, want %+v\n%+v\n%s", d.ID, d.Version, rec, x, d, w.story(x.entity))
			case w.ends[i] == 0 && x.state == rule.Pending && rec.retracted != x.retracted:
				w.t.Fatalf("%s v%d: retracted at %d, want %d", d.ID, d.Version, rec.retracted, x.retracted)
			}
		}
		if w.ends[i] == 0 {
			w.compare(&d, want)
		}
	}
	for id, rec := range left {
		for i, d := range w.defs {
			if d.ID == rec.Trigger {
				w.t.Logf("%+v until %d", d, w.ends[i])
			}
		}
		w.t.Fatalf("%s: unexpected firing %+v\n%s", id, rec, w.story(rec.Entity))
	}
}

// after returns the index of the next version of a trigger.
func (w *world) after(i int) int {
	for j := i + 1; j < len(w.defs); j++ {
		if w.defs[j].ID == w.defs[i].ID {
			return j
		}
	}
	return -1
}

// carried reports whether an earlier version has fired in place of x; unless: that firing may be
// erased.
func (w *world) carried(records map[rule.ID]*firstRecord, d *rule.Definition, x *expected) (yes, unless bool) {
	unless = true
	for _, rec := range records {
		if rec.Trigger == d.ID && rec.Version < d.Version && rec.Entity == x.entity && (d.Fire == rule.Once || rec.Cause == x.cause) {
			yes = true
			unless = unless && slices.ContainsFunc(w.log.histories(w.t, rec.Partition)[rec.Entity], func(h logEvent) bool {
				return h.Name == "" && rule.Before(rec.Cause, rec.At, rule.Mark{Offset: h.offset, At: h.at})
			})
		}
	}
	return yes, yes && unless
}

// compare requires that both engines have exactly the firings of a trigger, including unrecorded
// ones.
func (w *world) compare(d *rule.Definition, want map[rule.ID]*expected) {
	for i, n := range w.nodes {
		list, err := n.Firings(w.t.Context(), FiringQuery{Trigger: d.ID, Limit: LimitMax})
		if err != nil {
			w.t.Fatalf("%v\n%s", err, n.logs)
		}
		found := 0
		for _, x := range list {
			if x.Version != d.Version {
				continue
			}
			found++
			e := want[x.ID]
			if e == nil || e.erased || (x.State == rule.Historic) != (e.state == rule.Historic) {
				w.t.Fatalf("engine %d has %+v, want %+v", i, x, e)
			}
		}
		for id, e := range want {
			if e.erased {
				continue
			}
			found--
			if !slices.ContainsFunc(list, func(x Firing) bool { return x.ID == id }) {
				w.t.Fatalf("engine %d lacks %+v\n%+v\n%s", i, e, d, w.story(e.entity))
			}
		}
		if found != 0 {
			w.t.Fatalf("engine %d has %d unexpected firings of %s v%d", i, found, d.ID, d.Version)
		}
	}
}

// story returns the events of an entity as text.
func (w *world) story(entity string) (text string) {
	for part := range uint32(2) {
		for _, h := range w.log.histories(w.t, part)[entity] {
			text += fmt.Sprintf("%d/%d %d %s%s\n", part, h.offset, h.at, h.Name, h.Data)
		}
	}
	return text
}

// TestFiringsExactlyOnce runs random steps on random triggers, and compares the firings with the
// expected ones: exactly once, never early, never on incomplete events, with the same IDs.
func TestFiringsExactlyOnce(t *testing.T) {
	t.Parallel()
	// Found: erased in the millisecond after the trigger's creation; a version and an event in the
	// same millisecond.
	seeds := []uint64{20095, 2015, 2052}
	for i := range sebtest.Runs(*worlds, *worlds/60) {
		seeds = append(seeds, *first+uint64(i))
	}
	for _, seed := range seeds {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, seed, nil)
			for range 250 {
				w.act()
			}
			w.finish()
			w.check()
		})
	}
}
