package trigger

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
	"github.com/sebbroker/seb/internal/trigger/rule"

	"github.com/sebbroker/seb/internal/trigger/store"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/sebtest"
)

var (
	worlds = flag.Int("worlds", 30, "how many random worlds")
	first  = flag.Uint64("world", 0, "the seed of the first")
)

var expressions = []string{
	"A", "A THEN B", "A THEN (NOT B WITHIN 20ms)", "A THEN (B WITHIN 30ms)", "(NOT A) THEN B", "A THEN (NOT B)", "A AND NOT C",
	"A THEN (NOT B WITHIN 10ms) THEN C", "A THEN ((NOT B WITHIN 15ms) AND (NOT C WITHIN 25ms))", "count(A) >= 2",
	"A[x > 2] THEN B", "A THEN (NOT B WITHIN 7ms) THEN (NOT C WITHIN 9ms)", "A OR (B THEN (NOT C WITHIN 12ms))",
	"B THEN (NOT (A THEN C) WITHIN 40ms)", "A THEN (C AFTER 10ms)",
}

// world is a log, two brokers with an engine each, and what happens to them.
type world struct {
	opened int // engines
	t      *testing.T
	r      *rand.Rand
	log    *aLog
	nodes  [2]*stepped
	lead   int
	led    [2]bool           // since they were opened, or before
	defs   []rule.Definition // all versions, in the order of the log
	ends   []int64           // the last instant of each; 0: it goes on
	until  []int64           // the time of the record that ended it

	known     int // definitions of the log that are in defs, or in pauses
	pauses    []pause
	delivered map[handed]bool // of which the log says so
	saved     *bucket         // with copies of files; nil: there is none

	trimmed bool   // what was there before cannot be read any more
	lost    uint64 // files that were there again
}

// pause is that a trigger was paused, or is no more, as of a slot of the log.
type pause struct {
	slot   int
	id     string
	paused bool
}

// handed is a message.
type handed struct {
	id         rule.ID
	retraction bool
}

func newWorld(t *testing.T, seed uint64, saved *bucket) *world {
	w := &world{t: t, r: seeded(t, seed), log: newLog(), delivered: map[handed]bool{}, saved: saved}
	dir := t.TempDir()
	for i := range w.nodes {
		w.nodes[i] = w.open(w.log.broker(i == 0), filepath.Join(dir, fmt.Sprint(i, ".db")))
	}
	w.nodes[1].b.behind = true
	w.led[0] = true
	w.nodes[0].definition("x", "A", nil) // makes the topics
	return w
}

// open opens an engine with much memory or with little, so that transactions end at other places.
func (w *world) open(b *aBroker, path string) *stepped {
	little := []int64{0, 1500, 4000}[w.opened%3]
	w.opened++
	change := func(o *Options) { o.RowBytes, o.MemoryBytes = little, 20*little }
	if w.saved == nil {
		return stepBy(w.t, b, path, &small, change)
	}
	return w.saved.step(w.t, b, path, change)
}

func (w *world) leader() *stepped { return w.nodes[w.lead] }

