package journal

import (
	"sync"
	"unsafe"
)

// System is what a journal needs of the file system. Names are relative to the bucket's root and
// '/'-separated. All methods may be called concurrently.
//
// An error that wraps fs.ErrNotExist or fs.ErrExist has that meaning. Every other error is passed
// to the caller of the journal. An error of Sync, or of a method that promises a durable name, means
// that the content of the disk is unknown.
type System interface {
	// MakeFolder creates a folder that may exist already. Its name and those of the folders above it
	// are durable when it returns.
	MakeFolder(folder string) error
	// PutFile stores a small file unless the name is taken (fs.ErrExist): the content is durable
	// before it has the name, and the name before PutFile returns. When it returns fs.ErrExist, the
	// other file is durable.
	PutFile(name string, content []byte) error
	// Prepare stores a journal file of size zero bytes unless the name is taken. The zeros and the
	// name are durable when it returns. It calls pace before each step of a few hundred KiB with the
	// number of bytes written so far, and ends with the error of pace.
	Prepare(name string, size int64, pace func(written int64) error) error
	// ReadFile returns the content of a small file.
	ReadFile(name string) ([]byte, error)
	// ReadFolder returns the names in a folder in any order; of those that contain '+', any.
	ReadFolder(folder string) ([]string, error)
	// Size is the size of a file.
	Size(name string) (int64, error)
	// Exists reports whether a name exists.
	Exists(name string) (bool, error)
	// Open opens a journal file, for writing too if write is set.
	Open(name string, write bool) (File, error)
	// OpenMark opens the watermark of a file, which it creates without a record if necessary. The file and
	// its name are durable when it returns.
	OpenMark(name string) (Mark, error)
	// Append adds bytes to the end of a file, which it creates if necessary. It makes nothing
	// durable.
	Append(name string, b []byte) error
	// Remove removes a file. It makes nothing durable.
	Remove(name string) error
	// Truncate cuts a file. It makes nothing durable.
	Truncate(name string, size int64) error
	// NewMutex returns a new sync.Mutex. A simulation returns another one, which it gives to one
	// waiting goroutine after the other in an order of its own.
	NewMutex() sync.Locker
}

// File is an open journal file. It must be safe for concurrent use.
type File interface {
	// ReadAt is io.ReaderAt.
	ReadAt(p []byte, off int64) (int, error)
	// WriteAt writes the parts in order at off.
	WriteAt(parts [][]byte, off int64) error
	// Sync makes everything that was written durable (fdatasync). An error that wraps
	// fs.ErrNotExist: the file was removed.
	Sync() error
	// ReadMedium is ReadAt past the page cache: it returns what the disk has. off and len(p) are
	// multiples of BlockBytes. ok is false if the file system cannot do that.
	ReadMedium(p []byte, off int64) (ok bool, err error)
	// Size is the size of the file.
	Size() (int64, error)
	// Close closes the file.
	Close() error
}

// Mark is a record that the process advances (package watermark).
type Mark interface {
	// Set replaces the record. When it returns nil, other processes read the new one, also if this
	// process is killed. A power failure may leave an older record, or none.
	Set(record []byte) error
	// Close releases the file.
	Close() error
}

// aligned returns n bytes whose address is a multiple of BlockBytes.
func aligned(n int64) []byte {
	b := make([]byte, n+BlockBytes)
	skip := -uintptr(unsafe.Pointer(unsafe.SliceData(b))) % BlockBytes
	return b[skip : int64(skip)+n]
}
