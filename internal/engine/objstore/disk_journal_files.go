package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
)

// diskFiles is the file system of a journal.
type diskFiles struct{ d *Disk }

var _ journal.System = diskFiles{}

// MakeFolder implements journal.System.
func (s diskFiles) MakeFolder(folder string) error {
	for range moveTriesMax {
		f, err := s.d.folders.acquire(folder)
		if errors.Is(err, errVanished) {
			continue
		}
		if err == nil {
			s.d.folders.release(f, false)
		}
		return err
	}
	return fmt.Errorf("create folder %s: %w: removed %d times", folder, ErrNoVerdict, moveTriesMax)
}

// PutFile implements journal.System.
func (s diskFiles) PutFile(name string, content []byte) error {
	err := s.d.putFile(context.Background(), name, NewBody(content))
	if errors.Is(err, ErrExists) || errors.Is(err, errFolderName) {
		return fmt.Errorf("%w: %w", fs.ErrExist, err)
	}
	return err
}

// zeros is one step of Prepare.
var zeros [256 << 10]byte

// Prepare implements journal.System.
func (s diskFiles) Prepare(name string, size int64, pace func(int64) error) error {
	f, err := s.d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, fileMode)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := s.fill(f, size, pace); err != nil {
		_ = s.d.root.Remove(name)
		return err
	}
	if s.d.options.NoSync {
		return nil
	}
	return s.d.syncFolder(path.Dir(name))
}

func (s diskFiles) fill(f *os.File, size int64, pace func(int64) error) error {
	fd := int(f.Fd())
	if err := s.d.calls.reserve(fd, size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		if err := pace(at); err != nil {
			return err
		}
		n, err := f.WriteAt(zeros[:min(int64(len(zeros)), size-at)], at)
		if err != nil {
			return err
		}
		if !s.d.options.NoSync {
			if err := s.d.calls.writeBack(fd, at, int64(n)); err != nil {
				return err
			}
		}
		at += int64(n)
	}
	if s.d.options.NoSync {
		return nil
	}
	if err := s.d.calls.dataSync(fd); err != nil {
		return s.d.syncFailed(err)
	}
	return nil
}

// smallFileMax bounds what ReadFile returns: a claim or an end.
const smallFileMax = 4 << 10

// ReadFile implements journal.System. It returns the start of a file that is too large.
func (s diskFiles) ReadFile(name string) ([]byte, error) {
	f, err := s.d.root.Open(name)
	if err != nil {
		return nil, absent(err)
	}
	defer f.Close()
	b := make([]byte, smallFileMax)
	n, err := f.ReadAt(b, 0)
	if errors.Is(err, unix.EISDIR) {
		return nil, fs.ErrNotExist
	}
	if n == 0 && err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	return b[:n], nil
}

