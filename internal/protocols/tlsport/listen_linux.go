package tlsport

import (
	"net"

	"golang.org/x/sys/unix"
)

// deferSeconds is how long the kernel holds back a connection that has sent nothing. The kernel
// rounds it up to 7.
const deferSeconds = 5

// Listen listens on a TCP address for protocols in which the client speaks first, such as TLS and
// Kafka. The kernel delivers a connection after its first bytes or after deferSeconds, so that
// silent connections cost nothing.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if raw, err := l.(*net.TCPListener).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			// Without the option silent connections cost a little.
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferSeconds)
		})
	}
	return l, nil
}