// act does something.
func (w *world) act() {
	switch n := w.r.IntN(100); {
	case n < 40:
		w.post()
	case n < 55:
		w.log.advance(time.Duration(w.r.IntN(12_000)) * time.Microsecond)
	case n < 57: // no broker runs for a while
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

// crash ends an engine, which begins again with its file, or without.
func (w *world) crash(i int) {
	n := w.nodes[i]
	n.end()
	w.lost += n.counted("restores_total")
	if w.r.IntN(2) == 0 {
		if w.trimmed {
			n.b.catchUp(1 << 30) // a copy that is newer than all it knows would be of no use
		}
		if err := store.Remove(n.path); err != nil {
			w.t.Fatal(err)
		}
	}
	n.b.fault = nil
	w.nodes[i] = w.open(n.b, n.path)
}

// takeOver has the other broker lead; the one that led goes on for a while without knowing. If it is to lead again it has
// ended before, as one that was fenced does.
func (w *world) takeOver() {
	old := w.leader()
	w.lead = 1 - w.lead
	if w.led[w.lead] {
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
	w.leader().w.Step(w.t.Context()) // it is told
	if w.r.IntN(2) == 0 {
		old.w.Step(w.t.Context())
	}
}

// fault has the leader's next append to the topic of firings fail: it comes about or not. Or the leader crashes in it.
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

// define makes a trigger, or a new version of one, or deletes one.
func (w *world) define() {
	if w.trimmed {
		return // it would be made from less than what there was
	}
	id := fmt.Sprint("t", w.r.IntN(4))
	n := w.leader()
	n.settle() // as Put waits until all is recorded
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

// vary gives a definition some modes.
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

// current is the version of a trigger that is followed; -1 if there is none.
func (w *world) current(id string) int {
	for i, d := range w.defs {
		if d.ID == id && w.ends[i] == 0 {
			return i
		}
	}
	return -1
}

// learn takes note of the definitions that the log has got.
func (w *world) learn() {
	t, _ := w.log.Topic("triggers")
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	p := w.log.topicLocked(t.ID).parts[0]
	var r record.Reader
	for ; w.known < len(p.batches); w.known++ {
		slot := p.slots[w.known]
		for r.Reset(p.batches[w.known], 0); r.Next(); {
			d, err := rule.ParseDefinition(r.Record().Key, r.Record().Value)
			if err != nil {
				w.t.Fatal(err)
			}
			d.ResolveBorder(r.Record().Timestamp)
			w.pauses = append(w.pauses, pause{slot, d.ID, d.Status == rule.Paused})
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

// paused is whether a trigger was when something was recorded in a slot.
func (w *world) paused(id string, slot int) (is bool) {
	for _, p := range w.pauses {
		if p.id == id && p.slot < slot {
			is = p.paused
		}
	}
	return is
}

// change has the leader's engine do something that waits, while other things happen; another broker may begin to lead.
func (w *world) change(f func(ctx context.Context, n *stepped) error) error {
	n := w.leader()
	ctx, stop := context.WithCancel(w.t.Context())
	defer stop()
	turns := 0
	n.park = func() {
		switch k := w.r.IntN(200); {
		case turns > 10_000:
			w.t.Errorf("it waits without end\n%s", n.logs)
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

// put makes a version as who asks for it does.
func (w *world) put() {
	if w.trimmed {
		return // as in define
	}
	x, err := driplang.Parse(expressions[w.r.IntN(len(expressions))])
	if err != nil {
		w.t.Fatal(err)
	}
	d := rule.Definition{ID: fmt.Sprint("t", w.r.IntN(4)), Expr: x}
	w.vary(&d)
	_ = w.change(func(ctx context.Context, n *stepped) error {
		_, err := n.Put(ctx, d)
		return err
	})
}

// pause pauses a trigger, or ends that.
func (w *world) pause() {
	_ = w.change(func(ctx context.Context, n *stepped) error {
		err := n.Pause(ctx, fmt.Sprint("t", w.r.IntN(4)), w.r.IntN(2) == 0)
		if errors.Is(err, ErrUnknownTrigger) {
			return nil
		}
		return err
	})
}

// deliver takes what is to be delivered, and reports some of it.
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
		list, err := n.Pending(w.t.Context(), id, w.log.now(), 3)
		if err != nil {
			w.t.Fatal(err)
		}
		for _, x := range list {
			message := handed{x.ID, x.Retraction}
			if w.delivered[message] {
				w.t.Fatalf("%+v was delivered, and is handed out again\n%s", x, n.logs)
			}
			if n != w.leader() || w.r.IntN(3) == 0 {
				continue
			}
			_ = w.change(func(ctx context.Context, n *stepped) error {
				err := n.Report(ctx, x.ID, Attempt{State: rule.Delivered, Retraction: x.Retraction})
				if w.delivered[message] = err == nil; errors.Is(err, ErrUnknownFiring) { // its entity was erased
					return nil
				}
				return err
			})
		}
	}
}

// finish lets everybody know everything, with the clock beyond all deadlines.
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

// record is the first record of a firing in the log.
type firstRecord struct {
	rule.Record
	time  int64
	slot  int
	taken int64
}

func (w *world) records() map[rule.ID]*firstRecord {
	t, _ := w.log.Topic("firings")
	all := map[rule.ID]*firstRecord{}
	var r record.Reader
	p := w.log.topicLocked(t.ID).parts[0]
	for i, b := range p.batches {
		for r.Reset(b, 0); r.Next(); {
			rec, id, err := rule.ParseRecord(r.Record().Value)
			if err != nil {
				w.t.Fatal(err)
			}
			switch x := all[id]; {
			case rec.Kind == rule.FiredRecord && x == nil:
				all[id] = &firstRecord{Record: rec, time: r.Record().Timestamp, slot: p.slots[i]}
			case rec.Kind == rule.FiredRecord: // who records waits until all that was recorded is known
				w.t.Fatalf("%+v is recorded twice\n%s%s", rec, w.nodes[0].logs, w.nodes[1].logs)
			case rec.Kind == rule.Retract && x.taken == 0:
				x.taken = rec.At
			}
		}
	}
	return all
}

// check compares the log's firings, and what both engines know, with the definition.
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
				continue // of the next version, unless it came while that was made, or in the place of this one
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
				w.t.Fatalf("%s v%d: %+v is not recorded\n%+v\n%s%s", d.ID, d.Version, x, d, w.story(x.entity), w.leader().logs)
			case rec.State != x.state || rec.At != x.at || rec.time < x.at:
				w.t.Fatalf("%s v%d: recorded is %+v, should be %+v\n%+v\n%s", d.ID, d.Version, rec, x, d, w.story(x.entity))
			case w.ends[i] == 0 && x.state == rule.Pending && rec.taken != x.taken:
				w.t.Fatalf("%s v%d: taken at %d, should be at %d", d.ID, d.Version, rec.taken, x.taken)
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
		w.t.Fatalf("%s: %+v should not have fired\n%s", id, rec, w.story(rec.Entity))
	}
}

// after is the version that follows one.
func (w *world) after(i int) int {
	for j := i + 1; j < len(w.defs); j++ {
		if w.defs[j].ID == w.defs[i].ID {
			return j
		}
	}
	return -1
}

// carried is whether an earlier version has fired in the place of x; unless it was forgotten with its entity.
func (w *world) carried(records map[rule.ID]*firstRecord, d *rule.Definition, x *expected) (yes, unless bool) {
	unless = true
	for _, rec := range records {
		if rec.Trigger == d.ID && rec.Version < d.Version && rec.Entity == x.entity && (d.Fire == rule.Once || rec.Cause == x.cause) {
			yes = true
			unless = unless && slices.ContainsFunc(w.log.histories(w.t, rec.Partition)[rec.Entity], func(h happening) bool {
				return h.Name == "" && rule.Before(rec.Cause, rec.At, rule.Mark{Offset: h.offset, At: h.at})
			})
		}
	}
	return yes, yes && unless
}

// compare looks whether both engines know of a trigger's firings what is so, those too that are not recorded.
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
				w.t.Fatalf("engine %d knows %+v, should be %+v", i, x, e)
			}
		}
		for id, e := range want {
			if e.erased {
				continue
			}
			found--
			if !slices.ContainsFunc(list, func(x Firing) bool { return x.ID == id }) {
				w.t.Fatalf("engine %d does not know %+v\n%+v\n%s", i, e, d, w.story(e.entity))
			}
		}
		if found != 0 {
			w.t.Fatalf("engine %d knows %d firings of %s v%d too many", i, found, d.ID, d.Version)
		}
	}
}

// story is the events of an entity.
func (w *world) story(entity string) (text string) {
	for part := range uint32(2) {
		for _, h := range w.log.histories(w.t, part)[entity] {
			text += fmt.Sprintf("%d/%d %d %s%s\n", part, h.offset, h.at, h.Name, h.Data)
		}
	}
	return text
}

// TestEveryFiringOnceInEffect lets random things happen to random triggers, and compares what has fired with what should
// have: exactly once, never early, never because of events that were not read yet, under the same ids.
func TestEveryFiringOnceInEffect(t *testing.T) {
	// Was erased in the millisecond after its trigger was made; a version was made in the millisecond of an event.
	seeds := []uint64{20095, 2015, 2052}
	for i := range sebtest.Runs(*worlds, *worlds/10) {
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
