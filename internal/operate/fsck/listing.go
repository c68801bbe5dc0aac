package fsck

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/record"
)

const (
	// probesMax bounds the leftovers of store checks that are kept in memory.
	probesMax = 10_000
	// pendingMax bounds the names beyond the end of the log that are kept in memory. A window of
	// slots and some SEALs are expected; any further name follows damage.
	pendingMax = 10_000
)

// listing lists every object of the bucket. It reads the objects that the state refers to and the
// walk has not read, and reports the objects without a reference.
type listing struct {
	c      *checker
	epochs map[record.ID]state.Epoch // of the log
	// wanted are the slots and packs that the state refers to and the walk has not read, with their
	// ranges.
	wanted map[ref][]place
	// pending are the slots at or beyond the end of the log, where a broker may be writing, and the
	// packs that were not wanted.
	pending []objstore.Entry
	numbers map[uint32]struct{} // of epochs
	end     uint32              // the epoch in which the log ended when the listing began
	copies  snapshot.Gather     // of views
	jobs    chan job
	errs    chan error // the first error of a reader

	mu      sync.Mutex // guards the fields below
	seen    map[ref]bool
	seals   map[record.ID]oldSeal // of forgotten epochs, by the nonce that they name
	oldData []oldData             // in forgotten epochs
}

// place is a range of the state with its topic and partition.
type place struct {
	topic     *state.Topic
	partition int
	r         state.Range
}

func (p place) lost() Records {
	return Records{Topic: p.topic.Name, Partition: p.partition, From: p.r.Base, To: p.r.End()}
}

type job struct {
	key  string
	name slotName
	at   ref
	kind jobKind
	size int64
}

type jobKind uint8

const (
	readData jobKind = iota + 1 // data that readers can reach
	readSeal                    // the SEAL of an epoch of the log
	readVoid                    // a slot that is not on the log: only its head is read
	readOld                     // a slot of a forgotten epoch
	readPeer                    // the registration of a broker
)

// places returns the ranges of the state in the objects for which wanted returns true.
func (c *checker) places(wanted func(ref, record.ID) bool) map[ref][]place {
	found := map[ref][]place{}
	nonces := map[uint32]record.ID{}
	for _, e := range c.st.Epochs {
		nonces[e.Number] = e.Nonce
	}
	for _, t := range c.st.Topics() {
		for i, p := range t.Partitions.Written() {
			for _, r := range p.Ranges {
				at := refOf(&r)
				if !r.Lost() && wanted(at, nonces[r.Epoch]) {
					found[at] = append(found[at], place{t, i, r})
				}
			}
		}
	}
	return found
}

func newListing(c *checker) *listing {
	l := &listing{
		c: c, epochs: map[record.ID]state.Epoch{}, numbers: map[uint32]struct{}{}, end: c.st.Pos.Epoch,
		seen: map[ref]bool{}, seals: map[record.ID]oldSeal{},
		jobs: make(chan job, c.o.Readers), errs: make(chan error, 1),
	}
	l.copies.Shard = c.o.Shard
	for _, e := range c.chain {
		l.epochs[e.Nonce] = e
		l.numbers[e.Number] = struct{}{}
	}
	l.wanted = c.places(func(at ref, nonce record.ID) bool { return at.pack || !c.wasWalked(nonce, at.Slot) })
	return l
}

// run lists the bucket and reads the objects, in Readers goroutines.
func (l *listing) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var readers sync.WaitGroup
	for range l.c.o.Readers {
		readers.Go(func() {
			for j := range l.jobs {
				if err := l.read(ctx, j); err != nil {
					select {
					case l.errs <- err:
						cancel()
					default:
					}
				}
			}
		})
	}
	err := l.c.list(ctx, "", "", func(e objstore.Entry) bool {
		l.add(e)
		return ctx.Err() == nil
	})
	close(l.jobs)
	readers.Wait()
	select {
	case first := <-l.errs:
		return first
	default:
	}
	if err == nil {
		err = ctx.Err()
	}
	return err
}

