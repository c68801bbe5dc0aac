// Package watermark keeps the newest value of a small record in a file, so that the value survives
// the death of the process at once, without a system call for each change.
//
// Set writes through a shared mapping of the file. The pages belong to the kernel, so a killed
// process loses nothing that Set has returned for. A power failure may lose everything since the
// last Sync, but never the record of that Sync. FORMAT.md has the bytes.
package watermark

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"runtime"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
)

const (
	// FileBytes is the size of the file.
	FileBytes = 2 * slotBytes
	// RecordBytesMax is the largest record.
	RecordBytesMax = slotBytes - headBytes

	slotBytes = 512 // a sector, so that a torn write leaves the other slot
	headBytes = 24
)

var (
	magic      = []byte("SEBMARK\x01")
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
)

// Mark is the newest value of a record in a file. One Mark writes a file at a time. Safe for
// concurrent use.
type Mark struct {
	file *os.File

	mu       sync.Mutex // guards the fields below; Sync reads the mapping without it
	mapped   []byte
	sequence uint64 // of the newest record
	err      error  // why nothing more is set

	syncing sync.RWMutex // held for reading while the mapping is used outside mu; Close takes it
}

// Open returns the mark of a file that is open for reading and writing, and owns the file also if it
// fails. A file of another size becomes an empty mark of FileBytes zeros, which are durable when Open
// returns; the name of the file is up to the caller. A file with a record keeps it until Set.
func Open(f *os.File) (*Mark, error) {
	m := &Mark{file: f}
	if err := m.open(); err != nil {
		return nil, errors.Join(fmt.Errorf("open watermark: %w", err), f.Close())
	}
	return m, nil
}

func (m *Mark) open() error {
	info, err := m.file.Stat()
	if err != nil {
		return err
	}
	if info.Size() != FileBytes {
		if err := m.file.Truncate(0); err != nil {
			return err
		}
		if _, err := m.file.WriteAt(make([]byte, FileBytes), 0); err != nil {
			return err
		}
		if err := m.file.Sync(); err != nil {
			return err
		}
	}
	content := make([]byte, FileBytes)
	if _, err := m.file.ReadAt(content, 0); err != nil {
		return err
	}
	m.sequence, _, _ = decode(content)
	m.mapped, err = unix.Mmap(int(m.file.Fd()), 0, FileBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return err
}

// Set makes record the newest value. When it returns nil, the value survives the death of the
// process; it survives a power failure after the next Sync. After an error every later Set returns
// the same error: the file was cut, or its device fails.
func (m *Mark) Set(record []byte) error {
	if len(record) > RecordBytesMax {
		panic(fmt.Sprintf("watermark: a record of %d bytes", len(record)))
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.err == nil {
		m.err = m.write(record)
	}
	return m.err
}

// write writes the slot with the older record. A kill in the middle leaves the other slot.
func (m *Mark) write(record []byte) (err error) {
	// A page of a mapping that has no block in the file is a fault of the memory access (SIGBUS).
	// Without SetPanicOnFault it would end the process.
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("write %s: %v", m.file.Name(), fault)
		}
	}()
	m.sequence++
	slot := m.mapped[m.sequence%2*slotBytes:][:slotBytes]
	encode(slot, m.sequence, record)
	return nil
}

// Encode returns what Set writes for the record with a sequence number, and where, for a file that is not
// mapped.
func Encode(sequence uint64, record []byte) (b []byte, offset int64) {
	b = make([]byte, headBytes+len(record))
	encode(b, sequence, record)
	return b, int64(sequence % 2 * slotBytes)
}

// Sync makes the record of every Set that has returned durable.
func (m *Mark) Sync() error {
	m.syncing.RLock()
	defer m.syncing.RUnlock()
	m.mu.Lock()
	mapped, err := m.mapped, m.err
	m.mu.Unlock()
	if err != nil {
		return err
	}
	if err := unix.Msync(mapped, unix.MS_SYNC); err != nil {
		return fmt.Errorf("sync %s: %w", m.file.Name(), err)
	}
	if runtime.GOOS == "linux" { // where msync is fdatasync
		return nil
	}
	return m.file.Sync()
}

// Close releases the file. The newest record stays in it, without being durable. Close may be called
// twice.
func (m *Mark) Close() error {
	m.syncing.Lock()
	defer m.syncing.Unlock()
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.mapped == nil {
		return nil
	}
	err := errors.Join(unix.Munmap(m.mapped), m.file.Close())
	m.mapped, m.err = nil, os.ErrClosed
	return err
}

// Decode returns the newest record in the content of a file; ok is false if there is none. While
// another process sets records, the result may be the record before the newest one.
func Decode(content []byte) (record []byte, ok bool) {
	_, record, ok = decode(content)
	return record, ok
}

func decode(content []byte) (sequence uint64, record []byte, ok bool) {
	for at := range uint64(2) {
		if uint64(len(content)) < (at+1)*slotBytes {
			break
		}
		n, r, valid := decodeSlot(content[at*slotBytes:][:slotBytes])
		if valid && n%2 == at && n > sequence {
			sequence, record, ok = n, r, true
		}
	}
	return sequence, record, ok
}

// A slot is:
//
//	magic 8 bytes | sequence u64 | length of the record u32 | checksum u32 | record | any bytes
//
// The checksum covers the slot from the start to the end of the record, without itself.
func encode(slot []byte, sequence uint64, record []byte) {
	copy(slot, magic)
	binary.LittleEndian.PutUint64(slot[8:], sequence)
	binary.LittleEndian.PutUint32(slot[16:], uint32(len(record)))
	copy(slot[headBytes:], record)
	binary.LittleEndian.PutUint32(slot[20:], sum(slot, record))
}

func decodeSlot(slot []byte) (sequence uint64, record []byte, ok bool) {
	if !bytes.HasPrefix(slot, magic) {
		return 0, nil, false
	}
	n := binary.LittleEndian.Uint32(slot[16:])
	if n > RecordBytesMax {
		return 0, nil, false
	}
	record = bytes.Clone(slot[headBytes : headBytes+n])
	return binary.LittleEndian.Uint64(slot[8:]), record, binary.LittleEndian.Uint32(slot[20:]) == sum(slot, record)
}

func sum(slot, record []byte) uint32 {
	return crc32.Update(crc32.Checksum(slot[:20], castagnoli), castagnoli, record)
}
