package cache

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
)

// object identifies an object of a cluster: the first half of a SHA-256 over both names.
type object [16]byte

func (c *Cache) object(key string) (o object) {
	h := sha256.New()
	fmt.Fprintf(h, "%d %s %s", len(c.o.Cluster), c.o.Cluster, key)
	copy(o[:], h.Sum(nil))
	return o
}

// name identifies a block of an object: the bytes from number*block on.
type name struct {
	object object
	number uint32
}

// file is the block's file name, lower-case so that it is the same on every file system.
func (n name) file() string { return fmt.Sprintf("%x-%08x", n.object[:], n.number) }

// parseName parses a result of file.
func parseName(file string) (n name, ok bool) {
	left, right, found := strings.Cut(file, "-")
	if !found || len(left) != 32 || len(right) != 8 {
		return name{}, false
	}
	if _, err := hex.Decode(n.object[:], []byte(left)); err != nil {
		return name{}, false
	}
	number, err := strconv.ParseUint(right, 16, 32)
	n.number = uint32(number)
	return n, err == nil && n.file() == file
}

// block is a block on disk, or in memory if it could not be written. The cache's lock guards its
// fields, except file, data, size and length, which do not change while refs is above zero.
type block struct {
	name     name
	alloc    int64    // bytes of disk counted for it
	size     int64    // of the whole object
	length   int      // bytes of the block
	file     *os.File // verified; nil if not open
	data     []byte   // content of a block in memory
	refs     int      // readers
	indexed  bool     // in the index
	admitted bool     // Admit accepted its object
	inRecent *list.Element
	inOpened *list.Element
}

// lru is a list of blocks, newest use first.
type lru struct{ list list.List }

func (l *lru) remove(b *block) {
	for _, e := range []*list.Element{b.inRecent, b.inOpened} {
		if e != nil {
			l.list.Remove(e) // no effect if e is of another list
		}
	}
}

// pinLocked adds a reader of an open block.
func (c *Cache) pinLocked(b *block) {
	b.refs++
	if b.inRecent != nil {
		c.recent.list.MoveToFront(b.inRecent)
	}
	if b.inOpened != nil {
		c.opened.list.MoveToFront(b.inOpened)
	}
}

// release ends a reader's use of a block.
func (c *Cache) release(b *block) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.releaseLocked(b)
}

func (c *Cache) releaseLocked(b *block) {
	b.refs--
	if b.refs < 0 {
		panic("cache: block released more often than pinned")
	}
	if b.refs > 0 {
		return
	}
	if !b.indexed {
		c.disposeLocked(b)
		return
	}
	c.closeOldLocked()
}

// disposeLocked releases a block without readers that is not in the index.
func (c *Cache) disposeLocked(b *block) {
	if b.file != nil {
		_ = b.file.Close() // read-only since it was verified
		b.file = nil
	}
	if b.data != nil {
		c.buffers.Put(b.data)
		b.data = nil
		<-c.slots
	}
	c.used -= b.alloc
	b.alloc = 0
}

// closeOldLocked closes the least recently used files beyond the bound. They are verified again
// when they are reopened.
func (c *Cache) closeOldLocked() {
	for e := c.opened.list.Back(); e != nil && c.opened.list.Len() > c.openMax; {
		b, before := e.Value.(*block), e.Prev()
		if b.refs == 0 {
			c.opened.list.Remove(e)
			b.inOpened = nil
			_ = b.file.Close()
			b.file = nil
		}
		e = before
	}
}

// reserve reserves space on disk and in the index for a new block, evicting the least recently used
// blocks.
func (c *Cache) reserve(alloc int64) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if alloc > c.o.Bytes {
		return false
	}
	for c.used+alloc > c.o.Bytes {
		if !c.evictLocked() {
			return false
		}
	}
	for c.memory.Grow(entryBytes) != nil {
		if !c.evictLocked() {
			return false
		}
	}
	c.used += alloc
	return true
}

// unreserve releases the reservation for a block that was not indexed.
func (c *Cache) unreserve(alloc int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.used -= alloc
	c.memory.Shrink(entryBytes)
}

// evictLocked removes the least recently used block without readers, and reports whether it removed
// one. A file that cannot be removed stays counted.
func (c *Cache) evictLocked() bool {
	for e := c.recent.list.Back(); e != nil; e = e.Prev() {
		b := e.Value.(*block)
		if b.refs > 0 {
			continue
		}
		if err := c.removeFile(b.name.file()); err != nil {
			c.stats.WriteErrors++
			c.logError("remove", err)
			return false
		}
		c.unlinkLocked(b)
		c.disposeLocked(b)
		c.stats.Evicted++
		return true
	}
	return false
}

// unlinkLocked removes a block from the index.
func (c *Cache) unlinkLocked(b *block) {
	delete(c.index, b.name)
	c.recent.remove(b)
	c.opened.remove(b)
	b.inRecent, b.inOpened, b.indexed = nil, nil, false
	c.memory.Shrink(entryBytes)
}

// dropLocked removes a block from the index and its file from disk. Its readers may continue.
func (c *Cache) dropLocked(b *block) {
	if !b.indexed {
		return
	}
	c.unlinkLocked(b)
	if err := c.removeFile(b.name.file()); err != nil {
		c.stats.WriteErrors++
		c.logError("remove", err)
		b.alloc = 0 // the file stays and stays counted
	}
	if b.refs == 0 {
		c.disposeLocked(b)
	}
}

// removeFile removes a file; a missing file is no error.
func (c *Cache) removeFile(file string) error {
	err := c.step("remove")
	if err == nil {
		err = c.folder.root.Remove(file)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// step is called before each step on disk, so that tests can fail it.
func (c *Cache) step(op string) error {
	if c.hook == nil {
		return nil
	}
	return c.hook(op)
}
