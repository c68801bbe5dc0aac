package server_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// TestBrokersThatCannotBeReached do not depose each other again and again.
func TestBrokersThatCannotBeReached(t *testing.T) {
	c := newCrew(t)
	alone := func() config.Config {
		s := c.settings()
		s.Advertise = ""
		return s
	}
	first := alone()
	a := start(t, first)
	b := start(t, alone())
	if !b.Node().Leads() {
		t.Error("it serves clients before it leads")
	}
	c.write(b, "one")
	ends := func(s *server.Server) {
		t.Helper()
		must.Error(t, produce(t, connect(t, s)), "a fenced broker acknowledges a record")
		sebtest.Eventually(t, "the fenced broker ends", func() bool { return errors.Is(s.Err(), broker.ErrFenced) })
	}
	ends(a)
	must.NoError(t, a.Close(context.Background()))
	if again, err := server.Start(t.Context(), first, quiet); !errors.Is(err, broker.ErrFenced) || !strings.Contains(err.Error(), "--advertise") {
		if err == nil {
			_ = again.Close(context.Background())
		}
		t.Fatalf("the first broker starts again with the error %v", err)
	}
	c.write(b, "two")
	first.TakeOver = true
	a = start(t, first)
	c.reads(a, "one", "two")
	ends(b)
}

// TestABrokerThatCannotBeReachedServesWhenItLeads: before, it may know less than the leader, and would
// not hear of it. Its port is open, and requests wait.
func TestABrokerThatCannotBeReachedServesWhenItLeads(t *testing.T) {
	var closed atomic.Bool
	var once sync.Once
	seals, open := make(chan struct{}), make(chan struct{})
	bucket := inFront(t, testenv.CountedS3(t).Spec("alone"), func(_ http.ResponseWriter, r *http.Request) bool {
		if closed.Load() && r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/wal/") {
			once.Do(func() { close(seals) })
			<-open
		}
		return false
	})
	release := sync.OnceFunc(func() { close(open) })
	defer release()
	alone := func() config.Config {
		c := settings(t, bucket)
		c.HTTP.APIKey, c.Kafka.Listen = "a-key-for-all-brokers", ""
		return c
	}
	start(t, alone())
	closed.Store(true)
	second := alone()
	second.HTTP.Port = testenv.PortForTest(t)
	started := make(chan error, 1)
	go func() {
		s, err := server.Start(t.Context(), second, quiet)
		if err == nil {
			t.Cleanup(func() { _ = s.Close(context.Background()) })
		}
		started <- err
	}()
	<-seals
	asked := must.Get(client.New(fmt.Sprintf("http://127.0.0.1:%d", second.HTTP.Port), client.Options{APIKey: string(second.HTTP.APIKey)}))(t)
	defer asked.Close()
	type answer struct {
		api.Status
		err error
	}
	answered := make(chan answer, 1)
	go func() {
		status, err := asked.Status(t.Context())
		answered <- answer{status, err}
	}()
	select {
	case a := <-answered:
		t.Fatalf("it answers before it leads: %+v", a)
	case err := <-started:
		t.Fatalf("it has started before it leads: %v", err)
	case <-time.After(time.Second): // there is nothing to wait for
	}
	release()
	if a := <-answered; a.err != nil || a.Role != "leader" {
		t.Errorf("the first answer: role %q, %v", a.Role, a.err)
	}
	check.NoError(t, <-started)
}
