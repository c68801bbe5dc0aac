package client_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// peer is a broker of a bucket with others.
type peer struct {
	*broker.Broker
	url      string
	view     *cluster.Board
	requests atomic.Int64 // of clients
	asked    atomic.Int64 // questions whether it leads
	close    func()       // ends the listener and its connections
}

// startPeers starts a leader and a standby. Each knows the other.
func startPeers(t *testing.T) (leads, standby *peer) {
	t.Helper()
	store := objstore.NewMemory()
	var all [2]*peer
	for i := range all {
		all[i] = startPeer(t, store, i > 0)
	}
	for i, p := range all {
		members := make([]cluster.Member, 2)
		for j := range all {
			members[j] = cluster.Member{
				Registration: cluster.Registration{Run: cluster.Run{Node: record.ID{byte(j + 1)}, ID: record.ID{1}}, Name: fmt.Sprint("b", j), URL: all[j].url}, Up: true, Self: i == j, Leads: j == 0,
			}
		}
		if i > 0 {
			slices.Reverse(members)
		}
		p.view.Set(members, nil)
	}
	return all[0], all[1]
}

func startPeer(t *testing.T, store objstore.Store, follow bool) *peer {
	t.Helper()
	o := broker.Options{Options: log.Options{Store: store, NoWait: true, Standby: true, Logger: slog.New(slog.DiscardHandler)}, AutoCreate: true}
	o.Core.Standby = follow
	b := must.Get(broker.Open(t.Context(), o))(t)
	p := &peer{Broker: b, view: cluster.NewBoard(cluster.Registration{})}
	authority := auth.New(auth.Options{Broker: b, RootKey: testKey})
	a := must.Get(httpapi.New(b, httpapi.Options{Auth: authority, Cluster: p.view, LeaderWait: 500 * time.Millisecond}))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	p.url = "http://" + l.Addr().String()
	srv := a.Server()
	served := make(chan struct{})
	inner := srv.Handler
	srv.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/readyz":
			p.asked.Add(1)
		case r.Header.Get("User-Agent") == "seb-client" && r.Header.Get("Seb-Forwarded") == "" && r.URL.Path != "/cluster":
			p.requests.Add(1)
		}
		inner.ServeHTTP(w, r)
	})
	go func() {
		defer close(served)
		_ = srv.Serve(l)
	}()
	p.close = func() { _ = srv.Close() }
	t.Cleanup(func() {
		ctx := context.Background()
		_ = srv.Shutdown(ctx)
		<-served
		a.Close()
		authority.Close()
		_ = b.Close(ctx)
	})
	return p
}

func connectTo(t *testing.T, o client.Options, addresses ...string) *client.Client {
	t.Helper()
	o.APIKey = testKey
	c := must.Get(client.New(strings.Join(addresses, ", "), o))(t)
	t.Cleanup(c.Close)
	return c
}

// put appends a value to topic t and returns its offset.
func put(t *testing.T, c *client.Client, value string) int64 {
	t.Helper()
	p, err := c.ProduceValues(t.Context(), "t", [][]byte{[]byte(value)}, client.ProduceOptions{})
	must.NoErrorf(t, err, "produce %s", value)
	return p[0].First
}

// allOf returns the values of topic t.
func allOf(t *testing.T, c *client.Client) string {
	t.Helper()
	var all []string
	for r, err := range c.Records(t.Context(), "t", client.ReadOptions{Offset: client.Earliest}) {
		must.NoError(t, err)
		all = append(all, string(r.Value))
	}
	return strings.Join(all, " ")
}

