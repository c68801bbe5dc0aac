package client_test

import (
	"errors"
	"io"
	"math"
	"net/http"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
	"github.com/sebbroker/seb/test/sebtest"
)

// wire sends the same answer to every request.
type wire struct {
	status int
	header http.Header
	body   []byte
	cuts   uint64
}

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body != nil {
		_, _ = io.Copy(io.Discard, r.Body)
		_ = r.Body.Close()
	}
	return &http.Response{
		StatusCode: w.status, Header: w.header, ContentLength: -1, Request: r, Body: sebtest.Cut(w.body, w.cuts),
	}, nil
}

func wired(f *testing.F, w *wire, o client.Options) *client.Client {
	o.RetryTime, o.HTTPClient = -1, &http.Client{Transport: w}
	c := must.Get(client.New("http://127.0.0.1:1", o))(f)
	f.Cleanup(c.Close)
	return c
}

// FuzzAnswer: reading any answer ends without a panic and returns records in order.
func FuzzAnswer(f *testing.F) {
	for _, end := range []int{1, 3, 7} {
		var b []byte
		for at := 0; at < end; at += 3 {
			one, _ := recordtest.Encode([]record.Record{{Value: []byte("v"), Timestamp: 1}}, record.EncodeOptions{Compression: record.Compression(end % 5)})
			record.Patch(one, int64(at/3), 1)
			b = append(b, one...)
		}
		f.Add(b, int64(0), uint64(end))
	}
	w := wire{status: http.StatusOK, header: http.Header{"Content-Type": {api.RecordBatch}}}
	c := wired(f, &w, client.Options{})
	f.Fuzz(func(t *testing.T, body []byte, from int64, cuts uint64) {
		w.body, w.cuts = body, cuts
		answer := must.Get(c.Fetch(t.Context(), "t", client.FetchOptions{Offset: from}))(t)
		defer answer.Close()
		last := from - 1
		if from == math.MinInt64 {
			last = from
		}
		for r, err := range answer.All() {
			if err != nil {
				break
			}
			if r.Offset <= last {
				t.Fatalf("offset %d after %d", r.Offset, last)
			}
			last = r.Offset
		}
	})
}

// FuzzProduceAnswer: any answer to a produce results in an acknowledgement of exactly these
// records, or in an error with the right outcome.
func FuzzProduceAnswer(f *testing.F) {
	for _, s := range []string{
		`{"topic":"t","partition":0,"first_offset":7,"count":3}`, `{"topic":"t","count":3,"results":[{"partition":1,"first_offset":0,"count":1},{"partition":2,"first_offset":5,"count":2}]}`,
		`{}`, `null`, `[]`, `{"partition":0,"first_offset":-1,"count":3}`, `{"results":[{"partition":0,"count":3,"code":"fenced"}]}`, `<html>`,
		`{"code":"offset_mismatch","next_offset":5}`, `{"code":"outcome_unknown","results":[{"partition":0}]}`,
	} {
		for _, status := range []uint16{1, 0, 209, 303} {
			f.Add(status, "application/problem+json", "1", []byte(s), uint64(3))
		}
	}
	w := wire{}
	plain, idempotent := wired(f, &w, client.Options{NotIdempotent: true}), wired(f, &w, client.Options{})
	keyed := []record.Record{{Value: []byte("a"), Timestamp: 1}, {Key: []byte("k"), Timestamp: 1}, {Key: []byte("l"), Timestamp: 1}}
	// an idempotent client with keys would first request the partitions
	values := []record.Record{{Timestamp: 1}, {Timestamp: 1}, {Timestamp: 1}}
	f.Fuzz(func(t *testing.T, status uint16, kind, retry string, body []byte, cuts uint64) {
		w.status, w.body, w.cuts = 200+int(status%400), body, cuts
		w.header = http.Header{"Content-Type": {kind}, "Retry-After": {retry}}
		for _, c := range []*client.Client{plain, idempotent} {
			records := values
			if c == plain {
				records = keyed
			}
			produced, err := c.Produce(t.Context(), "t", records, client.ProduceOptions{})
			var e *client.Error
			if err != nil {
				if produced != nil || !errors.As(err, &e) || errors.Is(err, client.ErrRejected) == errors.Is(err, client.ErrOutcomeUnknown) || e.RetryAfter < 0 {
					t.Fatalf("%d %q: %v, %v", w.status, body, produced, err)
				}
				if w.status/100 == 2 && errors.Is(err, client.ErrRejected) {
					t.Fatalf("answer %d %q: rejected with %v", w.status, body, err)
				}
				continue
			}
			sum := int64(0)
			for _, p := range produced {
				if sum += p.Count; p.First < 0 || p.Code != "" || p.Count < 1 {
					t.Fatalf("%d %q: produced at %+v", w.status, body, produced)
				}
			}
			if sum != int64(len(records)) || w.status/100 != 2 {
				t.Fatalf("%d %q acknowledges %+v", w.status, body, produced)
			}
		}
	})
}
