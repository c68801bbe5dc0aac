package place

import (
	"errors"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestBrokerComesBackWhereItWas(t *testing.T) {
	b := Serve(t)
	address := b.Address
	dial := func() error {
		c, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	if err := dial(); err != nil {
		t.Fatal(err)
	}
	b.Kill()
	if dial() == nil {
		t.Fatal("somebody answers after the kill")
	}
	b.Start()
	if err := dial(); err != nil || b.Address != address {
		t.Fatalf("after the start, at %s: %v", b.Address, err)
	}
	b.Stop()
	if dial() == nil {
		t.Fatal("somebody answers after the stop")
	}
	if n := strings.Count(b.Log(), address); n < 2 {
		t.Errorf("the log of two brokers names the address %d times:\n%s", n, b.Log())
	}
}

func TestInstallBuildsOnceAndLeavesNothingOfAFailure(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "go.mod"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	fault := errors.New("no network")
	calls := 0
	build := func(err error) func(string) error {
		return func(dir string) error {
			calls++
			return errors.Join(err, os.WriteFile(filepath.Join(dir, "client"), []byte("x"), 0o600))
		}
	}
	if _, err := Install("client-1", "a client", build(fault)); !errors.Is(err, fault) {
		t.Fatalf("a build that fails: %v", err)
	}
	for range 2 {
		dir, err := Install("client-1", "a client", build(nil))
		if err != nil {
			t.Fatal(err)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "client")); err != nil || string(text) != "x" {
			t.Fatalf("installed: %q, %v", text, err)
		}
	}
	if calls != 2 {
		t.Errorf("built %d times, want once with a fault and once without", calls)
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
