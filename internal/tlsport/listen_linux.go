package tlsport

import (
	"net"

	"golang.org/x/sys/unix"
)

// deferSeconds is how long the kernel keeps a connection to itself that has sent nothing: it rounds up to 7.
const deferSeconds = 5

// Listen listens on a TCP address for clients that speak first, as those of TLS and of Kafka do. The kernel gives no connection before it has
// sent something, but for the time's end, so those that stay silent cost nothing here.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	if raw, err := l.(*net.TCPListener).SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) {
			_ = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferSeconds) // without it they cost a little
		})
	}
	return l, nil
}
