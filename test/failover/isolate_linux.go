package failover

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/test/testenv"
)

// isolatedVariable is set in the environment of a process that Isolate has started.
const isolatedVariable = "SEB_TEST_ISOLATED"

// namespaceDir has the network namespaces that `ip netns` has made.
const namespaceDir = "/run/netns"

// Isolated reports whether Isolate has started this process.
func Isolated() bool { return os.Getenv(isolatedVariable) != "" }

// NamespacesMissing returns why Isolate does not work here; nil: it works.
func NamespacesMissing(ctx context.Context) error {
	c := command(ctx, "sh", "-c", "mount --make-rprivate / && mount -t tmpfs none /run && ip link add seb0 type bridge && ip netns add seb0")
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("no network namespaces: %w %s", err, out)
	}
	return nil
}

// Isolate runs this program again, in a network of its own and with its own mounts, and waits for
// it. The kernel removes all namespaces, links and mounts with the last process in them, so that
// nothing remains after a crash, and campaigns at the same time do not meet.
func Isolate(ctx context.Context, args []string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c := command(ctx, self, args...)
	c.Env = append(os.Environ(), isolatedVariable+"=1")
	c.Stdin, c.Stdout, c.Stderr = os.Stdin, os.Stdout, os.Stderr
	c.Cancel = func() error { return c.Process.Signal(syscall.SIGTERM) }
	c.WaitDelay = time.Minute
	return c.Run()
}

// command returns a command in new namespaces. A user who is not root is root in them.
func command(ctx context.Context, name string, args ...string) *exec.Cmd {
	c := exec.CommandContext(ctx, name, args...)
	c.SysProcAttr = testenv.Attributes()
	c.SysProcAttr.Cloneflags = syscall.CLONE_NEWNET | syscall.CLONE_NEWNS
	if uid, gid := os.Geteuid(), os.Getegid(); uid != 0 {
		c.SysProcAttr.Cloneflags |= syscall.CLONE_NEWUSER
		c.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: uid, Size: 1}}
		c.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: gid, Size: 1}}
	}
	return c
}

// privateRun gives this isolated process an empty folder for the names of namespaces.
func privateRun() error {
	return errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("none", "/run", "tmpfs", 0, ""))
}

// smallDisk puts a file system of some bytes at an existing folder.
func smallDisk(dir string, bytes int) error {
	return unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%d", bytes))
}

// within calls f in a network namespace. A socket stays in the namespace in which it was made.
func within(name string, f func() error) error {
	runtime.LockOSThread()
	own, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		runtime.UnlockOSThread()
		return err
	}
	other, err := os.Open(namespaceDir + "/" + name)
	if err == nil {
		err = errors.Join(unix.Setns(int(other.Fd()), unix.CLONE_NEWNET), other.Close())
	}
	if err == nil {
		err = f()
	}
	if fault := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); fault != nil {
		panic(fault) // the thread is lost, and the end of a thread kills the brokers that it has started
	}
	runtime.UnlockOSThread()
	return errors.Join(err, own.Close())
}
