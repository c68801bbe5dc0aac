package place

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// APIKey is the key of every broker: the password of SASL, with any user name.
const APIKey = "interop-key-0123456789"

// EnvVariable has to be 1 for the tests to run.
const EnvVariable = "SEB_INTEROP"

// Wanted skips the test unless `make interop` runs it.
func Wanted(t testing.TB) {
	t.Helper()
	if os.Getenv(EnvVariable) != "1" {
		t.Skip("runs with make interop: it fetches clients of other languages")
	}
}

// seb is the program, built by the first who asks.
var seb struct {
	once sync.Once
	dir  string
	path string
	err  error
}

func built(t testing.TB) string {
	t.Helper()
	seb.once.Do(func() {
		if seb.dir, seb.err = os.MkdirTemp("", "seb-interop-bin-*"); seb.err == nil {
			seb.path, seb.err = testenv.Build(seb.dir)
		}
	})
	if seb.err != nil {
		t.Fatal(seb.err)
	}
	return seb.path
}

// Main runs the tests of a package, and removes the program that was built for them. It returns the exit code.
func Main(m *testing.M) int {
	code := m.Run()
	if seb.dir != "" {
		_ = os.RemoveAll(seb.dir)
	}
	return code
}

// Broker is `seb serve` on one bucket folder, one data folder and one Kafka address, one process after the other. Its
// methods are for one goroutine at a time.
type Broker struct {
	// Address is host:port for Kafka clients. It stays the same.
	Address string
	// Dir holds bucket, data and log of the broker, and is the test's to put files into.
	Dir string

	t    testing.TB
	args []string
	log  *os.File
	mu   sync.Mutex // guards log, which two streams write
	run  *testenv.Broker
	http string
}

// startsMax bounds the starts at first: another process may take the free port before the broker does.
const startsMax = 5

// Serve starts a broker that is killed when the test ends. args are further ones of `seb serve`. If the test fails, the end of
// what the broker said is in its log.
func Serve(t testing.TB, args ...string) *Broker {
	t.Helper()
	b := &Broker{t: t, Dir: t.TempDir(), args: args}
	built(t)
	var err error
	if b.log, err = os.Create(filepath.Join(b.Dir, "broker.log")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.finish)
	for range startsMax {
		if b.Address, err = freeAddress(); err != nil {
			t.Fatal(err)
		}
		if err = b.start(); err == nil {
			return b
		}
	}
	t.Fatal(err)
	return nil
}

func (b *Broker) finish() {
	if b.run == nil {
		return
	}
	b.run.Kill()
	if b.t.Failed() {
		b.t.Logf("the end of what the broker said:\n%s", b.run.Log())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	_ = b.log.Close()
}

func (b *Broker) start() error {
	data := filepath.Join(b.Dir, "data")
	run, err := testenv.ServeLogged(built(b.t), []string{"SEB_API_KEY=" + APIKey}, b.line, append([]string{
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

func (b *Broker) line(text string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	_, _ = fmt.Fprintln(b.log, text)
}

// Kill is kill -9; it returns when the process is gone.
func (b *Broker) Kill() { b.run.Kill() }

// Start starts the broker again where the last one was, and returns when it accepts requests.
func (b *Broker) Start() {
	b.t.Helper()
	if err := b.start(); err != nil {
		b.t.Fatal(err)
	}
}

// Restart is Kill, a pause in which clients find nobody there, and Start.
func (b *Broker) Restart(pause time.Duration) {
	b.t.Helper()
	b.Kill()
	time.Sleep(pause)
	b.Start()
}

// Stop is SIGTERM: the broker stores and answers what it has taken, and ends.
func (b *Broker) Stop() {
	b.t.Helper()
	if code := b.run.Stop(); code != 0 {
		b.t.Fatalf("the broker ended with code %d:\n%s", code, b.run.Log())
	}
}

// HTTP is the URL of the HTTP API; it changes with each start.
func (b *Broker) HTTP() string { return b.http }

// Log is all that the brokers of this place have said.
func (b *Broker) Log() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	text, err := os.ReadFile(b.log.Name())
	if err != nil {
		b.t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}
