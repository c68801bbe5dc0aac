package s3_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// TestRealServerRefuses checks the errors of a misconfigured broker, and that the store recovers
// once the cause is gone.
func TestRealServerRefuses(t *testing.T) {
	server := testenv.S3ForTest(t)
	for name, change := range map[string]func(*objstore.S3Options){
		"wrong secret":     func(o *objstore.S3Options) { o.SecretKey = "wrong" },
		"wrong access key": func(o *objstore.S3Options) { o.AccessKey = "wrong" },
		"wrong bucket":     func(o *objstore.S3Options) { o.Bucket = "another" },
		"wrong region":     func(o *objstore.S3Options) { o.Region = "eu-north-7" },
	} {
		t.Run(name, func(t *testing.T) {
			o := server.Options("refuses")
			change(&o)
			s := openS3(t, o)
			check.ErrorIsf(t, s.Put(t.Context(), "k", objstore.NewBody([]byte("x"))), objstore.ErrRefused, "put")
			check.ErrorIsf(t, check.Err(s.Get(t.Context(), "k", objstore.Whole)), objstore.ErrRefused, "get")
			if _, _, err := s.List(t.Context(), objstore.ListOptions{}); !errors.Is(err, objstore.ErrRefused) {
				t.Errorf("list: %v", err)
			}
			check.ErrorIsf(t, s.Delete(t.Context(), "k", "l"), objstore.ErrRefused, "delete")
		})
	}
}

// suspend stops a process and waits until each of its threads has stopped, because kill returns
// earlier.
func suspend(t *testing.T, pid int) {
	t.Helper()
	must.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	for deadline := time.Now().Add(10 * time.Second); ; runtime.Gosched() {
		threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(threads) == 0 {
			t.Skip("no /proc: cannot see whether the server has stopped")
		}
		running := 0
		for _, name := range threads {
			if b, err := os.ReadFile(name); err == nil && !bytes.Contains(b, []byte(") T ")) {
				running++
			}
		}
		if running == 0 {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d threads of the server still run", running)
		}
	}
}

func TestSuspendedServer(t *testing.T) {
	server := testenv.S3ForTest(t)
	o := server.Options("still")
	o.RequestTimeout, o.BytesPerSecondMin = 100*time.Millisecond, 1<<40
	s := openS3(t, o)
	suspend(t, server.Pid())
	err := s.Put(t.Context(), "k", objstore.NewBody([]byte("x")))
	check.ErrorIsf(t, err, objstore.ErrNoVerdict, "put")
	must.NoError(t, syscall.Kill(server.Pid(), syscall.SIGCONT))
	s = openS3(t, server.Options("still"))
	// the first one may have been stored
	err = s.Put(t.Context(), "k", objstore.NewBody([]byte("x")))
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		t.Errorf("the same put again: %v", err)
	}
	if skew, ok := s.ClockSkew(); !ok || skew.Abs() > time.Minute {
		t.Errorf("the clock is off by %v, %v", skew, ok)
	}
	if warning, err := s.LifecycleWarning(t.Context()); err != nil || warning != "" {
		t.Errorf("lifecycle: %s, %v", warning, err)
	}
}
