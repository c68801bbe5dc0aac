package cache

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/sebbroker/seb/internal/failpoint"
)

// A file is a block's bytes, then a trailer that says what they are; see FORMAT.md.
const (
	magic      = "sebcach1"
	fixedBytes = 48
	keyMax     = 1024
	clusterMax = 255
	trailerMax = keyMax + clusterMax + fixedBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged: a file is not the block that its name says.
var errDamaged = errors.New("cache file is damaged")

// content is what a file is to hold.
type content struct {
	key   string
	name  name
	size  int64 // of the whole object
	parts [][]byte
}

func (x content) length() (n int) {
	for _, p := range x.parts {
		n += len(p)
	}
	return n
}

// trailer is the end of a file.
func (c *Cache) trailer(x content) []byte {
	var sum uint32
	for _, p := range x.parts {
		sum = crc32.Update(sum, castagnoli, p)
	}
	t := make([]byte, 0, len(x.key)+len(c.o.Cluster)+fixedBytes)
	t = append(t, x.key...)
	t = append(t, c.o.Cluster...)
	t = append(t, magic...)
	t = binary.LittleEndian.AppendUint64(t, uint64(c.block))
	t = binary.LittleEndian.AppendUint64(t, uint64(x.size))
	t = binary.LittleEndian.AppendUint32(t, x.name.number)
	t = binary.LittleEndian.AppendUint32(t, uint32(x.length()))
	t = binary.LittleEndian.AppendUint32(t, sum)
	t = binary.LittleEndian.AppendUint16(t, uint16(len(x.key)))
	t = binary.LittleEndian.AppendUint16(t, uint16(len(c.o.Cluster)))
	t = append(t, 0, 0, 0, 0)
	return binary.LittleEndian.AppendUint32(t, crc32.Checksum(t, castagnoli))
}

// verify reads a whole file and says what block of which object it holds. Every error means that the file is of no
// use; errDamaged that its content is at fault.
func (c *Cache) verify(file *os.File, key string, n name) (size int64, length int, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	end := info.Size()
	if end < fixedBytes || end > c.block+trailerMax {
		return 0, 0, fmt.Errorf("%w: %d bytes long", errDamaged, end)
	}
	if err := c.step("verify"); err != nil {
		return 0, 0, err
	}
	buf := c.buffers.Get(copyBytes)
	defer c.buffers.Put(buf)
	last := buf[:min(end, trailerMax)]
	if err := readAt(file, last, end-int64(len(last))); err != nil {
		return 0, 0, err
	}
	t, err := c.parseTrailer(last, end, key, n)
	if err != nil {
		return 0, 0, err
	}
	var sum uint32
	for at := 0; at < t.length; {
		part := buf[:min(t.length-at, len(buf))]
		if err := readAt(file, part, int64(at)); err != nil {
			return 0, 0, err
		}
		sum = crc32.Update(sum, castagnoli, part)
		at += len(part)
	}
	if sum != t.sum {
		return 0, 0, fmt.Errorf("%w: checksum", errDamaged)
	}
	return t.size, t.length, nil
}

// readAt fills p; a file too short for that is a damaged one.
func readAt(file *os.File, p []byte, at int64) error {
	n, err := file.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: it shrank", errDamaged)
	}
	return err
}

// trailerFields is what a trailer says.
type trailerFields struct {
	size   int64 // of the object
	length int   // of the block
	sum    uint32
}

// parseTrailer reads the trailer at the end of last, the last bytes of a file of the given length, and checks all of it
// against what the file should be.
func (c *Cache) parseTrailer(last []byte, fileLength int64, key string, n name) (t trailerFields, err error) {
	if len(last) < fixedBytes {
		return t, fmt.Errorf("%w: too short", errDamaged)
	}
	fixed := last[len(last)-fixedBytes:]
	keyLength := int(binary.LittleEndian.Uint16(fixed[36:]))
	clusterLength := int(binary.LittleEndian.Uint16(fixed[38:]))
	whole := keyLength + clusterLength + fixedBytes
	t.size = int64(binary.LittleEndian.Uint64(fixed[16:]))
	t.length = int(binary.LittleEndian.Uint32(fixed[28:]))
	t.sum = binary.LittleEndian.Uint32(fixed[32:])
	if string(fixed[:8]) != magic || whole > len(last) || fileLength != int64(t.length)+int64(whole) {
		return t, fmt.Errorf("%w: not a block, or not all of one", errDamaged)
	}
	last = last[len(last)-whole:]
	if crc32.Checksum(last[:whole-4], castagnoli) != binary.LittleEndian.Uint32(fixed[fixedBytes-4:]) {
		return t, fmt.Errorf("%w: checksum of its trailer", errDamaged)
	}
	switch {
	case string(last[:keyLength]) != key || string(last[keyLength:keyLength+clusterLength]) != c.o.Cluster:
		return t, fmt.Errorf("%w: it is of another object", errDamaged)
	case binary.LittleEndian.Uint32(fixed[24:]) != n.number:
		return t, fmt.Errorf("%w: it is another block", errDamaged)
	case int64(binary.LittleEndian.Uint64(fixed[8:])) != c.block || t.size <= 0 || int64(t.length) != c.lengthOf(n, t.size):
		return t, fmt.Errorf("%w: its length is wrong", errDamaged)
	}
	return t, nil
}

