package testenv

import (
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

func TestMain(m *testing.M) { os.Exit(Main(m)) }

func TestInteropBrokerKeepsItsAddress(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds seb again, with other flags than make check")
	}
	b := ServeInterop(t)
	address := b.Address
	dial := func() error {
		c, err := net.DialTimeout("tcp", address, 5*time.Second)
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	must.NoError(t, dial())
	b.Kill()
	must.Error(t, dial(), "a process answers after the kill")
	b.Start()
	if err := dial(); err != nil || b.Address != address {
		t.Fatalf("after the start, at %s: %v", b.Address, err)
	}
	b.Stop()
	must.Error(t, dial(), "a process answers after the stop")
	if n := strings.Count(b.Log(), "msg=starting"); n != 2 {
		t.Errorf("the log of two brokers has %d starts:\n%s", n, b.Log())
	}
}

func TestThousands(t *testing.T) {
	for n, want := range map[int]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000"} {
		if got := Thousands(n); got != want {
			t.Errorf("%d is %q, want %q", n, got, want)
		}
	}
}
