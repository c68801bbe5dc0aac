package log

import (
	"cmp"
	"slices"
	"sync/atomic"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// copyMax: smaller appends are copied together, so that their callers' buffers are released at
// freeze and a PUT has few parts.
const copyMax = 16 << 10

// Object is a commit object in memory: the bytes that were sent, shared by the attempts to store it
// and by readers. It is immutable and reference-counted. The log drops its reference when the slot
// is settled, and each attempt drops its own when the store has returned. So no buffer is released
// while a transport may still read it.
type Object struct {
	Key string
	// Parts are the whole object's bytes in order: first head, state records and index, then the
	// batches.
	Parts [][]byte
	// Prefix is the length of Parts[0]; the batches begin there.
	Prefix int64
	// Marks say where each append's batches begin, by ascending position.
	Marks []Mark
	Size  int64 // of the whole object

	refs     atomic.Int32
	buffers  *budget.Buffers
	arena    []byte // its capacity suffices, so it never moves
	run      int    // where the last of Parts begins in arena, or -1
	own      *budget.Reservation
	foreign  []*budget.Reservation // of adopted buffers
	extra    int64                 // bytes of adopted buffers without a reservation
	releases []func()
}

// Mark is the position of a batch in an object.
type Mark struct {
	Base int64 // its first offset
	Pos  int64 // in the object
}

// Retain adds a reference. The caller must have one.
func (o *Object) Retain() { o.refs.Add(1) }

// Release drops a reference. The last one releases the buffers.
func (o *Object) Release() {
	switch n := o.refs.Add(-1); {
	case n > 0:
		return
	case n < 0:
		panic("log: object released too often")
	}
	for _, f := range o.releases {
		f()
	}
	if o.arena != nil {
		o.buffers.Put(o.arena)
	}
	o.own.Release()
	o.Parts, o.arena, o.releases, o.foreign = nil, nil, nil, nil
}

// Move transfers the object's memory to another class of the budget, for a holder that retains it.
// After an error a part may have been moved.
func (o *Object) Move(to *budget.Class) error {
	for _, r := range o.foreign {
		if err := r.Move(to); err != nil {
			return err
		}
	}
	if o.own == nil {
		r, err := to.Reserve(o.overhead() + o.extra)
		o.own, o.extra = r, 0
		return err
	}
	if err := o.own.Move(to); err != nil {
		return err
	}
	err := o.own.Grow(o.extra)
	if err == nil {
		o.extra = 0
	}
	return err
}

// overhead estimates the object's memory without the batches.
func (o *Object) overhead() int64 { return int64(cap(o.Marks))*markSize + o.Prefix + 512 }

const markSize = 16

// build makes the object of a frozen slot: it takes over the data of the members, completes it
// (Frozen.Patch) and encodes the head.
func build(f *core.Frozen, members []*member, mem *budget.Budget) (o *Object, headCRC uint32, err error) {
	o = &Object{Key: f.Key, Parts: make([][]byte, 1, 4), Marks: make([]Mark, 0, len(f.Order)), run: -1}
	o.refs.Store(1)
	o.openArena(f, members, mem)
	parts := make([][]byte, 0, len(f.Order))
	for _, i := range f.Order {
		base := f.Proposal.Appends[i].Base
		data := o.adopt(members[i])
		f.Patch(i, data)
		o.Marks = append(o.Marks, Mark{Base: base, Pos: o.Size}) // the prefix is added below
		o.Size += int64(len(data))
		parts = append(parts, data)
	}
	prefix, headCRC, err := f.Encode(parts)
	if err != nil {
		return o, 0, err
	}
	o.Parts[0], o.Prefix = prefix, int64(len(prefix))
	o.Size += o.Prefix
	for i := range o.Marks {
		o.Marks[i].Pos += o.Prefix
	}
	return o, headCRC, nil
}

// openArena allocates memory for the small appends, if the budget has some.
func (o *Object) openArena(f *core.Frozen, members []*member, mem *budget.Budget) {
	n := 0
	for _, i := range f.Order {
		if d := len(members[i].Data); d < copyMax {
			n += d
		}
	}
	if n == 0 || mem == nil {
		return
	}
	own, err := mem.Class(budget.Objects).Reserve(int64(budget.SizeFor(n)) + o.overhead())
	if err != nil {
		return // the appends keep their own buffers
	}
	o.own, o.buffers = own, mem.Buffers()
	o.arena = o.buffers.Get(n)[:0]
}

// adopt takes over a member's data. Small data is copied, so that its buffer is released at once.
func (o *Object) adopt(m *member) []byte {
	if o.arena == nil || len(m.Data) >= copyMax {
		data := m.Data
		if m.Release != nil {
			o.releases = append(o.releases, m.Release)
		}
		if m.Memory != nil {
			o.foreign = append(o.foreign, m.Memory)
		} else {
			o.extra += int64(len(data))
		}
		m.forget()
		o.Parts, o.run = append(o.Parts, data), -1
		return data
	}
	from := len(o.arena)
	o.arena = append(o.arena, m.Data...)
	m.drop()
	if o.run < 0 {
		o.Parts, o.run = append(o.Parts, nil), from
	}
	o.Parts[len(o.Parts)-1] = o.arena[o.run:len(o.arena):len(o.arena)]
	return o.arena[from:]
}

// body is the body of a PUT.
func (o *Object) body(checksum bool) objstore.Body {
	b := objstore.Body{Parts: o.Parts, Size: o.Size, HasCRC: checksum}
	if checksum {
		b.CRC32C = record.ObjectCRC32C(o.Parts[0], o.Parts[1:])
	}
	return b
}

// Slice returns the bytes [pos, pos+n) of the object, as parts of its buffers.
func (o *Object) Slice(pos, n int64) [][]byte {
	var out [][]byte
	for _, p := range o.Parts {
		size := int64(len(p))
		if pos < size && n > 0 {
			end := min(pos+n, size)
			out = append(out, p[pos:end:end])
			n -= end - pos
			pos = end
		}
		pos -= size
	}
	return out
}

// At returns the mark of the append that contains the offset, among those in [pos, end) of the
// object, which must be of one partition.
func (o *Object) At(pos, end, offset int64) Mark {
	lo, _ := slices.BinarySearchFunc(o.Marks, pos, func(m Mark, p int64) int { return cmp.Compare(m.Pos, p) })
	hi, _ := slices.BinarySearchFunc(o.Marks, end, func(m Mark, p int64) int { return cmp.Compare(m.Pos, p) })
	of := o.Marks[lo:hi]
	i, found := slices.BinarySearchFunc(of, offset, func(m Mark, v int64) int { return cmp.Compare(m.Base, v) })
	if !found {
		i--
	}
	return of[max(i, 0)]
}
