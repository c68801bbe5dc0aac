//go:build !linux

package riemann

import "net"

// Only Linux counts datagrams that it drops.

func countDrops(*net.UDPConn) {}

func dropsIn([]byte) (drops uint32, ok bool) { return 0, false }

// waiting returns a function that reports whether a datagram can be read at once. Here that is not
// known.
func waiting(*net.UDPConn) func() bool { return func() bool { return false } }
