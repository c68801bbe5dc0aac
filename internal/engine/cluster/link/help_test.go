package link_test

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// timeout is far above the duration of any step on a slow machine.
const timeout = time.Minute

var rootKey, secretsKey = []byte("the root key of all"), []byte("the secrets key of all")

// end is a run with its links, on a real port.
type end struct {
	t      *testing.T
	net    *link.Net
	reg    cluster.Registration
	key    *link.KeyPair
	server *httptest.Server
	store  objstore.Store
	events chan link.Event
	logs   *sebtest.Log
	block  chan struct{} // not nil: events wait for it
}

// listen listens on a port that nothing else takes once it is closed.
func listen(t *testing.T) net.Listener {
	t.Helper()
	l := must.Get(net.Listen("tcp", fmt.Sprint("127.0.0.1:", testenv.PortForTest(t))))(t)
	return l
}

// newEnd registers a run and starts it. change may change its options.
func newEnd(t *testing.T, store objstore.Store, node byte, change func(*link.Options)) *end {
	t.Helper()
	e := &end{t: t, store: store, events: make(chan link.Event, 10_000), logs: new(sebtest.Log)}
	var err error
	if e.key, err = link.NewKeyPair(); err != nil {
		t.Fatal(err)
	}
	e.server = httptest.NewUnstartedServer(nil)
	_ = e.server.Listener.Close()
	e.server.Listener = listen(t)
	t.Cleanup(e.server.Close)
	e.reg = cluster.Registration{
		Run: cluster.Run{Node: record.ID{0: node, 1: 1}, ID: record.NewID()}, Name: fmt.Sprint("broker-", node), KafkaID: 1, LevelMax: 1,
		KeyHash: e.key.Hash(), Addresses: []string{e.server.Listener.Addr().String()},
	}
	o := link.Options{
		RootKey: rootKey, SecretsKey: secretsKey, Lookup: e.lookup, Events: e.tell,
		Logger: slog.New(slog.NewTextHandler(e.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		o.Self, o.Key = e.reg, e.key
		change(&o)
		e.reg, e.key = o.Self, o.Key
	}
	o.Self, o.Key = e.reg, e.key
	if e.net, err = link.New(o); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		e.net.Close(false)
		for _, key := range []string{string(rootKey), string(secretsKey), hex.EncodeToString(rootKey), "PRIVATE", "%!"} {
			if strings.Contains(e.logs.String(), key) {
				t.Errorf("the log has %q:\n%s", key, e.logs)
			}
		}
	})
	e.server.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch err := e.net.Accept(w, r); {
		case errors.Is(err, link.ErrClosed):
			w.WriteHeader(http.StatusServiceUnavailable)
		case err != nil:
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	e.server.Start()
	must.NoError(t, link.Put(t.Context(), store, &e.reg))
	return e
}

func (e *end) lookup(ctx context.Context, run cluster.Run) (cluster.Registration, error) {
	return link.Get(ctx, e.store, run)
}

func (e *end) tell(ev link.Event) {
	if e.block != nil {
		<-e.block
	}
	e.events <- ev
}

// next returns the next event other than a failed dial.
func (e *end) next() link.Event {
	e.t.Helper()
	return e.until(func(ev link.Event) bool { return ev.Kind != link.Failed })
}

// until returns the next event for which is returns true.
func (e *end) until(is func(link.Event) bool) link.Event {
	e.t.Helper()
	after := time.After(timeout)
	for {
		select {
		case ev := <-e.events:
			if is(ev) {
				return ev
			}
		case <-after:
			e.t.Fatalf("%s: no such event; its log:\n%s", e.reg.Name, e.logs)
		}
	}
}

func (e *end) want(kind link.EventKind, from cluster.Run) link.Event {
	e.t.Helper()
	ev := e.next()
	if ev.Kind != kind || ev.From != from {
		e.t.Fatalf("%s: event %+v, want kind %d of run %s", e.reg.Name, ev, kind, from)
	}
	return ev
}

// pair links two runs; a has the smaller node and dials.
func pair(t *testing.T, a, b *end) {
	t.Helper()
	a.net.Expect(&b.reg)
	a.want(link.Linked, b.reg.Run)
	b.want(link.Linked, a.reg.Run)
}

// passes sends messages until one arrives: those on a link that another one replaces can be lost.
func passes(t *testing.T, from, to *end) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	after := time.After(timeout)
	for {
		select {
		case <-tick.C:
			from.net.Send(to.reg.Run, &cluster.Message{Kind: cluster.MsgEcho, Sent: 1})
		case ev := <-to.events:
			if ev.Kind == link.Received {
				return
			}
		case <-after:
			t.Fatalf("no message from %s\n%s\n%s", from.reg.Name, from.logs, to.logs)
		}
	}
}

func two(t *testing.T) (a, b *end) {
	t.Helper()
	store := objstore.NewMemory()
	a, b = newEnd(t, store, 1, nil), newEnd(t, store, 2, nil)
	pair(t, a, b)
	return a, b
}

// proxy forwards connections to an address, until the test cuts them.
type proxy struct {
	listener *net.TCPListener
	mu       sync.Mutex // guards conns
	conns    []*net.TCPConn
}

func newProxy(t *testing.T, to string) *proxy {
	t.Helper()
	x := &proxy{listener: listen(t).(*net.TCPListener)}
	var work sync.WaitGroup
	work.Go(func() {
		for {
			in, err := x.listener.AcceptTCP()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", to)
			if err != nil {
				_ = in.Close()
				continue
			}
			x.mu.Lock()
			x.conns = append(x.conns, in, out.(*net.TCPConn))
			x.mu.Unlock()
			work.Go(func() { _, _ = io.Copy(in, out); _ = in.CloseWrite() })
			work.Go(func() { _, _ = io.Copy(out, in); _ = out.(*net.TCPConn).CloseWrite() })
		}
	})
	t.Cleanup(func() {
		_ = x.listener.Close()
		x.cut(false)
		work.Wait()
	})
	return x
}

// cut closes all connections, with RST or FIN.
func (x *proxy) cut(reset bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, c := range x.conns {
		if reset {
			_ = c.SetLinger(0)
		}
		_ = c.Close()
	}
	x.conns = nil
}

func contains(t *testing.T, what, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%s: no %q in %q", what, part, text)
		}
	}
}
