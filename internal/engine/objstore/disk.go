package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/objstore/journal"
)

// DiskOptions are the settings of a disk store.
type DiskOptions struct {
	// NoSync omits every fsync: a power failure loses acknowledged data, a killed process does not.
	// Only for data that may be lost.
	NoSync bool
	// Existing is for callers that mostly read: the folder must exist, and opening creates nothing
	// in it.
	Existing bool
	// NoJournal keeps every object in a file of its own: Own returns ErrUnsuitable. Journals of
	// other processes are read.
	NoJournal bool
}

// Disk is a bucket in a folder: an object is a file named by its key. Safe for concurrent use, also
// by several processes on one machine. Close releases its handles; unclosed stores leave nothing
// behind that needs cleanup.
type Disk struct {
	dir     string
	options DiskOptions
	root    *os.Root // confines access to dir, also against symbolic links
	base    *os.File // handle of the folder of root
	temp    lazyTemp
	folders *folderCache
	calls   diskCalls

	journals journals
	handles  handles
	sizes    journal.Options
	inline   int64 // size of the largest object that goes into a journal file

	refused atomic.Pointer[string] // why writes are refused; set once
	broken  chan struct{}          // closed by the first fsync that fails
	by      error                  // the cause; set before broken is closed
	once    sync.Once              // closes broken
	writing sync.RWMutex           // read-locked by writers, so that Close waits for them
	close   func() error
}

// diskCalls are the system calls that tests replace to inject errors.
type diskCalls struct {
	writev     func(fd int, iovs [][]byte) (int, error)
	pwritev    func(fd int, iovs [][]byte, offset int64) (int, error)
	writeBack  func(fd int, offset, size int64) error
	settle     func(fd int, offset, size int64) error
	reserve    func(fd int, size int64) error
	dataSync   func(fd int) error
	folderSync func(*os.File) error
	move       func(from *os.File, fromName string, to *os.File, toName string) error
}

// OpenDisk opens the store in dir, creates the folder if it is missing, and removes temporary files
// of killed processes. With Existing it only opens it; an error for a missing folder wraps
// fs.ErrNotExist.
func OpenDisk(dir string, options DiskOptions) (*Disk, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("open disk store: %w", err)
	}
	if !options.Existing {
		if err := makeRoot(dir, options.NoSync); err != nil {
			return nil, fmt.Errorf("open disk store: %w", err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("open disk store: %w", err)
	}
	base, err := root.Open(".")
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open disk store: %w", err), root.Close())
	}
	d := &Disk{
		dir: dir, options: options, root: root, base: base, broken: make(chan struct{}),
		calls: diskCalls{
			writev: unix.Writev, pwritev: pwritev, writeBack: writeBack, settle: settle, reserve: reserve, dataSync: dataSync,
			folderSync: (*os.File).Sync, move: moveNoReplace,
		},
	}
	d.folders = &folderCache{make: d.makeFolder, open: map[string]*folder{}}
	d.sizes, d.inline = journalSizes()
	d.handles.base, d.handles.root = base, root
	d.close = sync.OnceValue(func() error {
		d.refuse("store is closed")
		d.writing.Lock()
		defer d.writing.Unlock()
		ended := d.journals.closeOwn()
		d.handles.close()
		d.folders.closeAll()
		return errors.Join(ended, d.temp.close(root), base.Close(), root.Close())
	})
	if !options.Existing {
		if _, err := d.temp.open(root); err != nil {
			return nil, errors.Join(fmt.Errorf("open disk store: %w", err), base.Close(), root.Close())
		}
	}
	return d, nil
}

// makeRoot creates the store's folder and missing folders above it, and makes them durable.
func makeRoot(dir string, noSync bool) error {
	lowest := dir // the lowest folder that existed before
	for {
		if _, err := os.Stat(lowest); err == nil || lowest == filepath.Dir(lowest) {
			break
		}
		lowest = filepath.Dir(lowest)
	}
	if err := os.MkdirAll(dir, folderMode); err != nil || noSync {
		return err
	}
	for p := dir; p != lowest; p = filepath.Dir(p) {
		if err := syncPath(filepath.Dir(p)); err != nil {
			return err
		}
	}
	return nil
}

