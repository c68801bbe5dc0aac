package link_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"runtime/pprof"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"google.golang.org/protobuf/encoding/protowire"
)

// ownKey returns the TLS configuration of a foreign program with a new key, and the key's hash.
func ownKey(t *testing.T) (*tls.Config, [32]byte) {
	t.Helper()
	public, private := must.Get2(ed25519.GenerateKey(rand.Reader))(t)
	template := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, public, private))(t)
	return &tls.Config{
		MinVersion: tls.VersionTLS13, InsecureSkipVerify: true, NextProtos: []string{link.Protocol}, ClientAuth: tls.RequestClientCert,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
	}, sha256.Sum256(public)
}

// frame returns a frame with fields of bytes: number, value, number, value...
func frame(kind byte, fields ...any) []byte {
	var b []byte
	for i := 0; i < len(fields); i += 2 {
		b = protowire.AppendTag(b, protowire.Number(fields[i].(int)), protowire.BytesType)
		b = protowire.AppendBytes(b, fields[i+1].([]byte))
	}
	return append(append(binary.LittleEndian.AppendUint32(nil, uint32(len(b)+1)), kind), b...)
}

// helloTo is the hello of a run without proofs.
func helloTo(from, to cluster.Run) []byte {
	return frame(1, 1, from.Node[:], 2, from.ID[:], 3, to.Node[:], 4, to.ID[:])
}

// upgraded returns a connection to an end after the upgrade.
func upgraded(t *testing.T, e *end) net.Conn {
	t.Helper()
	conn, status := request(t, e)
	must.Equalf(t, status, http.StatusSwitchingProtocols, "status")
	return conn
}

func request(t *testing.T, e *end) (net.Conn, int) {
	t.Helper()
	conn := must.Get(net.Dial("tcp", e.server.Listener.Addr().String()))(t)
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(timeout))
	fmt.Fprintf(conn, "GET /peer/link HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\nUpgrade: %s\r\n\r\n", link.Protocol)
	answer := must.Get(http.ReadResponse(bufio.NewReader(conn), nil))(t)
	defer answer.Body.Close()
	return conn, answer.StatusCode
}

// secured returns the connection of a program with its own key, before it has sent a hello.
func secured(t *testing.T, e *end) (*tls.Conn, [32]byte) {
	t.Helper()
	config, hash := ownKey(t)
	c := tls.Client(upgraded(t, e), config)
	must.NoError(t, c.Handshake())
	return c, hash
}

// closes fails unless the other end closes a connection without another frame than want has.
func closes(t *testing.T, c io.Reader, want string) {
	t.Helper()
	b, err := io.ReadAll(c)
	if e, ok := err.(net.Error); ok && e.Timeout() {
		t.Error("the connection stays open")
	}
	if want == "" && len(b) > 0 || !strings.Contains(string(b), want) {
		t.Errorf("answered %q, want %q", b, want)
	}
}

// noLink fails if an end had an event.
func noLink(t *testing.T, e *end) {
	t.Helper()
	select {
	case ev := <-e.events:
		t.Errorf("%s: %+v", e.reg.Name, ev)
	default:
	}
	check.Equalf(t, e.net.Linked(), 0, "%s: links", e.reg.Name)
}

func TestUnknownDialersAreRefused(t *testing.T) {
	store := objstore.NewMemory()
	a, b := newEnd(t, store, 1, nil), newEnd(t, store, 2, nil)
	silent := a.reg
	silent.Addresses = nil
	b.net.Expect(&silent) // without a lookup, because those are bounded
	self := b.reg.Run
	own := cluster.Run{Node: self.Node, ID: record.ID{9}}
	for name, c := range map[string]struct {
		send []byte
		want string
	}{
		"the key of another run":       {helloTo(a.reg.Run, self), "the key is not that of the registration"},
		"no registration":              {helloTo(cluster.Run{Node: record.ID{9}, ID: record.ID{9}}, self), "cannot read the registration of run 09"},
		"the same data folder":         {helloTo(own, self), "a run of the same data folder"},
		"no run":                       {frame(1, 3, self.Node[:], 4, self.ID[:]), "no run is named"},
		"for another run":              {helloTo(a.reg.Run, a.reg.Run), string(self.ID[:])},
		"a long frame":                 {frame(1, 9, make([]byte, 4<<10)), ""},
		"a frame without a kind":       {make([]byte, 4), ""},
		"a beat first":                 {frame(17), ""},
		"no protocol buffer":           {append(binary.LittleEndian.AppendUint32(nil, 3), 1, 0xff, 0xff), ""},
		"an id of the wrong length":    {frame(1, 1, []byte("short")), ""},
		"more than it may send before": {frame(200, 9, make([]byte, 4000)), ""},
	} {
		t.Run(name, func(t *testing.T) {
			conn, _ := secured(t, b)
			_, _ = conn.Write(c.send) // fails if the other end is faster
			closes(t, conn, c.want)
			noLink(t, b)
		})
	}
}

