package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/sebbroker/seb/test/testenv"
)

// debian is the release of Debian that packages are installed on.
const debian = "bookworm"

// machine is a folder with a minimal Debian in which programs run with chroot(2). It has no
// systemd, and shares network and processes with this machine.
type machine struct {
	ctx context.Context
	dir string
}

// machine returns a fresh machine with the package of this release in /srv. The system is
// downloaded once, with the packages that ours depends on.
func (c *checks) machine() (machine, error) {
	if os.Geteuid() != 0 {
		return machine{}, fmt.Errorf("a Debian system in a folder needs root for debootstrap and chroot")
	}
	system, err := testenv.Install("release/debian-"+debian, "Debian "+debian, func(dir string) error {
		tool, err := testenv.Debian(c.ctx, "debootstrap")
		if err != nil {
			return err
		}
		_, err = c.output(dir, "env", "DEBOOTSTRAP_DIR="+filepath.Join(tool, "usr/share/debootstrap"), filepath.Join(tool, "usr/sbin/debootstrap"),
			"--variant=minbase", "--include=ca-certificates,curl", debian, filepath.Join(dir, "root"))
		return err
	})
	if err != nil {
		return machine{}, err
	}
	dir, err := os.MkdirTemp(c.work, "machine")
	if err != nil {
		return machine{}, err
	}
	m := machine{c.ctx, filepath.Join(dir, "root")}
	if _, err := c.output(c.work, "cp", "-a", filepath.Join(system, "root"), m.dir); err != nil {
		return machine{}, err
	}
	_, err = c.output(c.work, "cp", c.deb(), m.path("/srv"))
	return m, err
}

// command prepares a program in the machine, run by root. The program ends with this process.
func (m machine) command(args ...string) *exec.Cmd {
	cmd := exec.CommandContext(m.ctx, "/usr/bin/env", args...)
	cmd.Dir = "/srv"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/srv", "LC_ALL=C.UTF-8", "DEBIAN_FRONTEND=noninteractive"}
	cmd.SysProcAttr = testenv.Attributes()
	cmd.SysProcAttr.Chroot = m.dir
	return cmd
}

// run runs a line of shell in the machine and returns its output and errors.
func (m machine) run(line string) (string, error) {
	out, err := m.command("sh", "-ec", line).CombinedOutput()
	if err != nil {
		return string(out), fmt.Errorf("%s: %w\n%s", line, err, out)
	}
	return string(out), nil
}

// runAll runs lines of shell until one fails.
func (m machine) runAll(lines ...string) error {
	for _, line := range lines {
		if _, err := m.run(line); err != nil {
			return err
		}
	}
	return nil
}

// path returns the path of a file of the machine.
func (m machine) path(name string) string { return filepath.Join(m.dir, name) }

// credential returns a user of the machine.
func (m machine) credential(user string) (*syscall.Credential, error) {
	text, err := os.ReadFile(m.path("/etc/passwd"))
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if fields := strings.Split(line, ":"); fields[0] == user {
			uid, uidErr := strconv.ParseUint(fields[2], 10, 32)
			gid, gidErr := strconv.ParseUint(fields[3], 10, 32)
			if uidErr == nil && gidErr == nil {
				return &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}, nil
			}
		}
	}
	return nil, fmt.Errorf("the machine has no user %s", user)
}
