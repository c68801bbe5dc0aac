package rules

import (
	"encoding/binary"
	"math"
	"slices"

	"github.com/klauspost/compress/s2"

	"github.com/sebbroker/seb/internal/engine/views/localdb"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/internal/triggers/rules/store"
)

// The triggers of a topic that mention the same events form groups. An entity has one row for all
// triggers of a group, so that an event that all of them mention writes one row. A trigger has a row
// of its own for an entity while it reads separately or is costly, because its deadlines then pass at
// another time, and if its state is large, because the other triggers would write it with each event.
const (
	groupMax      = 64  // triggers
	sharedDefault = 512 // bytes of state in a shared row
)

// group is a group of triggers.
type group struct {
	no      int64
	topic   string // TopicID of its definitions
	members int
	due     int64 // no shared row is due earlier
}

// joinGroup adds a trigger to its group.
func (w *worker) joinGroup(l *live, no int64, topic string) {
	g := w.groups[no]
	if g == nil {
		g = &group{no: no, topic: topic, due: math.MaxInt64}
		w.groups[no] = g
	}
	g.members++
	l.group = g
}

func (w *worker) leaveGroup(l *live) {
	if l.group.members--; l.group.members == 0 {
		delete(w.groups, l.group.no)
	}
}

// groupFor returns the number of the group for a new trigger: that of the trigger which mentions most of
// the same events. 0: a new one.
func (w *worker) groupFor(topic string, names []string) (no int64) {
	most := 0
	for _, l := range w.live {
		g, n := l.group, 0
		for _, name := range names {
			if _, ok := slices.BinarySearch(l.Names, name); ok {
				n++
			}
		}
		if g.topic == topic && g.members < groupMax && n > 0 && (n > most || n == most && g.no < no) {
			most, no = n, g.no
		}
	}
	return no
}

// firstDue returns a time (ms) before which no row of the trigger is due.
func (l *live) firstDue() int64 { return min(l.due, l.group.due) }

// entry is the state of a trigger in a row.
type entry struct {
	no  int64
	row rule.Row
}

// entryBytes estimates the memory of an entry without its state, with the room that a row grows by.
const entryBytes = 160

func (x *entry) bytes() int64 { return entryBytes + int64(cap(x.row.State)) }

// cached is a row in memory.
type cached struct {
	entries []entry // by number of the trigger
	there   bool    // in the file
	dirty   bool
	bytes   int64 // of the entries
	counted int64 // in rowCache.bytes
}

func (x *cached) find(no int64) (i int, ok bool) {
	return slices.BinarySearchFunc(x.entries, no, func(e entry, no int64) int { return int(e.no - no) })
}

// set sets the state of a trigger.
func (x *cached) set(no int64, row *rule.Row) {
	if row.Blank() {
		x.remove(no)
		return
	}
	i, ok := x.find(no)
	if !ok {
		x.entries = slices.Insert(x.entries, i, entry{no: no})
	} else {
		x.bytes -= x.entries[i].bytes()
	}
	x.entries[i].row = *row
	x.bytes += x.entries[i].bytes()
}

// remove removes the state of a trigger, and reports whether there was one.
func (x *cached) remove(no int64) bool {
	i, ok := x.find(no)
	if ok {
		x.bytes -= x.entries[i].bytes()
		x.entries = slices.Delete(x.entries, i, i+1)
	}
	return ok
}

// due returns the first deadline of the row; 0: none.
func (x *cached) due() (first int64) {
	for i := range x.entries {
		if at := x.entries[i].row.Due; at != 0 && (first == 0 || at < first) {
			first = at
		}
	}
	return first
}

// Row data begins with a byte: whether the rest is plain, or an s2 block. The states of triggers that
// mention the same event are similar, and a row that fits into its page is written without others.
const (
	plainRow = iota
	s2Row

	compressMin = 512     // bytes
	rowMax      = 8 << 20 // bytes, more than a state
)

// encode returns the row for the file: for each trigger its number, as the difference to the previous
// one, its deadline, as 1 and the difference to that of the row, the length of its state, and the state.
func (x *cached) encode() store.Inst {
	in, last := store.Inst{Due: x.due()}, int64(0)
	b := make([]byte, 1, 1+64*len(x.entries))
	var state []byte
	for i := range x.entries {
		e := &x.entries[i]
		b = binary.AppendUvarint(b, uint64(e.no-last))
		due := uint64(0)
		if e.row.Due != 0 {
			due = uint64(e.row.Due-in.Due) + 1
		}
		b = binary.AppendUvarint(b, due)
		state = e.row.Append(state[:0])
		b = append(binary.AppendUvarint(b, uint64(len(state))), state...)
		last = e.no
	}
	if in.Data = b; len(b) >= compressMin {
		in.Data = make([]byte, 1+s2.MaxEncodedLen(len(b)-1))
		in.Data[0] = s2Row
		in.Data = in.Data[:1+len(s2.Encode(in.Data[1:], b[1:]))]
	}
	return in
}

// unpacked returns the data of a row without compression.
func unpacked(data []byte) ([]byte, error) {
	switch {
	case len(data) > 0 && data[0] == plainRow:
		return data[1:], nil
	case len(data) > 0 && data[0] == s2Row:
		if n, err := s2.DecodedLen(data[1:]); err == nil && n <= rowMax {
			return s2.Decode(nil, data[1:])
		}
	}
	return nil, localdb.Damaged("row of an entity")
}

