package pressure

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// cell is a control group (v2) with bounded memory and without swap: the kernel kills a process
// that exceeds it. The test creates it in the group named by $SEB_CGROUP, or in that of this
// process, if its memory controller is delegated. Otherwise only the process's own numbers are
// checked.
type cell struct {
	t   *testing.T
	dir string // "": none
}

// cgroupVariable names a group whose memory controller is delegated to this process.
const cgroupVariable = "SEB_CGROUP"

func newCell(t *testing.T, limit int64) *cell {
	c := &cell{t: t}
	parent, err := delegated()
	if err == nil {
		err = c.make(parent, limit)
	}
	if err != nil {
		t.Logf("no control group, only the process's own numbers are checked: %v", err)
	}
	return c
}

func (c *cell) make(parent string, limit int64) error {
	dir, err := os.MkdirTemp(parent, "seb-pressure-"+c.t.Name()+"-")
	if err != nil {
		return err
	}
	err = os.WriteFile(filepath.Join(dir, "memory.max"), []byte(strconv.FormatInt(limit, 10)), 0)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "memory.swap.max"), []byte("0"), 0)
		if errors.Is(err, fs.ErrNotExist) {
			err = nil // a kernel without swap
		}
	}
	if err != nil {
		return errors.Join(err, os.Remove(dir))
	}
	c.dir = dir
	return nil
}

// delegated returns a group with a delegated memory controller.
func delegated() (string, error) {
	dir := os.Getenv(cgroupVariable)
	if dir == "" {
		text, err := os.ReadFile("/proc/self/cgroup")
		if err != nil {
			return "", err
		}
		for line := range strings.Lines(string(text)) {
			if path, ok := strings.CutPrefix(strings.TrimSpace(line), "0::"); ok {
				dir = filepath.Join("/sys/fs/cgroup", path)
			}
		}
	}
	control, err := os.ReadFile(filepath.Join(dir, "cgroup.subtree_control"))
	if err != nil {
		return "", err
	}
	if !strings.Contains(" "+strings.TrimSpace(string(control))+" ", " memory ") {
		return "", fmt.Errorf("%s does not delegate its memory controller", dir)
	}
	return dir, nil
}

// wrap returns a program that runs path in the cell from its first instruction.
func (c *cell) wrap(path string) string {
	c.t.Helper()
	if c.dir == "" {
		return path
	}
	script := filepath.Join(c.t.TempDir(), "in-cell")
	text := fmt.Sprintf("#!/bin/sh\necho $$ >'%s/cgroup.procs' && exec '%s' \"$@\"\n", c.dir, path)
	must.NoError(c.t, os.WriteFile(script, []byte(text), 0o700))
	return script
}

// remove removes the empty cell.
func (c *cell) remove() {
	if c.dir != "" {
		if err := os.Remove(c.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.t.Error(err)
		}
	}
}

// peak returns the cell's peak memory, including the kernel's memory for its sockets and files, and
// the number of kills. ok is false without a cell, or if the kernel does not record a peak.
func (c *cell) peak() (bytes, kills int64, ok bool) {
	if c.dir == "" {
		return 0, 0, false
	}
	text, err := os.ReadFile(filepath.Join(c.dir, "memory.peak"))
	if err != nil {
		c.t.Log(err)
		return 0, 0, false
	}
	if bytes, err = strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64); err != nil {
		c.t.Fatal(err)
	}
	events := must.Get(os.ReadFile(filepath.Join(c.dir, "memory.events")))(c.t)
	return bytes, int64(field(c.t, string(events), "oom_kill ")), true
}
