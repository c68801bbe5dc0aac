package machine

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestHereInDetail(t *testing.T) {
	m := HereInDetail()
	if m.Cores < 1 || m.Kernel == "" || !strings.HasPrefix(m.System, runtime.GOOS) {
		t.Errorf("this machine is %+v", m)
	}
	if runtime.GOOS == "linux" && m.Memory < 1<<20 {
		t.Errorf("it has %d bytes of memory", m.Memory)
	}
	if s := m.String(); !strings.Contains(s, m.Kernel) {
		t.Errorf("%q does not name the kernel", s)
	}
}

func TestProcess(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	u, err := Process(os.Getpid())
	if err != nil || u.RSSBytes < 1<<20 {
		t.Errorf("this process uses %+v, error %v", u, err)
	}
	check.Error(t, check.Err(Process(1<<30)), "usage of a missing process: no error")
}

func TestStat(t *testing.T) {
	u, err := parseStat("7 (a) b (c) S 1 7 7 0 -1 4194560 100 0 0 0 150 50 30 20 20 0 9 0 5000 1000000 25 184467440 1 1")
	want := Status{Name: "a) b (c", Parent: 1, Session: 7, Born: 5000, CPU: 2 * time.Second, Children: 500 * time.Millisecond, RSSBytes: 25 * int64(os.Getpagesize())}
	if err != nil || u != want {
		t.Errorf("%+v, error %v", u, err)
	}
	for threads, dead := range map[string]bool{"1": true, "9": false} { // with nine threads, eight of them may still write
		z, err := parseStat("7 (seb) Z 1 7 7 0 -1 4194560 100 0 0 0 150 50 0 0 20 0 " + threads + " 0 5000 0 0 184467440 1 1")
		if err != nil || z.Dead != dead {
			t.Errorf("a zombie with %s threads: %+v, %v", threads, z, err)
		}
	}
	for _, s := range []string{"", "7 (a", "7 (a) S 1", "7 (a) S" + strings.Repeat(" x", 30)} {
		check.Error(t, check.Err(parseStat(s)), "%q: no error", s)
	}
}

func TestFilesystem(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("needs /proc")
	}
	fs, err := Filesystem(t.TempDir())
	if err != nil || !strings.Contains(fs, " on ") {
		t.Errorf("%q, error %v", fs, err)
	}
	check.Error(t, check.Err(Filesystem(t.TempDir()+"/none")), "file system of a missing folder: no error")
	at, what, ok := mount("36 35 98:0 / /a\\040b rw,noatime shared:1 - ext4 /dev/x rw")
	if !ok || at != "/a b" || what != "ext4 on /dev/x (rw,noatime)" || !below("/a b/c", at) || below("/a bc", at) {
		t.Errorf("%q, %q, %v", at, what, ok)
	}
}

func TestScheduling(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux reports it")
	}
	before := Scheduling()
	if before == "" {
		t.Error("scheduling is unknown")
	}
	// nice returns the niceness of a process that WithDefaultScheduling starts.
	nice := func() string {
		var out []byte
		err := WithDefaultScheduling(func() (err error) {
			out, err = exec.Command("nice").Output()
			return err
		})
		must.NoError(t, err)
		return strings.TrimSpace(string(out))
	}
	if os.Geteuid() != 0 && before != "nice 0" {
		t.Skip("needs privileges")
	}
	check.Equalf(t, nice(), "0", "nice")
	if os.Geteuid() != 0 {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	must.NoError(t, unix.Setpriority(unix.PRIO_PROCESS, 0, 5))
	defer func() { _ = unix.Setpriority(unix.PRIO_PROCESS, 0, 0) }()
	check.Equalf(t, Scheduling(), "nice 5", "scheduling")
	if n := nice(); n != "0" || Scheduling() != "nice 5" {
		t.Errorf("the started process has nice %s, this one has %s after that", n, Scheduling())
	}
}
