package pressure

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"mime/multipart"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// The sizes of the bodies.
const (
	bodyMin = 1 << 10
	bodyMax = 1 << 20
)

// value returns a unique record of n bytes of text that is determined by its first field.
func value(id string, n int) string {
	text := id + " " + strconv.Itoa(n) + " "
	return (text + strings.Repeat(id+".", n/(len(id)+1)+1))[:n]
}

// intact reports whether a record is a result of value, and its id.
func intact(text string) (id string, ok bool) {
	id, rest, _ := strings.Cut(text, " ")
	size, _, _ := strings.Cut(rest, " ")
	n, err := strconv.Atoi(size)
	return id, err == nil && n == len(text) && text == value(id, n)
}

// encoding is a way to send records.
type encoding struct {
	name     string
	original bool // of the original's client, which waits and does not know refusals
	make     func(values ...string) (body []byte, kind string)
}

var encodings = []encoding{
	{"multipart", false, multipartBody},
	{"json", false, jsonBody},
	{"batch", false, batchBody(record.None)},
	{"gzip batch", false, batchBody(record.Gzip)},
	{"original", true, multipartBody},
}

func multipartBody(values ...string) (body []byte, kind string) {
	var buf bytes.Buffer
	w := multipart.NewWriter(&buf)
	sizes := make([]int, len(values))
	for i, v := range values {
		sizes[i] = len(v)
	}
	text, _ := json.Marshal(sizes)
	part, _ := w.CreateFormField("sizes") // writing to a Buffer does not fail
	_, _ = part.Write(text)
	part, _ = w.CreateFormField("records")
	_, _ = io.WriteString(part, strings.Join(values, ""))
	_ = w.Close()
	return buf.Bytes(), w.FormDataContentType()
}

func jsonBody(values ...string) (body []byte, kind string) {
	list := make([]map[string]string, len(values))
	for i, v := range values {
		list[i] = map[string]string{"value": v}
	}
	text, _ := json.Marshal(list)
	return text, api.JSON
}

func batchBody(codec record.Compression) func(values ...string) (body []byte, kind string) {
	return func(values ...string) ([]byte, string) {
		data, _ := recordtest.Encode(recordtest.Values(values...), record.EncodeOptions{Compression: codec})
		return data, api.RecordBatch
	}
}

// The outcomes of a request.
const (
	acked   = "acknowledged"
	refused = "refused with Retry-After"
	slow    = "body too slow" // the machine was too busy for the client
	queued  = "never served"  // no answer when the test ended: the connection was queued
	cut     = "cut"           // closed without an answer, only for the original's client
	unknown = "outcome unknown"
	wrong   = "invalid answer"
)

// finishingMax is how long the broker waits for the rest of a body that it has refused, while others
// are queued.
const finishingMax = 250 * time.Millisecond

// load is the result of all clients.
type load struct {
	mu     sync.Mutex // guards the fields below
	ends   map[string]int
	acked  map[string]bool // ids
	sent   map[string]bool // ids of records that may be stored
	took   []time.Duration // times to an acknowledgement
	faults []string
}

func (l *load) end(kind, id, detail string, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ends[kind]++
	switch kind {
	case acked:
		l.acked[id] = true
		l.took = append(l.took, took)
	case wrong:
		l.faults = append(l.faults, id+": "+detail)
	}
}

// push runs n clients that send one request after another, each on a separate connection, until the
// context ends. Requests in progress may then take until timeout.
func push(ctx context.Context, b *broker, n int, timeout time.Duration) *load {
	l := &load{ends: map[string]int{}, acked: map[string]bool{}, sent: map[string]bool{}}
	var wg sync.WaitGroup
	last, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	context.AfterFunc(ctx, func() { time.AfterFunc(timeout, cancel) })
	for i := range n {
		wg.Go(func() {
			c := &http.Client{Transport: &http.Transport{}}
			defer c.CloseIdleConnections()
			r := rand.New(rand.NewPCG(uint64(i), 1))
			f := encodings[i%len(encodings)]
			for j := 0; ctx.Err() == nil; j++ {
				id := fmt.Sprintf("c%d-%d", i, j)
				size := bodyMin << r.IntN(11) // 1 KiB, 2 KiB, ... 1 MiB, including framing
				body, kind := f.make(value(id, size-size/16))
				l.one(last, b, c, &f, id, body, kind)
			}
		})
	}
	wg.Wait()
	return l
}

