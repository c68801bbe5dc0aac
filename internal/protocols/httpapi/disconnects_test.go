package httpapi

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// TestDisconnectsAreNotErrors checks that disconnected clients are logged once, at level info.
func TestDisconnectsAreNotErrors(t *testing.T) {
	t.Parallel()
	store := storetest.NewFaulty(objstore.NewMemory(), 1, storetest.Faults{})
	s := start(t, func(c *setup) {
		c.store = store
		c.broker.Timeouts.Put, c.broker.Core.Window = 100*time.Millisecond, 1
	})
	s.mustPost("topic-name=t", api.TextPlain, "a")
	head := "POST /records?topic-name=t HTTP/1.1\r\nHost: x\r\nAuthorization: " + canary + "\r\nContent-Length: 1\r\n"
	mp, kind := form("a")
	original := fmt.Sprintf("%sContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s", strings.TrimSuffix(head, "Content-Length: 1\r\n"), kind, len(mp), mp)
	for _, request := range []string{head + "Content-Type: text/plain\r\n\r\nx", original, head + "Accept: */*\r\nContent-Type: text/plain\r\n\r\nx"} {
		hung := store.Injected(storetest.Hang)
		store.SetFaults(storetest.Faults{Put: storetest.Rates{storetest.Hang: 1}})
		conn := s.dial()
		fmt.Fprint(conn, request)
		sebtest.Eventually(t, "the records are sent to the store", func() bool { return store.Injected(storetest.Hang) > hung })
		conn.Close()
		s.client.CloseIdleConnections()
		sebtest.Eventually(t, "the client has left", func() bool { return s.api.connections.Slots.Open() == 0 })
		store.SetFaults(storetest.Faults{})
		s.mustPost("topic-name=t", api.TextPlain, "b")
	}
	stream := s.dial()
	fmt.Fprint(stream, "GET /records?topic-name=t&offset=0 HTTP/1.1\r\nHost: x\r\nAccept: text/event-stream\r\nAuthorization: "+canary+"\r\n\r\n")
	if _, err := stream.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	stream.Close()
	s.client.CloseIdleConnections()
	sebtest.Eventually(t, "the stream's client has left", func() bool { return s.api.connections.Slots.Open() == 0 })
	log := s.log.String()
	check.Equalf(t, strings.Count(log, "level=INFO msg=\"client left before the answer\""), 1, "lines about disconnected clients")
	for line := range strings.Lines(log) {
		if strings.Contains(line, "level=ERROR") || strings.Contains(line, "connection cut") || strings.Contains(line, "superfluous") {
			t.Errorf("%s", line)
		}
	}
}
