package monitor

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/sebbroker/seb/driplang/internal/form"
)

// Layout of a state. Numbers are varints, and differences of events are zigzag-coded:
//
//	version and flags   1 byte: version in the low four bits, bit 4 instant complete, bit 5 degraded
//	program             2 bytes: a checksum of the expression and the options
//	now                 zigzag, milliseconds
//	cells of the root
//
//	leaf's cell         number of events; if complete and not an absence: the completing event
//	THEN's cell         2 * frames + 1 if latched; if latched: its events; the frames
//	frame               if its time is used: now - anchor; its events; its cells
//	events              their number, then each as a difference to the one written before it
//
// A frame's time is omitted if it is not used. The bounds that windows around a frame impose are
// computed again from those windows: the state has no derived values.
const (
	stateVersion  = 1
	flagDone      = 1 << 4
	flagDegraded  = 1 << 5
	stateVersions = 1<<4 - 1
)

// ErrState matches the errors of Load: the bytes are not a state of this program. The history must
// be replayed.
var ErrState = errors.New("driplang: state not understood")

// AppendState appends the monitor's state to dst, for Load. Most states have a few tens of bytes.
// The state of an entity without relevant events is empty, so it needs no row.
func (m *Monitor) AppendState(dst []byte) []byte {
	if m.blank() {
		return dst
	}
	flags := byte(stateVersion)
	if m.done {
		flags |= flagDone
	}
	if m.degraded {
		flags |= flagDegraded
	}
	dst = append(dst, flags, byte(m.program.print), byte(m.program.print>>8))
	w := stateWriter{b: binary.AppendVarint(dst, m.now), now: m.now}
	w.cells(m.program.root, m.root)
	return w.b
}

// blank reports whether the state is that of an entity without relevant events.
func (m *Monitor) blank() bool {
	for i := range m.root.cells {
		if c := &m.root.cells[i]; c.n > 0 || len(c.rights) > 0 {
			return false
		}
	}
	return !m.degraded
}

type stateWriter struct {
	b    []byte
	now  int64
	last uint64 // the last written event
}

func (w *stateWriter) refs(refs []uint64) {
	w.b = binary.AppendUvarint(w.b, uint64(len(refs)))
	for _, r := range refs {
		w.ref(r)
	}
}

func (w *stateWriter) ref(r uint64) {
	w.b = binary.AppendVarint(w.b, int64(r-w.last))
	w.last = r
}

func (w *stateWriter) cells(r *region, f *frame) {
	for i, n := range r.cells {
		c := &f.cells[i]
		if n.op == form.Leaf {
			w.b = binary.AppendUvarint(w.b, uint64(c.n))
			if n.keepsRef(c) {
				w.ref(c.refs[0])
			}
			continue
		}
		w.b = binary.AppendUvarint(w.b, uint64(len(c.rights))<<1|uint64(c.n))
		if c.n > 0 {
			w.refs(c.refs)
		}
		for _, right := range c.rights {
			if n.right.timed {
				w.b = binary.AppendUvarint(w.b, uint64(w.now-right.at))
			}
			w.refs(right.refs)
			w.cells(n.right, right)
		}
	}
}

// keepsRef reports whether a leaf's cell has its completing event.
func (n *node) keepsRef(c *cell) bool { return c.n >= n.need && !n.not }

// Load replaces the monitor's entity by the one of a state; an empty state is an entity without
// relevant events. Invalid states are refused with an error that wraps ErrState, and leave the
// monitor reset. The memory is bounded by the length of the state, which is at most MaxState. Load
// does not keep state.
func (m *Monitor) Load(state []byte) error {
	m.Reset()
	if len(state) == 0 {
		return nil
	}
	err := m.load(state)
	if err != nil {
		m.Reset()
		return fmt.Errorf("%w: %w", ErrState, err)
	}
	return nil
}

var errTruncated = errors.New("truncated")

func (m *Monitor) load(state []byte) error {
	switch {
	case len(state) > MaxState:
		return fmt.Errorf("%d bytes, the limit is %d", len(state), MaxState)
	case len(state) < 4:
		return errTruncated
	case state[0]&stateVersions != stateVersion || state[0]&^(stateVersions|flagDone|flagDegraded) != 0:
		return fmt.Errorf("version byte %#x", state[0])
	case uint16(state[1])|uint16(state[2])<<8 != m.program.print:
		return errors.New("state of another expression")
	}
	r := stateReader{b: state[3:], m: m}
	m.now = r.varint()
	if m.now < MinTime || m.now > MaxTime+1 {
		return fmt.Errorf("time %d", m.now)
	}
	m.done, m.degraded = state[0]&flagDone != 0, state[0]&flagDegraded != 0
	r.cells(m.program.root, m.root)
	if r.err == nil && len(r.b) > 0 {
		r.err = fmt.Errorf("%d bytes after the end", len(r.b))
	}
	return r.err
}

