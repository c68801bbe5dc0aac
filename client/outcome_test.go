package client_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// faulty is a scripted server that breaks the rules of a broker. Each function answers one request,
// the last one all that follow.
func faulty(t *testing.T, script ...http.HandlerFunc) (*client.Client, *atomic.Int64) {
	t.Helper()
	return faultyFor(t, client.Options{RetryTime: 10 * time.Second}, script...)
}

func faultyFor(t *testing.T, o client.Options, script ...http.HandlerFunc) (*client.Client, *atomic.Int64) {
	t.Helper()
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		i := int(n.Add(1)) - 1
		script[min(i, len(script)-1)](w, r)
	}))
	t.Cleanup(srv.Close)
	c := must.Get(client.New(srv.URL, o))(t)
	t.Cleanup(c.Close)
	return c, &n
}

func answer(status int, header, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		for h := range strings.SplitSeq(header, "\n") {
			if k, v, ok := strings.Cut(h, ": "); ok {
				w.Header().Set(k, v)
			}
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

func problem(status int, code, header string) http.HandlerFunc {
	return answer(status, "Content-Type: application/problem+json\n"+header, fmt.Sprintf(`{"status":%d,"code":%q,"detail":"why"}`, status, code))
}

// cut closes the connection after it has read the given number of bytes of the body (-1: all) and
// written text.
func cut(read int64, text string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if read < 0 {
			_, _ = io.Copy(io.Discard, r.Body)
		} else {
			_, _ = io.CopyN(io.Discard, r.Body, read)
		}
		c, _, err := w.(http.Hijacker).Hijack()
		if err != nil {
			panic(err)
		}
		_, _ = io.WriteString(c, text)
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
}

var stored = answer(201, "Content-Type: application/json", `{"topic":"t","partition":0,"first_offset":7,"count":1}`)

func TestOutcomeOfAProduceThatIsNotIdempotent(t *testing.T) {
	const rejected, unknown, acked = "rejected", "unknown", "acked"
	small, large := []byte("v"), make([]byte, 16<<20) // more than the buffers of a connection
	for name, tc := range map[string]struct {
		value    []byte
		script   []http.HandlerFunc
		want     string
		is       error
		requests int64
	}{
		"stored":              {small, []http.HandlerFunc{stored}, acked, nil, 1},
		"refused permanently": {small, []http.HandlerFunc{problem(404, "unknown_topic", "")}, rejected, client.ErrUnknownTopic, 1},
		"wrong key":           {small, []http.HandlerFunc{problem(401, "unauthorized", "")}, rejected, client.ErrUnauthorized, 1},
		"too large, sent before the body is read": {small, []http.HandlerFunc{problem(413, "too_large", "")}, rejected, client.ErrTooLarge, 1},
		"over budget, then stored":                {small, []http.HandlerFunc{problem(429, "over_budget", "Retry-After: 0"), stored}, acked, nil, 2},
		"store unavailable, then stored":          {small, []http.HandlerFunc{problem(503, "store_unavailable", "Retry-After: 0"), stored}, acked, nil, 2},
		"fenced: no retry":                        {small, []http.HandlerFunc{problem(503, "fenced", "")}, rejected, client.ErrFenced, 1},
		"read-only":                               {small, []http.HandlerFunc{problem(405, "read_only", "")}, rejected, client.ErrReadOnly, 1},
		"no verdict":                              {small, []http.HandlerFunc{problem(504, "outcome_unknown", ""), stored}, unknown, nil, 1},
		"corrupt data has no outcome":             {small, []http.HandlerFunc{problem(500, "corrupt_data", ""), stored}, unknown, client.ErrCorrupt, 1},
		"503 of a proxy":                          {small, []http.HandlerFunc{answer(503, "Retry-After: 0", "busy"), stored}, unknown, nil, 1},
		"502 of a proxy":                          {small, []http.HandlerFunc{answer(502, "", "bad gateway"), stored}, unknown, nil, 1},
		"redirect":                                {small, []http.HandlerFunc{answer(302, "Location: /elsewhere", "")}, rejected, nil, 1},
		"cut after the whole request":             {small, []http.HandlerFunc{cut(-1, ""), stored}, unknown, nil, 1},
		"cut within the request, then stored":     {large, []http.HandlerFunc{cut(1000, ""), stored}, acked, nil, 2},
		"answer cut after its status":             {small, []http.HandlerFunc{cut(-1, "HTTP/1.1 201 Created\r\nContent-Length: 99\r\n\r\n{"), stored}, unknown, nil, 1},
		"200 of a proxy":                          {small, []http.HandlerFunc{answer(200, "Content-Type: application/json", "{}"), stored}, unknown, nil, 1},
		"other records are acknowledged":          {small, []http.HandlerFunc{answer(201, "", `{"partition":0,"first_offset":7,"count":2}`), stored}, unknown, nil, 1},
		"different outcomes per partition":        {small, []http.HandlerFunc{answer(503, "Retry-After: 0\nContent-Type: application/problem+json", `{"code":"store_unavailable","results":[{"partition":0,"first_offset":3,"count":1}]}`), stored}, rejected, nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			c, n := faultyFor(t, client.Options{RetryTime: 10 * time.Second, NotIdempotent: true}, tc.script...)
			produced, err := c.ProduceValues(t.Context(), "t", [][]byte{tc.value}, client.ProduceOptions{})
			got := acked
			switch {
			case errors.Is(err, client.ErrRejected):
				got = rejected
			case errors.Is(err, client.ErrOutcomeUnknown):
				got = unknown
			case err != nil:
				got = err.Error()
			case len(produced) != 1 || produced[0].First != 7 || produced[0].Count != 1:
				t.Errorf("produced %v", produced)
			}
			if got != tc.want {
				t.Errorf("%s, want %s (%v)", got, tc.want, err)
			}
			if tc.is != nil && !errors.Is(err, tc.is) {
				t.Errorf("errors.Is(%v, %v) = false", err, tc.is)
			}
			check.Equalf(t, n.Load(), tc.requests, "requests")
		})
	}
}

// TestSuccessStatusOfAProxy: a 2xx status without a valid body is not an acknowledgement.
func TestSuccessStatusOfAProxy(t *testing.T) {
	c, _ := faultyFor(t, client.Options{RetryTime: -1}, answer(200, "Content-Type: application/json", `{"partitions":[{},{}]}`))
	partitioned, _ := faultyFor(t, client.Options{RetryTime: -1}, answer(200, "Content-Type: application/json", `{"name":"t","partitions":[{},{}]}`))
	keyed := []record.Record{{Key: []byte("a")}, {Key: []byte("b")}, {Key: []byte("c")}}
	for name, err := range map[string]error{
		"records by key": check.Err(partitioned.Produce(t.Context(), "t", keyed, client.ProduceOptions{})),
		"offsets":        c.CommitOffsets(t.Context(), "g", client.OffsetCommit{Topic: "t"}),
		"a deletion":     c.DeleteTopic(t.Context(), "t"),
		"a new topic":    check.Err(c.CreateTopic(t.Context(), "t", client.TopicSpec{})),
		"a new queue":    check.Err(c.CreateQueue(t.Context(), "q", client.QueueSpec{})),
		"a trigger":      check.Err(c.PutTrigger(t.Context(), "t", client.TriggerSpec{Expr: "a"})),
		"messages":       check.Err(c.SendMessages(t.Context(), "q", client.OutgoingMessage{Dedup: "1"})),
		"a lease":        check.Err(c.Lease(t.Context(), "q", client.LeaseRequest{})),
		"settlements":    check.Err(c.Settle(t.Context(), "q", client.Settlement{Do: "done"})),
	} {
		check.ErrorIsf(t, err, client.ErrOutcomeUnknown, "%s", name)
	}
	for name, err := range map[string]error{"a topic": check.Err(c.Topic(t.Context(), "t")), "records": check.Err(c.Fetch(t.Context(), "t", client.FetchOptions{}))} {
		check.Error(t, err, "%s read from a proxy", name)
	}
}

func TestNothingListens(t *testing.T) {
	address, err := testenv.FreeAddress()
	must.NoError(t, err)
	c := must.Get(client.New("http://"+address, client.Options{RetryTime: -1}))(t)
	_, err = c.ProduceValues(t.Context(), "t", [][]byte{[]byte("v")}, client.ProduceOptions{})
	if !errors.Is(err, client.ErrRejected) || !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("got %v", err)
	}
}