// add classifies a listed object by its name.
func (l *listing) add(e objstore.Entry) {
	c := l.c
	c.mu.Lock()
	c.report.Listed.add(e.Size)
	c.mu.Unlock()
	if n, ok := parseSlot(c.o.Shard, e.Key); ok {
		l.slot(e, n)
		return
	}
	if n, ok := parsePack(c.o.Shard, e.Key); ok {
		l.pack(e, n)
		return
	}
	s, ok := parseSnapshot(c.o.Shard, e.Key)
	switch {
	case ok && s.pos.Less(c.floor):
		c.superseded(e.Size)
	case ok, e.Key == core.MetaKey:
	case isView(c.o.Shard, e.Key):
		l.copies.Add(e)
	case strings.HasSuffix(e.Key, state.RecoverySuffix): // read instead of its slot
	case isRegistration(e.Key):
		l.jobs <- job{key: e.Key, size: e.Size, kind: readPeer}
	case strings.HasPrefix(e.Key, probePrefix):
		c.orphan("probe", e.Key, e.Size, "left over from a check of the store, unless one is running")
	default:
		c.note("unknown name", e.Key, "no name of a log that this Seb reads")
	}
}

func (c *checker) superseded(bytes int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Superseded.add(bytes)
}

// slot classifies a commit object by its name.
func (l *listing) slot(e objstore.Entry, n slotName) {
	c := l.c
	epoch, on := l.epochs[n.nonce]
	on = on && epoch.Number == n.epoch
	last := n.nonce == c.st.Nonce
	j := job{key: e.Key, name: n, at: ref{n.pos(), false}, size: e.Size}
	switch {
	case on && c.wasWalked(n.nonce, n.slot):
		return
	case on && last && n.slot >= c.st.Pos.Slot, n.epoch > c.st.Pos.Epoch:
		l.later(e)
		return
	case on && l.wanted[j.at] != nil:
		j.kind = readData
	case on && !last && n.slot == epoch.Seal:
		j.kind = readSeal
	case on && (last || n.slot < epoch.Seal):
		c.superseded(e.Size) // data without a reference
		return
	case l.forgotten(n.epoch):
		j.kind = readOld
	default:
		j.kind = readVoid
	}
	l.jobs <- j
}

func (l *listing) later(e objstore.Entry) {
	if len(l.pending) < pendingMax {
		l.pending = append(l.pending, e)
	}
}

// pack classifies a pack by its name.
func (l *listing) pack(e objstore.Entry, n slotName) {
	at := ref{n.pos(), true}
	if epoch, on := l.epochs[n.nonce]; !on || epoch.Number != n.epoch || l.wanted[at] == nil {
		l.later(e) // a broker may install it meanwhile
		return
	}
	l.jobs <- job{key: e.Key, name: n, at: at, size: e.Size, kind: readData}
}

// read runs a job. It may be called concurrently.
func (l *listing) read(ctx context.Context, j job) error {
	switch j.kind {
	case readVoid:
		return l.void(ctx, j)
	case readOld:
		return l.old(ctx, j)
	case readPeer:
		return l.registration(ctx, j)
	}
	o := l.c.readSlot(ctx, j.key)
	if err := o.fatal(); err != nil || o.missing() {
		return err
	}
	l.mu.Lock()
	l.seen[j.at] = true
	l.mu.Unlock()
	kind, err := "corrupt object", o.err
	if err == nil {
		kind, err = "wrong object", l.check(j, o)
	}
	l.c.verified(o.size, err == nil && o.body == nil)
	switch {
	case err != nil:
		l.c.suspect(suspect{key: j.key, at: j.at, kind: kind, err: err})
	case o.body != nil:
		l.c.suspect(suspect{key: j.key, at: j.at, kind: "corrupt batches", err: o.body, body: true})
	case j.kind == readSeal:
		if _, known := l.c.epoch(j.name.epoch + 1); known {
			l.c.mu.Lock()
			l.c.sealSeen(j.name.nonce)
			l.c.mu.Unlock()
		}
	}
	return nil
}

// registration reads the registration of a broker. It is no part of the log, so a corrupt one is no
// damage.
func (l *listing) registration(ctx context.Context, j job) error {
	err := objstore.Retry(ctx, retryPause, func() error {
		b, _, err := l.c.readUpTo(ctx, j.key, link.RegistrationMax+1)
		if err == nil {
			_, err = link.Decode(b)
		}
		return err
	})
	switch {
	case errors.Is(err, objstore.ErrNotFound): // that broker ended
		return nil
	case errors.Is(err, record.ErrCorrupt):
		l.c.note("corrupt registration", j.key, "brokers ignore it: %v", err)
	case err != nil:
		return err
	}
	l.c.verified(j.size, err == nil)
	return nil
}