// stateReader reads until its first error; after it, all values are zero.
type stateReader struct {
	b    []byte
	m    *Monitor
	last uint64
	err  error
}

func (r *stateReader) fail(err error) {
	if r.err == nil {
		r.err, r.b = err, nil
	}
}

func (r *stateReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.b)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *stateReader) varint() int64 {
	v, n := binary.Varint(r.b)
	if n <= 0 {
		r.fail(errTruncated)
		return 0
	}
	r.b = r.b[n:]
	return v
}

func (r *stateReader) ref() uint64 {
	r.last += uint64(r.varint())
	return r.last
}

func (r *stateReader) refs(dst []uint64) []uint64 {
	n := r.uvarint()
	if n > maxRefs {
		r.fail(fmt.Errorf("%d events in one completion", n))
		return dst
	}
	for range n {
		dst = append(dst, r.ref())
	}
	return dst
}

func (r *stateReader) cells(reg *region, f *frame) {
	for i, n := range reg.cells {
		if r.err != nil {
			return
		}
		c, v := &f.cells[i], r.uvarint()
		if n.op == form.Then {
			r.then(n, f, v)
			continue
		}
		if v > uint64(n.need) {
			r.fail(fmt.Errorf("a count of %d, maximum %d", v, n.need))
			return
		}
		if c.n = uint32(v); n.keepsRef(c) {
			c.refs = append(c.refs, r.ref())
		}
	}
}

func (r *stateReader) then(n *node, f *frame, v uint64) {
	c := &f.cells[n.cell]
	if c.n = uint32(v & 1); c.n > 0 {
		c.refs = r.refs(c.refs)
	}
	for range v >> 1 {
		if r.err != nil {
			return
		}
		if r.m.full(n.right) {
			r.fail(fmt.Errorf("more than %d instances", r.m.live))
			return
		}
		right := r.m.take(n.right)
		c.rights = append(c.rights, right)
		right.lo, right.hi = n.window(f)
		if n.right.timed {
			ago := r.uvarint()
			if ago > MaxTime-MinTime+1 {
				r.fail(fmt.Errorf("an anchor %d ms in the past", ago))
				return
			}
			right.at = r.m.now - int64(ago)
		}
		right.refs = r.refs(right.refs)
		r.cells(n.right, right)
	}
}

// MatchedEvents appends to dst the refs of the events that made the expression true: the used event
// of every required one, the completing event of a count, and the latest 16 events of a left side
// that needed more. They are sorted, without duplicates. There are none if the expression is not
// true. An absence contributes no event.
func (m *Monitor) MatchedEvents(dst []uint64) []uint64 {
	if m.Value() != True {
		return dst
	}
	from := len(dst)
	dst = m.appendWitness(dst, m.program.root.root, m.root, false)
	slices.Sort(dst[from:])
	return dst[:from+len(slices.Compact(dst[from:]))]
}

// distinct returns refs sorted and without duplicates, at most the latest maxRefs. It reuses the
// slice.
func distinct(refs []uint64) []uint64 {
	slices.Sort(refs)
	refs = slices.Compact(refs)
	return refs[max(0, len(refs)-maxRefs):]
}

// appendWitness appends the matched events of a true node. With lasting, it uses only operands that
// stay true for all future events.
func (m *Monitor) appendWitness(dst []uint64, n *node, f *frame, lasting bool) []uint64 {
	reason := func(n *node, f *frame) bool {
		return m.value(n, f) == True && (!lasting || m.always(aspectTrue, n, f))
	}
	switch {
	case n.op == form.And:
		for _, k := range n.kids {
			dst = m.appendWitness(dst, k, f, lasting)
		}
	case n.op == form.Or:
		for _, k := range n.kids {
			if reason(k, f) {
				return m.appendWitness(dst, k, f, lasting)
			}
		}
	case n.not:
	case n.op == form.Leaf:
		if n.cell >= 0 {
			dst = append(dst, f.cells[n.cell].refs...)
		}
	default:
		c := &f.cells[n.cell]
		if c.n > 0 {
			return append(dst, c.refs...)
		}
		for _, r := range c.rights {
			if reason(n.right.root, r) {
				return m.appendWitness(append(dst, r.refs...), n.right.root, r, lasting)
			}
		}
	}
	return dst
}
