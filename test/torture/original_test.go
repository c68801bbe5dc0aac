package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/storetest"
)

// The original's Go client takes every status except 401, 404 and 413 for success, and ignores the
// body of an answer to a produce. These tests use such a client. Whatever happens to the broker,
// records that the client takes for stored must be stored, and records that it reads must be
// records.

var (
	errAuth     = errors.New("not authorized")
	errNotFound = errors.New("not found")
	errTooLarge = errors.New("payload too large")
)

const originalKey = "api-key"

// original behaves like the original's client.
type original struct {
	base, authorization string
	client              *http.Client
}

func newOriginal(t *testing.T, base string) *original {
	c := &original{base: base, authorization: "Bearer " + originalKey, client: &http.Client{
		Transport: &http.Transport{MaxIdleConnsPerHost: 10, IdleConnTimeout: time.Second},
	}}
	t.Cleanup(c.client.CloseIdleConnections)
	return c
}

// do sends a request and maps the status of its answer. Without an error the caller closes the
// answer's body.
func (c *original) do(method, path string, query url.Values, body io.Reader, header ...string) (*http.Response, error) {
	req, err := http.NewRequest(method, c.base+path+"?"+query.Encode(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Authorization", c.authorization)
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return nil, err
	}
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		err = errAuth
	case http.StatusNotFound:
		err = errNotFound
	case http.StatusRequestEntityTooLarge:
		err = errTooLarge
	default:
		return resp, nil
	}
	return nil, errors.Join(err, resp.Body.Close())
}

func (c *original) add(topic string, values ...[]byte) error {
	sizes := make([]uint32, len(values))
	for i, v := range values {
		sizes[i] = uint32(len(v))
	}
	return c.addSized(topic, sizes, bytes.Join(values, nil))
}

func (c *original) addSized(topic string, sizes []uint32, data []byte) error {
	var body bytes.Buffer
	w := multipart.NewWriter(&body)
	text, err := json.Marshal(sizes)
	if err != nil {
		return err
	}
	for _, part := range []struct {
		name string
		data []byte
	}{{"sizes", text}, {"records", data}} {
		pw, err := w.CreateFormField(part.name)
		if err != nil {
			return err
		}
		if _, err := pw.Write(part.data); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	resp, err := c.do("POST", "/records", url.Values{"topic-name": {topic}}, &body, "Content-Type", w.FormDataContentType())
	if err != nil {
		return err
	}
	_, _ = io.Copy(io.Discard, resp.Body) // it ignores these errors too
	return resp.Body.Close()
}

func (c *original) record(topic string, offset uint64) ([]byte, error) {
	resp, err := c.do("GET", "/record", url.Values{"topic-name": {topic}, "offset": {strconv.FormatUint(offset, 10)}}, nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	return io.ReadAll(resp.Body)
}

func (c *original) nextOffset(topic string) (uint64, error) {
	resp, err := c.do("GET", "/topic", url.Values{"topic-name": {topic}}, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var out struct {
		NextOffset     uint64    `json:"next_offset"`
		LatestCommitAt time.Time `json:"latest_commit_at"`
	}
	err = json.NewDecoder(resp.Body).Decode(&out)
	return out.NextOffset, err
}

// reads are the parameters of a read. buffer bounds the bytes; both parts of the answer use it.
type reads struct {
	max     int
	buffer  int
	timeout time.Duration
}

func (c *original) records(topic string, offset uint64, in reads) ([][]byte, error) {
	query := url.Values{
		"topic-name": {topic}, "offset": {strconv.FormatUint(offset, 10)},
		"max-records": {strconv.Itoa(in.max)}, "max-bytes": {strconv.Itoa(in.buffer)},
	}
	if in.timeout != 0 {
		query.Set("timeout", in.timeout.String())
	}
	resp, err := c.do("GET", "/records", query, nil, "Accept", "multipart/form-data")
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	kind, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return nil, fmt.Errorf("status %d, media type %q: %w", resp.StatusCode, kind, err)
	}
	r := multipart.NewReader(resp.Body, params["boundary"])
	text, err := nextPart(r, "sizes", in.buffer)
	if errors.Is(err, io.EOF) && resp.StatusCode == http.StatusPartialContent {
		return nil, nil
	}
	var sizes []uint32
	if err == nil {
		err = json.Unmarshal(text, &sizes)
	}
	if err != nil {
		return nil, fmt.Errorf("sizes: %w", err)
	}
	data, err := nextPart(r, "records", in.buffer)
	if err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	var values [][]byte
	for _, n := range sizes {
		if int(n) > len(data) {
			return nil, errors.New("sizes exceed the records")
		}
		values, data = append(values, data[:n:n]), data[n:]
	}
	if len(data) > 0 {
		return nil, errors.New("records exceed the sizes")
	}
	return values, nil
}

// nextPart reads a part that must have the name, must not be empty and must fit into the buffer.
func nextPart(r *multipart.Reader, name string, buffer int) ([]byte, error) {
	part, err := r.NextPart()
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(part, int64(buffer)+1))
	switch {
	case err != nil:
		return nil, err
	case part.FormName() != name:
		return nil, fmt.Errorf("part %q", part.FormName())
	case len(data) == 0:
		return nil, errors.New("empty part")
	case len(data) > buffer:
		return nil, errTooLarge
	}
	return data, nil
}

// served is a broker with the HTTP API on its own port.
type served struct {
	t    *testing.T
	node *node.Node
	http *http.Server
	done chan struct{} // closed when the server has ended
	url  string
	once sync.Once
}

func serve(t *testing.T, o node.Options, h httpapi.Options) *served {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	n := must.Get(node.Open(ctx, o))(t)
	h.Auth = auth.New(auth.Options{Broker: n.Broker, RootKey: originalKey})
	t.Cleanup(h.Auth.Close)
	api := must.Get(httpapi.New(n.Broker, h))(t)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	s := &served{t: t, node: n, http: api.Server(), done: make(chan struct{}), url: "http://" + l.Addr().String()}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(l) // ends by stop
	}()
	t.Cleanup(s.stop)
	return s
}

