package compactor

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// mapping is a file mapped for reading. It regularly drops its pages, so that few of them count as
// this process's memory: a pack may be as large as the broker's whole memory limit.
type mapping struct {
	data []byte
	stop chan struct{}
	wg   sync.WaitGroup
}

// dropInterval is how often pages are dropped; a few MiB are read meanwhile.
const dropInterval = time.Millisecond

// mapFile maps a file of size bytes for reading. After close the caller must not use data. Writes
// to the file are visible in data. Writing through the mapping is avoided, because on a full disk
// that kills the process.
func mapFile(f *os.File, size int64) (*mapping, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map temporary file: %w", err)
	}
	m := &mapping{data: data, stop: make(chan struct{})}
	m.wg.Go(m.dropPages)
	return m, nil
}

func (m *mapping) dropPages() {
	tick := time.NewTicker(dropInterval)
	defer tick.Stop()
	for {
		select {
		case <-m.stop:
			return
		case <-tick.C:
			m.forget()
		}
	}
}

// forget drops all pages. A shared mapping loses nothing by it.
// only advice: a failure only weakens the bound
func (m *mapping) forget() { _ = unix.Madvise(m.data, unix.MADV_DONTNEED) }

func (m *mapping) close() {
	close(m.stop)
	m.wg.Wait()
	_ = unix.Munmap(m.data)
}

// copyBytes copies n bytes between positions of two files.
func copyBytes(to *os.File, at int64, from *os.File, pos, n int64) error {
	done, err := io.Copy(io.NewOffsetWriter(to, at), io.NewSectionReader(from, pos, n))
	if err == nil && done < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}
