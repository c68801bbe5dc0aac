package server_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestThePageCostsNothing: what a page asks for makes no request to the store, and after the page is
// closed the broker has the goroutines that it had before.
func TestThePageCostsNothing(t *testing.T) {
	s := start(t, settings(t, "file:"+t.TempDir()))
	must.NoError(t, produce(t, connect(t, s)))
	browser := &http.Client{Transport: &http.Transport{}}
	ask := func(method, path string, header http.Header) []byte {
		t.Helper()
		r := must.Get(http.NewRequestWithContext(t.Context(), method, s.URL()+path, nil))(t)
		if r.Header = header; header == nil {
			r.Header = http.Header{"Authorization": {"Bearer " + s.APIKey()}}
		}
		a := must.Get(browser.Do(r))(t)
		defer a.Body.Close()
		body, err := io.ReadAll(a.Body)
		if err != nil || a.StatusCode != http.StatusOK {
			t.Fatalf("%s %s: %s %v %s", method, path, a.Status, err, body)
		}
		if c := a.Header.Get("Set-Cookie"); c != "" {
			return append([]byte(c+"\n"), body...)
		}
		return body
	}
	requests := regexp.MustCompile(`(?m)^seb_store_requests_total\{.*$`)
	counted := func() string {
		return string(bytes.Join(requests.FindAll(ask("GET", "/metrics", nil), -1), []byte("\n")))
	}
	before := counted()
	if before == "" {
		t.Fatal("no counters of the store's requests")
	}
	browser.CloseIdleConnections()
	var goroutines int
	sebtest.Eventually(t, "the connections end", func() bool {
		n := runtime.NumGoroutine()
		settled := n == goroutines
		goroutines = n
		return settled
	})

	login := ask("POST", "/console/login", nil)
	cookie, body, _ := strings.Cut(string(login), "\n")
	cookie, _, _ = strings.Cut(cookie, ";")
	var session api.Session
	must.NoError(t, json.Unmarshal([]byte(body), &session))
	page := http.Header{"Cookie": {cookie}, api.HeaderSession: {session.Session}}
	ask("GET", "/console/", http.Header{"Accept": {"text/html"}})
	for range 3 {
		for _, path := range []string{"/console/session", "/status", "/stats", "/topics", "/groups?members=true", "/triggers?counts=true", "/topic?topic-name=t", "/settings"} {
			ask("GET", path, page)
		}
	}
	browser.CloseIdleConnections()
	sebtest.Eventually(t, "the goroutines of the page end", func() bool { return runtime.NumGoroutine() <= goroutines })
	if after := counted(); after != before {
		t.Errorf("requests to the store, before:\n%s\nafter:\n%s", before, after)
	}
}
