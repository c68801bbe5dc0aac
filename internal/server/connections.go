package server

import (
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi"
)

const (
	// connectionBytes is the memory of a Kafka or Riemann connection: buffers in both directions, two
	// goroutines, requests in flight.
	connectionBytes = 40 << 10
	// httpIdleBytes is the memory of an idle HTTP connection: two buffers of 4 KiB, a goroutine,
	// and the state of net/http and of the request guard. busyBytes, at most a quarter of the
	// total, is for active requests, in addition to the memory that requests reserve.
	httpIdleBytes = 14 << 10
	busyBytes     = 3 << 19
)

// MemoryFor returns a memory limit, in bytes, that allows a number of concurrent connections
// without TLS.
func MemoryFor(connections int) int64 {
	idle := int64(httpapi.ConnectionsOpen(connections)) * httpIdleBytes
	http := idle + min(busyBytes, idle/3+1) // see httpOpen
	kafka := min(http/(kafkaShare-1)+connectionBytes, maxKafkaConnections*connectionBytes)
	return budget.LimitFor(budget.Connections, http+kafka)
}

// connections are the connection limits of the listeners.
type connections struct{ http, kafka, riemann int }

// connections returns the connection limits from memory and from the system's limit of open files:
// for HTTP, as Options.Connections, and for the others.
func (s *Server) connections() (c connections) {
	limit, tls := s.node.Budget().Class(budget.Connections).Limit(), s.ports.tlsBytes()
	all := int(limit / (connectionBytes + tls))
	c.kafka, c.riemann = s.kafka.connections(all), s.riemann.connections(all)
	others := c.kafka + c.riemann
	open := httpOpen(limit, others, tls)
	if files := openFiles(); files > 0 && files-others-ownFiles < open {
		s.log.Warn("HTTP connections bounded by the limit of open files", "files", files, "hint", "raise the limit: ulimit -n")
		open = files - others - ownFiles
	}
	c.http = min(s.cfg.HTTP.Connections, httpapi.ConnectionsWithin(open))
	return c
}

// httpOpen returns the number of HTTP connections that fit into a memory limit for all connections,
// beside those of other protocols.
func httpOpen(limit int64, others int, tls int64) int {
	limit -= int64(others) * (connectionBytes + tls)
	return int((limit - min(busyBytes, limit/4)) / (httpIdleBytes + tls))
}

// ownFiles bounds the files of the program itself: cache, objects, requests to the store.
const ownFiles = 512