// eachEntry calls f for each trigger of a row, until it returns false. The state may be part of the row.
func eachEntry(in *store.Inst, f func(no, due int64, state []byte) (more bool, err error)) error {
	data, err := unpacked(in.Data)
	if err != nil || len(data) == 0 {
		return localdb.Damaged("row of an entity: %v", err)
	}
	for no := int64(0); len(data) > 0; {
		next, n := binary.Uvarint(data)
		after, m := binary.Uvarint(data[max(n, 0):])
		if n <= 0 || m <= 0 || next == 0 || next > math.MaxInt32 {
			return localdb.Damaged("row of an entity")
		}
		size, k := binary.Uvarint(data[n+m:])
		if rest := len(data) - n - m - k; k <= 0 || size > uint64(rest) {
			return localdb.Damaged("row of an entity")
		}
		from := n + m + k
		to := from + int(size)
		no += int64(next)
		due := int64(0)
		if after != 0 {
			due = in.Due + int64(after-1)
		}
		if more, err := f(no, due, data[from:to:to]); err != nil || !more {
			return err
		}
		data = data[to:]
	}
	return nil
}

// decode sets the row from the file. It keeps the data.
func (x *cached) decode(in *store.Inst) error {
	x.there = true
	return eachEntry(in, func(no, due int64, state []byte) (bool, error) {
		e := entry{no: no}
		if err := e.row.Decode(state, due); err != nil {
			return false, localdb.Damaged("state of trigger %d: %v", no, err)
		}
		x.entries = append(x.entries, e)
		x.bytes += e.bytes()
		return true, nil
	})
}

// entryOf returns the state of a trigger in a row; ok is false if there is none.
func entryOf(in *store.Inst, trigger int64) (row rule.Row, ok bool, err error) {
	err = eachEntry(in, func(no, due int64, state []byte) (bool, error) {
		if no != trigger {
			return no < trigger, nil
		}
		ok = true
		if err := row.Decode(state, due); err != nil {
			return false, localdb.Damaged("state of trigger %d: %v", no, err)
		}
		return false, nil
	})
	return row, ok, err
}

// place is an entity in a partition.
type place struct {
	entity    string
	partition uint32
}

func (p place) in(group int64) store.InstKey {
	return store.InstKey{Group: group, Entity: p.entity, Partition: p.partition}
}

// row returns the state of an entity for a trigger; ok is false if there is none. After a change the
// caller calls setRow.
func (w *worker) row(tx *store.Tx, l *live, p place) (row rule.Row, ok bool, err error) {
	for _, k := range [2]struct {
		may   bool
		group int64
	}{{l.alone, -l.No}, {l.shared, l.group.no}} {
		if !k.may {
			continue
		}
		x, err := w.rows.get(tx, p.in(k.group))
		if err != nil {
			return row, false, err
		}
		if i, ok := x.find(l.No); ok {
			return x.entries[i].row, true, nil
		}
	}
	return row, false, nil
}

// setRow sets the state of an entity for a trigger: in the row of the group, or in one of its own.
func (w *worker) setRow(tx *store.Tx, l *live, p place, row *rule.Row) error {
	return w.putRow(tx, l, p, row, l.status == store.Behind || w.costly(l) || len(row.State) > w.opt.Sizes.Shared)
}

func (w *worker) putRow(tx *store.Tx, l *live, p place, row *rule.Row, alone bool) error {
	to, from, moves := p.in(l.group.no), p.in(-l.No), l.alone
	if l.shared = l.shared || !alone; alone {
		to, from, moves = from, to, l.shared
		l.alone = true
	}
	if moves {
		x, err := w.rows.get(tx, from)
		if err != nil {
			return err
		}
		if x.remove(l.No) {
			w.rows.touch(from, x)
		}
	}
	x, err := w.rows.get(tx, to)
	if err != nil {
		return err
	}
	x.set(l.No, row)
	w.rows.touch(to, x)
	return nil
}

// flush writes the changed rows, without the states of removed triggers.
func (w *worker) flush(tx *store.Tx) error {
	known := func(no int64) bool { return w.byNo[no] != nil }
	return w.rows.flush(tx, known, func(k *store.InstKey, due int64) {
		if g := w.groups[k.Group]; g != nil {
			g.due = min(g.due, due)
		} else if l := w.byNo[-k.Group]; l != nil {
			l.due = min(l.due, due)
		}
	})
}

// sweepPage is the number of rows of one read.
const sweepPage = 100

// gone is a removed trigger whose rows sweep deletes.
type gone struct {
	no, group int64
	at        store.InstKey // in the rows of the group
}

// sweepSome deletes some of the rows of a removed trigger, and its states in those of its group. It
// reports whether there may be more.
func (w *worker) sweepSome(tx *store.Tx, g *gone) (more bool, err error) {
	n, err := tx.SweepInst(-g.no, w.opt.Sizes.Sweep)
	if err != nil || n > 0 {
		return true, err
	}
	g.at.Group = g.group
	for n := 0; n < max(1, w.opt.Sizes.Sweep) && w.left > 0; n += sweepPage {
		keys, rows, err := tx.Scan(g.at, sweepPage)
		if err != nil {
			return false, err
		}
		for i := range keys {
			w.left -= recordWork + len(rows[i].Data)/stateShare
			_, has, err := entryOf(&rows[i], g.no)
			if err != nil {
				return false, err
			}
			if !has {
				continue
			}
			x, err := w.rows.get(tx, keys[i])
			if err != nil {
				return false, err
			}
			w.rows.touch(keys[i], x) // flush leaves the state out
		}
		if err := w.flush(tx); err != nil {
			return false, err
		}
		if len(keys) < sweepPage {
			return false, nil
		}
		g.at = keys[len(keys)-1]
	}
	return true, nil
}
