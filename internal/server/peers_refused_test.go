package server_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/server"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// TestABrokerThatMayNotListOthersIsTheOnlyOne: credentials that do not allow registrations do not stop
// a broker that is alone. It is fenced by the next one, as without rules for several.
func TestABrokerThatMayNotListOthersIsTheOnlyOne(t *testing.T) {
	s3 := testenv.CountedS3(t)
	target, err := url.Parse(endpointOf(s3.Spec("alone")))
	if err != nil {
		t.Fatal(err)
	}
	forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.SetURL(target)
		r.Out.Host = r.In.Host // part of the signature
	}}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path+"?"+r.URL.Query().Get("prefix"), "peer/") {
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `<Error><Code>AccessDenied</Code><Message>no</Message></Error>`)
			return
		}
		forward.ServeHTTP(w, r)
	}))
	defer refusing.Close()
	open := func(log *sebtest.Log) *server.Server {
		t.Helper()
		c := settings(t, strings.Replace(s3.Spec("alone"), target.String(), refusing.URL, 1))
		c.Advertise, c.Kafka.Listen = "127.0.0.1", ""
		s, err := server.Start(t.Context(), c, log.Logger())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close(t.Context()) })
		return s
	}
	var log sebtest.Log
	a := open(&log)
	if err := produce(t, connect(t, a)); err != nil || !log.Contains("other brokers not found") {
		t.Fatalf("write: %v; log:\n%s", err, log.String())
	}
	b := open(&log)
	if err := produce(t, connect(t, b)); err != nil {
		t.Fatal(err)
	}
	if err := produce(t, connect(t, a)); err == nil {
		t.Error("a fenced broker acknowledges a record")
	}
	sebtest.Eventually(t, "the first broker ends", func() bool { return errors.Is(a.Err(), broker.ErrFenced) })
}

// endpointOf returns the endpoint of a bucket's spec.
func endpointOf(spec string) string {
	u, err := url.Parse(spec)
	if err != nil {
		return ""
	}
	return u.Query().Get("endpoint")
}