// one sends a request and records its outcome.
func (l *load) one(ctx context.Context, b *broker, c *http.Client, f *encoding, id string, body []byte, kind string) {
	r := request{method: http.MethodPost, kind: kind, accept: api.JSON + ", " + api.ProblemJSON, body: body, client: c}
	if f.original {
		r.accept = noAccept
	}
	l.mu.Lock()
	l.sent[id] = true
	l.mu.Unlock()
	begin := time.Now()
	resp, answer, err := b.ask(ctx, b.url+"/records?topic-name=load", r)
	if errors.Is(err, context.Canceled) {
		l.end(queued, id, "", 0)
		return
	}
	if err != nil {
		closed := errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET)
		switch {
		case closed && time.Since(begin) > finishingMax:
			l.end(slow, id, "", 0) // refused, and closed because the rest of the body did not arrive
		case f.original: // it takes a refusal for success
			l.end(cut, id, err.Error(), 0)
		default:
			l.end(wrong, id, err.Error(), 0)
		}
		pause(ctx, time.Second)
		return
	}
	switch resp.StatusCode {
	case http.StatusCreated:
		l.end(acked, id, "", time.Since(begin))
		return
	case http.StatusGatewayTimeout:
		l.end(unknown, id, "", 0)
		return
	case http.StatusRequestTimeout:
		l.end(slow, id, "", 0)
		pause(ctx, time.Second)
		return
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		wait, err := strconv.Atoi(resp.Header.Get("Retry-After"))
		if err == nil && !f.original {
			l.end(refused, id, "", 0)
			pause(ctx, time.Duration(wait)*time.Second)
			return
		}
	}
	l.end(wrong, id, fmt.Sprintf("%s as %s: %d %.300s", f.name, kind, resp.StatusCode, answer), 0)
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// check reads everything back and compares it.
func (l *load) check(t *testing.T, b *broker) {
	t.Helper()
	found := map[string]int{}
	for offset := int64(0); ; {
		list := b.read("load", offset)
		if len(list) == 0 {
			break
		}
		for _, r := range list {
			if r.Offset != offset {
				t.Fatalf("offset %d after %d", r.Offset, offset-1)
			}
			offset++
			id, ok := intact(string(r.Value))
			if !ok || !l.sent[id] {
				t.Errorf("offset %d: %.60q was never sent", r.Offset, r.Value)
			}
			if found[id]++; found[id] > 1 {
				t.Errorf("%s is stored twice", id)
			}
		}
	}
	for id := range l.acked {
		if found[id] == 0 {
			t.Errorf("%s was acknowledged but is missing", id)
		}
	}
	t.Logf("%d records read back, %d of them acknowledged", len(found), len(l.acked))
}

// read returns records from offset on, none at the end.
func (b *broker) read(topic string, offset int64) (list []record.Record) {
	b.t.Helper()
	url := fmt.Sprintf("%s/records?topic-name=%s&offset=%d&max-records=1000000&max-bytes=4000000&timeout=0s", b.url, topic, offset)
	resp, body, err := b.ask(b.t.Context(), url, request{accept: api.RecordBatch, client: http.DefaultClient})
	if err != nil || resp.StatusCode > http.StatusPartialContent {
		b.t.Fatalf("read: %v %.300s %v\n%s", resp, body, err, b.Log())
	}
	var r record.Reader
	r.Reset(body, offset)
	for r.Next() {
		if rec := *r.Record(); rec.Offset >= offset {
			rec.Value = bytes.Clone(rec.Value)
			list = append(list, rec)
		}
	}
	must.NoError(b.t, r.Err())
	return list
}

// String formats the numbers.
func (l *load) String() string {
	var s strings.Builder
	for _, kind := range []string{acked, refused, slow, queued, cut, unknown, wrong} {
		fmt.Fprintf(&s, "%s %d, ", kind, l.ends[kind])
	}
	if slices.Sort(l.took); len(l.took) > 0 {
		fmt.Fprintf(&s, "an acknowledgement took %s (median), %s (99 %%), %s (maximum)",
			l.took[len(l.took)/2].Round(time.Millisecond), l.took[len(l.took)*99/100].Round(time.Millisecond), l.took[len(l.took)-1].Round(time.Millisecond))
	}
	return s.String()
}

// produce sends a record on a separate connection and requires an acknowledgement.
func (b *broker) produce(topic string, i int) {
	b.t.Helper()
	if status, answer := b.post(topic, i); status != http.StatusCreated {
		b.t.Fatalf("produce: %d %.300s\n%s", status, answer, b.Log())
	}
}

// produceEventually retries like a correct client.
func (b *broker) produceEventually(i int) {
	b.t.Helper()
	for until := time.Now().Add(time.Minute); ; {
		status, answer := b.post("good", i)
		if status == http.StatusCreated {
			return
		}
		if status != http.StatusTooManyRequests || time.Now().After(until) {
			b.t.Fatalf("produce: %d %.300s\n%s", status, answer, b.Log())
		}
		pause(b.t.Context(), time.Second) // as Retry-After asks
	}
}

func (b *broker) post(topic string, i int) (status int, answer []byte) {
	b.t.Helper()
	resp, answer, err := b.ask(b.t.Context(), b.url+"/records?topic-name="+topic, request{
		method: http.MethodPost, kind: api.TextPlain, accept: api.JSON, body: []byte(value(fmt.Sprintf("p%d", i), 100)),
	})
	if err != nil {
		b.t.Fatalf("produce: %v\n%s", err, b.Log())
	}
	return resp.StatusCode, answer
}
