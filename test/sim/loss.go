package sim

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// loss is what a bucket has lost permanently, and what brokers may do about it (rule R13). The
// checker's chain is the log without the loss: a leader beyond the loss continues it.
//
//	needed   a start needs a lost slot: the cut
//	proven   a remaining object refers to the log after the cut: no broker that looks afterwards leads
//	passed   a snapshot after the cut is durable: no start needs the slot any more
//	forked   a broker that looked before proven leads without the slot: an unseen loss. Or the leader deposed by a lost SEAL
//	         writes under its name
//
// After a fork the acknowledged end of the log is not served any more. Two rules remain: leaders of
// the fork delete nothing of the lost branch, and no broker leads whose data directory knows the
// lost branch.
type loss struct {
	w       *simulation
	at      tok
	copied  bool              // an older copy was restored
	folded  int               // slots of the chain that were checked
	bodies  map[string][]byte // lost objects by name
	needed  bool
	cut     chainSlot
	cutAt   int64 // slots of the chain before it
	since   tok   // it is needed
	lostAt  int64 // when: a start that began before may have read it
	proven  tok
	settled tok // a minute after proven
	passed  tok
	branch  *record.Head // of the object that took the cut's name
	back    string       // a cut that its sender has stored again
	backAt  int64        // when
	forked  bool
}

// chainSlot is a slot of the chain.
type chainSlot struct {
	key  string
	head record.Head
}

func (s *chainSlot) pos() state.Position {
	return state.Position{Epoch: s.head.Epoch, Slot: s.head.Slot}
}

func (l *loss) isForked() bool { return l != nil && l.forked }

// fork records an unseen loss and ends the run soon.
func (l *loss) fork() {
	l.w.logf("the loss of %s is unseen", l.cut.key)
	l.forked = true
	l.end(30*time.Second + 4*l.w.cfg.GarbageWait)
}

// meta reports whether meta/cluster was lost.
func (l *loss) meta() bool {
	_, ok := l.body(core.MetaKey)
	return ok
}

// matters reports whether starts may refuse, so that the run need not finish.
func (l *loss) matters() bool { return l != nil && (l.needed && l.passed == 0 || l.forked || l.meta()) }

// body returns a lost object.
func (l *loss) body(key string) ([]byte, bool) {
	if l == nil {
		return nil, false
	}
	b, ok := l.bodies[key]
	return b, ok
}

// losses schedules the loss of the run.
func (w *simulation) losses() {
	if w.cfg.LoseAt == 0 {
		return
	}
	var older map[string][]byte
	if w.cfg.CopyAt > 0 {
		w.after(w.cfg.CopyAt, func() { older = maps.Clone(w.store.objects) })
	}
	w.after(w.cfg.LoseAt, func() { w.lose(older) })
}

// lose loses an object, or everything that an older copy lacks. An empty log has nothing to lose.
func (w *simulation) lose(older map[string][]byte) {
	if len(w.check.chain) < 3 {
		if !w.calm {
			w.after(time.Second, func() { w.lose(older) })
		}
		return
	}
	l := &loss{w: w, bodies: map[string][]byte{}, lostAt: w.now}
	w.stats.Faults++
	if len(older) > 0 {
		l.restore(older)
	} else {
		key := l.choose()
		l.bodies[key] = w.store.objects[key]
		w.store.lose(key)
		l.count(key)
		w.logf("lost %s", key)
	}
	w.loss = l
	l.at, l.folded = w.check.tick(), len(w.check.chain)
	l.findCut()
	if l.needed {
		w.stats.Loss.Needed++
		if l.prove(); l.proven > 0 {
			w.stats.Loss.Proven++
		}
	}
}

