package objstore

import (
	"errors"
	"os"
	"path"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore/journal"
	"github.com/sebbroker/seb/internal/engine/objstore/watermark"
)

// markSyncDelay bounds how much of a mark a power failure loses: the records of so long before it.
const markSyncDelay = time.Second

// OpenMark implements journal.System.
func (s diskFiles) OpenMark(name string) (journal.Mark, error) {
	f, err := s.d.root.OpenFile(name, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, err
	}
	if err := s.prepareMark(f, name); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	w, err := watermark.Open(f)
	if err != nil {
		return nil, err
	}
	return &mark{disk: s.d, file: w}, nil
}

// prepareMark makes an empty mark, its file and its name, durable.
func (s diskFiles) prepareMark(f *os.File, name string) error {
	info, err := f.Stat()
	if err != nil || info.Size() == watermark.FileBytes {
		return err
	}
	if _, err := f.WriteAt(zeros[:watermark.FileBytes], 0); err != nil {
		return err
	}
	if s.d.options.NoSync {
		return nil
	}
	if err := s.d.calls.dataSync(int(f.Fd())); err != nil {
		return s.d.syncFailed(err)
	}
	return s.d.syncFolder(path.Dir(name))
}

// mark is a watermark that is synced while it changes, away from the caller of Set.
type mark struct {
	disk *Disk
	file *watermark.Mark

	mu      sync.Mutex  // guards the fields below
	syncing *time.Timer // nil: every record is durable, or the disk omits syncs
	closed  bool
}

// Set implements journal.Mark.
func (m *mark) Set(record []byte) error {
	if err := m.file.Set(record); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.syncing == nil && !m.closed && !m.disk.options.NoSync {
		m.syncing = time.AfterFunc(markSyncDelay, m.sync)
	}
	return nil
}

func (m *mark) sync() {
	m.mu.Lock()
	m.syncing = nil // a record that is set from now on is synced again
	m.mu.Unlock()
	if err := m.file.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		_ = m.disk.syncFailed(err)
	}
}

// Close implements journal.Mark. It waits for a running sync.
func (m *mark) Close() error {
	m.mu.Lock()
	m.closed = true
	if m.syncing != nil {
		m.syncing.Stop()
	}
	m.mu.Unlock()
	return m.file.Close()
}
