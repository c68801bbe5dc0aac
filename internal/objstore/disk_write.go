package objstore

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/failpoint"
)

const (
	// vectorsMax is how many parts one writev takes: IOV_MAX of Linux and Darwin.
	vectorsMax = 1024

	// writeStep is how much of a file is written before the disk is told to begin with it: a huge page of the page cache.
	writeStep = 2 << 20
)

// write makes the temporary file and its bytes durable.
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

// writeParts hands the parts to the kernel as they are, without joining them, in steps that end where a multiple of
// writeStep does. The disk begins with a step as soon as it is there: it works while the next is copied, and the
// fdatasync at the end, which alone makes them durable, has little left to wait for.
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

// source is what is left of a body.
type source struct {
	parts [][]byte
	skip  int // bytes of the first part that are gone
}

// next appends what comes next to vectors, at most n bytes of vectorsMax parts.
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

// advance drops n bytes from the front, of as many as there are.
func (s *source) advance(n int) {
	for len(s.parts) > 0 && n >= len(s.parts[0])-s.skip {
		n -= len(s.parts[0]) - s.skip
		s.parts, s.skip = s.parts[1:], 0
	}
	s.skip += n
}
