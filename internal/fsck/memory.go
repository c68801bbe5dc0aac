package fsck

import "github.com/sebbroker/seb/internal/log/state"

// placeMemory is the memory of a range in one of the two tables that a check makes of the state:
// the objects that it has to read, and the packs.
const placeMemory = 192

// memoryOf estimates the memory of a check for a state.
func memoryOf(m state.Memory) int64 { return m.Sum() + 2*m.Ranges/state.RangeMemory*placeMemory }

// snapshotMemory estimates the memory of reading a snapshot of size bytes beside the state st: its
// bytes, its state, and the encodings that are compared.
func snapshotMemory(st *state.State, size int64) int64 {
	return 3*size + max(st.Memory().Sum(), 4*size)
}

// hold calls Options.Hold before the check holds extra bytes beside those of the state.
func (c *checker) hold(extra int64) error {
	return c.holdTotal(func() { c.heldState = max(c.heldState, memoryOf(c.st.Memory())+extra) })
}

// holdObject calls Options.Hold before the start of an object is read that exceeds MemoryBytes. It
// may be called concurrently.
func (c *checker) holdObject(bytes int64) error {
	if bytes <= c.o.MemoryBytes {
		return nil
	}
	return c.holdTotal(func() { c.heldObject = max(c.heldObject, bytes) })
}

func (c *checker) holdTotal(change func()) error {
	if c.o.Hold == nil {
		return nil
	}
	c.holding.Lock()
	defer c.holding.Unlock()
	before := c.heldState + c.heldObject
	change()
	if now := c.heldState + c.heldObject; now > before {
		return c.o.Hold(now)
	}
	return nil
}