func TestNoLinkWithoutTLS(t *testing.T) {
	b := newEnd(t, objstore.NewMemory(), 2, nil)
	t.Run("garbage", func(t *testing.T) {
		conn := upgraded(t, b)
		_, _ = conn.Write(make([]byte, 100<<10))
		closes(t, conn, "")
	})
	t.Run("TLS 1.2", func(t *testing.T) {
		config, _ := ownKey(t)
		config.MinVersion, config.MaxVersion = tls.VersionTLS12, tls.VersionTLS12
		check.Error(t, tls.Client(upgraded(t, b), config).Handshake(), "accepted")
	})
	t.Run("without a certificate", func(t *testing.T) {
		config, _ := ownKey(t)
		config.Certificates = nil
		conn := tls.Client(upgraded(t, b), config)
		_ = conn.Handshake()
		closes(t, conn, "")
	})
	t.Run("without ALPN", func(t *testing.T) {
		config, _ := ownKey(t)
		config.NextProtos = nil
		conn := tls.Client(upgraded(t, b), config)
		_ = conn.Handshake()
		closes(t, conn, "")
	})
	t.Run("a long handshake", func(t *testing.T) {
		config, _ := ownKey(t)
		for range 100 {
			config.Certificates[0].Certificate = append(config.Certificates[0].Certificate, config.Certificates[0].Certificate[0])
		}
		conn := tls.Client(upgraded(t, b), config)
		_ = conn.Handshake()
		_, _ = conn.Write(helloTo(cluster.Run{}, b.reg.Run)) // would be refused by a frame
		closes(t, conn, "")
	})
	noLink(t, b)
}

// TestHandshakesAreBounded: dialers that send nothing take a bounded number of places for a bounded
// time.
func TestHandshakesAreBounded(t *testing.T) {
	t.Parallel()
	store := objstore.NewMemory()
	b := newEnd(t, store, 2, func(o *link.Options) { o.Times.Greet = 2 * time.Second })
	first := upgraded(t, b)
	var silent []net.Conn
	for range 16 {
		silent = append(silent, upgraded(t, b))
	}
	closes(t, first, "")
	a := newEnd(t, store, 1, nil)
	pair(t, a, b)
	for _, conn := range silent {
		closes(t, conn, "")
	}
}

// TestLookupsAreBounded: clients that do not know the root key cause few GETs, and keep no broker out
// that knows it.
func TestLookupsAreBounded(t *testing.T) {
	store := objstore.NewMemory()
	var lookups atomic.Int32
	b := newEnd(t, store, 2, nil)
	c := newEnd(t, store, 3, func(o *link.Options) {
		next := b.lookup
		o.Lookup = func(ctx context.Context, run cluster.Run) (cluster.Registration, error) {
			lookups.Add(1)
			return next(ctx, run)
		}
	})
	began := time.Now()
	for i := range 20 {
		conn, _ := secured(t, c)
		must.Get(conn.Write(helloTo(cluster.Run{Node: record.ID{9}, ID: record.ID{byte(i), 1}}, c.reg.Run)))(t)
		closes(t, conn, "\x02") // refused
	}
	if n, most := lookups.Load(), int32(time.Since(began)/(100*time.Millisecond))+1; n > most {
		t.Errorf("%d lookups in %s, want at most %d", n, time.Since(began), most)
	}
	pair(t, b, c)
}

