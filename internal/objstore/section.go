package objstore

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Section is the body of an object in a file: the result of Disk.Get. A caller that wants the
// kernel to copy the bytes (sendfile) uses the fields or WriteTo; others use Read. Not for
// concurrent use. Close closes File.
type Section struct {
	File *os.File // opened for this section alone, which may move its position
	Off  int64    // position of the section in File
	Len  int64    // length of the section, independent of reads

	read    int64        // bytes already read
	release func() error // if not nil, called once instead of closing File
	done    bool
}

// Read implements io.Reader. A file that is shorter than it was when opened gives ErrNoVerdict.
func (s *Section) Read(p []byte) (int, error) {
	left := s.Len - s.read
	if left <= 0 {
		return 0, io.EOF
	}
	if int64(len(p)) > left {
		p = p[:left]
	}
	n, err := s.File.ReadAt(p, s.Off+s.read)
	s.read += int64(n)
	if n == len(p) {
		return n, nil
	}
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return n, s.broken(err)
}

// WriteTo implements io.WriterTo for the unread bytes. If w is a TCP connection the kernel copies
// them.
func (s *Section) WriteTo(w io.Writer) (int64, error) {
	left := s.Len - s.read
	if left <= 0 {
		return 0, nil
	}
	if _, err := s.File.Seek(s.Off+s.read, io.SeekStart); err != nil {
		return 0, s.broken(err)
	}
	n, err := io.Copy(w, &io.LimitedReader{R: s.File, N: left})
	s.read += n
	if err == nil && n < left {
		err = s.broken(io.ErrUnexpectedEOF)
	}
	return n, err
}

func (s *Section) broken(err error) error {
	return fmt.Errorf("read %s: %w: %w", s.File.Name(), ErrNoVerdict, err)
}

// Close closes File, or gives it back to the store. It may be called twice.
func (s *Section) Close() error {
	if s.done {
		return nil
	}
	s.done = true
	if s.release != nil {
		return s.release()
	}
	if err := s.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
