package sim

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// txTruth is what the batches on the chain say of transactions. It knows the end of one by its markers, and by the
// record in the slot of the markers.
type txTruth struct {
	open    map[int64]*openTx              // by producer
	of      map[string]state.ProducerEpoch // by transactional ID
	at      map[partKey][]txRecord
	staged  map[offsetOf]*tx
	offsets map[offsetsKey]int64 // that groups should have committed
	marks   map[int64][]txMark   // of the slot, by producer
	touched map[partKey]bool     // by the slot
}

// offsetOf is an offset of a group: each is staged once.
type offsetOf struct {
	group  string
	offset int64
}

type offsetsKey struct {
	group string
	key   partKey
}

// openTx is an open transaction of a producer.
type openTx struct {
	tx      *tx
	since   int64             // when its first slot was stored
	first   map[partKey]int64 // offsets of its first batches
	records []txAt
	staged  map[partKey]int64
}

type txAt struct {
	key    partKey
	offset int64
	r      record.Record
}

// txRecord is a record of a transaction.
type txRecord struct {
	offset   int64
	producer int64
	tx       *tx
}

type txMark struct {
	key    partKey
	offset int64
	commit bool
}

func newTxTruth() txTruth {
	return txTruth{
		open: map[int64]*openTx{}, of: map[string]state.ProducerEpoch{}, at: map[partKey][]txRecord{}, staged: map[offsetOf]*tx{},
		offsets: map[offsetsKey]int64{}, marks: map[int64][]txMark{}, touched: map[partKey]bool{},
	}
}

// markerText is the content of the offset of a marker in checker.log.
const markerText = "marker of producer "

func isMarker(v string) bool { return strings.HasPrefix(v, markerText) }

// markersOf returns the offsets of the markers in batches.
func markersOf(batches []byte) map[int64]bool {
	var markers map[int64]bool
	for len(batches) > 0 {
		b, rest, err := record.Split(batches)
		if err != nil {
			break // the caller finds it
		}
		if batches = rest; b.Control() {
			if markers == nil {
				markers = map[int64]bool{}
			}
			markers[b.BaseOffset()] = true
		}
	}
	return markers
}

// dropsTx reports whether compaction may omit an offset because it is a marker or a record of an aborted transaction.
func (c *checker) dropsTx(k partKey, offset int64) bool {
	v := c.log[k][offset]
	x := c.value(v).tx
	return (isMarker(v) || x != nil && x.truth == txAborted) && c.fold.TopicByName(k.topic).Settings["cleanup-policy"] == "compact"
}

// opened is the open transaction of a producer.
func (t *txTruth) opened(c *checker, producer int64) *openTx {
	o := t.open[producer]
	if o == nil {
		o = &openTx{since: c.w.now, first: map[partKey]int64{}, staged: map[partKey]int64{}}
		t.open[producer] = o
	}
	return o
}

// belongs notes that a part of a transaction of a client is in the open one of a producer.
func (o *openTx) belongs(c *checker, producer int64, x *tx) {
	if o.tx == nil {
		o.tx = x
	}
	if o.tx != x || x.truth != txOpen {
		c.w.fail("I22: a part of transaction %d of %s is in transaction %d of producer %d", x.id, x.c.name(), o.tx.id, producer)
	}
}

// inTx notes a record of a transactional batch on the chain.
func (c *checker) inTx(b record.Batch, k partKey, r *record.Record) {
	if len(c.w.txClients) == 0 {
		return
	}
	x := c.value(identity(r)).tx
	if (x != nil) != b.Transactional() {
		c.w.fail("I22: %v offset %d: a transactional batch %v holds %q", k, r.Offset, b.Transactional(), identity(r))
		return
	}
	if x == nil {
		return
	}
	t, p := &c.txs, b.ProducerID()
	o := t.opened(c, p)
	o.belongs(c, p, x)
	x.found++
	if _, there := o.first[k]; !there {
		o.first[k] = r.Offset
	}
	kept := *r
	kept.Key, kept.Value, kept.Headers = slices.Clone(r.Key), slices.Clone(r.Value), slices.Clone(r.Headers)
	o.records = append(o.records, txAt{k, r.Offset, kept})
	t.at[k] = append(t.at[k], txRecord{r.Offset, p, x})
	t.touched[k] = true
}

