package pressure

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
)

// A connection may be closed for another one while nothing of its request arrives, or its answer does
// not leave, for longer than this. On a machine without a free processor that happens to a few.
const (
	silent     = 500 * time.Millisecond
	stalledMax = 5 // of them
)

// TestKeepAliveConnections: a Go client that keeps as many connections busy as the broker serves
// gets no error. Additional connections each get an answer, and no request on the others is
// interrupted.
func TestKeepAliveConnections(t *testing.T) {
	beside(t)
	b := start(t, "--batch-wait-time", "5ms")
	served := int(b.metric("seb_http_connections_limit"))
	check.Containsf(t, b.Log(), fmt.Sprintf("http=%d", served), "the start does not log the limit of %d connections", served)
	transport := &http.Transport{MaxIdleConnsPerHost: served, MaxConnsPerHost: served}
	defer transport.CloseIdleConnections()
	c := &http.Client{Transport: transport, Timeout: time.Minute}
	// within and over count answers before and after the additional connections.
	var within, over, stalled atomic.Int64
	var crowded, stop atomic.Bool
	var busy sync.WaitGroup
	for range served {
		busy.Go(func() {
			for !stop.Load() {
				before, asked := !crowded.Load(), time.Now()
				idle := time.Duration(0) // of the connection before the request
				ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { idle = i.IdleTime }})
				resp, body, err := b.postOnce(ctx, c)
				switch took := time.Since(asked); {
				case err != nil && took > silent: // it stalled
					stalled.Add(1)
				case err != nil:
					t.Errorf("after %s, on a connection that was idle for %s: %v", took, idle, err)
					return
				case resp.StatusCode == http.StatusCreated && before:
					within.Add(1)
				case resp.StatusCode == http.StatusCreated:
					over.Add(1)
				case resp.StatusCode == http.StatusTooManyRequests && crowded.Load(): // perhaps since the request
					over.Add(1)
				default:
					t.Errorf("status %d %s", resp.StatusCode, body)
					return
				}
			}
		})
	}
	wait := func(n *atomic.Int64) {
		for n.Load() < 4*int64(served) && !t.Failed() {
			time.Sleep(time.Millisecond)
		}
	}
	wait(&within)
	crowded.Store(true)
	b.beyond(20)
	wait(&over)
	stop.Store(true)
	busy.Wait()
	transport.CloseIdleConnections()
	if n := stalled.Load(); n > stalledMax {
		t.Errorf("%d requests failed after %s, want at most %d", n, silent, stalledMax)
	}
	t.Logf("%d connections: %d answers within the limit, %d beyond it, %d requests stalled", served, within.Load(), over.Load(), stalled.Load())
	b.within(limit)
}

// beyond produces on n connections over the limit, one after the other.
func (b *broker) beyond(n int) {
	begin, longest, refused := time.Now(), time.Duration(0), 0
	for range n {
		one := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
		asked := time.Now()
		resp, _, err := b.postOnce(b.t.Context(), one)
		if err != nil || resp.StatusCode != http.StatusCreated && resp.StatusCode != http.StatusTooManyRequests {
			b.t.Errorf("connection over the limit: %v %v", resp, err)
			continue
		}
		longest = max(longest, time.Since(asked))
		if resp.StatusCode == http.StatusTooManyRequests {
			refused++
		}
	}
	b.t.Logf("%d connections over the limit in %s, %s at most for one, %d refused", n, time.Since(begin), longest, refused)
}

// postOnce produces a record.
func (b *broker) postOnce(ctx context.Context, c *http.Client) (resp *http.Response, body []byte, err error) {
	return b.ask(ctx, b.url+"/records?topic-name=busy", request{
		method: http.MethodPost, kind: api.TextPlain, accept: api.JSON + ", " + api.ProblemJSON, body: []byte("x"), client: c,
	})
}
