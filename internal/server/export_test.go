package server

import (
	"time"

	"github.com/sebbroker/seb/internal/node"
)

// SetStandby lets the servers of tests follow after they were fenced.
func SetStandby(is bool) { standby = is }

// Node is the node of a server.
func (s *Server) Node() *node.Node { return s.node }

// SetKafkaRetry replaces the interval of 5 s in tests.
func SetKafkaRetry(d time.Duration) { kafkaRetry = d }

// SetStoreTimeout replaces the timeout of 5 s in tests.
func SetStoreTimeout(d time.Duration) { storeTimeout = d }

// StopTime bounds a stop.
const StopTime = stopTime
