package cache

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/objstore"
)

// A file is a block's bytes followed by a trailer that describes them; see FORMAT.md.
const (
	magic      = "sebcach1"
	fixedBytes = 48
	keyMax     = 1024
	clusterMax = 255
	trailerMax = keyMax + clusterMax + fixedBytes
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errDamaged: the content of a file does not match its name.
var errDamaged = errors.New("cache file is damaged")

// content is the content of a file to be written.
type content struct {
	key   string
	name  name
	size  int64 // of the whole object
	parts [][]byte
	// rest is the number of bytes behind the parts. more returns the next of them, valid until the
	// next call. Its errors wrap errBody.
	rest int
	more func(rest int) ([]byte, error)
}

// errBody: a content could not be read.
var errBody = errors.New("body of the object")

func (x content) length() int { return int(sizeOf(x.parts)) + x.rest }

func (c *Cache) trailerBytes(x content) int { return len(x.key) + len(c.o.Cluster) + fixedBytes }

// trailer returns the trailer of a file whose bytes have the checksum sum.
func (c *Cache) trailer(x content, sum uint32) []byte {
	t := make([]byte, 0, c.trailerBytes(x))
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

// verify reads a whole file and checks that it is the expected block. After any error the file is
// unusable; errDamaged means that its content is wrong.
func (c *Cache) verify(file *os.File, key string, n name) (size int64, length int, err error) {
	info, err := file.Stat()
	if err != nil {
		return 0, 0, err
	}
	end := info.Size()
	if end < fixedBytes || end > c.block+trailerMax {
		return 0, 0, fmt.Errorf("%w: length %d", errDamaged, end)
	}
	if err := c.step("verify"); err != nil {
		return 0, 0, err
	}
	buf := c.buffers.Get(copyBytes)
	defer c.buffers.Put(buf)
	last := buf[:min(end, int64(len(buf)))] // all of a small file
	if end > int64(len(buf)) {
		last = buf[:trailerMax]
	}
	if err := readAt(file, last, end-int64(len(last))); err != nil {
		return 0, 0, err
	}
	t, err := c.parseTrailer(last, end, key, n)
	if err != nil {
		return 0, 0, err
	}
	if int64(len(last)) == end {
		return t.size, t.length, t.check(crc32.Checksum(last[:t.length], castagnoli))
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
	return t.size, t.length, t.check(sum)
}

// readAt fills p; a file that is too short is damaged.
func readAt(file *os.File, p []byte, at int64) error {
	n, err := file.ReadAt(p, at)
	if n == len(p) {
		return nil
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: file shrank", errDamaged)
	}
	return err
}

// trailerFields are the decoded fields of a trailer.
type trailerFields struct {
	size   int64 // of the object
	length int   // of the block
	sum    uint32
}

// check compares the checksum of the block with the one in the trailer.
func (t *trailerFields) check(sum uint32) error {
	if sum != t.sum {
		return fmt.Errorf("%w: wrong checksum", errDamaged)
	}
	return nil
}

// parseTrailer decodes the trailer at the end of last, the last bytes of a file of fileLength
// bytes, and checks it against the expected block.
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
		return t, fmt.Errorf("%w: not a complete block", errDamaged)
	}
	last = last[len(last)-whole:]
	if crc32.Checksum(last[:whole-4], castagnoli) != binary.LittleEndian.Uint32(fixed[fixedBytes-4:]) {
		return t, fmt.Errorf("%w: wrong checksum of the trailer", errDamaged)
	}
	switch {
	case string(last[:keyLength]) != key || string(last[keyLength:keyLength+clusterLength]) != c.o.Cluster:
		return t, fmt.Errorf("%w: belongs to another object", errDamaged)
	case binary.LittleEndian.Uint32(fixed[24:]) != n.number:
		return t, fmt.Errorf("%w: is another block", errDamaged)
	case int64(binary.LittleEndian.Uint64(fixed[8:])) != c.block || t.size <= 0 || int64(t.length) != c.lengthOf(n, t.size):
		return t, fmt.Errorf("%w: wrong block length", errDamaged)
	}
	return t, nil
}

// lengthOf is the length of a block; 0 or less if the object has no such block.
func (c *Cache) lengthOf(n name, size int64) int64 {
	return min(c.block, size-int64(n.number)*c.block)
}

// write stores a block in a file and indexes it, unless it is already indexed or was forgotten. It
// returns the block, pinned for the caller, or nil if it was not cached; errors are counted.
func (c *Cache) write(x content, f *fill) *block {
	alloc := pages(int64(x.length() + c.trailerBytes(x)))
	if !c.reserve(alloc) {
		return nil
	}
	c.mu.Lock()
	c.temps++
	temp := fmt.Sprintf("%s%d", tempPrefix, c.temps)
	c.mu.Unlock()
	failpoint.Hit("cache.write.before")
	file, err := c.writeFile(temp, x)
	failpoint.Hit("cache.write.after")
	if err != nil {
		if !errors.Is(err, errBody) {
			c.failed("write", err)
		}
		c.undo(temp, file, alloc)
		return nil
	}
	b := &block{name: x.name, alloc: alloc, size: x.size, length: x.length(), file: file, admitted: true}
	found, err := c.publish(b, temp, f)
	if found != b {
		if err != nil {
			c.failed("rename", err)
		}
		c.undo(temp, file, alloc)
	}
	return found
}

// writeFile writes a temporary file and verifies it. After an error the file may be open.
func (c *Cache) writeFile(temp string, x content) (file *os.File, err error) {
	if err := c.step("create"); err != nil {
		return nil, err
	}
	file, err = c.folder.root.OpenFile(temp, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	var sum uint32
	for _, p := range x.parts {
		if err := c.writePart(file, p, &sum); err != nil {
			return file, err
		}
	}
	for rest := x.rest; rest > 0; {
		p, err := x.more(rest)
		if err == nil {
			err = c.writePart(file, p, &sum)
		}
		if err != nil {
			return file, err
		}
		rest -= len(p)
	}
	if err := c.writePart(file, c.trailer(x, sum), new(uint32)); err != nil {
		return file, err
	}
	_, _, err = c.verify(file, x.key, x.name)
	return file, err
}

// writePart appends p to a file and adds it to a checksum.
func (c *Cache) writePart(file *os.File, p []byte, sum *uint32) error {
	if err := c.step("write"); err != nil {
		return err
	}
	*sum = crc32.Update(*sum, castagnoli, p)
	_, err := file.Write(p)
	return err
}

// undo removes a temporary file. A file that cannot be removed stays counted.
func (c *Cache) undo(temp string, file *os.File, alloc int64) {
	if file == nil { // none was created
		c.unreserve(alloc)
		return
	}
	_ = file.Close() // its content is discarded
	if err := c.removeFile(temp); err != nil {
		c.failed("remove", err)
		c.memory.Shrink(entryBytes)
		return
	}
	c.unreserve(alloc)
}

// publish renames a written file and puts it into the index, pinned. If the block is already
// indexed, it pins and returns that one. The lock is held over the rename, so that index and folder
// agree.
func (c *Cache) publish(b *block, temp string, f *fill) (*block, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.forgotten || c.closed {
		return nil, nil
	}
	if existing := c.index[b.name]; existing != nil {
		if existing.file == nil {
			return nil, nil
		}
		c.pinLocked(existing)
		return existing, nil
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

// openBlock opens and verifies a block that the caller has pinned, and reports whether it can be
// read. It drops a block that cannot.
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
		c.logError("open", err)
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
		c.o.Logger.Warn("damaged disk cache file dropped; reading from the bucket",
			"file", b.name.file(), "err", err)
	})
}

const (
	lockName   = "lock"
	tempPrefix = "tmp-"
	pageBytes  = 4096 // allocation unit of files
)

// folder is the cache's folder, opened so that no path leaves it.
type folder struct {
	root *os.Root
	lock *os.File // nil if the lock file cannot be opened, for example on a read-only disk
}

func (f *folder) close() error {
	var err error
	if f.lock != nil {
		err = objstore.CloseFile(f.lock)
	}
	return errors.Join(err, f.root.Close())
}

// openFolder creates or opens the folder, removes leftovers of a crash, and lists the blocks. After
// an error the cache works without a folder.
func (c *Cache) openFolder(dir string) {
	f, err := c.lockFolder(dir)
	if err != nil {
		c.logError("open", err)
		return
	}
	c.folder = f
	if err := c.scan(); err != nil {
		c.logError("list", err)
		c.folder = nil
		_ = f.close()
	}
}

func (c *Cache) lockFolder(dir string) (*folder, error) {
	if err := c.step("folder"); err != nil {
		return nil, fmt.Errorf("create cache folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create cache folder: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open cache folder: %w", err)
	}
	var lock *os.File
	err = c.step("lock")
	if err == nil {
		lock, err = root.OpenFile(lockName, os.O_RDWR|os.O_CREATE, 0o600)
	}
	if err != nil {
		return &folder{root: root}, nil // a read-only folder can still be read
	}
	if err := objstore.LockFile(lock); errors.Is(err, objstore.ErrFileInUse) { // else without locks
		_ = lock.Close()
		_ = root.Close()
		return nil, fmt.Errorf("lock cache folder: folder is %w", err)
	}
	return &folder{root: root, lock: lock}, nil
}

// found is a file in the folder with the name of a block.
type found struct {
	name    name
	alloc   int64
	written int64 // modification time
}

// scan indexes the files of earlier runs, newest first, as far as they fit, and removes the others.
// Files are verified when they are first read. Foreign names are ignored.
func (c *Cache) scan() error {
	var blocks []found
	if err := c.step("list"); err != nil {
		return err
	}
	list, err := c.folder.root.Open(".")
	if err != nil {
		return err
	}
	defer list.Close()
	for {
		entries, err := list.ReadDir(1000)
		for _, e := range entries {
			if b, ok := c.inspect(e); ok {
				blocks = append(blocks, b)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	sorting.Sort(blocks, func(a, b found) int { return cmp.Compare(b.written, a.written) })
	for _, f := range blocks {
		if c.used+f.alloc > c.o.Bytes || c.memory.Grow(entryBytes) != nil {
			c.discard(f)
			continue
		}
		b := &block{name: f.name, alloc: f.alloc, indexed: true, admitted: true}
		b.inRecent = c.recent.list.PushBack(b)
		c.index[f.name] = b
		c.used += f.alloc
	}
	return nil
}

// inspect handles one entry of the folder. It removes temporary files of a crash and files that are
// too large for a block.
func (c *Cache) inspect(e fs.DirEntry) (found, bool) {
	n, isBlock := parseName(e.Name())
	isTemp := strings.HasPrefix(e.Name(), tempPrefix)
	info, err := e.Info()
	if err != nil || !isBlock && !isTemp || !info.Mode().IsRegular() {
		return found{}, false
	}
	f := found{n, pages(info.Size()), info.ModTime().UnixNano()}
	if isTemp {
		if err := c.removeFile(e.Name()); err != nil {
			c.used += f.alloc // the file stays and is counted
			c.logError("remove", err)
		}
		return found{}, false
	}
	if info.Size() > c.block+trailerMax {
		c.discard(f)
		return found{}, false
	}
	return f, true
}

// discard removes the file of a block that is not indexed; a file that cannot be removed is
// counted.
func (c *Cache) discard(f found) {
	if err := c.removeFile(f.name.file()); err != nil {
		c.used += f.alloc
		c.logError("remove", err)
	}
}

// pages is the disk space of a file of n bytes.
func pages(n int64) int64 { return (n + pageBytes - 1) / pageBytes * pageBytes }
