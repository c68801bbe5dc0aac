package framed_test

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/protocols/framed"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// quota mutes connections at requests of keyMuted until it is lifted.
type quota struct {
	asked   atomic.Int64 // looks at a muted request
	lifted  atomic.Bool
	revoked atomic.Bool
	changed chan struct{}
}

func (e *echo) Delay(head []byte, _ int) (time.Duration, <-chan struct{}) {
	if keyOf(head) != keyMuted || e.quota.lifted.Load() {
		return 0, e.quota.changed
	}
	e.quota.asked.Add(1)
	return time.Hour, e.quota.changed
}

// muted starts a server and a client whose second request is muted.
func muted(t *testing.T) (*server, *peer) {
	t.Helper()
	s := start(t, framed.Options{})
	p := s.dial(t)
	large := frame(keyMuted, 2, 30_000) // more than the server reads ahead
	p.send(append(frame(keyEcho, 1, 0), large...))
	p.expect(frame(keyEcho, 1, 0))
	sebtest.Eventually(t, "the request is muted", func() bool { return s.quota.asked.Load() > 0 })
	must.Equalf(t, s.begun.Load(), 1, "requests have begun")
	return s, p
}

func TestMutedConnection(t *testing.T) {
	t.Parallel()
	t.Run("continues when the quota changes, and others are not muted", func(t *testing.T) {
		s, p := muted(t)
		s.dial(t).asks(keyEcho, 7)
		check.Equalf(t, s.class.Used(), 0, "bytes are reserved for a muted request")
		s.quota.lifted.Store(true)
		close(s.quota.changed)
		p.expect(frame(keyMuted, 2, 30_000))
	})
	t.Run("ends when its secret is revoked", func(t *testing.T) {
		s, p := muted(t)
		s.quota.revoked.Store(true)
		close(s.quota.changed)
		p.ended()
	})
	t.Run("ends when the server stops", func(t *testing.T) {
		s, p := muted(t)
		s.Drain()
		p.ended()
	})
	t.Run("ends when its client leaves", func(t *testing.T) {
		if runtime.GOOS != "linux" {
			t.Skip("only Linux reports it while a request is unread")
		}
		s, p := muted(t)
		_ = p.Close()
		sebtest.Eventually(t, "the connection has ended", func() bool { return s.Connections() == 0 })
	})
}