// marker notes a marker on the chain.
func (c *checker) marker(b record.Batch, k partKey, h *record.Head) {
	is, ok := b.Marker()
	m := txMark{key: k, offset: int64(len(c.log[k])), commit: is.Commit}
	if !ok || b.BaseOffset() != m.offset || b.Count() != 0 || b.Span() != 1 {
		c.w.fail("I22: %v offset %d holds no marker", k, m.offset)
		return
	}
	c.txs.marks[b.ProducerID()] = append(c.txs.marks[b.ProducerID()], m)
	c.txs.touched[k] = true
	c.log[k] = append(c.log[k], fmt.Sprint(markerText, b.ProducerID()))
	c.times[k] = append(c.times[k], h.Time/1000)
}

// transacted checks I22 for a slot that has been applied.
func (c *checker) transacted(key string, recs []state.Record) {
	t := &c.txs
	for i := range recs {
		if recs[i].Kind == state.TransactionUpdate {
			c.transaction(key, &recs[i])
		}
	}
	for p, marks := range t.marks {
		c.w.fail("I22: %s has %d markers of producer %d, and no end of its transaction", key, len(marks), p)
	}
	for k := range t.touched {
		c.stable(k)
	}
	clear(t.touched)
	for o, want := range t.offsets {
		id := state.PartitionID{Topic: c.fold.TopicByName(o.key.topic).ID, Partition: o.key.part}
		if got := c.fold.CommittedOffset(o.group, id); got != want {
			c.w.fail("I22: after %s group %s has committed %d of %v, its transactions %d", key, o.group, got, o.key, want)
		}
	}
}

// transaction checks a record about a transactional ID.
func (c *checker) transaction(key string, r *state.Record) {
	t, change := &c.txs, r.Transaction
	c.w.logf("%s of %s: %+v", change.Kind, r.Name, change)
	p := t.of[r.Name].ID
	switch change.Kind {
	case state.TransactionInit:
		if o := t.open[p]; o != nil {
			c.w.fail("I22: %s gives %s to another producer, while a transaction is open", key, r.Name)
		}
	case state.TransactionOffsets:
		o := t.opened(c, p)
		for _, s := range change.Offsets {
			o.belongs(c, p, t.staged[offsetOf{s.Group, s.Offset}])
			o.staged[partKey{c.fold.Topic(s.Topic).Name, s.Partition}] = s.Offset
		}
	case state.TransactionCommit, state.TransactionAbort:
		c.ended(key, r, p)
	}
	t.of[r.Name] = change.Producer
}

// ended checks the end of a transaction: each of its partitions has one marker, in this slot.
func (c *checker) ended(key string, r *state.Record, p int64) {
	t, commit := &c.txs, r.Transaction.Kind == state.TransactionCommit
	o, marks := t.open[p], t.marks[p]
	delete(t.open, p)
	delete(t.marks, p)
	if o == nil {
		if len(marks) > 0 {
			c.w.fail("I22: %s has %d markers of producer %d, which has no transaction", key, len(marks), p)
		}
		return
	}
	keys := map[partKey]bool{}
	for i, m := range marks {
		if _, there := o.first[m.key]; !there || m.commit != commit || keys[m.key] || len(r.Transaction.Marks) <= i || r.Transaction.Marks[i].Offset != m.offset && !slices.ContainsFunc(r.Transaction.Marks, func(x state.TransactionMark) bool { return x.Offset == m.offset }) {
			c.w.fail("I22: %s ends a transaction of producer %d (commit: %v) with the markers %+v", key, p, commit, marks)
		}
		keys[m.key] = true
	}
	if len(keys) != len(o.first) {
		c.w.fail("I22: %s ends a transaction of %d partitions of producer %d with %d markers", key, len(o.first), p, len(keys))
	}
	c.decided(key, o, commit, r.Transaction.Forced)
}

// decided notes the end of a transaction.
func (c *checker) decided(key string, o *openTx, commit, forced bool) {
	x, n := o.tx, &c.w.stats.Transaction
	x.truth = txAborted
	if n.Aborted++; commit {
		n.Aborted--
		n.Committed++
		x.truth = txCommitted
	}
	if forced {
		n.Forced++
	}
	if len(o.first) > 1 {
		n.Two++
	}
	if !commit {
		return
	}
	values := 0
	for _, item := range x.items {
		values += len(item.values)
	}
	if !x.asked || !x.commit || x.found != values {
		c.w.fail("I22: %s commits transaction %d of %s, of which %d of %d records are stored (commit asked for: %v)", key, x.id, x.c.name(), x.found, values, x.asked && x.commit)
	}
	for k, offset := range o.staged {
		c.txs.offsets[offsetsKey{x.c.group(), k}] = offset
	}
	if len(o.staged) > 0 {
		n.Offsets++
	}
	slices.SortFunc(o.records, func(a, b txAt) int { return cmp.Compare(a.offset, b.offset) })
	for i := range o.records {
		c.keyed(o.records[i].key, &o.records[i].r)
	}
}

