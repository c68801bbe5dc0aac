package objstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
)

const (
	folderMode = 0o700
	fileMode   = 0o600

	// moveTriesMax bounds the race with a Delete that removes the folder while it is empty.
	moveTriesMax = 8
)

// Put implements Store:
//
//	write a temporary file -> fdatasync -> rename unless the name is taken -> fsync the folder
//
// The content is durable before it has a name, and the name before Put returns. A crash at any step
// leaves no object or the complete one. ctx does not interrupt a running system call.
func (d *Disk) Put(ctx context.Context, key string, body Body) error {
	if err := Begin(ctx, "put", key); err != nil {
		return err
	}
	if err := CheckBody(key, body); err != nil {
		return err
	}
	d.writing.RLock()
	defer d.writing.RUnlock()
	if err := d.refusing(); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	if err := d.put(ctx, key, body); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

func (d *Disk) put(ctx context.Context, key string, body Body) error {
	folder := path.Dir(key)
	if j := d.journals.find(folder); j != nil {
		return d.putJournal(ctx, j, key, body)
	}
	err := d.putFile(ctx, key, body)
	if err == nil || errors.Is(err, ErrExists) {
		return err
	}
	if j, claimErr := d.claimed(folder); claimErr == nil && j != nil {
		return d.putJournal(ctx, j, key, body)
	}
	return err
}

// putFile stores a file unless its name is taken. name is relative to the root.
func (d *Disk) putFile(ctx context.Context, name string, body Body) error {
	temp, err := d.temp.open(d.root)
	if err != nil {
		return writeVerdict(err)
	}
	temporary := temp.name()
	err = d.write(temp, temporary, body)
	if err == nil {
		err = Alive(ctx, "publish")
	}
	if err == nil {
		err = d.publish(name, temp, temporary)
	}
	if err != nil {
		temp.remove(temporary) // after ErrExists and failures before the move
	}
	return err
}

// publish moves the temporary file to its name and makes the name durable.
func (d *Disk) publish(key string, temp *tempFolder, name string) error {
	dir, base := path.Split(key)
	for range moveTriesMax {
		f, err := d.folders.acquire(path.Clean(dir))
		if errors.Is(err, errVanished) {
			continue
		}
		if err != nil {
			return fmt.Errorf("create folder: %w", err)
		}
		err = d.calls.move(temp.file, name, f.file, base)
		failpoint.Hit("disk.moved")
		verdict := d.afterMove(f, key, err)
		failpoint.Hit("disk.put")
		gone := errors.Is(err, unix.ENOENT)
		d.folders.release(f, gone)
		if !gone {
			return verdict
		}
	}
	return fmt.Errorf("move into place: %w: folder was removed %d times", ErrNoVerdict, moveTriesMax)
}

// afterMove returns the verdict after the move. If the name was taken, another Put may have moved
// its object there and not synced the folder yet. So the folder is synced before ErrExists, which
// promises a durable object.
func (d *Disk) afterMove(f *folder, key string, moved error) error {
	taken := errors.Is(moved, unix.EEXIST)
	if moved != nil && !taken {
		return fmt.Errorf("move into place: %w", writeVerdict(moved))
	}
	if !d.options.NoSync {
		if err := d.calls.folderSync(f.file); err != nil {
			return d.syncFailed(err)
		}
	}
	if !taken {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Fstatat(int(f.file.Fd()), path.Base(key), &stat, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return ErrExists // it was deleted meanwhile
	}
	if stat.Mode&unix.S_IFMT == unix.S_IFDIR || d.isClaim(key, stat.Size) {
		return errFolderName
	}
	return ErrExists
}

var errFolderName = fmt.Errorf("%w: name is a folder of other objects", ErrRefused)

// syncFailed makes the store refuse all further writes, because the kernel reports a failed fsync
// only once.
func (d *Disk) syncFailed(err error) error {
	d.refuse("an earlier fsync failed, writes are refused until the store is reopened:  " + err.Error())
	d.once.Do(func() {
		d.by = fmt.Errorf("%s: %w: %w", d, ErrBroken, err)
		close(d.broken)
	})
	return fmt.Errorf("fsync: %w: %w", ErrRefused, err)
}

// makeFolder creates and opens a folder that is durable while it is not empty: it syncs every
// folder above it. It does so once per folder and process, even if the folder exists, because a
// killed process may have created it without syncing.
func (d *Disk) makeFolder(dir string) (*os.File, error) {
	if err := d.root.MkdirAll(dir, folderMode); err != nil {
		return nil, d.folderVerdict(err)
	}
	failpoint.Hit("disk.folder")
	f, err := d.root.Open(dir)
	if err != nil {
		return nil, d.folderVerdict(err)
	}
	for above := dir; above != "." && !d.options.NoSync; {
		above = path.Dir(above)
		if err := d.syncFolder(above); err != nil {
			_ = f.Close()
			return nil, err
		}
	}
	return f, nil
}

func (d *Disk) syncFolder(dir string) error {
	f, err := d.root.Open(dir)
	if err != nil {
		return d.folderVerdict(err)
	}
	defer f.Close()
	if err := d.calls.folderSync(f); err != nil {
		return d.syncFailed(err)
	}
	return nil
}

// errVanished: a folder was removed as empty while it was being created, so publish retries.
var errVanished = errors.New("folder was removed while it was created")

// folderVerdict classifies an error of creating or opening a folder. ErrExist comes from two
// sources: concurrent creation and removal of the folder, which is transient, or an object with
// that name.
func (d *Disk) folderVerdict(err error) error {
	var where *fs.PathError
	if errors.Is(err, fs.ErrExist) && errors.As(err, &where) {
		if info, statErr := d.root.Stat(where.Path); statErr == nil && !info.IsDir() {
			return writeVerdict(err)
		}
		return errVanished
	}
	if errors.Is(err, fs.ErrNotExist) {
		return errVanished
	}
	return writeVerdict(err)
}

const (
	// vectorsMax is the maximum number of parts of one writev: IOV_MAX of Linux and Darwin.
	vectorsMax = 1024

	// writeStep is how much of a file is written before write-back starts: a huge page of the page
	// cache.
	writeStep = 2 << 20
	// settlePause is the longest pause between two steps of a staged file.
	settlePause = 5 * time.Millisecond
)

// write creates the temporary file and makes its content durable.
func (d *Disk) write(temp *tempFolder, name string, body Body) error {
	fd, err := unix.Openat(int(temp.file.Fd()), name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, fileMode)
	if err != nil {
		return fmt.Errorf("create: %w", writeVerdict(err))
	}
	failpoint.Hit("disk.created")
	if body.Size > writeStep && !d.options.NoSync {
		allocate(fd, body.Size)
	}
	err = d.writeParts(fd, body.Parts)
	failpoint.Hit("disk.written")
	if err != nil {
		err = fmt.Errorf("write: %w", writeVerdict(err))
	} else if !d.options.NoSync {
		if err = d.calls.dataSync(fd); err != nil {
			err = d.syncFailed(err)
		}
	}
	failpoint.Hit("disk.synced")
	if closeErr := unix.Close(fd); closeErr != nil && err == nil && !errors.Is(closeErr, unix.EINTR) {
		err = fmt.Errorf("close: %w", writeVerdict(closeErr))
	}
	return err
}

// writeParts writes the parts without joining them, in steps that end at multiples of writeStep.
// Write-back of each step starts as soon as it is complete, so the disk works while the next step
// is copied. The fdatasync at the end, which alone makes the data durable, then has little left to
// wait for.
func (d *Disk) writeParts(fd int, parts [][]byte) error {
	left := source{parts: parts}
	var vectors [][]byte
	var written, begun int64
	for {
		if vectors = left.next(vectors[:0], writeStep-int(written%writeStep)); len(vectors) == 0 {
			return nil
		}
		n, err := d.calls.writev(fd, vectors)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return err
		}
		if n == 0 {
			return io.ErrShortWrite
		}
		left.advance(n)
		written += int64(n)
		if whole := written - written%writeStep; whole > begun && !d.options.NoSync {
			if err := d.calls.writeBack(fd, begun, whole-begun); err != nil {
				return err
			}
			begun = whole
		}
	}
}

// source is the unwritten rest of a body.
type source struct {
	parts [][]byte
	skip  int // written bytes of the first part
}

// next appends the next parts to vectors, at most n bytes and vectorsMax parts.
func (s *source) next(vectors [][]byte, n int) [][]byte {
	skip := s.skip
	for _, p := range s.parts {
		p, skip = p[skip:], 0
		if n == 0 || len(vectors) == vectorsMax {
			break
		}
		if p = p[:min(n, len(p))]; len(p) > 0 {
			vectors = append(vectors, p)
			n -= len(p)
		}
	}
	return vectors
}

// advance drops n bytes from the front, of the existing ones.
func (s *source) advance(n int) {
	for len(s.parts) > 0 && n >= len(s.parts[0])-s.skip {
		n -= len(s.parts[0]) - s.skip
		s.parts, s.skip = s.parts[1:], 0
	}
	s.skip += n
}

// Stager is a store whose objects are local files: an object that is built in a staged file need
// not be copied. Wrappers of stores do not implement it, so that no object bypasses them.
type Stager interface {
	// Stage creates an empty file for an object of size bytes. The caller closes it, published or
	// not.
	Stage(ctx context.Context, size int64) (*Staged, error)
}

// Staged is a file in the temporary folder of a Disk. It must not be used concurrently.
type Staged struct {
	File *os.File // for reading and writing; read-only after Publish was called

	disk *Disk
	temp *tempFolder
	name string
}

// Stage implements Stager.
func (d *Disk) Stage(ctx context.Context, size int64) (*Staged, error) {
	if err := Alive(ctx, "stage"); err != nil {
		return nil, err
	}
	d.writing.RLock()
	defer d.writing.RUnlock()
	if err := d.refusing(); err != nil {
		return nil, fmt.Errorf("stage: %w", err)
	}
	temp, err := d.temp.open(d.root)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", writeVerdict(err))
	}
	name := temp.name()
	fd, err := unix.Openat(int(temp.file.Fd()), name, unix.O_RDWR|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, fileMode)
	if err != nil {
		return nil, fmt.Errorf("stage: %w", writeVerdict(err))
	}
	failpoint.Hit("disk.stage.created")
	if !d.options.NoSync {
		allocate(fd, size)
	}
	return &Staged{File: os.NewFile(uintptr(fd), "staged file"), disk: d, temp: temp, name: name}, nil
}

