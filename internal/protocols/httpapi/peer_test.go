package httpapi

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

// peerEnd returns the links of a run, which is registered, and the events of the run.
func peerEnd(t *testing.T, store objstore.Store, r cluster.Registration, dial string) (*link.Net, cluster.Registration, chan link.Event) {
	t.Helper()
	key := must.Get(link.NewKeyPair())(t)
	r.KafkaID, r.LevelMax, r.KeyHash = 1, 1, key.Hash()
	must.NoError(t, link.Put(t.Context(), store, &r))
	events := make(chan link.Event, 1000)
	n, err := link.New(link.Options{
		Self: r, Key: key, RootKey: []byte(canary), Events: func(ev link.Event) { events <- ev },
		Lookup: func(ctx context.Context, run cluster.Run) (cluster.Registration, error) {
			return link.Get(ctx, store, run)
		},
		Dial: func(ctx context.Context, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", dial)
		},
	})
	must.NoError(t, err)
	t.Cleanup(func() { n.Close(true) })
	return n, r, events
}

func nextEvent(t *testing.T, events chan link.Event, kind link.EventKind) link.Event {
	t.Helper()
	select {
	case ev := <-events:
		if ev.Kind != kind {
			t.Fatalf("event %+v, want kind %d", ev, kind)
		}
		return ev
	case <-time.After(time.Minute):
		t.Fatalf("no event of kind %d", kind)
	}
	panic("unreachable")
}

// TestPeerLink: another broker gets a link on the port of the API, with and without TLS, without a key,
// and under any name of this broker.
func TestPeerLink(t *testing.T) {
	for _, secure := range []bool{false, true} {
		t.Run(fmt.Sprintf("TLS %t", secure), func(t *testing.T) {
			store := objstore.NewMemory()
			var ours atomic.Pointer[link.Net]
			s := start(t, func(c *setup) {
				c.tls = secure
				c.http.PeerLink = func(w http.ResponseWriter, r *http.Request) error { return ours.Load().Accept(w, r) }
			})
			us := cluster.Registration{Run: cluster.Run{Node: record.ID{2}, ID: record.ID{2}}, Addresses: []string{"broker.example.com:80"}, Secure: s.tls != nil}
			n, us, received := peerEnd(t, store, us, s.addr)
			ours.Store(n)
			other, them, events := peerEnd(t, store, cluster.Registration{Run: cluster.Run{Node: record.ID{1}, ID: record.ID{1}}}, s.addr)
			other.Expect(&us)
			if ev := nextEvent(t, events, link.Linked); ev.From != us.Run || ev.OtherKey {
				t.Errorf("%+v", ev)
			}
			nextEvent(t, received, link.Linked)
			sent := cluster.Message{Kind: cluster.MsgEcho, Sent: 9}
			for _, x := range []struct {
				from *link.Net
				to   cluster.Run
				at   chan link.Event
			}{{other, us.Run, received}, {n, them.Run, events}} {
				x.from.Send(x.to, &sent)
				if ev := nextEvent(t, x.at, link.Received); ev.Message != sent {
					t.Errorf("%+v", ev)
				}
			}
			if s.api.connections.Slots.Open() > 1 { // s.client may have one
				t.Errorf("a link counts as a connection of a client: %v", s.api.connections.Slots.Open())
			}
			if a := s.do(call{method: "GET", path: "/peer/link", noKey: true}); a.status != 400 || a.problem(t).Code != "bad_request" {
				t.Errorf("without an upgrade: %s", a)
			}
			if a := s.do(call{method: "GET", path: "/peer/link", noKey: true, header: map[string]string{"Origin": "https://evil.example.com"}}); a.status != 403 {
				t.Errorf("of a web page: %s", a)
			}
		})
	}
}

// TestPeerLinkRefused: another request, and a broker that ends, are problems with a code.
func TestPeerLinkRefused(t *testing.T) {
	for err, code := range map[error]api.Code{&state.InvalidError{Field: "Upgrade", Reason: "want a GET"}: api.BadRequest, link.ErrClosed: api.ShuttingDown} {
		p := problemOf(err)
		if p.Code != code || p.Detail != err.Error() {
			t.Errorf("%v: %+v, want code %s", err, p, code)
		}
	}
}
