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

// folder is the data folder: nothing in it is needed to start again. A nil folder keeps nothing.
type folder struct {
	dir  string
	lock *os.File
}

// openFolder makes the folder if it is missing and takes its lock. Its files hold the API key: nobody else may look.
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
	// The lock names its process, for `kill $(cat lock)`. A full disk must not keep a broker from starting.
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

// ErrFolderInUse: another process has this data folder.
var ErrFolderInUse = errors.New("in use by another broker; give each its own --data-dir")

// checksFile remembers which stores have passed the check of rule R10.
const checksFile = "store-checks.json"

// checksMax bounds the file; the oldest entries go first.
const checksMax = 64

// checked is a store that has passed.
type checked struct {
	Store   string    `json:"store"`   // bucket, prefix and endpoint
	Version string    `json:"version"` // of Seb: a newer one may stand on more
	At      time.Time `json:"at"`
}

// checks are the stores that have passed; a file that can not be read means none.
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

// version is that of this build.
func version() string {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info.Main.Version
	}
	return "unknown"
}
