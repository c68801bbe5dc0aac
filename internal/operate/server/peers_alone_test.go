package server_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// byDefault are the settings of a broker without flags: loopback listeners, and an API key that it
// generates.
func (c *crew) byDefault(s *config.Config) {
	s.HTTP.APIKey, s.Advertise = "", ""
}

// TestTwoBrokersOfOneMachine: with the default listeners the second is a standby of the first, with its
// API key, and takes over from it.
func TestTwoBrokersOfOneMachine(t *testing.T) {
	c := newCrew(t)
	a := c.start(c.byDefault)
	b := c.start(c.byDefault)
	if !a.Node().Leads() || !b.Node().Follows() {
		t.Fatalf("the first leads: %v, the second follows: %v", a.Node().Leads(), b.Node().Follows())
	}
	check.Equalf(t, b.APIKey(), a.APIKey(), "API key of the second broker")
	c.up(1, a, b)
	c.write(a, "one")
	c.write(b, "two")
	a.Kill()
	c.leads(b)
	c.write(b, "three")
	c.reads(b, "one", "two", "three")
}

// TestAKeyThatExistsStays: only a broker without a key takes that of another, and only from a file that
// no other user can read.
func TestAKeyThatExistsStays(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(dir, other string)
		taken   bool
	}{
		"no key":                       {func(string, string) {}, true},
		"a key of its own":             {func(dir, _ string) { _ = os.WriteFile(dir, []byte("a-key-of-its-own-1234\n"), 0o600) }, false},
		"a file that others can read":  {func(_, other string) { _ = os.Chmod(other, 0o644) }, false},
		"a symbolic link to some file": {func(_, other string) { _ = os.Rename(other, other+"2"); _ = os.Symlink(other+"2", other) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			crew := newCrew(t)
			var first config.Config
			a := crew.start(crew.byDefault, func(s *config.Config) { first = *s })
			b := crew.start(crew.byDefault, func(s *config.Config) {
				must.NoError(t, os.MkdirAll(s.DataDir, 0o700))
				c.prepare(filepath.Join(s.DataDir, server.KeyFile), filepath.Join(first.DataDir, server.KeyFile))
			})
			if taken := a.APIKey() == b.APIKey(); taken != c.taken {
				t.Errorf("the key was taken: %v, want %v", taken, c.taken)
			}
		})
	}
}

// TestKeysThatAreNotTaken: the key of an earlier run in the own data folder is no other one, and the file
// in the folder of a broker with a configured key is not its key.
func TestKeysThatAreNotTaken(t *testing.T) {
	c := newCrew(t)
	var log sebtest.Log
	open := func(cfg config.Config) *server.Server {
		s := must.Get(server.Start(t.Context(), cfg, log.Logger()))(t)
		t.Cleanup(func() { _ = s.Close(context.Background()) })
		return s
	}
	own := c.settings()
	c.byDefault(&own)
	for range 2 {
		open(own).Kill()
		sebtest.Eventually(t, "the killed broker creates no more files", func() bool { return os.RemoveAll(own.DataDir) == nil })
	}

	configured := c.settings()
	must.NoError(t, os.MkdirAll(configured.DataDir, 0o700))
	must.NoError(t, os.WriteFile(filepath.Join(configured.DataDir, server.KeyFile), []byte("a-key-of-an-earlier-run\n"), 0o600))
	open(configured)
	if open(own).APIKey() == "a-key-of-an-earlier-run" || log.Contains("API key taken") {
		t.Errorf("log:\n%s", log.String())
	}
}

// TestABrokerThatCannotRegisterLeads: others do not find it, and without others it leads.
func TestABrokerThatCannotRegisterLeads(t *testing.T) {
	c := newCrew(t)
	a := c.start(func(s *config.Config) { s.Advertise = strings.Repeat("a", 280) })
	if !a.Node().Leads() {
		t.Error("it does not lead")
	}
}

// TestABrokerReturnsWithoutItsDataDirectory: at the address of the killed one, and at another one. The
// registration of the killed broker is removed, so that the leader shows no life to it.
func TestABrokerReturnsWithoutItsDataDirectory(t *testing.T) {
	for name, moves := range map[string]bool{"at the same address": false, "at another address": true} {
		for host, change := range map[string]func(*config.Config){
			"loopback":   func(s *config.Config) { s.Advertise = "" },
			"advertised": func(*config.Config) {},
			"every":      func(s *config.Config) { s.Advertise, s.HTTP.Address = "", "0.0.0.0" },
		} {
			t.Run(name+", "+host, func(t *testing.T) {
				c := newCrew(t)
				port := testenv.PortForTest(t)
				a := c.start(change, func(s *config.Config) { s.HTTP.Port = port })
				c.write(a, "one")
				a.Kill()
				if moves {
					port = testenv.PortForTest(t)
				}
				b := c.start(change, func(s *config.Config) { s.HTTP.Port = port })
				if !b.Node().Leads() {
					t.Error("it does not lead at once")
				}
				c.write(b, "two")
				sebtest.Eventually(t, "the killed broker is forgotten", func() bool { return len(b.Cluster().Members()) == 1 })
				left := must.Get(filepath.Glob(filepath.Join(c.bucket[len("file:"):], "peer", "*")))(t)
				check.Equalf(t, len(left), 1, "registrations")
			})
		}
	}
}

// TestALeaderFindsBrokersThatDoNotReachIt: they cannot tell it that they have started. An idle leader does
// not look for them.
func TestALeaderFindsBrokersThatDoNotReachIt(t *testing.T) {
	server.SetLookEvery(time.Millisecond)
	defer server.SetLookEvery(10 * time.Minute)
	remote := testenv.CountedS3(t)
	c := &crew{t, remote.Spec("looks")}
	a := c.start()
	lists := remote.Counts().Of(testenv.List, "peer")
	c.write(a, "one")
	sebtest.Eventually(t, "it looks for others after a write", func() bool { return remote.Counts().Of(testenv.List, "peer") > lists })
	other := cluster.Registration{
		Run: cluster.Run{Node: record.ID{1}, ID: record.ID{2}}, Name: "elsewhere", KafkaID: 1, KeyHash: [32]byte{1}, LevelMax: 1,
		Machine: [16]byte{1}, Local: "127.0.0.1:1",
	}
	must.NoError(t, link.Put(t.Context(), a.Node().Bucket(), &other))
	c.write(a, "two")
	sebtest.Eventually(t, "the leader says that the two do not reach each other", func() bool {
		m := a.Cluster().Members()
		return len(m) == 2 && m[1].Apart && len(a.Cluster().Wrong()) == 1
	})
	sebtest.Eventually(t, "an idle leader does not look", func() bool {
		lists := remote.Counts().Of(testenv.List, "peer")
		time.Sleep(50 * time.Millisecond) // in which an interval of a millisecond ends many times
		return remote.Counts().Of(testenv.List, "peer") == lists
	})
}