// ReadFolder implements journal.System. It omits names that no object or journal file has.
func (s diskFiles) ReadFolder(folder string) ([]string, error) {
	f, err := s.d.root.Open(folder)
	if err != nil {
		return nil, absent(err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	return slices.DeleteFunc(names, func(name string) bool { return !ValidKey(name) }), absent(err)
}

// Size implements journal.System.
func (s diskFiles) Size(name string) (int64, error) {
	var info unix.Stat_t
	err := unix.Fstatat(int(s.d.base.Fd()), name, &info, 0)
	if missing(err) || err == nil && info.Mode&unix.S_IFMT != unix.S_IFREG {
		return 0, fs.ErrNotExist
	}
	return info.Size, err
}

// Exists implements journal.System.
func (s diskFiles) Exists(name string) (bool, error) {
	err := unix.Faccessat(int(s.d.base.Fd()), name, unix.F_OK, 0)
	if missing(err) {
		return false, nil
	}
	return err == nil, err
}

// Open implements journal.System.
func (s diskFiles) Open(name string, write bool) (journal.File, error) {
	mode := os.O_RDONLY
	if write {
		mode = os.O_RDWR
	}
	f, err := s.d.root.OpenFile(name, mode, 0)
	if err != nil {
		return nil, absent(err)
	}
	return &journalFile{File: f, disk: s.d, name: name, write: write}, nil
}

// Append implements journal.System.
func (s diskFiles) Append(name string, b []byte) error {
	f, err := s.d.root.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, fileMode)
	if err != nil {
		return err
	}
	return errors.Join(s.d.writeParts(int(f.Fd()), [][]byte{b}), f.Close())
}

// Remove implements journal.System.
func (s diskFiles) Remove(name string) error { return absent(s.d.root.Remove(name)) }

// Truncate implements journal.System.
func (s diskFiles) Truncate(name string, size int64) error {
	f, err := s.d.root.OpenFile(name, os.O_WRONLY, 0)
	if err != nil {
		return absent(err)
	}
	return errors.Join(f.Truncate(size), f.Close())
}

// NewMutex implements journal.System.
func (diskFiles) NewMutex() sync.Locker { return new(sync.Mutex) }

// absent adds fs.ErrNotExist to an error that says so in another way.
func absent(err error) error {
	if missing(err) {
		return fmt.Errorf("%w: %w", fs.ErrNotExist, err)
	}
	return err
}

// journalFile is an open journal file.
type journalFile struct {
	*os.File
	disk  *Disk
	name  string
	write bool
}

// WriteAt implements journal.File.
func (f *journalFile) WriteAt(parts [][]byte, at int64) error {
	fd := int(f.Fd())
	left := source{parts: parts}
	var vectors [][]byte
	for {
		if vectors = left.next(vectors[:0], 1<<30); len(vectors) == 0 {
			return nil
		}
		n, err := f.disk.calls.pwritev(fd, vectors, at)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err == nil && n == 0 {
			err = unix.EIO
		}
		if err != nil {
			return err
		}
		left.advance(n)
		at += int64(n)
	}
}

// Sync implements journal.File. It fails if the file was removed, because what the caller has appended
// then ends with the process: no journal removes a file that its owner writes.
func (f *journalFile) Sync() error {
	if !f.disk.options.NoSync {
		if err := f.disk.calls.dataSync(int(f.Fd())); err != nil {
			return err
		}
	}
	if !f.write {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &stat); err != nil {
		return err
	}
	if stat.Nlink == 0 {
		return fmt.Errorf("%w: the file was removed", fs.ErrNotExist)
	}
	return nil
}

// Size implements journal.File.
func (f *journalFile) Size() (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// ReadMedium implements journal.File.
func (f *journalFile) ReadMedium(p []byte, off int64) (bool, error) {
	if f.disk.options.NoSync {
		return false, nil
	}
	return readDirect(f.disk.root, f.name, p, off)
}

// handles keeps files of journals open for reading. A handle that is in use belongs to one Section,
// which may move its position.
type handles struct {
	root *os.Root
	base *os.File // its folder

	mu   sync.Mutex // guards idle
	idle []idleHandle
}

type idleHandle struct {
	name string
	file *os.File
}

// handlesMax is the number of idle handles.
const handlesMax = 32

func (h *handles) open(name string) (*os.File, error) {
	h.mu.Lock()
	for i := len(h.idle) - 1; i >= 0; i-- {
		if f := h.idle[i].file; h.idle[i].name == name {
			h.idle = slices.Delete(h.idle, i, i+1)
			h.mu.Unlock()
			return f, nil
		}
	}
	h.mu.Unlock()
	return openFile(h.root, h.base, name)
}

// put takes back a handle; the oldest idle one is closed if there are too many.
func (h *handles) put(name string, f *os.File) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.idle = append(h.idle, idleHandle{name, f})
	if len(h.idle) <= handlesMax {
		return nil
	}
	oldest := h.idle[0].file
	h.idle = slices.Delete(h.idle, 0, 1)
	return oldest.Close()
}

func (h *handles) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, i := range h.idle {
		_ = i.file.Close()
	}
	h.idle = nil
}
