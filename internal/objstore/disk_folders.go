package objstore

import (
	"os"
	"sync"
)

// foldersMax is the number of folders kept open. A broker writes into two or three at a time.
const foldersMax = 32

// folderCache keeps folders open. A handle refers to the folder itself, not to its path: a move
// into a removed folder fails, even if a new folder has its name.
type folderCache struct {
	make func(dir string) (*os.File, error)

	mu   sync.Mutex // guards the fields below and those of every folder
	open map[string]*folder
	uses uint64
}

type folder struct {
	dir     string
	file    *os.File
	users   int
	lastUse uint64
	dropped bool // removed from the cache: the last user closes it
}

func newFolderCache(makeFolder func(string) (*os.File, error)) *folderCache {
	return &folderCache{make: makeFolder, open: map[string]*folder{}}
}

// acquire returns the open folder; the caller releases it.
func (c *folderCache) acquire(dir string) (*folder, error) {
	if f := c.lookup(dir); f != nil {
		return f, nil
	}
	file, err := c.make(dir)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if old := c.open[dir]; old != nil {
		c.dropLocked(old) // only the newer handle certainly has the name
	}
	c.evictLocked()
	c.uses++
	f := &folder{dir: dir, file: file, users: 1, lastUse: c.uses}
	c.open[dir] = f
	return f, nil
}

func (c *folderCache) lookup(dir string) *folder {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.open[dir]
	if f == nil {
		return nil
	}
	c.uses++
	f.users++
	f.lastUse = c.uses
	return f
}

// release ends a use; gone says that the folder was removed.
func (c *folderCache) release(f *folder, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.users--
	if gone && !f.dropped {
		c.dropLocked(f)
		return
	}
	if f.dropped && f.users == 0 {
		_ = f.file.Close()
	}
}

func (c *folderCache) dropLocked(f *folder) {
	delete(c.open, f.dir)
	f.dropped = true
	if f.users == 0 {
		_ = f.file.Close()
	}
}

func (c *folderCache) evictLocked() {
	if len(c.open) < foldersMax {
		return
	}
	var oldest *folder
	for _, f := range c.open {
		if oldest == nil || f.lastUse < oldest.lastUse {
			oldest = f
		}
	}
	c.dropLocked(oldest)
}

func (c *folderCache) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.open {
		c.dropLocked(f)
	}
}