// stop stops the server like a broker: no new requests, running ones are answered, then the broker
// closes.
func (s *served) stop() {
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), sebtest.Limit)
		defer cancel()
		shut := make(chan error, 1)
		go func() { shut <- s.http.Shutdown(ctx) }()
		if err := s.node.Close(ctx); err != nil {
			s.t.Logf("close: %v", err) // expected on a failing store and when fenced
		}
		check.NoErrorf(s.t, <-shut, "shut down")
		<-s.done
	})
}

// all reads a topic from its start like a consumer.
func (c *original) all(t *testing.T, topic string, in reads) [][]byte {
	t.Helper()
	end := must.Get(c.nextOffset(topic))(t)
	var values [][]byte
	for uint64(len(values)) < end {
		some, err := c.records(topic, uint64(len(values)), in)
		if err != nil || len(some) == 0 || len(some) > in.max {
			t.Fatalf("from %d of %d: %d records, %v", len(values), end, len(some), err)
		}
		values = append(values, some...)
	}
	if uint64(len(values)) != end {
		t.Fatalf("%d records, next offset %d", len(values), end)
	}
	return values
}

// outcomes are the records that were reported as stored to a writer.
type outcomes struct {
	mu     sync.Mutex // guards stored
	stored []string
	failed atomic.Int64
}

// write adds numbered records until enough returns true.
func (w *outcomes) write(c *original, workers int, enough func() bool) (wait func()) {
	var wg sync.WaitGroup
	for i := range workers {
		wg.Go(func() {
			for j := 0; !enough(); j++ {
				value := fmt.Sprintf("%d of %d", j, i)
				if c.add("t", []byte(value)) != nil {
					w.failed.Add(1)
					continue
				}
				w.mu.Lock()
				w.stored = append(w.stored, value)
				w.mu.Unlock()
			}
		})
	}
	return wg.Wait
}

func (w *outcomes) count() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.stored)
}

// check reads everything and looks for missing acknowledged records and for duplicates, because
// this client never retries.
func (w *outcomes) check(t *testing.T, c *original) {
	t.Helper()
	seen := map[string]int{}
	for _, v := range c.all(t, "t", reads{max: 1000, buffer: 1 << 20}) {
		seen[string(v)]++
	}
	for _, v := range w.stored {
		if seen[v] == 0 {
			t.Errorf("%s was reported as stored but is missing", v)
		}
	}
	for v, n := range seen {
		if n > 1 {
			t.Errorf("%s: stored %d times", v, n)
		}
	}
	t.Logf("%d reported as stored, %d failed, %d stored", len(w.stored), w.failed.Load(), len(seen))
}

