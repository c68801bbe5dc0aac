package journalsim

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"sync"
	"syscall"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/internal/engine/objstore/watermark"
)

// Process is a simulated process: its journal.System, and what the scheduler knows of it. Each
// method of the system is divided into the steps of a real file system.
type Process struct {
	w    *World
	id   int
	dead bool // every call returns errKilled
	// paused: the process takes no step before this step of the world
	paused int
	steps  int // taken by this process
	store  *store

	mu   sync.Mutex      // guards made
	made map[string]bool // folders that it has made durable
	// mediumless: the file system cannot read past the page cache
	mediumless bool
}

var _ journal.System = (*Process)(nil)

var errKilled = fmt.Errorf("process was killed: %w", syscall.EINTR)

// change is a step that changes the file system.
func (p *Process) change(format string, args ...any) error {
	if err := p.step(format, args...); err != nil {
		return err
	}
	if p.w.disk.down {
		return fmt.Errorf("file system is shut down: %w", syscall.EROFS)
	}
	p.w.disk.changes++
	return nil
}

// allocate is a change that needs space.
func (p *Process) allocate(format string, args ...any) error {
	if err := p.change(format, args...); err != nil {
		return err
	}
	if p.w.disk.full {
		p.w.stats.Full++
		return syscall.ENOSPC
	}
	return nil
}

// look is a step that reads.
func (p *Process) look(format string, args ...any) error {
	if err := p.step(format, args...); err != nil {
		return err
	}
	if p.w.fault(p.w.cfg.ReadErrors) {
		p.w.stats.ReadErrors++
		p.w.tracef("%d   read error", p.id)
		return syscall.EIO
	}
	return nil
}

