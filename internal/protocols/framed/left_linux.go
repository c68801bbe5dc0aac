package framed

import (
	"net"

	"golang.org/x/sys/unix"
)

// left reports whether the client has closed the connection, also if it has unread data.
func (l *link) left() (gone bool) {
	c := l.c
	if l.tls != nil {
		c = l.tls.Plain()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return false
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return true
	}
	err = raw.Control(func(fd uintptr) {
		poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLRDHUP}}
		n, err := unix.Poll(poll, 0)
		gone = err == nil && n > 0
	})
	return gone || err != nil
}
