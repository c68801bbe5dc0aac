package sim

import (
	"errors"
	"slices"
	"strings"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// checker holds the truth: the chain of slots in the store, applied as it grows. A slot of the
// chain never changes, so the checker can check an acknowledgement when it is given.
type checker struct {
	w           *simulation
	fold        *state.State
	on          map[string]bool // keys of slots on the chain
	values      map[string]*value
	log         map[partKey][]string // content of each offset
	times       map[partKey][]int64  // timestamp of each offset
	stamps      map[partKey]int64    // newest append time that was stamped
	sent        *SentBatches
	slots       int
	grew        []int64 // when each slot was added
	records     int
	clock       uint64            // orders requests and effects
	sealAt      map[record.ID]tok // when the SEAL that names a nonce became durable
	nonces      map[record.ID]string
	sealers     map[record.ID]state.Run // by the nonce in their SEALs
	snaps       map[state.Position]string
	snapAt      map[string]state.Position
	images      map[string][]byte // of every stored snapshot
	archive     map[string][]byte // every slot of the chain, including deleted ones
	lastAck     int64
	offsets     map[offsetKey]bool // commits on the chain
	keys        map[partKey]*keys
	packs       map[string]bool // keys of installed packs
	journals    bool            // the log allows journals
	deletedOnce map[string]bool // names that were deleted once
	writes      int             // PUTs and collections that were begun
	chain       []chainSlot
	epochs      map[record.ID]bool // nonces of epochs on the chain
	newest      int64              // append time of the chain's newest DATA
	pairs       pairs              // of the slot that is applied
	wholes      wholes
	txs         txTruth
	events      events
	// When the sender of the SEAL with a nonce last looked for the lost slot.
	looked map[record.ID]tok
}

type tok = uint64

// value is one record that a client sent.
type value struct {
	at       int // offset on the chain, -1: not on it
	rejected bool
	audited  bool           // it is the first of an append with an audit record
	check    *access.Check  // nil: sent by no principal
	atomic   *atomicRequest // that has it; nil: none
	tx       *tx            // that has it; nil: none
}

func newChecker(s *simulation) *checker {
	return &checker{
		w: s, on: map[string]bool{}, values: map[string]*value{}, log: map[partKey][]string{},
		times: map[partKey][]int64{}, stamps: map[partKey]int64{}, sent: NewSentBatches(),
		keys: map[partKey]*keys{}, sealAt: map[record.ID]tok{}, nonces: map[record.ID]string{}, sealers: map[record.ID]state.Run{}, snaps: map[state.Position]string{},
		offsets: map[offsetKey]bool{}, snapAt: map[string]state.Position{}, images: map[string][]byte{}, archive: map[string][]byte{},
		packs: map[string]bool{}, deletedOnce: map[string]bool{}, epochs: map[record.ID]bool{}, looked: map[record.ID]tok{},
		pairs: pairs{}, events: newEvents(), txs: newTxTruth(),
	}
}

func (c *checker) tick() tok { c.clock++; return c.clock }

func (c *checker) value(v string) *value {
	x := c.values[v]
	if x == nil {
		x = &value{at: -1}
		c.values[v] = x
	}
	return x
}

// stored processes each object that the store accepts.
func (c *checker) stored(key string, body []byte) {
	c.tick()
	switch {
	case key == core.MetaKey && c.fold != nil: // put again after its loss
	case key == core.MetaKey:
		id, _, err := core.DecodeMeta(body)
		if err != nil {
			c.w.fail("object %s: %v", key, err)
			return
		}
		c.fold = state.Genesis(id, 0)
	case strings.Contains(key, "/snap/"):
		c.w.stats.Snapshots++
		c.snapshot(key, body)
	default:
		if h, err := record.DecodeHead(body); err == nil && h.Kind == record.KindSeal {
			c.w.stats.Seals++
			// A late attempt of a lost SEAL may store it once more.
			if _, again := c.sealAt[h.NextNonce]; !again {
				c.sealAt[h.NextNonce] = c.clock
			}
		}
	}
	for c.w.err == nil && c.advance() {
	}
	c.w.loss.stored(key)
}

// advance applies the next slot of the chain, if it exists.
func (c *checker) advance() bool {
	if c.fold == nil {
		return false
	}
	key := c.fold.Key(c.fold.Pos.Epoch, c.fold.Pos.Slot)
	body, ok := c.w.loss.body(key)
	if !ok {
		body, ok = c.w.store.objects[key]
	}
	if !ok {
		return false
	}
	o, err := record.DecodeObject(body)
	if err != nil {
		c.w.fail("I4: cannot decode %s on the chain: %v", key, err)
		return false
	}
	recs, err := state.DecodeRecords(o.State)
	if err != nil {
		c.w.fail("I4: state records of %s: %v", key, err)
		return false
	}
	c.removed(recs)
	c.later(&o.Head, recs)
	if err := c.fold.Apply(&o.Head, recs, o.Index); err != nil {
		c.w.fail("I4: cannot apply %s: %v", key, err)
		return false
	}
	c.w.watch.Slot(o.Head.Time)
	if o.Head.Kind == record.KindSeal {
		c.deposed(&o.Head)
	}
	c.raised(&o.Head, recs)
	c.on[key] = true
	c.archive[key] = body
	c.chain = append(c.chain, chainSlot{key, o.Head})
	c.epochs[o.Head.Nonce] = true
	if o.Head.Kind == record.KindSeal {
		c.epochs[o.Head.NextNonce] = true
	}
	c.slots++
	c.grew = append(c.grew, c.w.now)
	c.groupsMove(recs)
	c.pairs.changed(c.w, recs)
	for i := range o.Index {
		c.appendRecords(&o.Head, &o.Index[i], o.Batches(i))
	}
	c.paired(o.Head.Slot)
	c.whole(key, recs)
	c.transacted(key, recs)
	for i := range recs {
		if recs[i].Kind == state.PackInstall {
			c.packs[state.PackKey(0, o.Head.Epoch, o.Head.Nonce, recs[i].Pack.ID)] = true
			c.installed(&o.Head, recs[i].Pack)
		}
	}
	return true
}

// removed removes topics that records delete, because their names may be reused.
func (c *checker) removed(recs []state.Record) {
	for i := range recs {
		t := c.fold.Topic(recs[i].Topic)
		if recs[i].Kind != state.TopicDelete || t == nil {
			continue
		}
		for part := range t.Partitions.All() {
			k := partKey{t.Name, uint32(part)}
			delete(c.log, k)
			delete(c.times, k)
			delete(c.stamps, k)
			delete(c.keys, k)
			for _, n := range c.w.nodes {
				if n.run != nil {
					delete(n.run.seen, k)
					delete(n.run.stable, k)
				}
			}
		}
		c.w.watch.Removed(t.Name, t.ID)
	}
}

// appendRecords adds the records of a slot for one partition: I2, including "at most once", I4,
// I16, I18.
func (c *checker) appendRecords(h *record.Head, e *record.IndexEntry, batches []byte) {
	t := c.fold.Topic(e.Topic)
	k := partKey{t.Name, e.Partition}
	var r record.Reader
	for rest := batches; len(rest) > 0 && c.w.err == nil; {
		b, more, err := record.Split(rest)
		if rest = more; err != nil {
			c.w.fail("I4: %v at offset %d: %v", k, e.Base, err)
			return
		}
		if b.Control() {
			c.marker(b, k, h)
			continue
		}
		if err := c.sent.Check(b, t.LogAppendTime()); err != nil {
			c.w.fail("I4: %v in slot %d: %v", k, h.Slot, err)
		}
		for r.Reset(b, b.BaseOffset()); r.Next(); {
			c.appendRecord(h, e, k, b, r.Record())
		}
		if err := r.Err(); err != nil {
			c.w.fail("I4: %v at offset %d: %v", k, e.Base, err)
		}
	}
}

func (c *checker) appendRecord(h *record.Head, e *record.IndexEntry, k partKey, b record.Batch, rec *record.Record) {
	if rec.Offset != int64(len(c.log[k])) {
		c.w.fail("I4: %v: offset %d, expected %d", k, rec.Offset, len(c.log[k]))
	}
	v := identity(rec)
	c.comes(v, k, rec)
	c.event(k, rec)
	c.authorized(v, h.Slot)
	c.pairs.appended(c, k, v)
	c.timed(h, e, k, rec)
	if !b.Transactional() { // else once it is committed
		c.keyed(k, rec)
	}
	c.inTx(b, k, rec)
	c.log[k] = append(c.log[k], v)
	c.records++
}

// comes checks I2 for a committed record. In a topic of triggers records may repeat.
func (c *checker) comes(v string, k partKey, rec *record.Record) {
	if c.w.watch.Owns(k.topic) {
		c.w.watch.Committed(k.topic, c.fold.TopicByName(k.topic).ID, k.part, rec)
		return
	}
	x := c.value(v)
	if x.rejected {
		c.w.fail("I2: %q was rejected but is at %v offset %d", v, k, rec.Offset)
	}
	if x.at >= 0 {
		c.w.fail("I2: %q is at offset %d and at %d", v, x.at, rec.Offset)
	}
	if x.at = int(rec.Offset); x.atomic != nil {
		c.wholes.has(x.atomic)
	}
}

// acked checks I1, I3, I4 and I7 when an acknowledgement is given.
func (c *checker) acked(o *op) {
	c.lastAck = c.w.now
	log := c.log[o.key]
	for i, v := range o.values {
		at := o.base + int64(i)
		if at < 0 || at >= int64(len(log)) || log[at] != v {
			c.w.fail("I1: node %d acknowledged %q at %v offset %d, which is not durable there", o.run.n.id, v, o.key, at)
			return
		}
	}
	if o.expected >= 0 && o.base != o.expected {
		c.w.fail("I4: %q requires offset %d and was stored at %d", o.values[0], o.expected, o.base)
	}
	if p := o.client; p != nil {
		if p.last == nil {
			p.last = map[partKey]int64{}
		}
		if last, ok := p.last[o.key]; ok && o.base <= last {
			c.w.fail("I3: producer %d: offset %d of %v acknowledged after %d", p.id, o.base, o.key, last)
		}
		p.last[o.key] = o.base
	}
	t := o.run.core.State().TopicByName(o.key.topic)
	if t == nil || t.Partitions.At(int(o.key.part)).Next < o.base+int64(len(o.values)) {
		c.w.fail("I7: node %d acknowledged offset %d of %v but does not return it", o.run.n.id, o.base, o.key)
	}
}

// rejected checks I2. The partition's end in the answer must be committed.
func (c *checker) rejected(o *op) {
	if o.batch != nil || o.call || c.w.watch.Owns(o.key.topic) {
		return // it is sent again
	}
	for _, v := range o.values {
		x := c.value(v)
		x.rejected = true
		if x.at >= 0 {
			c.w.fail("I2: %q was rejected but is at %v offset %d", v, o.key, x.at)
		}
	}
	if mismatch, ok := o.why.(*state.OffsetMismatchError); ok && mismatch.Next > int64(len(c.log[o.key])) {
		c.w.fail("R2: %v was reported to end at %d, committed are %d", o.key, mismatch.Next, len(c.log[o.key]))
	}
}

// committed checks I8: a committed slot is on the chain.
func (c *checker) committed(r *run, f *core.Frozen) {
	r.rules.frozen--
	if !c.on[f.Key] {
		c.w.fail("I8: node %d run %d commits %s, which is not on the chain", r.n.id, r.n.runs, f.Key)
	}
}

// read reads committed state from a broker like a client: I1, I4, I5.
func (c *checker) read(r *run) {
	s := r.core.State()
	if s == nil || s.Len() == 0 || c.fold == nil || c.w.loss.isForked() || r.core.Role() == core.RoleStarting {
		return // a candidate serves nothing; it may restart from a snapshot (rule R5)
	}
	if r.tainted {
		return
	}
	c.w.stats.Reads++
	c.viewed(r, s)
	topics := s.Topics()
	t := topics[c.w.loadRand.IntN(len(topics))]
	if now := c.fold.TopicByName(t.Name); now == nil || now.ID != t.ID {
		return // deleted or recreated, unknown to this broker
	}
	k := partKey{t.Name, uint32(c.w.loadRand.IntN(t.Partitions.Len()))}
	p := t.Partitions.At(int(k.part))
	if p.Next > int64(len(c.log[k])) {
		c.w.fail("I4: node %d returns %d records of %v, %d are committed", r.n.id, p.Next, k, len(c.log[k]))
		return
	}
	if p.Next < r.seen[k] && !c.w.loss.startsOver(r) {
		c.w.fail("I5: node %d returned %d records of %v before, now %d", r.n.id, r.seen[k], k, p.Next)
	}
	r.seen[k] = p.Next
	c.readTx(r, k, p)
	if p.Start < p.Next {
		c.readAt(r, k, p, p.Start+c.w.loadRand.Int64N(p.Next-p.Start))
	}
}

func (c *checker) readAt(run *run, k partKey, p *state.Partition, offset int64) {
	i := p.Find(offset)
	if i < 0 {
		c.w.fail("I4: %v has no range for offset %d of %d", k, offset, p.Next)
		return
	}
	g := p.Ranges[i]
	key := run.core.State().RangeKey(&g)
	body, there := c.w.store.objects[key]
	if !g.Pack && string(body) != string(c.archive[key]) {
		there = false // a late SEAL in the name of a collected slot
	}
	if _, lost := c.w.loss.body(key); lost {
		c.w.stats.Loss.Unreadable++
		return // a named error
	}
	if !there && (!c.leads(run) || c.fold.TopicByName(k.topic).Partitions.At(int(k.part)).Start > offset) {
		// The broker is behind: a referenced object may be deleted, and the reader looks for a
		// newer state (rule R11).
		return
	}
	if int(g.Pos)+int(g.Len) > len(body) {
		c.w.fail("I1: %v offset %d should be in %s", k, offset, key)
		return
	}
	var r record.Reader
	r.Reset(body[g.Pos:g.Pos+g.Len], offset)
	there = r.Next()
	if isMarker(c.log[k][offset]) && r.Err() == nil && (!there || r.Record().Offset != offset) {
		return
	}
	if there && r.Record().Offset == offset && identity(r.Record()) == c.log[k][offset] {
		c.sameTime(k, r.Record(), key, g.MinTime, g.MaxTime)
		return
	}
	if r.Err() != nil || there && r.Record().Offset == offset || !c.keysOf(k).removed[offset] {
		c.w.fail("I1: %v offset %d does not hold %q", k, offset, c.log[k][offset])
	}
}

// confirmAge is the largest age of a confirmed end: T of rule R11.
const confirmAge = int64(60e9)

// slotsAt returns the length of the chain at a time.
func (c *checker) slotsAt(at int64) int64 {
	i, _ := slices.BinarySearch(c.grew, at+1)
	return int64(i)
}

// askConfirm asks a broker for its end (rule R11).
func (c *checker) askConfirm(r *run) {
	tag := c.tick()
	r.confirm[tag] = c.slotsAt(c.w.now - confirmAge)
	r.step(&core.Event{Kind: core.EvConfirm, Tag: tag})
}

// confirmed checks that a follower that confirmed its end has everything that was on the chain when
// it was asked.
func (c *checker) confirmed(r *run, e core.Effect) {
	asked, ok := r.confirm[e.Tag]
	if !ok {
		c.w.fail("R11: node %d confirms a request that was not made, or twice", r.n.id)
		return
	}
	delete(r.confirm, e.Tag)
	asked = c.w.loss.confirmable(asked, e.Tag)
	if e.Reject == nil && r.follower() && !r.tainted && r.rules.applied(r) < asked {
		c.w.fail("R11: node %d confirmed its end at slot %d of the chain, which had %d a minute before the request", r.n.id, r.rules.applied(r), asked)
	}
}

// stopped checks R9: no run damages data permanently, so no broker may report corruption.
func (c *checker) stopped(r *run, err error) {
	if errors.Is(err, core.ErrNoLog) && r.n.readOnly || c.w.loss.explains(r, err) {
		return
	}
	c.w.fail("R9: node %d stopped: %v", r.n.id, err)
}

func (c *checker) alarm(r *run, err error) {
	if c.w.loss != nil && (errors.Is(r.core.Err(), err) || c.w.loss.meta()) {
		return // of a start that fails: see stopped
	}
	if c.w.loss.names(err) {
		return
	}
	if !errors.Is(err, core.ErrNoLog) && !strings.Contains(err.Error(), "store refuses") && !strings.Contains(err.Error(), "read snapshot") {
		c.w.fail("R9: node %d raised an alarm: %v", r.n.id, err)
	}
}
