package objstore

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// tempRoot contains a folder for every process that writes. Keys cannot contain '+'.
const tempRoot = "+tmp"

// tempFolder is the folder in which an open Disk writes files before they have their names. It
// holds a lock on the folder, by which other processes distinguish the leftovers of a killed writer
// from the files of a running one.
type tempFolder struct {
	path string // relative to the store's root
	file *os.File
	next atomic.Uint64
}

// lazyTemp is the temporary folder, created when it is first needed.
type lazyTemp struct {
	mu     sync.Mutex // held while it is created
	folder atomic.Pointer[tempFolder]
}

// open returns the folder. After an error the next call tries again.
func (l *lazyTemp) open(root *os.Root) (*tempFolder, error) {
	if t := l.folder.Load(); t != nil {
		return t, nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t := l.folder.Load(); t != nil {
		return t, nil
	}
	t, err := openTemp(root)
	if err != nil {
		return nil, fmt.Errorf("temporary folder: %w", err)
	}
	l.folder.Store(t)
	return t, nil
}

func (l *lazyTemp) close(root *os.Root) error {
	if t := l.folder.Load(); t != nil {
		return errors.Join(root.RemoveAll(t.path), CloseFile(t.file))
	}
	return nil
}

// openTemp removes leftovers and creates this store's own temporary folder.
func openTemp(root *os.Root) (*tempFolder, error) {
	if err := root.MkdirAll(tempRoot, folderMode); err != nil {
		return nil, err
	}
	if err := sweepTemp(root); err != nil {
		return nil, err
	}
	for {
		random := make([]byte, 8)
		_, _ = rand.Read(random) // never fails
		t := &tempFolder{path: path.Join(tempRoot, hex.EncodeToString(random))}
		if err := root.Mkdir(t.path, folderMode); err != nil {
			return nil, err
		}
		own, err := t.lock(root)
		if own || err != nil {
			return t, err
		}
	}
}

// lock opens and locks the folder. own is false if another process's sweep removed it first.
func (t *tempFolder) lock(root *os.Root) (own bool, err error) {
	t.file, err = root.Open(t.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	err = LockFile(t.file)
	if err == nil || lockless(err) {
		opened, openedErr := t.file.Stat()
		named, namedErr := root.Stat(t.path)
		if openedErr == nil && namedErr == nil && os.SameFile(opened, named) {
			return true, nil
		}
		err = ErrFileInUse
	}
	_ = t.file.Close()
	if errors.Is(err, ErrFileInUse) {
		return false, nil
	}
	return false, err
}

func (t *tempFolder) name() string { return strconv.FormatUint(t.next.Add(1), 36) }

// remove deletes a temporary file if it still exists. The next open removes remaining files.
func (t *tempFolder) remove(name string) {
	_ = unix.Unlinkat(int(t.file.Fd()), name, 0)
}

// sweepTemp removes the folders of processes that have ended.
func sweepTemp(root *os.Root) error {
	dir, err := root.Open(tempRoot)
	if err != nil {
		return err
	}
	names, err := dir.Readdirnames(-1)
	_ = dir.Close()
	if err != nil {
		return err
	}
	for _, name := range names {
		if err := sweepOne(root, path.Join(tempRoot, name)); err != nil {
			return err
		}
	}
	return nil
}

func sweepOne(root *os.Root, name string) error {
	f, err := root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer CloseFile(f)
	if LockFile(f) != nil {
		return nil // its owner is running, or the file system has no locks
	}
	return root.RemoveAll(name)
}

// lockless reports whether the file system has no locks. Leftovers stay there.
func lockless(err error) bool {
	return errors.Is(err, unix.ENOLCK) || errors.Is(err, unix.ENOTSUP) || errors.Is(err, unix.ENOSYS) || errors.Is(err, unix.EINVAL)
}

// linkNoReplace links a file to its second name unless that is taken (EEXIST), then unlinks the
// first. If the second step fails, the next open removes the temporary name.
func linkNoReplace(from *os.File, fromName string, to *os.File, toName string) error {
	if err := unix.Linkat(int(from.Fd()), fromName, int(to.Fd()), toName, 0); err != nil {
		return err
	}
	_ = unix.Unlinkat(int(from.Fd()), fromName, 0)
	return nil
}

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
