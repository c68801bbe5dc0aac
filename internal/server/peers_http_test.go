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
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/server"
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

// TestPlainWritersDoNotNoticeAHandOver: requests of clients that know one broker each, and repeat
// nothing, all succeed while the leadership moves to and fro, and each is stored once.
func TestPlainWritersDoNotNoticeAHandOver(t *testing.T) {
	c := newCrew(t)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	a, b := c.start(), c.start()
	c.up(1, a, b)
	c.write(a, "first")
	var (
		all     sync.WaitGroup
		stop    atomic.Bool
		mu      sync.Mutex
		written = []string{"first"}
	)
	for i, s := range []*server.Server{a, a, a, b, b, b} {
		all.Go(func() {
			for n := 0; !stop.Load(); n++ {
				value := fmt.Sprint(i, "-", n)
				status, answer := ask(t, s, http.MethodPost, "/records?topic-name=t", `{"value": "`+value+`"}`)
				if status != http.StatusCreated {
					t.Errorf("write %s at broker %d: %d %s", value, i/3, status, answer)
					return
				}
				mu.Lock()
				written = append(written, value)
				mu.Unlock()
			}
		})
	}
	defer stop.Store(true)
	for _, to := range []*server.Server{b, a, b} {
		sebtest.Eventually(t, "hand-over", func() bool {
			status, answer := ask(t, b, http.MethodPost, "/cluster/hand-over", "")
			if status != http.StatusOK && status != http.StatusConflict { // the standby may be behind for a moment
				t.Errorf("hand-over: %d %s", status, answer)
			}
			return status == http.StatusOK
		})
		c.leads(to)
	}
	stop.Store(true)
	all.Wait()
	got := valuesOf(t, connect(t, b)) // the leader
	slices.Sort(got)
	slices.Sort(written)
	if !slices.Equal(got, written) {
		t.Errorf("%d records stored, %d acknowledged", len(got), len(written))
	}
	t.Logf("%d records", len(written))
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
