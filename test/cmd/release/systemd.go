package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

//go:embed systemd.sh
var systemdScript string

// systemdUnit runs the script in the machine.
const systemdUnit = `[Service]
Type=oneshot
ExecStart=/bin/sh /srv/check.sh
StandardOutput=file:/srv/check.log
StandardError=inherit
TimeoutStartSec=10min
`

// systemd boots a machine with systemd in a container, and runs the unit there with all its
// restrictions: producing and consuming, a crash, a hang, an upgrade, and the removal of the
// package. The other checks run without systemd.
func (c *checks) systemd() error {
	s3, err := c.s3()
	if err != nil {
		return err
	}
	defer s3.Stop()
	port, err := freePort()
	if err != nil {
		return err
	}
	tools, err := c.tools()
	if err != nil {
		return err
	}
	m := machine{c.ctx, filepath.Join(c.work, "systemd")}
	if _, err := c.output(c.work, "cp", "-a", tools.dir, m.dir); err != nil {
		return err
	}
	env := append(s3Environment(s3, "systemd"), "SEB_HTTP_PORT="+port, "SEB_KAFKA_LISTEN=127.0.0.1:0")
	for name, text := range map[string]string{
		"/srv/check.sh": systemdScript, "/srv/env": strings.Join(env, "\n") + "\n", "/etc/systemd/system/check.service": systemdUnit,
	} {
		if err := os.WriteFile(m.path(name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	out, err := c.boot(c.ctx, m)
	if err != nil {
		log, logErr := os.ReadFile(m.path("/srv/check.log"))
		return fmt.Errorf("%w\n%s\n%s", errors.Join(err, logErr), out, log)
	}
	c.note("the broker ran with all restrictions, and was restarted after a crash, a hang and an upgrade")
	return nil
}

// boot runs check.service with systemd in a machine until it exits, or kills it when ctx ends. options
// are those of systemd-nspawn. Without one the container has the network of this machine.
func (c *checks) boot(ctx context.Context, m machine, options ...string) (string, error) {
	tool, err := testenv.Debian(ctx, "systemd-container")
	if err != nil {
		return "", err
	}
	nspawn := []string{filepath.Join(tool, "usr/bin/systemd-nspawn"), "--quiet", "--register=no", "--console=pipe", "-D", m.dir}
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		// Without systemd on this machine the container gets the cgroup of nspawn.
		nspawn = append(nspawn, "--keep-unit")
	}
	groups, remove, err := cgroups(fmt.Sprintf("seb-release-%d-%s", os.Getpid(), filepath.Base(m.dir)))
	if err != nil {
		return "", err
	}
	defer remove()
	const enter = `for g in $0; do echo $$ >"$g/cgroup.procs"; done; exec "$@"`
	cmd := exec.CommandContext(ctx, "sh", slices.Concat([]string{"-ec", enter, strings.Join(groups, " ")}, nspawn, options, []string{"/lib/systemd/systemd", "--unit=check.service"})...)
	private := filepath.Join(tool, "usr/lib/x86_64-linux-gnu/systemd")
	cmd.Env = append(os.Environ(), testenv.Libraries(tool)+":"+private)
	cmd.SysProcAttr = testenv.Attributes()
	out, err := cmd.CombinedOutput()
	if err != nil {
		err = fmt.Errorf("systemd-nspawn: %w", err)
	}
	return string(out), err
}

// cgroups makes a cgroup in each hierarchy that systemd uses, so that the groups of a container are
// not among others of this machine. They have one name, because nspawn uses that of the unified
// hierarchy in the others too. On a machine with systemd it makes none.
func cgroups(name string) (dirs []string, remove func(), err error) {
	remove = func() {
		for _, dir := range dirs {
			err := removeCgroup(dir)
			for end := time.Now().Add(cgroupsEnd); err != nil && time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
				err = removeCgroup(dir)
			}
			if err != nil {
				fmt.Fprintln(os.Stderr, "cgroup of the container remains:", err)
			}
		}
	}
	if _, err := os.Stat("/run/systemd/system"); err == nil {
		return nil, remove, nil
	}
	for _, root := range []string{"/sys/fs/cgroup", "/sys/fs/cgroup/systemd", "/sys/fs/cgroup/unified"} {
		if _, err := os.Stat(filepath.Join(root, "cgroup.procs")); err != nil {
			continue
		}
		dir := filepath.Join(root, name)
		if err := os.Mkdir(dir, 0o750); err != nil {
			remove()
			return nil, nil, err
		}
		dirs = append(dirs, dir)
	}
	return dirs, remove, nil
}

// cgroupsEnd is how long the last processes of a container may take to end.
const cgroupsEnd = 10 * time.Second

// removeCgroup kills the processes of a group and removes it, with the groups in it. While processes
// end, it returns an error.
func removeCgroup(dir string) error {
	list, err := os.ReadFile(filepath.Join(dir, "cgroup.procs"))
	if err != nil {
		return err
	}
	for text := range strings.FieldsSeq(string(list)) {
		if pid, err := strconv.Atoi(text); err == nil {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if e.IsDir() {
			if err := removeCgroup(filepath.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	return os.Remove(dir)
}
