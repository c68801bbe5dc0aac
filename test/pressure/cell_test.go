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
)

// A cell is a control group (v2) whose memory is bounded and that has no swap: the kernel kills what grows beyond it.
// It is made in the group that $SEB_CGROUP names, or in that of this process, if either hands out its memory controller;
// else there is none, and only what the process says of itself is looked at.
type cell struct {
	t   *testing.T
	dir string // "": none
}

// cgroupVariable names a group of which this process may make children that have the memory controller.
const cgroupVariable = "SEB_CGROUP"

func newCell(t *testing.T, limit int64) *cell {
	c := &cell{t: t}
	parent, err := delegated()
	if err == nil {
		err = c.make(filepath.Join(parent, fmt.Sprintf("seb-pressure-%d-%s", os.Getpid(), t.Name())), limit)
	}
	if err != nil {
		t.Logf("no control group, what the process says of itself is what counts: %v", err)
	}
	return c
}

func (c *cell) make(dir string, limit int64) error {
	if err := os.Mkdir(dir, 0o755); err != nil {
		return err
	}
	err := os.WriteFile(filepath.Join(dir, "memory.max"), []byte(strconv.FormatInt(limit, 10)), 0)
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

// delegated is a group whose children have the memory controller.
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
		return "", fmt.Errorf("%s does not hand out its memory controller", dir)
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
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil {
		c.t.Fatal(err)
	}
	return script
}

// remove takes the cell away; nobody is in it any more.
func (c *cell) remove() {
	if c.dir != "" {
		if err := os.Remove(c.dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			c.t.Error(err)
		}
	}
}

// peak is the most memory that the cell held, what the kernel holds for its sockets and files included, and how often
// the kernel killed something in it. ok is false without a cell, or on a kernel that keeps no peak.
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
	events, err := os.ReadFile(filepath.Join(c.dir, "memory.events"))
	if err != nil {
		c.t.Fatal(err)
	}
	return bytes, int64(field(c.t, string(events), "oom_kill ")), true
}