// choose draws an object: of all, of a kind, or the newest of a kind.
func (l *loss) choose() string {
	w := l.w
	s, c := w.store, w.check
	var of []string
	below := func(prefix string) []string { return s.list(prefix, "", 0) }
	switch w.lossRand.IntN(8) {
	case 0, 1:
		of = []string{c.chain[len(c.chain)-1].key}
	case 2:
		for i := len(c.chain) - 1; i >= 0 && of == nil; i-- {
			if c.chain[i].head.Kind == record.KindSeal {
				of = []string{c.chain[i].key}
			}
		}
	case 3:
		of = below(core.SnapPrefix(0))
		of = of[:min(1, len(of))] // the newest
	case 4:
		of = below(core.SnapPrefix(0))
	case 5:
		of = below(state.PackPrefix(0))
	case 6:
		of = below(core.WALPrefix(0))
	}
	// A LIST may include deleted objects.
	of = slices.DeleteFunc(of, func(key string) bool { return s.objects[key] == nil })
	if len(of) == 0 {
		of = s.keys
	}
	return of[w.lossRand.IntN(len(of))]
}

func (l *loss) count(key string) {
	n := &l.w.stats.Loss
	h, err := record.DecodeHead(l.bodies[key])
	switch {
	case key == core.MetaKey:
		n.Metas++
	case strings.HasPrefix(key, core.SnapPrefix(0)):
		n.Snapshots++
	case err == nil && h.Kind == record.KindPack:
		n.Packs++
	case !l.w.check.on[key]:
		n.Litter++
	case h.Kind == record.KindSeal:
		n.Seals++
	default:
		n.Slots++
	}
}

// restore stops every broker and restores an older copy of the bucket. Requests in flight are
// dropped.
func (l *loss) restore(older map[string][]byte) {
	w := l.w
	w.stats.Loss.Copies++
	w.logf("an older copy of the bucket is restored")
	for _, n := range w.nodes {
		n.kill("stopped for an older copy")
	}
	s := w.store
	for key, body := range s.objects {
		if older[key] == nil {
			l.bodies[key] = body
		}
	}
	l.copied = true
	s.objects, s.keys, s.deleted = older, slices.Sorted(maps.Keys(older)), nil
	s.restored++
}

// findCut finds the first missing slot of the chain that a start needs.
func (l *loss) findCut() {
	c := l.w.check
	var from state.Position
	for pos, key := range c.snaps {
		if l.w.store.objects[key] != nil && from.Less(pos) {
			from = pos
		}
	}
	for i := range c.chain {
		s := &c.chain[i]
		if s.pos().Less(from) || l.w.store.objects[s.key] != nil {
			continue
		}
		if _, lost := l.bodies[s.key]; !lost && !l.copied {
			l.w.fail("R13: %s was deleted although starts need it; the newest snapshot is at %v", s.key, from)
		}
		l.need(i)
		return
	}
}

func (l *loss) need(i int) {
	l.needed, l.cut, l.cutAt, l.since = true, l.w.check.chain[i], int64(i), l.w.check.tick()
	l.w.logf("starts need %s", l.cut.key)
}

// refers reports whether an object refers to the log after the cut (rule R13), based on the chain.
func (l *loss) refers(key string) bool {
	c := l.w.check
	if strings.HasPrefix(key, core.SnapPrefix(0)) {
		return l.cut.pos().Less(c.snapAt[key])
	}
	h, err := record.DecodeHead(l.w.store.objects[key])
	switch {
	case err != nil || !c.epochs[h.Nonce]:
		return false
	case h.Epoch == l.cut.head.Epoch:
		return h.Kind != record.KindPack && l.cut.head.Kind == record.KindData && h.Nonce == l.cut.head.Nonce && h.Low > l.cut.head.Slot
	}
	return h.Epoch > l.cut.head.Epoch && (h.Kind != record.KindSeal || c.on[key])
}

func headOf(body []byte) *record.Head {
	h, _ := record.DecodeHead(body) // nil for a snapshot
	return &h
}

// prove looks for objects that refer to the log after the cut.
func (l *loss) prove() {
	l.proven = 0
	if key := slices.IndexFunc(l.w.store.keys, l.refers); key >= 0 {
		l.isProven(l.w.store.keys[key])
	}
}

func (l *loss) isProven(key string) {
	l.proven = l.w.check.tick()
	l.w.logf("%s refers to the log after %s", key, l.cut.key)
	at := l.proven
	l.w.after(time.Duration(confirmAge), func() {
		if l.proven == at {
			l.settled = l.w.check.tick()
		}
	})
}