func TestLinksAreBounded(t *testing.T) {
	store := objstore.NewMemory()
	b := newEnd(t, store, 250, nil)
	for i := range link.PeersMax + 1 {
		r := example(byte(i+100), 1)
		r.Addresses = nil
		b.net.Expect(&r)
	}
	contains(t, "log", b.logs.String(), "too many")
	a := newEnd(t, store, 1, nil)
	a.net.Expect(&b.reg)
	ev := a.until(func(link.Event) bool { return true })
	must.Equalf(t, ev.Kind, link.Failed, "%+v", ev)
	contains(t, "error", ev.Err.Error(), "64 brokers are known already", b.reg.Addresses[0])
	noLink(t, b)
}

// TestRunsThatDoNotReturnMakeRoom: each start of a broker without its old folder is another run.
func TestRunsThatDoNotReturnMakeRoom(t *testing.T) {
	store := objstore.NewMemory()
	b := newEnd(t, store, 250, func(o *link.Options) { o.Times.Trying = time.Nanosecond })
	for i := range link.PeersMax {
		r := example(byte(i+100), 1)
		r.Addresses = nil
		b.net.Expect(&r)
	}
	pair(t, newEnd(t, store, 1, nil), b)
}

// acceptor is a program with its own key that takes one link. answer gets the dialer's hello, without
// its length. It returns the address and the hash of the key.
func acceptor(t *testing.T, answer func(hello []byte) []byte) (address string, hash [32]byte) {
	t.Helper()
	config, hash := ownKey(t)
	l := listen(t)
	var work sync.WaitGroup
	work.Go(func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = http.ReadRequest(bufio.NewReader(conn))
		fmt.Fprintf(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", link.Protocol)
		c := tls.Server(conn, config)
		head := make([]byte, 4)
		_, _ = io.ReadFull(c, head)
		hello := make([]byte, binary.LittleEndian.Uint32(head))
		_, _ = io.ReadFull(c, hello)
		_, _ = c.Write(answer(hello))
		_, _ = io.Copy(io.Discard, c)
	})
	t.Cleanup(func() { _ = l.Close(); work.Wait() })
	return l.Addr().String(), hash
}

// proofs returns the proofs of a hello, as fields.
func proofs(hello []byte) (fields []any) {
	for b := hello[1:]; len(b) > 0; {
		number, kind, n := protowire.ConsumeTag(b)
		value, m := protowire.ConsumeBytes(b[n:])
		if number >= 5 && kind == protowire.BytesType {
			fields = append(fields, int(number), value)
		}
		b = b[n+m:]
	}
	return fields
}

// TestADialerChecksTheKey: it neither links to a program with another key, nor proves to it that it has
// the root key.
func TestADialerChecksTheKey(t *testing.T) {
	store := objstore.NewMemory()
	stale := example(2, 2)
	got := make(chan []any, 1)
	var address string
	address, _ = acceptor(t, func(hello []byte) []byte {
		got <- proofs(hello)
		return helloTo(stale.Run, cluster.Run{})
	})
	a := newEnd(t, store, 1, func(o *link.Options) { o.Times.Soon = time.Hour })
	stale.Addresses, stale.Secure = []string{address}, false
	a.net.Expect(&stale)
	ev := a.until(func(link.Event) bool { return true })
	must.Equalf(t, ev.Kind, link.Failed, "%+v", ev)
	contains(t, "error", ev.Err.Error(), "the key is not that of the registration")
	if p := <-got; len(p) > 0 {
		t.Errorf("the hello has proofs: %x", p)
	}
}

// TestAProofIsOfOneEnd: a program without the root key sends the dialer's proofs back.
func TestAProofIsOfOneEnd(t *testing.T) {
	a := newEnd(t, objstore.NewMemory(), 1, nil)
	r := example(2, 2)
	var address string
	address, r.KeyHash = acceptor(t, func(hello []byte) []byte {
		p := proofs(hello)
		check.Equalf(t, len(p), 4, "the hello has the proofs %x", p)
		return frame(1, append([]any{1, r.Run.Node[:], 2, r.Run.ID[:]}, p...)...)
	})
	r.Addresses, r.Secure = []string{address}, false
	a.net.Expect(&r)
	if ev := a.want(link.Linked, r.Run); !ev.OtherKey || !ev.OtherSecrets {
		t.Errorf("a reflected proof counts: %+v", ev)
	}
	a.net.Close(false)
}

