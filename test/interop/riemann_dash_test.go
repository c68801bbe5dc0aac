package interop

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	pages "github.com/sebbroker/seb/test/console"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const websocketsVersion = "15.0.1"

// TestRiemannDash: the two subscriptions of riemann-dash, in Chromium and by Python's websockets,
// begin while events arrive. Each gets every event once.
func TestRiemannDash(t *testing.T) {
	testenv.InteropWanted(t)
	page := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprint(w, "<!doctype html><title>dash</title>")
	}))
	t.Cleanup(page.Close)
	web := must.Get(testenv.FreeAddress())(t)
	programs := dashPrograms(t, page.URL)
	b := serveRiemann(t, "--riemann-web-listen", web, "--cors-origin", page.URL)
	calls := goRiemann(t, b)
	events := riemannEvents()
	const first, live = 300, 100 // the last events are sent when all are subscribed
	begin := time.Now()
	calls.send(events[:first])
	var sending sync.WaitGroup
	sending.Go(func() { calls.send(events[first : len(events)-live]) })
	api := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
	defer api.Close()
	sebtest.Eventually(t, "events arrive", func() bool {
		list, err := api.RiemannIndex(t.Context(), "true")
		return err == nil && len(list.Events) > first
	})
	query := web + "/index?query=true"
	var all []*subscriber
	for _, s := range []struct{ name, url string }{
		{"chromium", "http://" + query}, {"chromium", "ws://" + query + "&subscribe=true"}, {"python", "ws://" + query + "&subscribe=true"},
	} {
		all = append(all, subscribe(t, programs[s.name], s.url))
	}
	for _, s := range all {
		sebtest.Eventually(t, s.url+" is open", func() bool { return slices.Contains(s.lines(), "open") })
	}
	sending.Wait()
	calls.send(events[len(events)-live:])
	for _, s := range all {
		sebtest.Eventually(t, "the end of "+s.url, func() bool {
			select {
			case <-s.Done():
				return true
			default:
				return false
			}
		})
		counts := make(map[string]int)
		for _, service := range s.lines() {
			counts[service]++
		}
		delete(counts, "open")
		for _, e := range events {
			if counts[e.Service] != 1 {
				t.Errorf("%s got %q %d times, want once", s.url, e.Service, counts[e.Service])
			}
		}
		if len(counts) != len(events) {
			t.Errorf("%s got %d different events, want %d", s.url, len(counts), len(events))
		}
	}
	report(t, "riemann-dash", "EventSource and WebSocket in Chromium, websockets "+websocketsVersion, time.Since(begin))
}

// program is a command with its environment.
type program struct{ command, env []string }

// dashPrograms installs the programs that subscribe.
func dashPrograms(t *testing.T, page string) map[string]program {
	t.Helper()
	node := must.Get(needs("node", "runs playwright"))(t)
	chromium, env := must.Get2(pages.Browser(t.Context()))(t)
	modules := must.Get(pages.Modules(t.Context(), "../console"))(t)
	python := must.Get(needs("python3", "runs websockets"))(t)
	packages := must.Get(testenv.Pip(t.Context(), python, "websockets-"+websocketsVersion, "websockets "+websocketsVersion, "websockets=="+websocketsVersion))(t)
	return map[string]program{
		"chromium": {[]string{node, "testdata/riemann/dash.mjs"}, append(env, "MODULES="+modules+"/node_modules", "BROWSER="+chromium, "PAGE="+page)},
		"python":   {[]string{python, "testdata/riemann/dash.py"}, []string{"PYTHONPATH=" + packages, "PYTHONDONTWRITEBYTECODE=1"}},
	}
}

// subscriber is a program that prints a line for each event.
type subscriber struct {
	*testenv.Broker
	url string
	mu  sync.Mutex // guards out
	out []string
}

func subscribe(t *testing.T, p program, url string) *subscriber {
	t.Helper()
	s := &subscriber{url: url}
	var err error
	s.Broker, err = testenv.StartProgram(p.command[0], p.env, func(line string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.out = append(s.out, strings.TrimSpace(line))
	}, append(slices.Clone(p.command[1:]), url, fmt.Sprint(riemannCount))...)
	must.NoError(t, err)
	t.Cleanup(func() {
		s.Kill()
		if t.Failed() {
			t.Logf("end of the output of %s:\n%s", url, s.Log())
		}
	})
	return s
}

// lines returns the output.
func (s *subscriber) lines() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.out)
}
