package objstore

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Section is the body of an object that lies in a file: what Disk.Get returns. Whoever wants the kernel to copy the
// bytes (sendfile) uses the fields, or calls WriteTo; all others just read. Not for concurrent use. Close closes File.
type Section struct {
	File *os.File // opened for this section alone; its own position is the section's to move
	Off  int64    // of the first byte of the section in File
	Len  int64    // bytes of the section, whether read or not

	read int64 // bytes handed out
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

// WriteTo implements io.WriterTo for what has not been read yet. A TCP connection as w lets the kernel copy.
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

// Close closes File. Closing twice is no error.
func (s *Section) Close() error {
	if err := s.File.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}
