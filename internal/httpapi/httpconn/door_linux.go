package httpconn

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/tlsport"
)

// deferSeconds is how long the kernel keeps a connection to itself that has sent nothing: it rounds up to 7.
const deferSeconds = 5

// Listen listens on a TCP address for a server of Connections, which looks at the heads of requests. port says whether they come over TLS; nil: plain text. The kernel gives no
// connection before it has sent something, but for the time's end, so those that stay silent cost nothing here.
func Listen(address string, port *tlsport.Port) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	control(l, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferSeconds) // without it they cost a little
	})
	return guardedListener{l.(*net.TCPListener), port}, nil
}

// waited returns how long a new connection has waited to be accepted: since the last of its bytes came in, or since it was
// made.
func waited(conn net.Conn) (d time.Duration) {
	control(conn, func(fd int) {
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			d = time.Duration(info.Last_data_recv) * time.Millisecond
		}
	})
	return d
}

// unread says whether the kernel has bytes of a connection that nobody has read.
func unread(conn net.Conn) (is bool) {
	control(conn, func(fd int) {
		var b [1]byte
		n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		is = err == nil && n > 0
	})
	return is
}

// silent says whether a connection has never sent anything.
func silent(conn net.Conn) (is bool) {
	control(conn, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		is = err == nil && info.Bytes_received == 0
	})
	return is
}

func control(socket any, f func(fd int)) {
	if s, ok := socket.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			_ = raw.Control(func(fd uintptr) { f(int(fd)) }) // closed: there is nothing to say of it
		}
	}
}
