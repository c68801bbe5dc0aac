package server_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// TestABrokerThatMayNotListOthersIsTheOnlyOne: credentials that do not allow registrations do not stop
// a broker that is alone. It is fenced by the next one, as without rules for several. The next one listens
// on all addresses, and is not named by a loopback address, which on another machine is another broker.
func TestABrokerThatMayNotListOthersIsTheOnlyOne(t *testing.T) {
	bucket := inFront(t, testenv.CountedS3(t).Spec("alone"), func(w http.ResponseWriter, r *http.Request) bool {
		refused := strings.Contains(r.URL.Path+"?"+r.URL.Query().Get("prefix"), "peer/")
		if refused {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
		}
		return refused
	})
	open := func(log *sebtest.Log) *server.Server {
		t.Helper()
		c := settings(t, bucket)
		c.HTTP.Address, c.Kafka.Listen = "0.0.0.0", ""
		s := must.Get(server.Start(t.Context(), c, log.Logger()))(t)
		t.Cleanup(func() { _ = s.Close(t.Context()) })
		return s
	}
	var log sebtest.Log
	var ended error
	running, stopped := make(chan *server.Server), make(chan struct{})
	go func() {
		c := settings(t, bucket)
		c.Kafka.Listen = ""
		ended = server.Run(t.Context(), c, log.Logger(), func(s *server.Server) { running <- s })
		close(stopped)
	}()
	a := <-running
	if err := produce(t, connect(t, a)); err != nil || !log.Contains("other brokers not found") {
		t.Fatalf("write: %v; log:\n%s", err, log.String())
	}
	b := open(&log)
	must.NoError(t, produce(t, connect(t, b)))
	check.Error(t, produce(t, connect(t, a)), "a fenced broker acknowledges a record")
	<-stopped
	if fenced, ok := errors.AsType[*state.FencedError](ended); !ok || fenced.Leader == "" {
		t.Errorf("the first broker ended with %v", ended)
	}
	addresses, err := net.InterfaceAddrs()
	reachable := slices.ContainsFunc(addresses, func(a net.Addr) bool { return a.(*net.IPNet).IP.IsGlobalUnicast() })
	if named := log.Contains("leader=" + b.URL()); err != nil || named && reachable || !log.Contains("leader=http://") {
		t.Errorf("addresses %v, %v; log:\n%s", addresses, err, log.String())
	}
}

// TestASlowRegistrationIsNotLost: a broker whose registration is not stored yet neither reports that it
// was removed, nor connects to others, which would refuse it.
func TestASlowRegistrationIsNotLost(t *testing.T) {
	c := &crew{t, testenv.CountedS3(t).Spec("slow")}
	a := c.start()
	c.leads(a)
	var log sebtest.Log
	cfg := c.settings()
	cfg.Bucket = inFront(t, c.bucket, func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodPut && strings.Contains(r.URL.Path, "/peer/") {
			time.Sleep(time.Second)
		}
		return false
	})
	b := must.Get(server.Start(t.Context(), cfg, log.Logger()))(t)
	t.Cleanup(func() { _ = b.Close(context.Background()) })
	c.up(1, a, b)
	if log.Contains("registration of this broker was removed") || log.Contains("refuses the link") {
		t.Errorf("log of the second broker:\n%s", log.String())
	}
}

// inFront returns the spec of a bucket through a proxy that answers some requests itself: those for
// which answers returns true.
func inFront(t *testing.T, spec string, answers func(w http.ResponseWriter, r *http.Request) bool) string {
	t.Helper()
	u := must.Get(url.Parse(spec))(t)
	endpoint := u.Query().Get("endpoint")
	target := must.Get(url.Parse(endpoint))(t)
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // part of the signature
	}}
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !answers(w, r) {
			forward.ServeHTTP(w, r)
		}
	}))
	t.Cleanup(proxy.Close)
	return strings.Replace(spec, endpoint, proxy.URL, 1)
}
