package server

import (
	"context"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/operate/node"
)

// SetStandby lets the servers of tests follow after they were fenced, without links.
func SetStandby(is bool) { standby = is }

// Cluster is what a server knows of other brokers.
func (s *Server) Cluster() cluster.View { return s.peers.board }

// Control is what an operator can ask of a server.
func (s *Server) Control() cluster.Control { return s.peers }

// SetLookEvery replaces the interval of 10 minutes in tests.
func SetLookEvery(d time.Duration) { lookEvery = d }

// Kill ends a server like kill -9: nothing is flushed, and no other broker is told.
func (s *Server) Kill() {
	s.peers.stop()
	s.peers.running.Wait()
	s.peers.net.Close(false)
	_ = s.listener.Close()
	_ = s.http.Close()
	killed, cancel := context.WithCancel(context.Background())
	cancel()
	_ = s.node.Broker.Close(killed)
}

// Node is the node of a server.
func (s *Server) Node() *node.Node { return s.node }

// SetKafkaRetry replaces the interval of 5 s in tests.
func SetKafkaRetry(d time.Duration) { kafkaRetry = d }

// SetStoreTimeout replaces the timeout of 5 s in tests.
func SetStoreTimeout(d time.Duration) { storeTimeout = d }

// StopTime bounds a stop.
const StopTime = stopTime
