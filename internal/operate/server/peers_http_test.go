package server_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// valuesOf returns all values of topic t.
func valuesOf(t *testing.T, cl *client.Client) (list []string) {
	t.Helper()
	for r, err := range cl.Records(t.Context(), "t", client.ReadOptions{Offset: client.Earliest}) {
		must.NoError(t, err)
		list = append(list, string(r.Value))
	}
	return list
}

// plainWriters write records one after the other, with requests that are not repeated.
type plainWriters struct {
	all  sync.WaitGroup
	stop atomic.Bool

	mu      sync.Mutex // guards the rest
	written []string
	unknown []string // of unknown outcome
	done    [6]int   // requests, by writer
}

func (w *plainWriters) run(t *testing.T, i int, s *server.Server) {
	for n := 0; !w.stop.Load(); n++ {
		value := fmt.Sprint(i, "-", n)
		status, answer := ask(t, s, http.MethodPost, "/records?topic-name=t", `{"value": "`+value+`"}`)
		w.mu.Lock()
		w.done[i]++
		switch status {
		case http.StatusCreated:
			w.written = append(w.written, value)
		case http.StatusGatewayTimeout:
			w.unknown = append(w.unknown, value)
			t.Logf("write %s at broker %d: %s", value, i/3, answer)
		default:
			t.Errorf("write %s at broker %d: %d %s", value, i/3, status, answer)
			w.stop.Store(true)
		}
		w.mu.Unlock()
	}
}

// counts returns the requests by writer, and how many of all had an unknown outcome.
func (w *plainWriters) counts() (done [6]int, unknown int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done, len(w.unknown)
}

// TestPlainWritersDoNotNoticeAHandOver: requests of clients that know one broker each, and repeat
// nothing, all succeed while the leadership moves to and fro, and each is stored once. On a starved
// machine a broker that hands over may answer too late, and a write has an unknown outcome: then
// another hand-over follows, until three went unnoticed.
func TestPlainWritersDoNotNoticeAHandOver(t *testing.T) {
	c := newCrew(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	a, b := c.start(), c.start()
	c.up(1, a, b)
	c.write(a, "first")
	w := &plainWriters{written: []string{"first"}}
	for i, s := range []*server.Server{a, a, a, b, b, b} {
		w.all.Go(func() { w.run(t, i, s) })
	}
	defer w.stop.Store(true)
	from, to, unnoticed := a, b, 0
	sebtest.Eventually(t, "hand-overs go unnoticed", func() bool {
		_, before := w.counts()
		sebtest.Eventually(t, "hand-over", func() bool {
			status, answer := ask(t, b, http.MethodPost, "/cluster/hand-over", "")
			if status != http.StatusOK && status != http.StatusConflict { // the standby may be behind for a moment
				t.Errorf("hand-over: %d %s", status, answer)
			}
			return status == http.StatusOK
		})
		c.leads(to)
		from, to = to, from
		began, _ := w.counts()
		sebtest.Eventually(t, "the writes of that time have ended", func() bool {
			done, _ := w.counts()
			for i := range done {
				if done[i] < began[i]+2 {
					return w.stop.Load()
				}
			}
			return true
		})
		if _, after := w.counts(); after == before {
			unnoticed++
		}
		return unnoticed == sebtest.Runs(3, 1) || w.stop.Load()
	})
	w.stop.Store(true)
	w.all.Wait()
	got := valuesOf(t, connect(t, from)) // the leader
	got = slices.DeleteFunc(got, func(v string) bool {
		i := slices.Index(w.unknown, v)
		if i >= 0 {
			w.unknown = slices.Delete(w.unknown, i, i+1) // once at most
		}
		return i >= 0
	})
	slices.Sort(got)
	slices.Sort(w.written)
	if !slices.Equal(got, w.written) {
		t.Errorf("%d records stored, %d acknowledged", len(got), len(w.written))
	}
	t.Logf("%d records", len(w.written))
}

// TestClientsSurviveAKilledLeader: a client of all brokers goes on when the leader dies. Each record
// is stored once.
func TestClientsSurviveAKilledLeader(t *testing.T) {
	c := newCrew(t)
	a, b, third := c.start(), c.start(), c.start()
	c.up(2, a, b, third)
	cl := must.Get(client.New(a.URL()+","+third.URL(), client.Options{APIKey: a.APIKey()}))(t)
	defer cl.Close()
	var want []string
	write := func(value string) {
		t.Helper()
		must.NoErrorf(t, check.Err(cl.ProduceValues(t.Context(), "t", [][]byte{[]byte(value)}, client.ProduceOptions{})), "write %q", value)
		want = append(want, value)
	}
	for i := range 20 {
		if i == 10 {
			a.Kill()
		}
		write(fmt.Sprint(i))
	}
	check.EqualSlicesf(t, valuesOf(t, cl), want, "read")
}

// TestClientsWithCertificatesAreForwarded: a standby forwards the request of a client that it knows by
// its certificate, with the rights of that client, also to a port that requires certificates.
func TestClientsWithCertificatesAreForwarded(t *testing.T) {
	for _, clients := range []string{config.ClientRequest, config.ClientRequire} {
		t.Run(clients, func(t *testing.T) {
			c := newCrew(t)
			authority := testenv.NewAuthority(t)
			files, trusted := authority.Files(t, t.TempDir(), testenv.Leaf{Both: true}), authority.File(t, t.TempDir())
			strict := func(s *config.Config) {
				s.TLS.CertFile, s.TLS.KeyFile, s.TLS.ClientCA, s.TLS.ClientAuth = files.Cert, files.Key, trusted, clients
				s.TLS.PrincipalMapping = "RULE:^CN=([^,+]+).*$/$1/"
			}
			a, b := c.start(strict), c.start(strict)
			c.up(1, a, b)
			connect := func(s *server.Server, name, key string) *client.Client {
				trusts := authority.Trusted()
				trusts.Certificates = []tls.Certificate{authority.Client(t, testenv.Client{Name: name})}
				cl := must.Get(client.New(s.URL(), client.Options{APIKey: key, TLS: trusts, RetryTime: -1}))(t)
				t.Cleanup(cl.Close)
				return cl
			}
			root := connect(b, "any", b.APIKey())
			rules := []client.Rule{{Principal: "shop", Resource: "topic", Pattern: "t", Operation: "write"}}
			must.NoError(t, errors.Join(write(t, root, "t"), write(t, root, "other"), root.AddRules(t.Context(), rules)))
			shop := connect(b, "shop", "")
			check.NoErrorf(t, write(t, shop, "t"), "write")
			check.ErrorIsf(t, write(t, shop, "other"), client.ErrForbidden, "write to another topic")
			check.Equalf(t, len(valuesOf(t, connect(a, "any", a.APIKey()))), 2, "records")
		})
	}
}
