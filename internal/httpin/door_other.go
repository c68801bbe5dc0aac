//go:build !linux

package httpin

import (
	"net"
	"time"
)

// Listen listens on a TCP address for a server of Connections.
func Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }

// silent says whether a connection has never sent anything, where that is known.
func silent(net.Conn) bool { return false }

// waited returns how long a new connection has waited to be accepted, where that is known.
func waited(net.Conn) time.Duration { return 0 }

// unread says whether there may be bytes of a connection that nobody has read: nobody knows here.
func unread(net.Conn) bool { return true }
