package pressure

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestDeliveries: triggers with the largest concurrency deliver small and large messages to a receiver
// that answers none of them until as many are in flight as the broker allows. It stays within its
// limit, and delivers all.
func TestDeliveries(t *testing.T) {
	const (
		triggers, small, large = 4, 200, 30 // of each kind
		payload                = 200 << 10
		inflight               = 56       // nearly half of all: more if one trigger begins before the others
		largeInflight          = triggers // each has one
	)
	beside(t)
	b := start(t, "--batch-wait-time", "5ms", "--webhook-targets", "127.0.0.1")
	r := newHolding(t)
	put := func(kind string) {
		for i := range triggers {
			body := fmt.Sprintf(`{"expr":%q,"deliver":{"url":"%s/%s","secrets":["whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIz"],"concurrency":1000,"retries":[%s]}}`,
				kind, r.URL, kind, strings.TrimSuffix(strings.Repeat(`"1s",`, 30), ","))
			b.accepted(fmt.Sprintf("/triggers/%s-%d", kind, i), request{method: http.MethodPut, kind: api.JSON, body: []byte(body)})
		}
	}
	put("small")
	var events bytes.Buffer
	for i := range small {
		fmt.Fprintf(&events, `{"event":"small","entity_id":"e%d"}`+"\n", i)
	}
	b.accepted("/event", request{method: http.MethodPost, kind: api.NDJSON, body: events.Bytes()})
	sebtest.Eventually(t, "messages are in flight", func() bool { return r.inflight("/small") >= inflight })
	r.release("/small")
	put("large")
	data := strings.Repeat("x", payload)
	for i := range large {
		b.accepted("/event", request{method: http.MethodPost, kind: api.JSON, body: fmt.Appendf(nil, `{"event":"large","entity_id":"e%d","data":{"x":%q}}`, i, data)})
	}
	sebtest.Eventually(t, "large messages are in flight", func() bool { return r.inflight("/large") >= largeInflight })
	r.release("/large")
	sebtest.Eventually(t, "all messages have arrived", func() bool { return r.arrived() == triggers*(small+large) })
	t.Logf("at most %d small and %d large messages in flight", r.most["/small"], r.most["/large"])
	b.alive()
	b.within(limit)
}

// accepted sends a request until the broker accepts it.
func (b *broker) accepted(path string, r request) {
	b.t.Helper()
	sebtest.Eventually(b.t, "the broker accepts "+path, func() bool {
		resp, body, err := b.ask(b.t.Context(), b.url+path, r)
		must.NoErrorf(b.t, err, "%s", path)
		if resp.StatusCode >= 300 && resp.StatusCode != http.StatusTooManyRequests {
			b.t.Fatalf("%s: %d %s", path, resp.StatusCode, body)
		}
		return resp.StatusCode < 300
	})
}

// holding is a receiver that answers the requests to a path after its release.
type holding struct {
	*httptest.Server
	mu       sync.Mutex // guards the fields below
	now      map[string]int
	most     map[string]int
	ids      map[string]struct{}
	released map[string]chan struct{}
}

func newHolding(t *testing.T) *holding {
	h := &holding{
		now: map[string]int{}, most: map[string]int{}, ids: map[string]struct{}{},
		released: map[string]chan struct{}{"/small": make(chan struct{}), "/large": make(chan struct{})},
	}
	h.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if _, err := io.Copy(io.Discard, r.Body); err != nil {
			return
		}
		path := r.URL.Path
		h.mu.Lock()
		h.now[path]++
		h.most[path] = max(h.most[path], h.now[path])
		h.ids[r.Header.Get("webhook-id")] = struct{}{}
		h.mu.Unlock()
		select {
		case <-h.released[path]:
		case <-r.Context().Done():
		}
		h.mu.Lock()
		h.now[path]--
		h.mu.Unlock()
	}))
	t.Cleanup(h.Close)
	return h
}

func (h *holding) inflight(path string) int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.now[path]
}

func (h *holding) release(path string) { close(h.released[path]) }

func (h *holding) arrived() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.ids)
}
