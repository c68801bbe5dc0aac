package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"time"
)

// folder is the data folder. All its files can be rebuilt. A nil folder stores nothing.
type folder struct {
	dir  string
	lock *os.File
}

// openFolder creates the folder if it is missing and locks it. Only its owner may read it, because
// its files have the API key.
func openFolder(dir string) (*folder, error) {
	if dir == "" {
		return nil, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("data folder (--data-dir): %w", err)
	}
	lock, err := lockFile(filepath.Join(dir, "lock"))
	if err != nil {
		return nil, fmt.Errorf("data folder %s (--data-dir): %w", dir, err)
	}
	// The lock has the process ID, for `kill $(cat lock)`. A full disk must not prevent a start.
	if lock.Truncate(0) == nil {
		_, _ = fmt.Fprintln(lock, os.Getpid())
	}
	return &folder{dir: dir, lock: lock}, nil
}

func (f *folder) close() error {
	if f == nil {
		return nil
	}
	_ = f.lock.Truncate(0)
	return f.lock.Close()
}

// ErrFolderInUse: another process uses this data folder.
var ErrFolderInUse = errors.New("in use by another broker; give each its own --data-dir")

// checksFile has the stores that have passed the check of rule R10.
const checksFile = "store-checks.json"

// checksMax bounds the entries of the file; the oldest are removed first.
const checksMax = 64

// checked is a store that has passed.
type checked struct {
	Store   string    `json:"store"`   // bucket, prefix and endpoint
	Version string    `json:"version"` // of Seb: a newer one may require more
	At      time.Time `json:"at"`
}

// checks returns the stores that have passed; an unreadable file counts as empty.
func (f *folder) checks() []checked {
	if f == nil {
		return nil
	}
	b, err := os.ReadFile(filepath.Join(f.dir, checksFile))
	if err != nil {
		return nil
	}
	var all []checked
	if json.Unmarshal(b, &all) != nil {
		return nil
	}
	return all
}

func (f *folder) hasPassed(store string) bool {
	return slices.ContainsFunc(f.checks(), func(c checked) bool { return c.Store == store && c.Version == version() })
}

func (f *folder) remember(store string) error {
	if f == nil {
		return nil
	}
	all := append(f.checks(), checked{Store: store, Version: version(), At: time.Now().UTC()})
	if n := len(all) - checksMax; n > 0 {
		all = all[n:]
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(f.dir, checksFile)
	if err := os.WriteFile(file+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// version returns the version of this build.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
