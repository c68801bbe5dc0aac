// Package tlsport implements TLS on the broker's ports: a certificate that is reloaded when its
// files change, handshakes with bounded memory, and log lines about connections that fail. It does
// not know the protocol above TLS.
package tlsport
