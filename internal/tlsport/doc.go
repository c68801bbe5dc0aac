// Package tlsport is TLS on the broker's ports: a certificate that is read again when its files change, handshakes that are
// bounded in memory, and what is logged of connections that do not become secure. It knows no protocol above.
package tlsport