// MakeFolder implements journal.System: mkdir, then fsync of the folders above, upwards. A process
// does so once for each folder.
func (p *Process) MakeFolder(folder string) error {
	p.mu.Lock()
	made := p.made[folder]
	p.mu.Unlock()
	if made || folder == "." {
		return nil
	}
	above := []string{"."}
	for i, c := range folder {
		if c == '/' {
			above = append(above, folder[:i])
		}
	}
	for _, name := range append(above[1:], folder) {
		if err := p.mkdir(name); err != nil {
			return err
		}
	}
	for _, name := range slices.Backward(above) {
		if err := p.syncFolder(name); err != nil {
			return err
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.made[folder] = true
	return nil
}

func (p *Process) mkdir(name string) error {
	if err := p.allocate("mkdir %s", name); err != nil {
		return err
	}
	n, err := p.w.disk.lookup(name)
	switch {
	case err == nil && n.folder:
		return nil
	case err == nil:
		return fmt.Errorf("mkdir %s: %w", name, syscall.ENOTDIR)
	}
	return p.w.disk.link(name, newFolder(p.w.disk.newID()))
}

// syncFolder makes the names of a folder durable. A failure shuts the file system down.
func (p *Process) syncFolder(name string) error {
	if err := p.change("fsync %s", name); err != nil {
		return err
	}
	n, err := p.w.disk.lookup(name)
	if err != nil {
		return err
	}
	if p.w.fault(p.w.cfg.FolderErrors) {
		p.w.stats.FolderErrors++
		p.w.tracef("%d   fsync of folder %s fails", p.id, name)
		p.w.disk.down = true
		return syscall.EIO
	}
	m := n.begin()
	if err := p.change("fsync %s ends", name); err != nil {
		return err
	}
	n.end(m)
	return nil
}

// PutFile implements journal.System: a temporary file, fdatasync, rename unless the name is taken,
// fsync of the folder.
func (p *Process) PutFile(name string, content []byte) error {
	n := newFile(0)
	if err := p.allocate("create a file for %s", name); err != nil {
		return err
	}
	n.id = p.w.disk.newID()
	n.write(content, 0)
	if err := p.syncFile(n, name); err != nil {
		return err
	}
	if err := p.MakeFolder(dirOf(name)); err != nil {
		return err
	}
	if err := p.change("rename to %s", name); err != nil {
		return err
	}
	linked := p.w.disk.link(name, n)
	if linked != nil && !isExist(linked) {
		return linked
	}
	if err := p.syncFolder(dirOf(name)); err != nil {
		return err
	}
	return linked
}

// syncFile is fdatasync.
func (p *Process) syncFile(n *inode, name string) error {
	if err := p.step("fdatasync %s", name); err != nil {
		return err
	}
	if p.w.disk.down {
		return fmt.Errorf("file system is shut down: %w", syscall.EROFS)
	}
	if len(n.dirty) > 0 && p.w.fault(p.w.cfg.SyncErrors) {
		p.w.stats.SyncErrors++
		p.w.tracef("%d   fdatasync %s fails", p.id, name)
		reached := p.w.chance(30)
		n.lose(func() bool { return reached && p.w.chance(50) })
		return syscall.EIO
	}
	m := n.begin()
	if err := p.step("fdatasync %s ends", name); err != nil {
		return err
	}
	n.end(m)
	p.w.disk.changes++
	return nil
}

// prepareStep is the size of a step of Prepare.
const prepareStep = 32 << 10

// Prepare implements journal.System: create, write zeros, fdatasync, fsync of the folder. Other
// processes see the file while it grows.
func (p *Process) Prepare(name string, size int64, pace func(int64) error) error {
	if err := p.allocate("create %s", name); err != nil {
		return err
	}
	n := newFile(p.w.disk.newID())
	if err := p.w.disk.link(name, n); err != nil {
		return err
	}
	if err := p.fill(n, name, size, pace); err != nil {
		if p.change("unlink %s", name) == nil {
			_ = p.w.disk.unlink(name)
		}
		return err
	}
	return p.syncFolder(dirOf(name))
}

func (p *Process) fill(n *inode, name string, size int64, pace func(int64) error) error {
	for at := int64(0); at < size; at += prepareStep {
		if err := pace(at); err != nil {
			return err
		}
		if err := p.allocate("write zeros to %s at %d", name, at); err != nil {
			return err
		}
		n.size.add(min(at+prepareStep, size)) // a file has zeros where nothing was written
	}
	return p.syncFile(n, name)
}

// ReadFile implements journal.System.
func (p *Process) ReadFile(name string) ([]byte, error) {
	n, err := p.file(name, "read %s")
	if err != nil {
		return nil, err
	}
	b := make([]byte, n.size.last())
	return b[:n.read(b, 0)], nil
}

// file is a step that looks up a file.
func (p *Process) file(name, what string) (*inode, error) {
	if err := p.look(what, name); err != nil {
		return nil, err
	}
	n, err := p.w.disk.lookup(name)
	if err == nil && n.folder {
		err = fmt.Errorf("%s is a folder: %w", name, fs.ErrNotExist)
	}
	return n, err
}

// ReadFolder implements journal.System. Names that come or go meanwhile are in the result or not.
func (p *Process) ReadFolder(folder string) ([]string, error) {
	if err := p.look("readdir %s", folder); err != nil {
		return nil, err
	}
	n, err := p.w.disk.lookup(folder)
	if err != nil {
		return nil, err
	}
	if !n.folder {
		return nil, fmt.Errorf("%s is a file: %w", folder, fs.ErrNotExist)
	}
	before := n.list()
	if err := p.step("readdir %s ends", folder); err != nil {
		return nil, err
	}
	after := n.list()
	var names []string
	all := slices.Concat(before, after)
	slices.Sort(all)
	for _, name := range slices.Compact(all) {
		both := slices.Contains(before, name) && slices.Contains(after, name)
		if both || p.w.chance(50) {
			names = append(names, name)
		}
	}
	p.w.draw.Shuffle(len(names), func(i, k int) { names[i], names[k] = names[k], names[i] })
	return names, nil
}

// Size implements journal.System.
func (p *Process) Size(name string) (int64, error) {
	n, err := p.file(name, "stat %s")
	if err != nil {
		return 0, err
	}
	return n.size.last(), nil
}

// Exists implements journal.System.
func (p *Process) Exists(name string) (bool, error) {
	if err := p.look("access %s", name); err != nil {
		return false, err
	}
	_, err := p.w.disk.lookup(name)
	if isNotExist(err) {
		return false, nil
	}
	return err == nil, err
}

// Open implements journal.System.
func (p *Process) Open(name string, write bool) (journal.File, error) {
	n, err := p.file(name, "open %s")
	if err != nil {
		return nil, err
	}
	return &handle{p: p, n: n, name: name, write: write, errors: n.errors}, nil
}

// OpenMark implements journal.System: create, write zeros, fdatasync, fsync of the folder. It is called
// for a new file only, because a folder is claimed once.
func (p *Process) OpenMark(name string) (journal.Mark, error) {
	if err := p.allocate("create %s", name); err != nil {
		return nil, err
	}
	n := newFile(p.w.disk.newID())
	if err := p.w.disk.link(name, n); err != nil {
		return nil, err
	}
	if err := p.allocate("write zeros to %s", name); err != nil {
		return nil, err
	}
	n.size.add(watermark.FileBytes)
	if err := p.syncFile(n, name); err != nil {
		return nil, err
	}
	return &openMark{p: p, n: n, name: name}, p.syncFolder(dirOf(name))
}

// Append implements journal.System: open or create, then write.
func (p *Process) Append(name string, b []byte) error {
	if err := p.allocate("open to append %s", name); err != nil {
		return err
	}
	n, err := p.w.disk.lookup(name)
	if isNotExist(err) {
		n = newFile(p.w.disk.newID())
		err = p.w.disk.link(name, n)
	}
	if err != nil {
		return err
	}
	if n.folder {
		return fmt.Errorf("%s: %w", name, syscall.EISDIR)
	}
	if err := p.allocate("append %d bytes to %s", len(b), name); err != nil {
		return err
	}
	// O_APPEND writes are ordered by the lock of the inode, but readers see parts.
	at := n.size.last()
	for _, part := range p.w.cuts(name, at, b) {
		n.write(part, at)
		at += int64(len(part))
	}
	return nil
}

// Remove implements journal.System.
func (p *Process) Remove(name string) error {
	if err := p.change("unlink %s", name); err != nil {
		return err
	}
	return p.w.disk.unlink(name)
}

// Truncate implements journal.System.
func (p *Process) Truncate(name string, size int64) error {
	if err := p.change("truncate %s to %d", name, size); err != nil {
		return err
	}
	n, err := p.w.disk.lookup(name)
	if err == nil {
		p.w.stats.Truncates++
		n.truncate(size)
	}
	return err
}

func dirOf(name string) string {
	for i := len(name) - 1; i >= 0; i-- {
		if name[i] == '/' {
			return name[:i]
		}
	}
	return "."
}

func isExist(err error) bool    { return err != nil && errors.Is(err, fs.ErrExist) }
func isNotExist(err error) bool { return err != nil && errors.Is(err, fs.ErrNotExist) }
