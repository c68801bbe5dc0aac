package faultproxy

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

// echoed starts an echo server behind a wire, and a client that uses each connection once.
func echoed(t *testing.T) (w *Wire, requests *atomic.Int64, post func([]byte) ([]byte, error)) {
	t.Helper()
	requests = &atomic.Int64{}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		requests.Add(1)
		_, _ = w.Write(b)
	}))
	t.Cleanup(srv.Close)
	w = must.Get(NewWire(1))(t)
	t.Cleanup(w.Close)
	w.SetTarget(srv.Listener.Addr().String())
	c := &http.Client{Timeout: 20 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}
	return w, requests, func(b []byte) ([]byte, error) {
		resp, err := c.Post("http://"+w.Address()+"/", "text/plain", bytes.NewReader(b))
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		return io.ReadAll(resp.Body)
	}
}

func TestConnectionFaults(t *testing.T) {
	w, requests, post := echoed(t)
	body := bytes.Repeat([]byte("abcdefgh"), 20_000)
	for _, c := range []struct {
		kind   Kind
		failed bool
		effect int
	}{
		{"", false, applied},
		{Delayed, false, applied},
		{Trickled, false, applied},
		{Refused, true, notApplied},
		{CutUp, true, notApplied},
		{CutDown, true, applied},
		{AnswerLost, true, applied},
		{HalfOpen, true, either},
	} {
		w.SetConfig(WireConfig{Rates: Rates{c.kind: 1}, DelayMax: 3 * time.Millisecond, HoldMax: 50 * time.Millisecond})
		for range 5 {
			before := requests.Load()
			got, err := post(body)
			if (err != nil) != c.failed || err == nil && !bytes.Equal(got, body) {
				t.Errorf("%s: %d bytes, %v", c.kind, len(got), err)
			}
			if n := requests.Load() - before; n == 0 && c.effect&notApplied == 0 || n > 0 && c.effect&applied == 0 {
				t.Errorf("%s: the server had %d requests", c.kind, n)
			}
		}
		if n := w.Counts()[c.kind]; c.kind != "" && n != 5 {
			t.Errorf("%s: counted %d times", c.kind, n)
		}
	}
}

func TestTargetDoesNotListen(t *testing.T) {
	w, requests, post := echoed(t)
	w.SetTarget("")
	if _, err := post([]byte("x")); err == nil || requests.Load() != 0 {
		t.Errorf("%v, %d requests", err, requests.Load())
	}
}
