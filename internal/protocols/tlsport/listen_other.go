//go:build !linux

package tlsport

import "net"

// Listen listens on a TCP address for protocols in which the client speaks first, such as TLS and
// Kafka.
func Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }
