//go:build !linux

package tlsport

import "net"

// Listen listens on a TCP address for clients that speak first, as those of TLS and of Kafka do.
func Listen(address string) (net.Listener, error) { return net.Listen("tcp", address) }