// lengthOf is how many bytes a block of an object has; 0 or less if the object has no such block.
func (c *Cache) lengthOf(n name, size int64) int64 {
	return min(c.block, size-int64(n.number)*c.block)
}

// write stores a block in a file and indexes it, unless it is there already or was forgotten meanwhile. It returns the
// block, already pinned for the caller, or nil: then it was not cached and the reason is counted.
func (c *Cache) write(x content, f *fill) *block {
	trailer := c.trailer(x)
	alloc := pages(int64(x.length() + len(trailer)))
	if !c.reserve(alloc) {
		return nil
	}
	c.mu.Lock()
	c.temps++
	temp := fmt.Sprintf("%s%d", tempPrefix, c.temps)
	c.mu.Unlock()
	failpoint.Hit("cache.write.before")
	file, err := c.writeFile(temp, x, trailer)
	failpoint.Hit("cache.write.after")
	if err != nil {
		c.failed("write", err)
		c.undo(temp, file, alloc)
		return nil
	}
	b := &block{name: x.name, alloc: alloc, size: x.size, length: x.length(), file: file, admitted: true}
	found, err := c.enter(b, temp, f)
	if found != b {
		if err != nil {
			c.failed("rename", err)
		}
		c.undo(temp, file, alloc)
	}
	return found
}

// writeFile writes a temporary file and reads it again. The file may be open on an error, too.
func (c *Cache) writeFile(temp string, x content, trailer []byte) (file *os.File, err error) {
	if err := c.step("create"); err != nil {
		return nil, err
	}
	file, err = c.folder.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	for _, p := range append(x.parts[:len(x.parts):len(x.parts)], trailer) {
		if err := c.step("write"); err != nil {
			return file, err
		}
		if _, err := file.Write(p); err != nil {
			return file, err
		}
	}
	_, _, err = c.verify(file, x.key, x.name)
	return file, err
}

// undo removes a temporary file. What can not be removed stays counted.
func (c *Cache) undo(temp string, file *os.File, alloc int64) {
	if file == nil { // there is none
		c.unreserve(alloc)
		return
	}
	_ = file.Close() // it is thrown away
	if err := c.removeFile(temp); err != nil {
		c.failed("remove", err)
		c.memory.Shrink(entryBytes)
		return
	}
	c.unreserve(alloc)
}

// enter gives a written file its name and puts it into the index, pinned. If the block is there already that one is
// pinned and returned.
func (c *Cache) enter(b *block, temp string, f *fill) (*block, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.forgotten || c.closed {
		return nil, nil
	}
	if there := c.index[b.name]; there != nil {
		if there.file == nil {
			return nil, nil
		}
		c.pinLocked(there)
		return there, nil
	}
	if err := c.step("rename"); err != nil {
		return nil, err
	}
	if err := c.folder.root.Rename(temp, b.name.file()); err != nil {
		return nil, err
	}
	failpoint.Hit("cache.rename.after")
	b.indexed, b.refs = true, 1
	b.inRecent = c.recent.list.PushFront(b)
	b.inOpened = c.opened.list.PushFront(b)
	c.index[b.name] = b
	c.stats.Filled++
	c.closeOldLocked()
	return b, nil
}

// openBlock opens and verifies a block that the caller has pinned, and reports whether it is fit to be read. One that
// is not is dropped.
func (c *Cache) openBlock(b *block, key string) bool {
	file, size, length, err := c.openFile(b.name, key)
	c.mu.Lock()
	defer c.mu.Unlock()
	if err == nil && b.indexed {
		b.file, b.size, b.length = file, size, length
		b.inOpened = c.opened.list.PushFront(b)
		c.recent.list.MoveToFront(b.inRecent)
		c.closeOldLocked()
		return true
	}
	if file != nil {
		_ = file.Close()
	}
	if errors.Is(err, errDamaged) {
		c.countDamageLocked(b, err)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		c.stats.WriteErrors++
		c.logTrouble("open", err)
	}
	c.dropLocked(b)
	return false
}

func (c *Cache) openFile(n name, key string) (file *os.File, size int64, length int, err error) {
	if err = c.step("open"); err != nil {
		return nil, 0, 0, err
	}
	if file, err = c.folder.root.Open(n.file()); err != nil {
		return nil, 0, 0, err
	}
	size, length, err = c.verify(file, key, n)
	return file, size, length, err
}

func (c *Cache) countDamageLocked(b *block, err error) {
	c.stats.Damaged++
	c.damaged.Do(func() {
		c.o.Logger.Warn("a damaged file of the disk cache was dropped and is read again from the bucket",
			"file", b.name.file(), "err", err)
	})
}
