package objstore

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/failpoint"
)

const (
	folderMode = 0o700
	fileMode   = 0o600

	// moveTriesMax bounds the race with a Delete that keeps removing the folder as empty.
	moveTriesMax = 8
)

// Put implements Store: write a temporary file, fdatasync, move it to its name unless that is taken, fsync the folder.
// System calls that have begun are not cut short when ctx ends.
func (d *Disk) Put(ctx context.Context, key string, body Body) error {
	if err := begin(ctx, "put", key); err != nil {
		return err
	}
	if err := checkBody(key, body); err != nil {
		return err
	}
	d.writing.RLock()
	defer d.writing.RUnlock()
	if err := d.refusing(); err != nil {
		return fmt.Errorf("put %s: %w", key, err)
	}
	temp, err := d.temp.open(d.root)
	if err != nil {
		return fmt.Errorf("put %s: %w", key, writeVerdict(err))
	}
	name := temp.name()
	err = d.write(temp, name, body)
	if err == nil {
		err = alive(ctx, "stopped before the object had its name")
	}
	if err == nil {
		err = d.publish(key, temp, name)
	}
	if err != nil {
		temp.remove(name) // after ErrExists and every failure before the move
		return fmt.Errorf("put %s: %w", key, err)
	}
	return nil
}

// publish gives the temporary file its name and makes the name durable.
func (d *Disk) publish(key string, temp *tempFolder, name string) error {
	dir, base := path.Split(key)
	for range moveTriesMax {
		f, err := d.folders.acquire(path.Clean(dir))
		if errors.Is(err, errVanished) {
			continue
		}
		if err != nil {
			return fmt.Errorf("make folder: %w", err)
		}
		err = d.calls.move(temp.file, name, f.file, base)
		failpoint.Hit("disk.moved")
		verdict := d.afterMove(f, base, err)
		failpoint.Hit("disk.put")
		gone := errors.Is(err, unix.ENOENT)
		d.folders.release(f, gone)
		if !gone {
			return verdict
		}
	}
	return fmt.Errorf("move into place: %w: the folder vanishes again and again", ErrNoVerdict)
}

// afterMove judges the outcome of the move. A name that was found taken may have been given a moment ago by somebody
// who has not synced the folder yet: nobody may be told that it exists before it is sure to stay.
func (d *Disk) afterMove(f *folder, base string, moved error) error {
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
	if err := unix.Fstatat(int(f.file.Fd()), base, &stat, unix.AT_SYMLINK_NOFOLLOW); err == nil && stat.Mode&unix.S_IFMT == unix.S_IFDIR {
		return fmt.Errorf("%w: the name is a folder of other objects", ErrRefused)
	}
	return ErrExists
}

// syncFailed ends all writing to this store (fsync reports a failure once, and forgets it).
func (d *Disk) syncFailed(err error) error {
	d.refuse("an fsync failed earlier, writes are refused until the store is opened again: " + err.Error())
	d.once.Do(func() {
		d.by = fmt.Errorf("%s: %w: %w", d, ErrBroken, err)
		close(d.broken)
	})
	return fmt.Errorf("fsync: %w: %w", ErrRefused, err)
}

// makeFolder opens a folder that is sure to stay as long as it has something in it: every folder above it has been
// synced since it was made. That is done once for each folder a process uses, whoever made it: a process that was killed
// may have made it without getting so far.
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

// errVanished means that a folder was removed as empty while it was being made: publish tries again.
var errVanished = errors.New("a folder has vanished")

// folderVerdict sorts an error of making or opening a folder. Two who make one while a third removes it are also told
// that it exists; so is who finds an object there.
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