// TestGoesToTheLeader: after the first answer of a standby the client asks the leader itself. A client
// with one address stays there.
func TestGoesToTheLeader(t *testing.T) {
	leads, standby := startPeers(t)
	c := connectTo(t, client.Options{}, standby.url, leads.url)
	put(t, c, "a")
	if at := client.Base(c); at != leads.url || standby.requests.Load() != 1 {
		t.Errorf("the next request goes to %s after %d requests to the standby, want %s", at, standby.requests.Load(), leads.url)
	}
	put(t, c, "b")
	check.Equalf(t, standby.requests.Load(), 1, "requests to the standby")
	one := connectTo(t, client.Options{}, standby.url)
	put(t, one, "c")
	if got := allOf(t, one); client.Base(one) != standby.url || got != "a b c" {
		t.Errorf("a client with one address asks %s, and reads %q", client.Base(one), got)
	}
}

// TestReadsItsWritesElsewhere: a standby that is behind answers a client only with what the client has
// written.
func TestReadsItsWritesElsewhere(t *testing.T) {
	leads, standby := startPeers(t)
	c := connectTo(t, client.Options{}, leads.url, standby.url)
	for i := range 5 {
		put(t, c, fmt.Sprint(i))
	}
	leads.close()
	if got := allOf(t, c); got != "0 1 2 3 4" || client.Base(c) != standby.url {
		t.Errorf("read %q at %s", got, client.Base(c))
	}
}

// TestRepeatsAtTheNextBroker: an idempotent append whose broker dies or falls silent is stored once,
// by another broker.
func TestRepeatsAtTheNextBroker(t *testing.T) {
	t.Parallel()
	leads, standby := startPeers(t)
	dead := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	dead.Close()
	answers := map[string]http.HandlerFunc{
		"cut": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			panic(http.ErrAbortHandler)
		},
		// The append takes effect, and the answer is lost.
		"lost": func(_ http.ResponseWriter, r *http.Request) {
			again, _ := http.NewRequest(r.Method, leads.url+r.URL.String(), r.Body)
			again.Header, again.ContentLength = r.Header, r.ContentLength
			if resp, err := http.DefaultClient.Do(again); err == nil {
				resp.Body.Close()
			}
			panic(http.ErrAbortHandler)
		},
		"silent": func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			<-r.Context().Done() // the client has moved on
		},
	}
	want := ""
	for _, name := range []string{"refused", "cut", "lost", "silent"} {
		first := "http://" + dead.Addr().String()
		if name != "refused" {
			s := httptest.NewServer(answers[name])
			defer s.Close()
			first = s.URL
		}
		c := connectTo(t, client.Options{}, first, standby.url)
		client.SetSilence(c, 200*time.Millisecond, time.Minute)
		put(t, c, name)
		want = strings.TrimSpace(want + " " + name)
		check.Equalf(t, allOf(t, connectTo(t, client.Options{}, leads.url)), want, "%s: stored", name)
	}
	// Another broker is asked at once, whatever the first one asks for.
	busy := httptest.NewServer(problem(503, "not_leader", "Retry-After: 20"))
	defer busy.Close()
	began := time.Now()
	put(t, connectTo(t, client.Options{}, busy.URL, standby.url), "busy")
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("the next broker got the request after %v", took)
	}
	// What is not idempotent is not repeated.
	s := httptest.NewServer(answers["cut"])
	defer s.Close()
	c := connectTo(t, client.Options{NotIdempotent: true}, s.URL, leads.url)
	check.ErrorIsf(t, check.Err(c.ProduceValues(t.Context(), "t", [][]byte{[]byte("x")}, client.ProduceOptions{})), client.ErrOutcomeUnknown, "not idempotent")
}

