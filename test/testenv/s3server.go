package testenv

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/must"
)

// The keys of every server's only account, and the name of its initial bucket.
const (
	AccessKey = "testaccess"
	SecretKey = "testsecret12"
	Bucket    = "seb"
)

// S3Keys are the environment variables of the keys.
var S3Keys = []string{"AWS_ACCESS_KEY_ID=" + AccessKey, "AWS_SECRET_ACCESS_KEY=" + SecretKey}

const (
	readyWait = 20 * time.Second
	stopWait  = 5 * time.Second
	startsMax = 5 // another process may take the free port first
)

// S3Server is a running S3 server. Its methods are for one goroutine at a time.
type S3Server struct {
	// Endpoint is "http://127.0.0.1:port" and does not change at restarts.
	Endpoint string

	binary, dir string
	args        []string // of the backend
	child       *child
}

// StartS3 starts a server with its objects in the existing folder dir, and waits until it answers.
// Buckets are the folders in dir; StartS3 creates Bucket. args are further flags of versitygw's
// backend "posix". The caller calls Stop.
func StartS3(ctx context.Context, dir string, args ...string) (*S3Server, error) {
	binary, err := S3Binary(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(filepath.Join(dir, Bucket), 0o750); err != nil {
		return nil, fmt.Errorf("start s3 server: %w", err)
	}
	var faults []error
	for range startsMax {
		address, err := FreeAddress()
		if err != nil {
			return nil, fmt.Errorf("start s3 server: %w", err)
		}
		s := &S3Server{Endpoint: "http://" + address, binary: binary, dir: dir, args: args}
		if err = s.Restart(ctx); err == nil {
			return s, nil
		}
		faults = append(faults, err)
	}
	return nil, errors.Join(faults...)
}

// S3ForTest starts a server that ends with the test. If it cannot start, the test fails; with
// -short the test is skipped.
func S3ForTest(t testing.TB, args ...string) *S3Server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: no S3 server")
	}
	s := must.Get(StartS3(t.Context(), t.TempDir(), args...))(t)
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// Options returns the options of s3.Open for prefix in Bucket.
func (s *S3Server) Options(prefix string) objstore.S3Options {
	return objstore.S3Options{
		Bucket: Bucket, Prefix: prefix, Endpoint: s.Endpoint, Region: "us-east-1", PathStyle: true,
		AccessKey: AccessKey, SecretKey: SecretKey,
	}
}

// Spec returns the same for anystore.Open, which also needs the keys.
func (s *S3Server) Spec(prefix string) string {
	return "s3://" + Bucket + "/" + prefix + "?endpoint=" + s.Endpoint + "&region=us-east-1&path-style=true"
}

// Restart starts the server again at the same address and waits until it answers. The old one must
// have ended.
func (s *S3Server) Restart(ctx context.Context) error {
	if s.child != nil && !s.child.ended() {
		return errors.New("restart s3 server: server is still running")
	}
	address := s.Endpoint[len("http://"):]
	args := append([]string{"--quiet", "--port", address, "--health", "/healthz", "posix"}, s.args...)
	child, err := startChild(s.binary, append(args, s.dir)...)
	if err != nil {
		return fmt.Errorf("start s3 server: %w", err)
	}
	s.child = child
	if err := s.waitReady(ctx); err != nil {
		return errors.Join(fmt.Errorf("start s3 server: %w; output: %s", err, child.output.tail()), s.Kill())
	}
	return nil
}

func (s *S3Server) waitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	for {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, s.Endpoint+"/healthz", http.NoBody)
		if err != nil {
			return err
		}
		if response, err := http.DefaultClient.Do(request); err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return nil
			}
		}
		select {
		case <-s.child.done:
			return errors.New("server process ended")
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// Kill ends the server immediately, like a crash. Its stored objects stay. It may be called after
// the end.
func (s *S3Server) Kill() error {
	if s.child == nil || s.child.ended() {
		return nil
	}
	if err := s.child.command.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill s3 server: %w", err)
	}
	<-s.child.done
	return nil
}

// Stop ends the server regularly, or kills it if that takes too long. It may be called twice.
func (s *S3Server) Stop() error {
	if s.child == nil || s.child.ended() {
		return nil
	}
	if err := s.child.command.Process.Signal(os.Interrupt); err == nil {
		select {
		case <-s.child.done:
			return nil
		case <-time.After(stopWait):
		}
	}
	return s.Kill()
}

// Pid returns the server's process ID, for tests that stop and continue it.
func (s *S3Server) Pid() int { return s.child.command.Process.Pid }

// child is a process with a goroutine that waits for it.
type child struct {
	command *exec.Cmd
	output  *lastBytes
	done    chan struct{} // closed when the process has ended
}

func startChild(binary string, args ...string) (*child, error) {
	c := &child{command: exec.Command(binary, args...), output: &lastBytes{}, done: make(chan struct{})}
	c.command.Env = append(cleanEnvironment(), "ROOT_ACCESS_KEY="+AccessKey, "ROOT_SECRET_KEY="+SecretKey)
	c.command.Stdout, c.command.Stderr = c.output, c.output
	c.command.SysProcAttr = Attributes()
	if err := c.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = c.command.Wait() // returns when the process ends
		close(c.done)
	}()
	return c, nil
}

func (c *child) ended() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// lastBytes keeps the end of its input.
type lastBytes struct {
	mu   sync.Mutex // guards data
	data []byte
}

const lastBytesMax = 4 << 10

// Write implements io.Writer.
func (l *lastBytes) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.data = append(l.data, p...)
	if over := len(l.data) - lastBytesMax; over > 0 {
		l.data = l.data[over:]
	}
	return len(p), nil
}

func (l *lastBytes) tail() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(bytes.TrimSpace(l.data))
}
