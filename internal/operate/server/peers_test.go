package server_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// crew starts brokers on one bucket that know each other.
type crew struct {
	*testing.T
	bucket string
}

func newCrew(t *testing.T) *crew {
	return &crew{t, "file:" + t.TempDir()}
}

func (c *crew) settings() config.Config {
	s := settings(c.T, c.bucket)
	s.HTTP.APIKey, s.Advertise, s.Kafka.Listen = "a-key-for-all-brokers", "127.0.0.1", ""
	return s
}

func (c *crew) start(change ...func(*config.Config)) *server.Server {
	c.Helper()
	cfg := c.settings()
	for _, f := range change {
		f(&cfg)
	}
	log := slog.New(slog.NewTextHandler(c.Output(), nil)).With("broker", filepath.Base(filepath.Dir(cfg.DataDir))+"/"+filepath.Base(cfg.DataDir))
	s := must.Get(server.Start(c.Context(), cfg, log))(c)
	c.Cleanup(func() { _ = s.Close(context.Background()) })
	return s
}

// leads waits until a server leads.
func (c *crew) leads(s *server.Server) {
	c.Helper()
	sebtest.Eventually(c.T, "it leads", s.Node().Leads)
}

// up waits until the first server hears n others, and they hear it.
func (c *crew) up(n int, servers ...*server.Server) {
	c.Helper()
	for _, s := range servers {
		sebtest.Eventually(c.T, fmt.Sprintf("%s hears %d others", s.URL(), n), func() bool {
			up := 0
			for _, m := range s.Cluster().Members()[1:] {
				if m.Up && m.Beat.Loaded {
					up++
				}
			}
			return up == n
		})
	}
}

// write appends a record, and returns its value.
func (c *crew) write(s *server.Server, value string) {
	c.Helper()
	must.NoErrorf(c, check.Err(connect(c.T, s).ProduceValues(c.Context(), "t", [][]byte{[]byte(value)}, client.ProduceOptions{})), "write %q", value)
}

// reads waits until a server has records with these values, and no others.
func (c *crew) reads(s *server.Server, want ...string) {
	c.Helper()
	got := func() []string {
		read, err := connect(c.T, s).Fetch(c.Context(), "t", client.FetchOptions{Offset: 0})
		if err != nil {
			return nil
		}
		defer read.Close()
		var values []string
		for r, err := range read.All() {
			if err == nil {
				values = append(values, string(r.Value))
			}
		}
		return values
	}
	sebtest.Eventually(c.T, fmt.Sprintf("%s has %q", s.URL(), want), func() bool { return fmt.Sprint(got()) == fmt.Sprint(want) })
}

func TestAStandbyTakesOverFromAKilledLeader(t *testing.T) {
	c := newCrew(t)
	a := c.start()
	b := c.start()
	c.up(1, a, b)
	c.write(a, "one")
	c.write(a, "two")
	if !b.Node().Follows() {
		t.Fatal("the second broker does not follow")
	}
	c.reads(b, "one", "two")
	a.Kill()
	c.leads(b)
	c.write(b, "three")
	c.reads(b, "one", "two", "three")
}

func TestALeaderThatStopsHandsOver(t *testing.T) {
	c := newCrew(t)
	a, b := c.start(), c.start()
	c.up(1, a, b)
	c.write(a, "one")
	epoch := a.Node().Epoch()
	must.NoError(t, a.Close(context.Background()))
	c.leads(b)
	if got := b.Node().Epoch(); got != epoch+1 {
		t.Errorf("epoch %d after a hand-over in epoch %d", got, epoch)
	}
	c.write(b, "two")
	again := c.start()
	c.up(1, b, again)
	if !again.Node().Follows() || !b.Node().Leads() {
		t.Error("a broker that starts takes over from one that leads")
	}
	c.reads(again, "one", "two")
}

func TestADeposedLeaderFollows(t *testing.T) {
	c := newCrew(t)
	a, b, third := c.start(), c.start(), c.start()
	c.up(2, a, b, third)
	c.write(a, "one")
	sebtest.Eventually(t, "the second broker leads by force", func() bool {
		return b.Node().Confirm(t.Context()) == nil && b.Node().Stand(t.Context()) == nil
	})
	sebtest.Eventually(t, "the deposed leader follows", a.Node().Follows)
	c.write(b, "two")
	for _, s := range []*server.Server{a, third} {
		c.reads(s, "one", "two")
		sebtest.Eventually(t, "the others know the leader", func() bool {
			r, ok := s.Cluster().Leader()
			return ok && r.Run == b.Cluster().Self().Run
		})
		select {
		case <-s.Done():
			t.Errorf("a broker has ended: %v", s.Err())
		default:
		}
	}
	if !b.Node().Leads() {
		t.Error("the leader was deposed")
	}
}

