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

	"github.com/sebbroker/seb/internal/failpoint"
)

// DiskOptions are the settings of a disk store.
type DiskOptions struct {
	// NoSync leaves out every fsync: what was acknowledged is lost when the machine loses power, though not when the
	// process is killed. Only for data that may be lost.
	NoSync bool
	// Existing is for who mostly reads: the folder must be there, and nothing is made in it before something is put.
	Existing bool
}

// Disk is a bucket in a folder: an object is a file named by its key. Safe for concurrent use, also by several processes
// on one machine. Close it to give its handles back; it has no state that needs closing.
type Disk struct {
	dir     string
	options DiskOptions
	root    *os.Root // nothing outside of dir can be reached through it, not even by symbolic links
	base    *os.File // the folder of root
	temp    lazyTemp
	folders *folderCache
	calls   diskCalls
	refused atomic.Pointer[string] // why writes are refused; set once
	broken  chan struct{}          // closed by the first fsync that fails
	by      error                  // why; set before broken is closed
	once    sync.Once              // that closes broken
	writing sync.RWMutex           // held for reading by writers: Close waits for them
	close   func() error
}

// diskCalls are the system calls that tests let fail.
type diskCalls struct {
	writev     func(fd int, iovs [][]byte) (int, error)
	writeBack  func(fd int, offset, size int64) error
	settle     func(fd int, offset, size int64) error
	dataSync   func(fd int) error
	folderSync func(*os.File) error
	move       func(from *os.File, fromName string, to *os.File, toName string) error
}

// OpenDisk opens the store in dir, making the folder if it is missing, and removes what killed processes left in its
// temporary folder. With Existing it only opens it; an error for a missing folder wraps fs.ErrNotExist.
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
			writev: unix.Writev, writeBack: writeBack, settle: settle, dataSync: dataSync, folderSync: (*os.File).Sync,
			move: moveNoReplace,
		},
	}
	d.folders = newFolderCache(d.makeFolder)
	d.close = sync.OnceValue(func() error {
		d.refuse("store is closed")
		d.writing.Lock()
		defer d.writing.Unlock()
		d.folders.closeAll()
		return errors.Join(d.temp.close(root), base.Close(), root.Close())
	})
	if !options.Existing {
		if _, err := d.temp.open(root); err != nil {
			return nil, errors.Join(fmt.Errorf("open disk store: %w", err), base.Close(), root.Close())
		}
	}
	return d, nil
}

// makeRoot makes the store's own folder durable: itself and all that it had to make above it.
func makeRoot(dir string, noSync bool) error {
	lowest := dir // the lowest folder that was there before
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
	if err := begin(ctx, "get", key); err != nil {
		return Object{}, err
	}
	f, err := openBeneath(d.base, key)
	if err != nil && !missing(err) { // a kernel without it, a symbolic link, a folder moved meanwhile: step by step
		f, err = d.root.Open(key)
	}
	if err != nil {
		return Object{}, fmt.Errorf("get %s: %w", key, readVerdict(err))
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist // the folder of other objects
	}
	if err != nil {
		_ = f.Close()
		return Object{}, fmt.Errorf("get %s: %w", key, readVerdict(err))
	}
	offset, length, err := clip(r, info.Size())
	if err != nil {
		_ = f.Close()
		return Object{}, fmt.Errorf("get %s: %w", key, err)
	}
	return Object{Size: info.Size(), Body: &Section{File: f, Off: offset, Len: length}}, nil
}

// Delete implements Store. It does not fsync: after a power failure a deleted object may be back, and be deleted again.
func (d *Disk) Delete(ctx context.Context, keys ...string) error {
	if err := begin(ctx, "delete", keys...); err != nil {
		return err
	}
	d.writing.RLock()
	defer d.writing.RUnlock()
	if err := d.refusing(); err != nil {
		return fmt.Errorf("delete: %w", err)
	}
	emptied := map[string]bool{}
	for _, key := range keys {
		if err := alive(ctx, "delete"); err != nil {
			return err
		}
		if err := d.root.Remove(key); err != nil && !missing(err) {
			return fmt.Errorf("delete %s: %w", key, writeVerdict(err))
		}
		failpoint.Hit("disk.deleted")
		emptied[path.Dir(key)] = true
	}
	for dir := range emptied {
		// The first folder that is not empty ends it. A Put that wanted the folder makes it again.
		for dir != "." && d.root.Remove(dir) == nil {
			dir = path.Dir(dir)
		}
	}
	return nil
}

// Close waits for running writes and gives back the handles. Later calls are refused. It may be called twice.
func (d *Disk) Close() error { return d.close() }

// String implements Store.
func (d *Disk) String() string {
	if d.options.NoSync {
		return "file:" + d.dir + "?fsync=false"
	}
	return "file:" + d.dir
}

// refuse makes the store refuse writes from now on: after a failed fsync nobody knows what the disk holds, and asking
// again can be answered with a success that means nothing.
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

// writeVerdict sorts an error of the operating system: what passes by itself is no verdict, all else is refused until
// somebody does something about it.
func writeVerdict(err error) error {
	for _, passing := range []error{unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.EINTR, unix.EAGAIN} {
		if errors.Is(err, passing) {
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
