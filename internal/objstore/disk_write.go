package objstore

import (
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/failpoint"
)

const (
	// vectorsMax is the maximum number of parts of one writev: IOV_MAX of Linux and Darwin.
	vectorsMax = 1024

	// writeStep is how much of a file is written before write-back starts: a huge page of the page
	// cache.
	writeStep = 2 << 20
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
