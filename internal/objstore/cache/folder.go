package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/sebbroker/seb/internal/sorting"
)

const (
	lockName   = "lock"
	tempPrefix = "tmp-"
	pageBytes  = 4096 // allocation unit of files
)

// errInUse: another process has the folder.
var errInUse = errors.New("folder is in use by another process")

// folder is the cache's folder, opened so that no path leaves it.
type folder struct {
	root *os.Root
	lock *os.File // nil if the lock file cannot be opened, for example on a read-only disk
}

func (f *folder) close() error {
	var err error
	if f.lock != nil {
		err = f.lock.Close()
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
	if err := flock(lock); err != nil {
		_ = lock.Close()
		_ = root.Close()
		return nil, fmt.Errorf("lock cache folder: %w", err)
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