// stable checks what the applied chain says of a partition.
func (c *checker) stable(k partKey) {
	p := c.fold.TopicByName(k.topic).Partitions.At(int(k.part))
	want := p.Next
	for _, o := range c.txs.open {
		if first, there := o.first[k]; there {
			want = min(want, first)
		}
	}
	if got := p.LastStable(); got != max(want, p.Start) {
		c.w.fail("I22: the last stable offset of %v is %d, want %d in [%d, %d)", k, got, want, p.Start, p.Next)
	}
}

// readTx checks I22 for what a broker shows of a partition to a reader of committed records.
func (c *checker) readTx(r *run, k partKey, p *state.Partition) {
	stable := p.LastStable()
	if stable > p.Next || stable < p.Start || stable < r.stable[k] && !c.w.loss.startsOver(r) {
		c.w.fail("I22: node %d has the last stable offset %d of %v, after %d, and ends at %d", r.n.id, stable, k, r.stable[k], p.Next)
	}
	r.stable[k] = stable
	aborted := p.AbortedIn(p.Start, p.Next)
	if !slices.IsSortedFunc(aborted, func(a, b state.AbortedTransaction) int { return cmp.Compare(a.First, b.First) }) {
		c.w.fail("I22: node %d lists the aborted transactions of %v as %+v", r.n.id, k, aborted)
	}
	at, n := c.txs.at[k], &c.w.stats.Transaction
	for i := len(at) - 1; i >= max(0, len(at)-20); i-- {
		x := &at[i]
		if x.offset < p.Start || x.offset >= p.Next || c.keysOf(k).removed[x.offset] {
			continue
		}
		hidden := slices.ContainsFunc(aborted, func(a state.AbortedTransaction) bool {
			return a.Producer == x.producer && a.First <= x.offset && x.offset <= a.Last
		})
		switch {
		case x.offset >= stable:
			n.Held++
		case x.tx.truth == txOpen, hidden == (x.tx.truth == txCommitted):
			c.w.fail("I22: node %d shows %v offset %d below the last stable offset %d (hidden: %v), of a transaction that is %d on the chain", r.n.id, k, x.offset, stable, hidden, x.tx.truth)
		case hidden:
			n.Hidden++
		default:
			n.Read++
		}
	}
}

// txEnded checks I22 when the end of a transaction is acknowledged.
func (c *checker) txEnded(x *tx, o *op) {
	if want := o.transact.Kind == state.TransactionCommit; want != (x.truth == txCommitted) || x.truth == txOpen {
		c.w.fail("I22: node %d acknowledges the end of transaction %d of %s (commit: %v), which is %d on the chain", o.run.n.id, x.id, x.c.name(), want, x.truth)
	}
}

// overdue checks that a leader ends a transaction only after its timeout, counted from when it became leader.
func (c *checker) overdue(r *run, x *core.Transact) {
	o := c.txs.open[c.txs.of[x.ID].ID]
	if !c.leads(r) || o == nil {
		return
	}
	c.w.stats.Transaction.Overdue++
	if open := time.Duration(c.w.now - max(o.since, r.ledAt)); open < o.tx.c.timeout {
		c.w.fail("I22: node %d ends a transaction of %s, which is open for %v under it, timeout %v", r.n.id, x.ID, open, o.tx.c.timeout)
	}
}

// txsAtEnd checks I13 for transactional producers, and I22 for all partitions at all brokers.
func (c *checker) txsAtEnd() {
	for _, x := range c.w.txClients {
		if x.init != nil || x.tx != nil {
			c.w.fail("I13: producer %s waits", x.name())
		}
	}
	if len(c.w.txClients) > 0 && len(c.txs.open) > 0 {
		c.w.fail("I13: %v have open transactions", slices.Sorted(maps.Keys(c.txs.open)))
	}
}
