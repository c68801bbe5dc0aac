package testenv

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// ports are those that this process was given.
var ports sync.Map

// FreePort returns a port of 127.0.0.1 without a listener, for a process that names its port or
// listens on it again after a restart. It is below the range of ephemeral ports, so that the kernel
// does not assign it to a connection meanwhile, and no other call of this process returns it. A test
// of another process may take it: its chance is 1 in 20,000. 10080 is not among them, because fetch refuses it.
func FreePort() (port int, err error) {
	const first, count, tries = 10_100, 20_000, 50
	for range tries {
		port = first + rand.IntN(count)
		l, e := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if e != nil {
			err = e
			continue
		}
		if err = l.Close(); err != nil {
			return 0, err
		}
		if _, taken := ports.LoadOrStore(port, true); !taken {
			return port, nil
		}
	}
	return 0, err
}

// FreeAddress returns 127.0.0.1 with a port of [FreePort].
func FreeAddress() (string, error) {
	port, err := FreePort()
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(port)).String(), err
}

// PortForTest returns a port of [FreePort].
func PortForTest(t testing.TB) int {
	t.Helper()
	port := must.Get(FreePort())(t)
	return port
}
