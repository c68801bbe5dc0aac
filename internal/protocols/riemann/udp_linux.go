package riemann

import (
	"encoding/binary"
	"net"

	"golang.org/x/sys/unix"
)

// countDrops makes the kernel send the number of datagrams that it has dropped with each datagram.
func countDrops(c *net.UDPConn) {
	raw, err := c.SyscallConn()
	if err == nil {
		_ = raw.Control(func(fd uintptr) { _ = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_RXQ_OVFL, 1) })
	}
}

// dropsIn returns that number from the control data of a datagram. The kernel leaves it out while it
// is 0.
func dropsIn(control []byte) (drops uint32, ok bool) {
	if len(control) == 0 {
		return 0, false
	}
	h, data, _, err := unix.ParseOneSocketControlMessage(control)
	if err != nil || h.Level != unix.SOL_SOCKET || h.Type != unix.SO_RXQ_OVFL || len(data) < 4 {
		return 0, false
	}
	return binary.NativeEndian.Uint32(data), true
}

// waiting returns a function that reports whether a datagram that is not empty can be read at once.
func waiting(c *net.UDPConn) func() bool {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil
	}
	n := 0
	look := func(fd uintptr) { n, _ = unix.IoctlGetInt(int(fd), unix.TIOCINQ) }
	return func() bool { return raw.Control(look) == nil && n > 0 }
}