// stored processes each object that the store accepts.
func (l *loss) stored(key string) {
	if l == nil {
		return
	}
	c, body := l.w.check, l.w.store.objects[key]
	old, lost := l.bodies[key]
	if lost && string(old) == string(body) {
		delete(l.bodies, key) // its sender had no answer and has repeated it
		if l.needed && key == l.cut.key {
			l.needed, l.proven, l.settled = false, 0, 0
			l.back, l.backAt = key, l.w.now
			l.findCut()
		}
		return
	}
	if h := headOf(body); lost && h.Kind == record.KindData && headOf(old).Kind == record.KindSeal && !l.forked {
		l.w.stats.Loss.Deposed++
		l.fork()
	}
	for ; !l.needed && l.folded < len(c.chain); l.folded++ { // it was in flight when it was lost
		if s := &c.chain[l.folded]; l.bodies[s.key] != nil && l.w.store.objects[s.key] == nil {
			l.need(l.folded)
			l.prove()
		}
	}
	if !l.needed {
		return
	}
	if key == l.cut.key {
		l.branch = headOf(body)
	}
	if refers := l.refers(key); refers && l.proven == 0 {
		l.isProven(key)
	}
	if pos, snap := c.snapAt[key]; snap && l.passed == 0 && !l.forked && l.cut.pos().Less(pos) {
		l.passed = c.clock
	}
}

// removed processes each DELETE. A pack that was not installed may have been the only reference to
// the log.
func (l *loss) removed(key string) {
	if l != nil && l.needed && l.proven > 0 && strings.HasPrefix(key, state.PackPrefix(0)) && !slices.ContainsFunc(l.w.store.keys, l.refers) {
		l.proven, l.settled = 0, 0
	}
}

// request records when a broker looks for the lost object.
func (l *loss) request(r *run, e *core.Effect) {
	switch {
	case l == nil:
	case e.Kind == core.EffGetSlot && l.needed && e.Key == l.cut.key && !e.HeadOnly:
		r.rules.looked = l.w.check.tick()
	case e.Kind == core.EffList && l.needed && e.Prefix == core.WALPrefix(0) && e.After < l.cut.key:
		r.rules.compared = l.w.check.tick()
	case e.Kind == core.EffList && e.Prefix == "s0":
		r.rules.empty = l.w.check.tick()
	case e.Kind == core.EffPutMeta && r.rules.empty > l.at:
		l.w.fail("R13: node %d begins a log in a bucket with objects of another log", r.n.id)
	}
}

// confirmable returns the number of slots that a follower must have when it confirms its end: none
// from the cut on, until a minute after an object refers to them.
func (l *loss) confirmable(asked int64, tag tok) int64 {
	if l != nil && l.needed && (l.settled == 0 || tag < l.settled) {
		return min(asked, l.cutAt)
	}
	return asked
}

// beyond reports whether a data directory knows the log after the cut. After a SEAL that means an
// epoch on the chain, because in its own epoch the deposed leader may take the name.
func (l *loss) beyond(s *core.Seen) bool {
	if s == nil || !l.needed || !l.w.check.epochs[s.Nonce] {
		return false
	}
	at := l.cut.pos()
	return s.Epoch > at.Epoch || s.Epoch == at.Epoch && s.Slot > at.Slot && l.cut.head.Kind == record.KindData
}

// startsOver reports whether a follower may restart from an older snapshot than it has served:
// because the newest one is lost, or because the follower stops at the cut. Until then it serves
// less.
func (l *loss) startsOver(r *run) bool {
	if l == nil || !r.n.readOnly {
		return false
	}
	older := l.needed && !l.cut.pos().Less(r.core.State().Pos)
	for key := range l.bodies { //tidy:unordered any element decides alone
		older = older || strings.HasPrefix(key, core.SnapPrefix(0))
	}
	if older {
		l.w.stats.Loss.Shrunk++
	}
	return older
}