// TestAnOldRegistrationIsRefused: the run registered again with another key, and the other end still
// knows the first one.
func TestAnOldRegistrationIsRefused(t *testing.T) {
	store := objstore.NewMemory()
	a, b := newEnd(t, store, 1, nil), newEnd(t, store, 2, nil)
	old := a.reg
	old.KeyHash, old.Addresses = [32]byte{1}, nil
	b.net.Expect(&old)
	a.net.Expect(&b.reg)
	ev := a.until(func(link.Event) bool { return true })
	must.Equalf(t, ev.Kind, link.Failed, "%+v", ev)
	contains(t, "error", ev.Err.Error(), "refuses the link", "the key is not that of the registration")
	contains(t, "log", a.logs.String(), "no link to another broker", "broker-2")
	noLink(t, b)
}

// authenticated returns a program that is registered as a run and has a link to e.
func authenticated(t *testing.T, e *end) (*tls.Conn, cluster.Run) {
	t.Helper()
	conn, hash := secured(t, e)
	r := example(9, 9)
	r.KeyHash = hash
	must.NoError(t, link.Put(t.Context(), e.store, &r))
	must.Get(conn.Write(helloTo(r.Run, e.reg.Run)))(t)
	if ev := e.want(link.Linked, r.Run); !ev.OtherKey || !ev.OtherSecrets {
		t.Errorf("without proofs: %+v", ev)
	}
	return conn, r.Run
}

func TestUnknownFramesAreSkipped(t *testing.T) {
	e := newEnd(t, objstore.NewMemory(), 1, nil)
	conn, run := authenticated(t, e)
	for _, b := range [][]byte{
		frame(255, 1, []byte("new")), frame(0), frame(16), frame(24), frame(3, 100, []byte("new")), frame(18, 100, []byte("new")),
	} {
		must.Get(conn.Write(b))(t)
	}
	if ev := e.want(link.Received, run); ev.Message.Kind != cluster.MsgEcho {
		t.Errorf("%+v", ev)
	}
}

// TestInvalidFramesEndALink: it is no end by the other side.
func TestInvalidFramesEndALink(t *testing.T) {
	for name, b := range map[string][]byte{
		"too long":                   binary.LittleEndian.AppendUint32(nil, 66<<10),
		"empty":                      make([]byte, 4),
		"no protocol buffer":         append(binary.LittleEndian.AppendUint32(nil, 3), 17, 0xff, 0xff),
		"a nonce of 3 bytes":         frame(17, 4, []byte("abc")),
		"an epoch of the wrong sort": frame(17, 3, []byte("abc")),
	} {
		t.Run(name, func(t *testing.T) {
			e := newEnd(t, objstore.NewMemory(), 1, nil)
			conn, run := authenticated(t, e)
			must.Get(conn.Write(b))(t)
			if ev := e.want(link.Ended, run); ev.ByPeer || !strings.Contains(ev.Err.Error(), "invalid frame") {
				t.Errorf("%+v", ev)
			}
		})
	}
}

// TestCloseEndsEverything: goroutines, also of dials and handshakes that are under way.
func TestCloseEndsEverything(t *testing.T) {
	store := objstore.NewMemory()
	silent := listen(t) // accepts in the kernel, and never answers
	defer silent.Close()
	a, b := newEnd(t, store, 1, nil), newEnd(t, store, 2, nil)
	pair(t, a, b)
	r := example(3, 3)
	r.Addresses, r.Secure = []string{silent.Addr().String()}, true
	a.net.Expect(&r)
	conn := upgraded(t, a)
	a.net.Close(true)
	b.net.Close(false)
	closes(t, conn, "")
	sebtest.Eventually(t, "goroutines have returned", func() bool {
		var text strings.Builder
		err := pprof.Lookup("goroutine").WriteTo(&text, 2)
		return err == nil && !strings.Contains(text.String(), "link.(*Net)") && !strings.Contains(text.String(), "link.(*conn)")
	})
	if _, status := request(t, a); status != http.StatusServiceUnavailable {
		t.Errorf("a link of a closed Net: %d", status)
	}
}