// suspect records an object for settle, once per key.
func (c *checker) suspect(s suspect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i := range c.suspects {
		if c.suspects[i].key == s.key {
			return // read twice
		}
	}
	c.suspects = append(c.suspects, s)
}

// check compares an object with its name and with the ranges that the state has for it.
func (l *listing) check(j job, o *object) error {
	h := &o.head
	if err := l.c.place(h, j.name); err != nil {
		return err
	}
	if j.kind == readSeal {
		return l.checkSeal(h)
	}
	if (h.Kind == record.KindPack) != j.at.pack || h.Kind == record.KindSeal {
		return fmt.Errorf("is a %s", h.Kind)
	}
	for _, p := range l.wanted[j.at] {
		if err := checkPlace(o.index, p); err != nil {
			return err
		}
	}
	return nil
}

// checkPlace compares a range of the state with the index of the object. A range in a pack may
// cover several entries.
func checkPlace(index []record.IndexEntry, p place) error {
	first := slices.IndexFunc(index, func(e record.IndexEntry) bool {
		return e.Topic == p.topic.ID && e.Partition == uint32(p.partition) && e.Base == p.r.Base
	})
	if first < 0 {
		return fmt.Errorf("holds no %s", p.lost())
	}
	e := index[first]
	for _, next := range index[first+1:] {
		if e.Base+int64(e.Span) >= p.r.End() || next.Topic != e.Topic || next.Partition != e.Partition || next.Base != e.Base+int64(e.Span) {
			break
		}
		e.Span, e.Records, e.Len = e.Span+next.Span, e.Records+next.Records, e.Len+next.Len
		e.MinTime, e.MaxTime, e.AppendTime = min(e.MinTime, next.MinTime), max(e.MaxTime, next.MaxTime), max(e.AppendTime, next.AppendTime)
	}
	if e.Span != p.r.Span || e.Records != p.r.Records || e.Pos != p.r.Pos || e.Len != p.r.Len ||
		e.MinTime != p.r.MinTime || e.MaxTime != p.r.MaxTime || e.AppendTime != p.r.AppendTime {
		return fmt.Errorf("does not hold what the state says of %s", p.lost())
	}
	return nil
}

// checkSeal returns an error unless the head is a SEAL that names the next epoch of the log.
func (l *listing) checkSeal(h *record.Head) error {
	next, known := l.c.epoch(h.Epoch + 1)
	if i := slices.IndexFunc(l.c.chain, func(e state.Epoch) bool { return e.Number > h.Epoch }); i >= 0 && h.Flags&record.FlagRecovery != 0 {
		next, known = l.c.chain[i], true
	}
	if !known { // forgotten: checkSeals checks it again
		next = state.Epoch{Number: h.Epoch + 1, Nonce: h.NextNonce}
	}
	if !sealOf(h, next) {
		return fmt.Errorf("is no seal that names epoch %d with nonce %s", next.Number, next.Nonce)
	}
	return nil
}

// void reads the head of a slot that can never be part of the log, and reports the slot.
func (l *listing) void(ctx context.Context, j job) error {
	h, missing, err := l.c.readHead(ctx, j.key)
	switch {
	case missing:
		return nil
	case errors.Is(err, record.ErrCorrupt):
		l.c.orphan("void slot", j.key, j.size, "never part of the log, and not readable: it stays (%v)", err)
		return nil
	case err != nil:
		return err
	}
	where := "in an epoch that never led"
	e, on := l.epochs[j.name.nonce]
	if on {
		where = "beyond the end of its epoch"
	}
	l.c.verified(0, false)
	if h.Kind == record.KindData && (!on || h.Low > e.Seal || l.c.st.OnLostBranch(j.name.pos())) {
		l.c.lostBranch(j.key, j.size, j.name)
		return nil
	}
	l.c.orphan("void slot", j.key, j.size, "%s, never part of the log", h.Kind.String()+" "+where)
	return nil
}