// explains reports whether a start may end with an error. It ends the run after a while, in which
// other brokers start and must not lead either.
func (l *loss) explains(r *run, err error) bool {
	if l == nil {
		return false
	}
	n := &l.w.stats.Loss
	var lost *core.LostError
	var older *core.OlderCopyError
	needed := l.needed && (l.passed == 0 || r.rules.listedAt < l.passed)
	switch {
	case l.meta():
		n.NoMeta++
	case errors.As(err, &lost) && needed && (lost.Key == l.cut.key && l.proven > 0 || l.branch != nil):
		n.Lost++
	case errors.As(err, &lost) && needed && lost.Key == l.cut.key && (r.n.copies[lost.Key] != nil || r.born <= l.lostAt):
		n.Copied++
	case errors.As(err, &older) && l.beyond(r.saw):
		n.Older++
	case errors.As(err, &lost) && lost.Key == l.back && r.born <= l.backAt: // it looked before
		n.Lost++
		return true
	case strings.Contains(err.Error(), "twice") && !l.copied:
		n.Twice++
		return true
	default:
		return false
	}
	l.end(20 * time.Second)
	return true
}

// names reports whether an alarm of a leader names an object that was lost.
func (l *loss) names(err error) bool {
	var missing *core.MissingError
	if !errors.As(err, &missing) {
		return false
	}
	_, lost := l.body(missing.Key)
	if lost {
		l.w.stats.Loss.Alarms++
	}
	return lost
}

func (l *loss) end(in time.Duration) {
	if !l.w.ending {
		l.w.ending = true
		l.w.after(in, func() { l.w.over = true })
	}
}

// led checks a broker that begins to lead: on the chain, or on a fork that it could not have
// detected.
func (c *checker) led(r *run) {
	l, s := c.w.loss, r.core.State()
	if l != nil && c.epochs[s.Nonce] && l.needed && !l.forked && l.passed == 0 && r.rules.compared > l.since {
		c.w.violated("R16: node %d leads over %s, which only its data directory has", r.n.id, l.cut.key)
	}
	if l == nil || c.epochs[s.Nonce] || l.forked && !l.needed {
		return
	}
	switch {
	case s.Cluster != c.fold.Cluster || !l.needed || l.branch == nil:
		c.w.violated("R13: node %d leads epoch %d (%s), which is on no chain", r.n.id, s.Pos.Epoch, s.Nonce)
	case l.beyond(r.saw) && !slices.ContainsFunc(s.Epochs, func(e state.Epoch) bool { return e.Number == r.saw.Epoch }):
		// The fork has forgotten the epoch (rule R12), so the directory's position cannot be
		// compared.
		c.w.stats.Loss.Forgotten++
	case l.beyond(r.saw):
		c.w.violated("R13: node %d leads without %s, but its data directory knows epoch %d slot %d", r.n.id, l.cut.key, r.saw.Epoch, r.saw.Slot)
	case l.forked:
	case l.proven > 0 && c.looked[l.branch.NextNonce] > l.proven:
		c.w.violated("R13: node %d leads without %s, but other objects refer to the log after it", r.n.id, l.cut.key)
	default:
		l.unseen(c.looked[l.branch.NextNonce])
		l.fork()
	}
}

// unseen counts an unseen loss of the end by its kind.
func (l *loss) unseen(looked tok) {
	n := &l.w.stats.Loss
	switch {
	case l.copied:
		n.OldEnd++
	case looked < l.at:
		n.LateSeal++
	case l.cut.head.Kind == record.KindSeal:
		n.LastSeal++
	case l.cutAt == int64(len(l.w.check.chain))-1:
		n.LastSlot++
	default:
		n.InFlight++
	}
}

// mayDelete checks R7: leaders of a fork delete nothing of the lost branch.
func (l *loss) mayDelete(r *run, key string) {
	if !l.isForked() || !l.needed || l.w.check.epochs[r.core.State().Nonce] {
		return
	}
	h, err := record.DecodeHead(l.w.store.objects[key])
	if err == nil && h.Kind != record.KindSeal && l.refers(key) {
		l.w.violated("R7: node %d leads a fork and deletes %s of the lost branch", r.n.id, key)
	}
}

// together kills all brokers at intervals and starts them at the same time.
func (w *simulation) together() {
	if w.cfg.Together == 0 {
		return
	}
	w.after(w.around(w.crashRand, w.cfg.Together), func() {
		if w.calm {
			return
		}
		for _, n := range w.nodes {
			n.kill("killed with the others")
			w.after(w.upTo(w.crashRand, 20*time.Millisecond), n.start)
		}
		w.together()
	})
}
