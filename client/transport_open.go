//go:build linux || darwin || freebsd || netbsd || openbsd

package client

import (
	"errors"
	"net"
	"syscall"
)

// isOpen reports whether an idle connection is open, as far as this end knows.
func isOpen(c net.Conn) (open bool) {
	s, ok := c.(syscall.Conn)
	if !ok {
		return false
	}
	raw, err := s.SyscallConn()
	if err != nil {
		return false
	}
	err = raw.Read(func(fd uintptr) bool {
		var b [1]byte
		_, _, err := syscall.Recvfrom(int(fd), b[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		open = errors.Is(err, syscall.EAGAIN)
		return true
	})
	return open && err == nil
}