func TestCallerStopsWaiting(t *testing.T) {
	got := make(chan struct{})
	c, n := faulty(t, func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		close(got)
		<-r.Context().Done()
	})
	ctx, cancel := context.WithCancel(t.Context())
	go func() { <-got; cancel() }()
	value := []byte("value")
	_, err := c.ProduceValues(ctx, "t", [][]byte{value}, client.ProduceOptions{})
	if !errors.Is(err, client.ErrOutcomeUnknown) || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	check.Equalf(t, n.Load(), 1, "requests")

	_, err = c.ProduceValues(ctx, "t", [][]byte{value}, client.ProduceOptions{})
	check.ErrorIsf(t, err, client.ErrRejected, "before sending")
}

// The transport may read a body after its request has failed; the race detector finds access after
// the call.
func TestBatchesAreTheCallersAfterwards(t *testing.T) {
	c, _ := faulty(t, cut(1000, ""))
	for range 20 {
		b := make([]byte, 1<<20)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		_, _ = c.ProduceBatches(ctx, "t", b, client.ProduceOptions{})
		cancel()
		for i := range b {
			b[i] = 1
		}
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	c, _ := faulty(t, problem(404, "unknown_topic", ""))
	_, err := c.Topic(t.Context(), "t")
	if err == nil || err.Error() != "unknown topic: why" {
		t.Errorf("got %v", err)
	}
	if errors.Is(err, client.ErrRejected) || errors.Is(err, client.ErrOutcomeUnknown) {
		t.Error("a read has no outcome")
	}
}

func TestNewRefusesInvalidAddresses(t *testing.T) {
	for _, u := range []string{"", "localhost:1", "ftp://h", "http://", "http://h?x=1", "http://h\n"} {
		check.Error(t, check.Err(client.New(u, client.Options{})), "%q taken", u)
	}
}

// TestIncompleteReadsAreRepeated: an incomplete answer is requested again, an answer that no
// broker sends is not.
func TestIncompleteReadsAreRepeated(t *testing.T) {
	topic := answer(200, "Content-Type: application/json", `{"name":"t","partitions":[]}`)
	early := "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 99\r\n\r\n{\"name\":"
	for name, c := range map[string]struct {
		first    http.HandlerFunc
		good     bool
		requests int64
	}{
		"within the body":                      {cut(-1, early), true, 2},
		"before the body":                      {cut(-1, strings.TrimSuffix(early, `{"name":`)), true, 2},
		"complete answer with incomplete JSON": {answer(200, "", `{"name":`), true, 2},
		"no JSON":                              {answer(200, "", "<html>"), false, 1},
		"other JSON":                           {answer(200, "", `{"partitions":7}`), false, 1},
		"JSON of another kind":                 {answer(200, "", `{"partitions":[{}]}`), false, 1},
	} {
		api, n := faulty(t, c.first, topic)
		if got, err := api.Topic(t.Context(), "t"); (err == nil) != c.good || n.Load() != c.requests {
			t.Errorf("%s: %+v, %v after %d requests", name, got, err, n.Load())
		}
	}
}

// TestPausesOfRefusedRequests: pauses grow, but not beyond the one that a broker asks for.
func TestPausesOfRefusedRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, d := range client.Pauses(t.Context(), 20, time.Second) {
			if d < time.Second || d > 1250*time.Millisecond {
				t.Errorf("a pause of %v, asked for 1s", d)
			}
		}
		all := client.Pauses(t.Context(), 20, 0)
		if all[0] > 100*time.Millisecond || all[19] < 2*time.Second || all[19] > 5*time.Second {
			t.Errorf("pauses %v", all)
		}
	})
}
