package client_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// seen records the producer headers of every request. Its answers come from text.
type seen struct {
	mu   sync.Mutex // guards list
	list []string
}

func (s *seen) note(h http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.list = append(s.list, r.Header.Get("Seb-Producer-Id")+"/"+r.Header.Get("Seb-Producer-Epoch")+"/"+r.Header.Get("Seb-Sequence"))
		s.mu.Unlock()
		h(w, r)
	}
}

// numbers returns the epoch and sequence of each request, and checks that all have the same
// producer ID.
func (s *seen) numbers(t *testing.T) string {
	t.Helper()
	var out []string
	first := ""
	for _, e := range s.list {
		id, rest, _ := strings.Cut(e, "/")
		if first == "" {
			first = id
		}
		if id == "" || id != first {
			t.Errorf("producers %q and %q", first, id)
		}
		out = append(out, rest)
	}
	return strings.Join(out, " ")
}

func TestUnknownOutcomesAreResolved(t *testing.T) {
	t.Parallel()
	const rejected, unknown, acked = "rejected", "unknown", "acked"
	mismatch := func(next int) http.HandlerFunc {
		return answer(409, "Content-Type: application/problem+json", fmt.Sprintf(`{"code":"offset_mismatch","next_offset":%d}`, next))
	}
	for name, tc := range map[string]struct {
		script []http.HandlerFunc
		want   string
		then   string // epochs and sequences of all requests; the last one is a second produce
	}{
		"no verdict":                               {[]http.HandlerFunc{problem(504, "outcome_unknown", ""), stored}, acked, "0/0 0/0 0/1"},
		"502 of a proxy":                           {[]http.HandlerFunc{answer(502, "", "bad gateway"), stored}, acked, "0/0 0/0 0/1"},
		"503 of a proxy":                           {[]http.HandlerFunc{answer(503, "", "busy"), stored}, acked, "0/0 0/0 0/1"},
		"the body arrived too slowly":              {[]http.HandlerFunc{problem(408, "request_timeout", ""), stored}, acked, "0/0 0/0 0/1"},
		"no leader for a moment":                   {[]http.HandlerFunc{problem(503, "not_leader", "Retry-After: 0"), stored}, acked, "0/0 0/0 0/1"},
		"cut after the whole request":              {[]http.HandlerFunc{cut(-1, ""), cut(-1, ""), stored}, acked, "0/0 0/0 0/0 0/1"},
		"answer cut after its status":              {[]http.HandlerFunc{cut(-1, "HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{"), stored}, acked, "0/0 0/0 0/1"},
		"refused: the sequence is free":            {[]http.HandlerFunc{problem(413, "too_large", ""), stored}, rejected, "0/0 0/0"},
		"refused after an unknown attempt":         {[]http.HandlerFunc{cut(-1, ""), problem(400, "bad_request", ""), stored}, unknown, "0/0 0/0 1/0"},
		"an error without an outcome":              {[]http.HandlerFunc{problem(500, "internal", ""), stored}, unknown, "0/0 1/0"},
		"gap: the producer gets a new epoch":       {[]http.HandlerFunc{problem(409, "sequence_gap", ""), stored}, rejected, "0/0 1/0"},
		"old epoch: the producer gets a newer one": {[]http.HandlerFunc{problem(409, "producer_fenced", ""), stored}, rejected, "0/0 1/0"},
		"the end is beyond the expected offset":    {[]http.HandlerFunc{cut(-1, ""), mismatch(8), stored}, rejected, "0/0 0/0 0/0"},
		"the end is before the expected offset":    {[]http.HandlerFunc{cut(-1, ""), mismatch(6), stored}, unknown, "0/0 0/0 1/0"},
	} {
		t.Run(name, func(t *testing.T) {
			var s seen
			for i := range tc.script {
				tc.script[i] = s.note(tc.script[i])
			}
			c, _ := faulty(t, tc.script...)
			put := func() error {
				_, err := c.ProduceValues(t.Context(), "t", [][]byte{[]byte("v")}, client.ProduceOptions{ExpectedOffset: new(int64(7))})
				return err
			}
			err := put()
			got := acked
			switch {
			case errors.Is(err, client.ErrRejected):
				got = rejected
			case errors.Is(err, client.ErrOutcomeUnknown):
				got = unknown
			}
			check.Equalf(t, got, tc.want, "%v", err)
			check.NoError(t, put())
			check.Equalf(t, s.numbers(t), tc.then, "requests")
		})
	}
}

