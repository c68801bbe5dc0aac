package compactor

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// mapping is a file in memory. Its pages belong to the system's cache, and it is seen to that few of them count as this
// process's at a time: a pack may be as large as all the memory that the broker is given.
type mapping struct {
	data []byte
	stop chan struct{}
	wg   sync.WaitGroup
}

// spareEvery is how often pages are let go of: a few MiB are read meanwhile.
const spareEvery = time.Millisecond

// mapFile maps all of a file, which is size bytes long, to be read. The caller calls close, and uses data no more then.
// What is written to the file is seen in data. It is not written through it: where the disk is full, that ends the process.
func mapFile(f *os.File, size int64) (*mapping, error) {
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map temporary file: %w", err)
	}
	m := &mapping{data: data, stop: make(chan struct{})}
	m.wg.Go(m.spare)
	return m, nil
}

func (m *mapping) spare() {
	tick := time.NewTicker(spareEvery)
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

// forget lets go of all pages. Of a shared mapping nothing is lost by it.
func (m *mapping) forget() { _ = unix.Madvise(m.data, unix.MADV_DONTNEED) } // advice: without it only the bound is wider

func (m *mapping) close() {
	close(m.stop)
	m.wg.Wait()
	_ = unix.Munmap(m.data)
}

// copyBytes copies n bytes from a position of one file to a position of another.
func copyBytes(to *os.File, at int64, from *os.File, pos, n int64) error {
	done, err := io.Copy(io.NewOffsetWriter(to, at), io.NewSectionReader(from, pos, n))
	if err == nil && done < n {
		err = io.ErrUnexpectedEOF
	}
	return err
}
