//go:build !linux

package riemann

import "net"

// Only Linux counts datagrams that it drops.

func countDrops(*net.UDPConn) {}

func dropsIn([]byte) (drops uint32, ok bool) { return 0, false }

// waiting returns nil, because it is not known whether a datagram can be read at once.
func waiting(*net.UDPConn) func() bool { return nil }