func TestAnOperatorMovesTheLeadership(t *testing.T) {
	c := newCrew(t)
	a, b := c.start(), c.start()
	c.up(1, a, b)
	must.NoError(t, a.Control().HandOver(t.Context()))
	c.leads(b)
	sebtest.Eventually(t, "the first broker follows", a.Node().Follows)
	check.Error(t, a.Control().HandOver(t.Context()), "a broker that does not lead hands over")
}

// TestForgetAtAStandby: the leader, and a standby that may lead later, learn at once that an operator has
// removed a lost broker.
func TestForgetAtAStandby(t *testing.T) {
	c := newCrew(t)
	a, b, other, lost := c.start(), c.start(), c.start(), c.start()
	servers := []*server.Server{a, b, other}
	c.up(3, append(servers, lost)...)
	run := lost.Cluster().Self().Run
	lost.Kill()
	c.up(2, servers...)
	must.NoError(t, connect(t, b).Forget(t.Context(), run.Node.String()+"-"+run.ID.String()))
	for _, s := range servers {
		sebtest.Eventually(t, s.URL()+" has forgotten the lost broker", func() bool { return len(s.Cluster().Members()) == len(servers) })
	}
}

// TestLinksToAPortThatRequiresCertificates: a broker presents its own certificate.
func TestLinksToAPortThatRequiresCertificates(t *testing.T) {
	c := newCrew(t)
	authority := testenv.NewAuthority(t)
	files, trusted := authority.Files(t, t.TempDir(), testenv.Leaf{Both: true}), authority.File(t, t.TempDir())
	strict := func(s *config.Config) {
		s.TLS.CertFile, s.TLS.KeyFile, s.TLS.ClientCA, s.TLS.ClientAuth = files.Cert, files.Key, trusted, config.ClientRequire
		s.TLS.PrincipalMapping = "RULE:^CN=([^,+]+).*$/$1/"
	}
	c.up(1, c.start(strict), c.start(strict))
}

func TestAStandbyAnnouncesItsRole(t *testing.T) {
	c := newCrew(t)
	c.start()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var log sebtest.Log
	must.NoError(t, server.Run(ctx, c.settings(), log.Logger(), func(*server.Server) { cancel() }))
	if !log.Contains("msg=serving role=follower epoch=1") {
		t.Errorf("log of a standby:\n%s", log.String())
	}
}

// TestBrokersThatStartTogether: both may find no other registration, and open the log to lead. They
// find each other without a write, and one of them follows.
func TestBrokersThatStartTogether(t *testing.T) {
	c := newCrew(t)
	var both [2]*server.Server
	var starts sync.WaitGroup
	for i := range both {
		starts.Go(func() { both[i] = c.start() })
	}
	starts.Wait()
	c.up(1, both[0], both[1])
	sebtest.Eventually(t, "one leads", func() bool { return both[0].Node().Leads() != both[1].Node().Leads() })
	c.write(both[0], "a")
	c.reads(both[1], "a")
}

// TestAnotherSecretsKeyIsTold: brokers whose secrets keys differ say so in GET /cluster and in the
// warnings of GET /status, and those with the same one do not.
func TestAnotherSecretsKeyIsTold(t *testing.T) {
	c := newCrew(t)
	key := secrets.NewKey().Reveal()
	keyed := func(s *config.Config) { s.Secrets.Key = secrets.Text(key) }
	a, b, other := c.start(keyed), c.start(keyed), c.start()
	c.up(2, a, b, other)
	for s, want := range map[*server.Server]int{a: 1, b: 1, other: 2} {
		for _, path := range []string{"/cluster", "/status"} {
			sebtest.Eventually(t, fmt.Sprintf("%s%s tells of %d others", s.URL(), path, want), func() bool {
				_, answer := ask(t, s, http.MethodGet, path, "")
				return strings.Count(answer, "has another secrets key") == want
			})
		}
	}
}