// TestOriginalOnFailingStore: on a store that fails, throttles and loses answers, requests are
// rejected or have an unknown outcome. Success is only reported for stored records.
func TestOriginalOnFailingStore(t *testing.T) {
	t.Parallel()
	store := storetest.NewFaulty(objstore.NewMemory(), 7, storetest.Faults{})
	s := serve(t, node.Options{Store: store, BatchWait: node.BatchNone},
		httpapi.Options{AckTimeout: 30 * time.Millisecond, BudgetWait: 30 * time.Millisecond})
	c := newOriginal(t, s.url)
	tries := 0
	sebtest.Eventually(t, "the first record", func() bool { // on a busy machine 30 ms are short
		tries++
		return c.add("t", fmt.Appendf(nil, "first %d", tries)) == nil
	})
	var w outcomes
	deadline := time.Now().Add(time.Minute)
	enough := func() bool { return w.failed.Load() >= 100 && w.count() >= 300 || time.Now().After(deadline) }
	wait := w.write(c, 8, enough)
	// Bad and good periods alternate. Each lasts until writers have noticed it.
	for !enough() {
		store.SetFaults(storetest.Faults{Put: storetest.Rates{storetest.Before: 0.5, storetest.Lost: 0.3, storetest.Throttle: 0.15}})
		for failed := w.failed.Load(); w.failed.Load() < failed+20 && !enough(); {
			time.Sleep(time.Millisecond)
		}
		store.SetFaults(storetest.Faults{})
		for stored := w.count(); w.count() < stored+60 && !enough(); {
			time.Sleep(time.Millisecond)
		}
	}
	wait()
	store.SetFaults(storetest.Faults{})
	if w.failed.Load() == 0 || w.count() == 0 {
		t.Fatalf("%d stored, %d failed: want both", w.count(), w.failed.Load())
	}
	w.check(t, c)
}

// TestOriginalAtStopAndTakeover: brokers replace each other on a bucket, one stopped, one fenced.
// Writers continue with the old one until it has ended.
func TestOriginalAtStopAndTakeover(t *testing.T) {
	t.Parallel()
	store := objstore.NewMemory()
	for _, how := range []string{"stop", "takeover"} {
		t.Run(how, func(t *testing.T) {
			s := serve(t, node.Options{Store: store, BatchWait: time.Millisecond}, httpapi.Options{})
			c := newOriginal(t, s.url)
			var w outcomes
			deadline := time.Now().Add(time.Minute)
			wait := w.write(c, 4, func() bool { return w.failed.Load() >= 20 || time.Now().After(deadline) })
			for w.count() < 50 && time.Now().Before(deadline) {
				time.Sleep(time.Millisecond)
			}
			if how == "stop" {
				s.stop()
			}
			next := serve(t, node.Options{Store: store, BatchWait: time.Millisecond}, httpapi.Options{})
			wait()
			if w.failed.Load() < 20 {
				t.Errorf("the first broker still accepts writes: %d failed", w.failed.Load())
			}
			w.check(t, newOriginal(t, next.url))
			// The next round uses a new topic.
			must.NoError(t, next.node.DeleteTopic(t.Context(), "t"))
		})
	}
}

// TestOriginalDetectsRefusals: requests that the original's broker accepts and this one refuses
// must not look like success.
func TestOriginalDetectsRefusals(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Options{Bucket: "mem:", BatchWait: node.BatchNone}, httpapi.Options{OriginalClient: true})
	c := newOriginal(t, s.url)
	must.NoError(t, c.add("t", []byte("a")))
	for _, topic := range []string{"a/b", "a b", "..", "x:y", "æøå", ""} {
		check.Error(t, c.add(topic, []byte("a")), "topic %q: reported as stored", topic)
		if got, err := c.record(topic, 0); err == nil {
			t.Errorf("topic %q: read %q as a record", topic, got)
		}
		if got, err := c.records(topic, 0, reads{max: 1, buffer: 100}); err == nil {
			t.Errorf("topic %q: read %q as records", topic, got)
		}
		if next, err := c.nextOffset(topic); err == nil {
			t.Errorf("topic %q: next offset %d", topic, next)
		}
	}
	for name, sizes := range map[string][]uint32{"above": {3}, "below": {1}, "none": {}} {
		check.Error(t, c.addSized("t", sizes, []byte("ab")), "sizes %s the records: reported as stored", name)
	}
	for _, offset := range []uint64{1, math.MaxInt64, 1 << 63, math.MaxUint64} {
		if got, err := c.record("t", offset); !errors.Is(err, errNotFound) {
			t.Errorf("offset %d: %q %v", offset, got, err)
		}
		if got, err := c.records("t", offset, reads{max: 1, buffer: 10, timeout: time.Millisecond}); err != nil || len(got) > 0 {
			t.Errorf("offset %d: %q %v", offset, got, err)
		}
	}
	if next, err := c.nextOffset("t"); err != nil || next != 1 {
		t.Errorf("next offset %d, %v", next, err)
	}
}
