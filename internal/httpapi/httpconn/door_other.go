//go:build !linux

package httpconn

import (
	"net"
	"time"

	"github.com/sebbroker/seb/internal/tlsport"
)

// Listen listens on a TCP address for a server of Connections, which looks at the heads of requests. port says whether they come over TLS; nil: plain text.
func Listen(address string, port *tlsport.Port) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return guardedListener{l.(*net.TCPListener), port}, nil
}

// silent says whether a connection has never sent anything, where that is known.
func silent(net.Conn) bool { return false }

// waited returns how long a new connection has waited to be accepted, where that is known.
func waited(net.Conn) time.Duration { return 0 }

// unread says whether there may be bytes of a connection that nobody has read: nobody knows here.
func unread(net.Conn) bool { return true }
