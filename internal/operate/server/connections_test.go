package server

import (
	"testing"

	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
)

// TestConnectionsWithinMemory: number of idle and busy HTTP connections next to the Kafka
// connections.
func TestConnectionsWithinMemory(t *testing.T) {
	for _, c := range []struct {
		limit int64
		least int
	}{
		{16 << 20, 50},
		{64 << 20, 240},
		{256 << 20, 1000 + 400},
		{1 << 30, 10_000 + 2000},
	} {
		memory := budget.New(c.limit).Class(budget.Connections).Limit()
		kafka := (&kafkaServer{}).connections(int(memory / connectionBytes))
		got := httpapi.ConnectionsWithin(httpOpen(memory, kafka, 0))
		if got < c.least {
			t.Errorf("%d connections at a memory limit of %d bytes, want %d", got, c.limit, c.least)
		}
		if needed := MemoryFor(got - kafka); needed > c.limit {
			t.Errorf("%d connections need %d bytes, limit %d", got-kafka, needed, c.limit)
		}
	}
}