// TestAsksWhoLeads: a client whose broker is silent goes to another one as soon as that leads, long
// before the broker counts as dead. A broker that is slow while no other leads gets each request once.
func TestAsksWhoLeads(t *testing.T) {
	t.Parallel()
	leads, standby := startPeers(t)
	var asked, got atomic.Int64
	slow := make(chan struct{})
	stopped := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/records" {
			http.NotFound(w, r)
			return
		}
		asked.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		select {
		case <-slow:
			answer(201, "Content-Type: application/json", `{"topic":"t","partition":0,"first_offset":7,"count":1}`)(w, r)
		case <-r.Context().Done():
		}
	}))
	defer stopped.Close()
	c := connectTo(t, client.Options{}, stopped.URL, standby.url)
	client.SetSilence(c, time.Minute, 10*time.Millisecond)
	var all sync.WaitGroup
	for range 5 {
		all.Go(func() {
			put(t, c, "a")
			got.Add(1)
		})
	}
	sebtest.Eventually(t, "the standby was asked", func() bool { return standby.asked.Load() >= 3 })
	if n := got.Load(); n > 0 || asked.Load() != 5 || standby.requests.Load() != 0 {
		t.Errorf("%d answers, %d requests to the silent broker and %d to the standby, want 0, 5 and 0", n, asked.Load(), standby.requests.Load())
	}
	leads.close()
	must.NoError(t, standby.Confirm(t.Context()))
	must.NoError(t, standby.Stand(t.Context()))
	all.Wait()
	if at := client.Base(c); at != standby.url || asked.Load() != 5 {
		t.Errorf("the next request goes to %s, %d requests to the silent broker", at, asked.Load())
	}
	check.Equalf(t, allOf(t, c), "a a a a a", "stored")

	// A client of one address, or one whose broker answers late, repeats nothing.
	one := connectTo(t, client.Options{}, stopped.URL)
	client.SetSilence(one, 50*time.Millisecond, 10*time.Millisecond)
	before := standby.asked.Load()
	all.Go(func() { put(t, one, "x") })
	sebtest.Eventually(t, "the broker has the request", func() bool { return asked.Load() == 6 })
	time.AfterFunc(200*time.Millisecond, func() { close(slow) })
	all.Wait()
	if n := asked.Load(); n != 6 || standby.asked.Load() != before {
		t.Errorf("%d requests, want 6", n)
	}
}

// TestLearnsBrokers: the client learns the brokers of the bucket, and falls back to one of them.
func TestLearnsBrokers(t *testing.T) {
	leads, standby := startPeers(t)
	dead := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	dead.Close()
	c := connectTo(t, client.Options{}, "http://"+dead.Addr().String(), leads.url)
	put(t, c, "a")
	sebtest.Eventually(t, "the client knows the standby", func() bool {
		c.Close() // waits for the question
		return slices.Contains(client.Known(c), standby.url)
	})
	leads.close()
	if got := allOf(t, c); got != "a" || client.Base(c) != standby.url {
		t.Errorf("read %q at %s", got, client.Base(c))
	}

	secure := connectTo(t, client.Options{}, "https://a:1", "https://b:1")
	up := func(url string) client.ClusterMember { return client.ClusterMember{URL: url, State: "up"} }
	got := client.Learn(secure, []client.ClusterMember{up("http://c:1"), up("https://c:1/"), up("https://b:1"), up("ftp://d"), up(""), {URL: "https://e:1", State: "gone"}})
	check.EqualSlicesf(t, got, []string{"https://a:1", "https://b:1", "https://c:1"}, "learned")
}

// TestAnotherBucket: a client whose brokers have another bucket meanwhile reads that.
func TestAnotherBucket(t *testing.T) {
	t.Parallel()
	leads, standby := startPeers(t)
	c := connectTo(t, client.Options{}, leads.url, standby.url)
	put(t, c, "a")
	client.See(c, "0:1:1000000")
	check.Equalf(t, allOf(t, c), "a", "read")
	if got := client.After(c); got == "0:1:1000000" || got == "" {
		t.Errorf("the next read asks for %q", got)
	}
	client.See(c, "0:7:0")
	short := connectTo(t, client.Options{RetryTime: -1}, leads.url)
	client.See(short, "0:7:0")
	check.ErrorIs(t, check.Err(short.Topics(t.Context())), client.ErrNotYet)
	check.NoErrorf(t, check.Err(short.Topics(t.Context())), "the call after it")
}
