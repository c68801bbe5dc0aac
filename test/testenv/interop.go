// Interop: a broker for clients of other languages. It has a bucket folder and a Kafka address that
// stay the same when the process is killed and started again. A test begins with InteropWanted,
// starts a broker with ServeInterop, and prints a line for each check with Report. Each test
// package calls Main in its TestMain.

package testenv

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

// InteropKey is the key of every broker: the password of SASL, with any user name.
const InteropKey = "interop-key-0123456789"

// InteropVariable must be 1 for the tests to run.
const InteropVariable = "SEB_INTEROP"

// InteropWanted skips the test unless `go run ./test/cmd/interop` runs it.
func InteropWanted(t testing.TB) {
	t.Helper()
	if os.Getenv(InteropVariable) != "1" {
		t.Skip("runs with go run ./test/cmd/interop: it fetches clients of other languages")
	}
}

// InteropBroker is `seb serve` on one bucket folder, one data directory and one Kafka address, as
// consecutive processes. Its methods are for one goroutine at a time.
type InteropBroker struct {
	// Address is host:port for Kafka clients. It never changes.
	Address string
	// Dir holds bucket, data and log of the broker. The test may add files.
	Dir string

	t    testing.TB
	args []string
	log  *os.File
	mu   sync.Mutex // guards log, which two streams write
	run  *Broker
	http string
}

// ServeInterop starts a broker that is killed when the test ends. args are further arguments of
// `seb serve`. If the test fails, its log includes the end of the broker's output.
func ServeInterop(t testing.TB, args ...string) *InteropBroker {
	t.Helper()
	b := &InteropBroker{t: t, Dir: t.TempDir(), args: args}
	Program(t)
	var err error
	if b.log, err = os.Create(filepath.Join(b.Dir, "broker.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.finish)
	for range startsMax {
		if b.Address, err = FreeAddress(); err != nil {
			t.Fatal(err)
		}
		if err = b.start(); err == nil {
			return b
		}
	}
	t.Fatal(err)
	return nil
}

func (b *InteropBroker) finish() {
	if b.run == nil {
		return
	}
	b.run.Kill()
	if b.t.Failed() {
		b.t.Logf("end of the broker's output:\n%s", b.run.Log())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.log.Close()
}

func (b *InteropBroker) start() error {
	data := filepath.Join(b.Dir, "data")
	run, err := ServeLogged(Program(b.t), []string{"SEB_API_KEY=" + InteropKey}, b.line, append([]string{
		"--bucket", filepath.Join(b.Dir, "bucket"), "--data-dir", data, "--http-port", "0", "--kafka-listen", b.Address,
	}, b.args...)...)
	if err != nil {
		return err
	}
	b.run = run
	if b.http, err = run.Address(data); err != nil {
		run.Kill()
	}
	return err
}

func (b *InteropBroker) line(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = fmt.Fprintln(b.log, text)
}

// Kill sends SIGKILL and returns when the process has ended.
func (b *InteropBroker) Kill() { b.run.Kill() }

// Start starts the broker again at the same address and returns when it accepts requests.
func (b *InteropBroker) Start() {
	b.t.Helper()
	must.NoError(b.t, b.start())
}

// Restart calls Kill, pauses while clients cannot connect, and calls Start.
func (b *InteropBroker) Restart(pause time.Duration) {
	b.t.Helper()
	b.Kill()
	time.Sleep(pause)
	b.Start()
}

// Stop sends SIGTERM: the broker stores and answers the accepted requests, and ends.
func (b *InteropBroker) Stop() {
	b.t.Helper()
	must.Equalf(b.t, b.run.Stop(), 0, "the broker ended with code:\n%s", b.run.Log())
}

// HTTP returns the URL of the HTTP API; it changes with each start.
func (b *InteropBroker) HTTP() string { return b.http }

// Log returns the output of all processes.
func (b *InteropBroker) Log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text := must.Get(os.ReadFile(b.log.Name()))(b.t)
	return strings.TrimSpace(string(text))
}
