package httpconn

import (
	"net"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// deferSeconds is how long the kernel holds back a connection that has sent nothing. The kernel
// rounds it up to 7.
const deferSeconds = 5

// Listen listens on a TCP address for a server of Connections. Its connections check the heads of
// requests. port enables TLS; nil means plain text. The kernel delivers a connection after its
// first bytes or after deferSeconds, so that silent connections take no slot.
func Listen(address string, port *tlsport.Port) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	control(l, func(fd int) {
		// Without the option a silent connection takes a slot for a short time.
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_DEFER_ACCEPT, deferSeconds)
	})
	return guardedListener{l.(*net.TCPListener), port}, nil
}

// waited returns how long a new connection has waited for Accept, since its last bytes arrived or
// since it was made.
func waited(conn net.Conn) (d time.Duration) {
	control(conn, func(fd int) {
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			d = time.Duration(info.Last_data_recv) * time.Millisecond
		}
	})
	return d
}

// unread reports whether the kernel holds bytes of a connection that are not yet read.
func unread(conn net.Conn) (is bool) {
	control(conn, func(fd int) {
		var b [1]byte
		n, _, err := unix.Recvfrom(fd, b[:], unix.MSG_PEEK|unix.MSG_DONTWAIT)
		is = err == nil && n > 0
	})
	return is
}

// unsent reports whether the kernel holds bytes of a connection that the peer has not confirmed.
func unsent(conn net.Conn) (is bool) {
	control(conn, func(fd int) {
		n, err := unix.IoctlGetInt(fd, unix.SIOCOUTQ)
		is = err == nil && n > 0
	})
	return is
}

// silent reports whether a connection has never sent anything.
func silent(conn net.Conn) (is bool) {
	control(conn, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		is = err == nil && info.Bytes_received == 0
	})
	return is
}

// left reports whether the client of a connection has closed or lost it.
func left(conn net.Conn) (is bool) {
	control(conn, func(fd int) {
		info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO)
		is = err == nil && info.State != unix.BPF_TCP_ESTABLISHED
	})
	return is
}

func control(socket any, f func(fd int)) {
	if s, ok := socket.(syscall.Conn); ok {
		if raw, err := s.SyscallConn(); err == nil {
			// Control fails only on a closed connection.
			_ = raw.Control(func(fd uintptr) { f(int(fd)) })
		}
	}
}