// Publish makes the file an object: first its content durable, then its name. Verdicts are those of
// Put; after ErrNoVerdict it may be called again with the same key. The file is written to the disk
// in steps. Each begins after the previous one has arrived and after a pause of the same length, at
// most settlePause, so that concurrent small writes need not wait for the whole file.
func (s *Staged) Publish(ctx context.Context, key string) error {
	if err := Begin(ctx, "put", key); err != nil {
		return err
	}
	d := s.disk
	d.writing.RLock()
	defer d.writing.RUnlock()
	err := d.refusing()
	if err == nil {
		err = s.settle()
	}
	failpoint.Hit("disk.stage.synced")
	if err == nil {
		err = Alive(ctx, "publish")
	}
	if err == nil {
		err = d.publish(key, s.temp, s.name)
	}
	if err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// settle makes the content durable.
func (s *Staged) settle() error {
	failpoint.Hit("disk.stage.written")
	d := s.disk
	if d.options.NoSync {
		return nil
	}
	info, err := s.File.Stat()
	if err != nil {
		return writeVerdict(err)
	}
	fd := int(s.File.Fd())
	for at := int64(0); at < info.Size(); at += writeStep {
		begin := time.Now()
		if err := d.calls.settle(fd, at, writeStep); err != nil {
			return d.syncFailed(err)
		}
		time.Sleep(min(time.Since(begin), settlePause)) // for the small writes that wait
	}
	if err := d.calls.dataSync(fd); err != nil {
		return d.syncFailed(err)
	}
	return nil
}

// Close deletes the file unless it was published.
func (s *Staged) Close() error {
	s.temp.remove(s.name)
	return s.File.Close()
}
