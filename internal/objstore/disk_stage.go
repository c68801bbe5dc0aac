package objstore

import (
	"context"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/failpoint"
)

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
	if err := alive(ctx, "stage"); err != nil {
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
// in steps, each after the previous one has arrived, so that concurrent small writes need not wait
// for the whole file.
func (s *Staged) Publish(ctx context.Context, key string) error {
	if err := begin(ctx, "put", key); err != nil {
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
		err = alive(ctx, "publish")
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
		if err := d.calls.settle(fd, at, writeStep); err != nil {
			return d.syncFailed(err)
		}
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
