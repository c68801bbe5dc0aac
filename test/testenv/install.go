// Installation of programs for tests into the repository's cache folder.

package testenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// moduleLine is the first line of this module's go.mod.
const moduleLine = "module github.com/sebbroker/seb\n"

// Root returns the repository: the nearest folder, from the working directory upwards, with this
// module's go.mod.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if text, err := os.ReadFile(filepath.Join(dir, "go.mod")); err == nil && strings.HasPrefix(string(text), moduleLine) {
			return dir, nil
		}
		above := filepath.Dir(dir)
		if above == dir {
			return "", errors.New("the working folder is not in the repository of Seb")
		}
		dir = above
	}
}

// lock waits for an exclusive lock on a file, which it creates. The lock also ends with the
// process.
func lock(name string) (unlock func(), err error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", name, err), f.Close())
	}
	return func() { _ = f.Close() }, nil
}

// Install returns a folder below .cache of the repository after build has filled it. It calls build
// only if the folder does not exist, so name should include a version. what is for the line that
// reports the installation. Other processes that need the same folder wait. A build that fails
// leaves nothing.
func Install(name, what string, build func(dir string) error) (string, error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".cache", name)
	if err := os.MkdirAll(filepath.Dir(dir), 0o750); err != nil {
		return "", err
	}
	unlock, err := lock(dir + ".lock")
	if err != nil {
		return "", err
	}
	defer unlock()
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	begin := time.Now()
	partial := dir + ".partial" // delete an interrupted installation
	if err := errors.Join(os.RemoveAll(partial), os.Mkdir(partial, 0o750)); err != nil {
		return "", err
	}
	if err := build(partial); err != nil {
		return "", fmt.Errorf("install %s: %w", what, errors.Join(err, os.RemoveAll(partial)))
	}
	if err := os.Rename(partial, dir); err != nil {
		return "", err
	}
	Report("install", what, time.Since(begin))
	return dir, nil
}