func syncPath(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// Get implements Store. The body is a *Section.
func (d *Disk) Get(ctx context.Context, key string, r Range) (Object, error) {
	if err := Begin(ctx, "get", key); err != nil {
		return Object{}, err
	}
	o, err := d.get(key, r)
	if err != nil {
		return Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	return o, nil
}

func (d *Disk) get(key string, r Range) (Object, error) {
	folder := path.Dir(key)
	if j := d.journals.find(folder); j != nil {
		return d.getJournal(j, key, r)
	}
	o, err := d.getFile(key, r)
	if errors.Is(err, errNotFolder) || errors.Is(err, ErrNotFound) && d.hasJournal(folder) {
		j, claimErr := d.claimed(folder)
		if claimErr != nil {
			return Object{}, d.journalVerdict(claimErr)
		}
		if j != nil {
			return d.getJournal(j, key, r)
		}
	}
	return o, err
}

// errNotFolder: the folder of an object is a file, which may be a claim.
var errNotFolder = fmt.Errorf("%w: its folder is a file", ErrNotFound)

// getFile opens a range of a file.
func (d *Disk) getFile(name string, r Range) (Object, error) {
	f, err := openFile(d.root, d.base, name)
	if errors.Is(err, unix.ENOTDIR) {
		return Object{}, errNotFolder
	}
	if err != nil {
		return Object{}, readVerdict(err)
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || d.isClaim(name, info.Size())) {
		err = fs.ErrNotExist // a folder of other objects
	}
	if err != nil {
		_ = f.Close()
		return Object{}, readVerdict(err)
	}
	offset, length, err := r.Clip(info.Size())
	if err != nil {
		_ = f.Close()
		return Object{}, err
	}
	return Object{Size: info.Size(), Body: &Section{File: f, Off: offset, Len: length}}, nil
}

// openFile opens a file for reading.
func openFile(root *os.Root, base *os.File, name string) (*os.File, error) {
	f, err := openBeneath(base, name)
	if err != nil && !missing(err) { // no openat2, a symbolic link or a moved folder: use os.Root
		f, err = root.Open(name)
	}
	return f, err
}

// Delete implements Store. It does not fsync: after a power failure a deleted object may exist
// again, and can be deleted again.
func (d *Disk) Delete(ctx context.Context, keys ...string) error {
	if err := Begin(ctx, "delete", keys...); err != nil {
		return err
	}
	d.writing.RLock()
	defer d.writing.RUnlock()
	if err := d.refusing(); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	emptied := map[string]bool{}
	claimed := map[string][]string{} // keys by folder
	for _, key := range keys {
		if err := Alive(ctx, "delete"); err != nil {
			return err
		}
		folder := path.Dir(key)
		j, err := d.deleteFile(folder, key)
		if err != nil {
			return fmt.Errorf("delete %s: %w", key, err)
		}
		if j {
			claimed[folder] = append(claimed[folder], key)
			continue
		}
		failpoint.Hit("disk.deleted")
		emptied[folder] = true
	}
	for folder, keys := range claimed {
		if err := d.deleteJournal(folder, keys); err != nil {
			return fmt.Errorf("delete %s and %d others: %w", keys[0], len(keys)-1, err)
		}
	}
	for dir := range emptied {
		// It stops at the first folder that is not empty. A Put that needs the folder creates it
		// again.
		for dir != "." && d.root.Remove(dir) == nil {
			dir = path.Dir(dir)
		}
	}
	return nil
}

// deleteFile removes the file of an object, unless its folder is claimed by a journal.
func (d *Disk) deleteFile(folder, key string) (claimed bool, err error) {
	if d.journals.find(folder) != nil {
		return true, nil
	}
	if info, err := d.root.Lstat(key); err == nil && d.isClaim(key, info.Size()) {
		return false, nil // a folder of other objects
	}
	err = d.root.Remove(key)
	if err == nil || errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if !missing(err) {
		return false, writeVerdict(err)
	}
	j, err := d.claimed(folder)
	if err != nil {
		return false, d.journalVerdict(err)
	}
	return j != nil, nil
}

// Close waits for running writes and releases the handles. Later calls are refused. It may be
// called twice.
func (d *Disk) Close() error { return d.close() }

// String implements Store.
func (d *Disk) String() string {
	name, separator := "file:"+d.dir, "?"
	if d.options.NoSync {
		name += separator + "fsync=false"
		separator = "&"
	}
	if d.options.NoJournal {
		name += separator + "journal=false"
	}
	return name
}

// refuse makes the store refuse writes from now on. After a failed fsync the content of the disk is
// unknown, and a second fsync may report a meaningless success.
func (d *Disk) refuse(why string) {
	d.refused.CompareAndSwap(nil, &why)
}

func (d *Disk) refusing() error {
	if why := d.refused.Load(); why != nil {
		return fmt.Errorf("%w: %s", ErrRefused, *why)
	}
	return nil
}

// Broken implements Fragile.
func (d *Disk) Broken() <-chan struct{} { return d.broken }

// BrokenBy implements Fragile.
func (d *Disk) BrokenBy() error {
	select {
	case <-d.broken:
		return d.by
	default:
		return nil
	}
}

func missing(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR)
}

func readVerdict(err error) error {
	if missing(err) {
		return ErrNotFound
	}
	return writeVerdict(err)
}

// writeVerdict classifies an error of the operating system: transient errors are no verdict, all
// others are refused until an operator fixes the cause.
func writeVerdict(err error) error {
	for _, transient := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR, unix.EAGAIN} {
		if errors.Is(err, transient) {
			return fmt.Errorf("%w: %w", ErrNoVerdict, err)
		}
	}
	for _, full := range []error{unix.ENOSPC, unix.EDQUOT} {
		if errors.Is(err, full) {
			return fmt.Errorf("%w: the disk is full: %w", ErrRefused, err)
		}
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}