// lossy is a proxy between a client and a broker. It loses some produce requests before the broker
// gets them, loses other answers, and sends some requests twice.
func lossy(t *testing.T, address string) *client.Client {
	t.Helper()
	target := must.Get(url.Parse(address))(t)
	var mu sync.Mutex
	n := 0
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			panic(http.ErrAbortHandler)
		}
		mu.Lock()
		n++
		what := n % 7
		mu.Unlock()
		pass := func() *http.Response {
			to := *target
			to.Path, to.RawQuery = r.URL.Path, r.URL.RawQuery
			req, err := http.NewRequest(r.Method, to.String(), bytes.NewReader(body))
			if err != nil {
				panic(err)
			}
			req.Header = r.Header.Clone()
			resp, err := transport.RoundTrip(req)
			if err != nil {
				panic(http.ErrAbortHandler)
			}
			return resp
		}
		if r.Method == http.MethodPost {
			switch what {
			case 1:
				panic(http.ErrAbortHandler)
			case 2, 3:
				pass().Body.Close()
				panic(http.ErrAbortHandler)
			case 4:
				pass().Body.Close()
			}
		}
		resp := pass()
		defer resp.Body.Close()
		for k, v := range resp.Header {
			w.Header()[k] = v
		}
		w.WriteHeader(resp.StatusCode)
		_, _ = io.Copy(w, resp.Body)
	}))
	srv.Config.ErrorLog = log.New(io.Discard, "", 0)
	t.Cleanup(srv.Close)
	c := must.Get(client.New(srv.URL, client.Options{APIKey: testKey, RetryTime: time.Minute}))(t)
	t.Cleanup(c.Close)
	return c
}

func TestNoRecordIsDuplicatedOrLostBehindALossyProxy(t *testing.T) {
	t.Parallel()
	address, stop := startBroker()
	t.Cleanup(stop)
	c := lossy(t, address)
	must.Get(c.CreateTopic(t.Context(), "t", client.TopicSpec{Partitions: 3}))(t)
	callers, calls := 6, sebtest.Runs(12, 3)
	var wg sync.WaitGroup
	for g := range callers {
		wg.Go(func() {
			for i := range calls {
				var recs []record.Record
				for k := range 3 {
					r := record.Record{Value: fmt.Appendf(nil, "%d %d %d", g, i, k)}
					if g%2 == 0 {
						r.Key = fmt.Appendf(nil, "key %d", (g+k)%5)
					}
					recs = append(recs, r)
				}
				check.NoErrorf(t, check.Err(c.Produce(t.Context(), "t", recs, client.ProduceOptions{})), "caller %d, call %d", g, i)
			}
		})
	}
	wg.Wait()
	times := map[string]int{}
	for p := range int32(3) {
		last := map[string]int{} // newest call per caller and key
		for r, err := range c.Records(t.Context(), "t", client.ReadOptions{Partition: p}) {
			must.NoError(t, err)
			times[string(r.Value)]++
			var g, i, k int
			must.Get(fmt.Sscan(string(r.Value), &g, &i, &k))(t)
			who := fmt.Sprint(g, string(r.Key))
			if i < last[who] {
				t.Errorf("caller %d: call %d after %d", g, i, last[who])
			}
			last[who] = i
		}
	}
	check.Equalf(t, len(times), callers*calls*3, "records")
	for v, n := range times {
		if n != 1 {
			t.Errorf("%q is stored %d times", v, n)
		}
	}
}

func TestClientAndBrokerChooseTheSamePartition(t *testing.T) {
	address, stop := startBroker()
	t.Cleanup(stop)
	where := map[string]int32{}
	for _, plain := range []bool{false, true} {
		c := must.Get(client.New(address, client.Options{APIKey: testKey, NotIdempotent: plain}))(t)
		t.Cleanup(c.Close)
		topic := fmt.Sprint("t", plain)
		must.Get(c.CreateTopic(t.Context(), topic, client.TopicSpec{Partitions: 5}))(t)
		for i := range 40 {
			key := fmt.Sprint("key", i)
			produced := must.Get(c.Produce(t.Context(), topic, []record.Record{{Key: []byte(key), Value: []byte("v")}}, client.ProduceOptions{}))(t)
			if at, known := where[key]; known && at != produced[0].Partition {
				t.Errorf("%s: partitions %d and %d", key, at, produced[0].Partition)
			}
			where[key] = produced[0].Partition
		}
	}
}

func TestCallersOwnProducerIsKept(t *testing.T) {
	c := realBroker(t)
	b, _ := recordtest.Encode([]record.Record{{Value: []byte("v"), Timestamp: 1}}, record.EncodeOptions{Producer: &record.Producer{ID: 7}})
	for range 2 {
		produced, err := c.ProduceBatches(t.Context(), "t", b, client.ProduceOptions{})
		if err != nil || produced[0].First != 0 {
			t.Errorf("%v %v", produced, err)
		}
	}
}
