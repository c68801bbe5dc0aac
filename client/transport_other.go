//go:build !(linux || darwin || freebsd || netbsd || openbsd)

package client

import "net"

// isOpen is not known here.
func isOpen(net.Conn) bool { return false }
