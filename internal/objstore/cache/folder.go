package cache

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

const (
	lockName   = "lock"
	tempPrefix = "tmp-"
	pageBytes  = 4096 // the least that a file takes of a disk
)

// errInUse: another process has the folder.
var errInUse = errors.New("folder is in use by another process")

// folder is the cache's place on disk: nothing outside of it can be reached through it.
type folder struct {
	root *os.Root
	lock *os.File // nil where no lock can be had, for example on a read-only disk
}

func (f *folder) close() error {
	var err error
	if f.lock != nil {
		err = f.lock.Close()
	}
	return errors.Join(err, f.root.Close())
}

// openFolder makes or opens the folder, removes what a crash left behind, and lists the blocks in it. If that fails the
// cache does without.
func (c *Cache) openFolder(dir string) {
	f, err := c.lockFolder(dir)
	if err != nil {
		c.logTrouble("open", err)
		return
	}
	c.folder = f
	if err := c.scan(); err != nil {
		c.logTrouble("list", err)
		c.folder = nil
		_ = f.close()
	}
}

func (c *Cache) lockFolder(dir string) (*folder, error) {
	if err := c.step("folder"); err != nil {
		return nil, fmt.Errorf("make cache folder: %w", err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make cache folder: %w", err)
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
		return &folder{root: root}, nil // a folder that can only be read is still good for that
	}
	if err := flock(lock); err != nil {
		_ = lock.Close()
		_ = root.Close()
		return nil, fmt.Errorf("lock cache folder: %w", err)
	}
	return &folder{root: root, lock: lock}, nil
}

// found is a file of the folder that looks like a block.
type found struct {
	name    name
	alloc   int64
	written int64 // modification time
}

// scan indexes the files of earlier runs, newest first while they fit, and removes the others. They are verified when
// they are first read. Names that are not the cache's are left alone.
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
			if b, ok := c.look(e); ok {
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
	slices.SortFunc(blocks, func(a, b found) int { return cmp.Compare(b.written, a.written) })
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

// look is one entry of the folder: temporary files of a crash are removed, files that can be no block as well.
func (c *Cache) look(e fs.DirEntry) (found, bool) {
	n, isBlock := parseName(e.Name())
	isTemp := strings.HasPrefix(e.Name(), tempPrefix)
	info, err := e.Info()
	if err != nil || !isBlock && !isTemp || !info.Mode().IsRegular() {
		return found{}, false
	}
	f := found{n, pages(info.Size()), info.ModTime().UnixNano()}
	if isTemp {
		if err := c.removeFile(e.Name()); err != nil {
			c.used += f.alloc // it stays, and is counted
			c.logTrouble("remove", err)
		}
		return found{}, false
	}
	if info.Size() > c.block+trailerMax {
		c.discard(f)
		return found{}, false
	}
	return f, true
}

// discard removes the file of a block that is not indexed; if it can not it stays counted.
func (c *Cache) discard(f found) {
	if err := c.removeFile(f.name.file()); err != nil {
		c.used += f.alloc
		c.logTrouble("remove", err)
	}
}

// pages is what a file of n bytes takes of the disk.
func pages(n int64) int64 { return (n + pageBytes - 1) / pageBytes * pageBytes }
