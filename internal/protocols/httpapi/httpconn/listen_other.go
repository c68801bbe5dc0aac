//go:build !linux

package httpconn

import (
	"net"
	"time"

	"github.com/sebbroker/seb/internal/protocols/tlsport"
)

// Listen listens on a TCP address for a server of Connections. Its connections check the heads of
// requests. port enables TLS; nil means plain text.
func Listen(address string, port *tlsport.Port) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	return guardedListener{l.(*net.TCPListener), port}, nil
}

// silent reports whether a connection has never sent anything; false where the system does not
// tell.
func silent(net.Conn) bool { return false }

// left reports whether the client of a connection has closed or lost it; false where the system does not
// tell: then the next write fails.
func left(net.Conn) bool { return false }

// waited returns how long a new connection has waited for Accept; 0 where the system does not tell.
func waited(net.Conn) time.Duration { return 0 }

// unread reports whether the kernel may hold bytes of a connection that are not yet read.
func unread(net.Conn) bool { return true }

func unsent(net.Conn) bool { return true } // unknown