// settle judges the pending and missing objects, after the log was followed to its end once more.
func (l *listing) settle(ctx context.Context) error {
	c := l.c
	l.link()
	led := map[record.ID]bool{}
	installed := c.places(func(at ref, _ record.ID) bool { return at.pack })
	for _, e := range l.pending {
		n, slot := parseSlot(c.o.Shard, e.Key)
		switch {
		case !slot:
			l.unreferencedPack(e, installed)
		case c.wasWalked(n.nonce, n.slot) || n.pos().Less(c.st.Pos):
		case n.epoch > c.st.Pos.Epoch:
			if err := l.higher(ctx, e, n, led); err != nil {
				return err
			}
		case c.stopped && n.nonce == c.st.Nonce:
			led[n.nonce] = true
			c.note("unreachable", e.Key, "behind the damage at epoch %d slot %d", c.st.Pos.Epoch, c.st.Pos.Slot)
		default:
			c.orphan("beyond the end", e.Key, e.Size, "a broker is writing it, or stopped while it did: of no use once the epoch is sealed")
		}
	}
	if len(led) > 0 || c.stopped {
		if err := l.behind(ctx); err != nil {
			return err
		}
	}
	missing := c.places(func(at ref, _ record.ID) bool { return l.wanted[at] != nil && !l.seen[at] })
	for _, places := range missing { //tidy:unordered findings are not ordered
		key := c.st.RangeKey(&places[0].r)
		_, gone, err := c.readHead(ctx, key)
		switch {
		case gone:
		case err == nil:
			return fmt.Errorf("%s was missing in a listing and is there: the store is not reliable", key)
		case errors.Is(err, record.ErrCorrupt): // a journal lists no name of a damaged part
			c.lost("missing object", key, err.Error(), places)
			continue
		default:
			return err
		}
		c.lost("missing object", key, "records that can be read are in it, and it is not there", places)
	}
	return nil
}

// linked reports whether a forgotten epoch was found to be on the log.
func (l *listing) linked(n slotName) bool {
	e, known := l.c.epoch(n.epoch)
	return known && e.Nonce == n.nonce
}

// unreferencedPack judges a pack that was not wanted when it was listed.
func (l *listing) unreferencedPack(e objstore.Entry, installed map[ref][]place) {
	c := l.c
	n, _ := parsePack(c.o.Shard, e.Key)
	epoch, on := l.epochs[n.nonce]
	switch {
	case on && installed[ref{n.pos(), true}] != nil:
		// Installed meanwhile.
	case n.nonce == c.st.Nonce:
		if _, known := c.st.PackOf(state.PackID{Epoch: n.epoch, ID: n.slot}); known {
			c.superseded(e.Size)
			return
		}
		c.orphan("pack", e.Key, e.Size, "not installed: it is being made, or was given up")
	case on && epoch.Number == n.epoch, l.linked(n):
		c.orphan("pack", e.Key, e.Size, "nothing refers to it")
	default:
		c.lostBranch(e.Key, e.Size, n)
	}
}

// higher judges an object of an epoch after the log's last. Only an epoch that the log leads to
// holds data, so data there means that a SEAL is lost.
func (l *listing) higher(ctx context.Context, e objstore.Entry, n slotName, led map[record.ID]bool) error {
	h, missing, err := l.c.readHead(ctx, e.Key)
	switch {
	case missing, led[n.nonce]:
	case errors.Is(err, record.ErrCorrupt):
		l.c.orphan("beyond the end", e.Key, e.Size, "in an epoch that the log does not lead to, and not readable: %v", err)
	case err != nil:
		return err
	case h.Kind == record.KindData || h.Time == l.c.st.AppendTime || h.Time > l.c.st.Latest: // rule R13
		led[n.nonce] = true
		l.c.damage("lost epoch", e.Key, "epoch %d was led, and the log, which ends in epoch %d, does not lead there: a seal is missing", n.epoch, l.c.st.Pos.Epoch)
	default:
		l.c.orphan("beyond the end", e.Key, e.Size, "%s in an epoch that the log does not lead to", h.Kind)
	}
	return nil
}

// lost reports damage together with the records that cannot be read because of it.
func (c *checker) lost(kind, key, text string, places []place) {
	f := Finding{Severity: Damage, Kind: kind, Key: key, Text: text}
	for _, p := range places {
		f.Lost = append(f.Lost, p.lost())
	}
	c.found(f)
}
