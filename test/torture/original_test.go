package torture

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"mime"
	"mime/multipart"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/auth"
	"github.com/sebbroker/seb/internal/httpapi"
	"github.com/sebbroker/seb/internal/node"
	"github.com/sebbroker/seb/internal/objstore"
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
	n, err := node.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	h.Auth = auth.New(auth.Options{Broker: n.Broker, RootKey: originalKey})
	t.Cleanup(h.Auth.Close)
	api, err := httpapi.New(n.Broker, h)
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		shut := make(chan error, 1)
		go func() { shut <- s.http.Shutdown(ctx) }()
		if err := s.node.Close(ctx); err != nil {
			s.t.Logf("close: %v", err) // expected on a failing store and when fenced
		}
		if err := <-shut; err != nil {
			s.t.Errorf("shut down: %v", err)
		}
		<-s.done
	})
}

// all reads a topic from its start like a consumer.
func (c *original) all(t *testing.T, topic string, in reads) [][]byte {
	t.Helper()
	end, err := c.nextOffset(topic)
	if err != nil {
		t.Fatal(err)
	}
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

// stores are the kinds of buckets that need no server.
func stores(t *testing.T, test func(t *testing.T, bucket string)) {
	for _, kind := range []string{"memory", "disk"} {
		t.Run(kind, func(t *testing.T) {
			bucket := "mem:"
			if kind == "disk" {
				bucket = t.TempDir()
			}
			test(t, bucket)
		})
	}
}

func TestOriginalRoundTrip(t *testing.T) {
	stores(t, func(t *testing.T, bucket string) {
		s := serve(t, node.Options{Bucket: bucket, BatchWait: time.Millisecond}, httpapi.Options{})
		c := newOriginal(t, s.url)
		rnd := rand.New(rand.NewPCG(1, 2))
		var want [][]byte
		for i := range sebtest.Runs(60, 20) {
			batch := make([][]byte, 1+rnd.IntN(40))
			for j := range batch {
				n := [...]int{0, 1, rnd.IntN(1 << 10), rnd.IntN(64 << 10)}[rnd.IntN(4)]
				batch[j] = bytes.Repeat([]byte{byte(i), byte(j), '\r', '\n', '-'}, n/5+1)[:n]
			}
			// This client cannot read an answer of only empty records, so the last of a batch is
			// not empty.
			batch = append(batch, []byte{byte(i)})
			if err := c.add("t", batch...); err != nil {
				t.Fatal(err)
			}
			want = append(want, batch...)
		}
		for _, in := range []reads{{max: 100, buffer: 1 << 20}, {max: 100000, buffer: 8 << 20}, {max: 37, buffer: 64 << 10}} {
			if got := c.all(t, "t", in); !slices.EqualFunc(got, want, bytes.Equal) {
				t.Errorf("%+v: %d records, want %d, or others", in, len(got), len(want))
			}
		}
		for _, i := range []int{0, 1, len(want) / 2, len(want) - 1} {
			if got, err := c.record("t", uint64(i)); err != nil || !bytes.Equal(got, want[i]) {
				t.Errorf("record %d: %d bytes, %v", i, len(got), err)
			}
		}
		big := bytes.Repeat([]byte("0123456789abcde\n"), sebtest.Runs(29, 3)<<16) // MiB, sent separately
		if err := c.add("big", big); err != nil {
			t.Fatal(err)
		}
		if got, err := c.record("big", 0); err != nil || !bytes.Equal(got, big) {
			t.Errorf("%d bytes: %d bytes, %v", len(big), len(got), err)
		}
		if got, err := c.records("big", 0, reads{max: 10, buffer: 30 << 20}); err != nil || len(got) != 1 || !bytes.Equal(got[0], big) {
			t.Errorf("%d bytes: %d records, %v", len(big), len(got), err)
		}
	})
}

func TestOriginalErrors(t *testing.T) {
	s := serve(t, node.Options{Bucket: "mem:", BatchWait: node.BatchNone}, httpapi.Options{})
	c := newOriginal(t, s.url)
	if err := c.add("t", []byte("a")); err != nil {
		t.Fatal(err)
	}
	size := uint32(31 << 20)
	for name, err := range map[string]error{
		"too large":            c.addSized("t", []uint32{size}, make([]byte, size)),
		"sum of sizes too big": c.addSized("t", []uint32{4294967295, 2}, []byte("a")),
	} {
		if !errors.Is(err, errTooLarge) {
			t.Errorf("%s: %v", name, err)
		}
	}
	_, unknown := c.record("none", 0)
	_, beyond := c.record("t", 1)
	_, unknowns := c.records("none", 0, reads{max: 1, buffer: 10})
	_, unknownTopic := c.nextOffset("none")
	// The original's broker returns the next record.
	_, ahead := c.records("t", 7, reads{max: 1, buffer: 10, timeout: time.Minute})
	for i, err := range []error{unknown, beyond, unknowns, unknownTopic, ahead} {
		if !errors.Is(err, errNotFound) {
			t.Errorf("%d: %v", i, err)
		}
	}
	if got, err := c.records("t", 1, reads{max: 1, buffer: 10, timeout: time.Millisecond}); err != nil || len(got) != 0 {
		t.Errorf("after its timeout: %q, %v", got, err)
	}
	c.authorization = originalKey // without "Bearer"
	if got, err := c.record("t", 0); err != nil || string(got) != "a" {
		t.Errorf("%q %v", got, err)
	}
	c.authorization = "Bearer wrong"
	_, topic := c.nextOffset("t")
	_, record := c.record("t", 0)
	_, records := c.records("t", 0, reads{max: 1, buffer: 1})
	for i, err := range []error{c.add("t", []byte("b")), topic, record, records} {
		if !errors.Is(err, errAuth) {
			t.Errorf("%d: %v", i, err)
		}
	}
}

// TestOriginalReaderFollows: a consumer at the end of the log polls while others write, and gets
// every record once, each writer's in order.
func TestOriginalReaderFollows(t *testing.T) {
	const writers, each = 4, 50
	s := serve(t, node.Options{Bucket: t.TempDir(), BatchWait: time.Millisecond}, httpapi.Options{})
	w, r := newOriginal(t, s.url), newOriginal(t, s.url)
	if err := w.add("t", []byte("first")); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	defer wg.Wait()
	for i := range writers {
		wg.Go(func() {
			for j := range each {
				if err := w.add("t", fmt.Appendf(nil, "%d", i), fmt.Appendf(nil, "%d", j)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	next := [writers]int{}
	got := [][]byte{}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for len(got) < 2*writers*each && ctx.Err() == nil {
		some, err := r.records("t", uint64(1+len(got)), reads{max: 7, buffer: 1 << 10, timeout: 20 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, some...)
	}
	for i := 0; i+1 < len(got); i += 2 {
		writer, _ := strconv.Atoi(string(got[i]))
		if want := strconv.Itoa(next[writer]); string(got[i+1]) != want {
			t.Fatalf("record %d of writer %d: %s, want %s", i, writer, got[i+1], want)
		}
		next[writer]++
	}
	if len(got) != 2*writers*each {
		t.Errorf("%d records", len(got))
	}
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
	store := storetest.NewFaulty(objstore.NewMemory(), 7, storetest.Faults{})
	s := serve(t, node.Options{Store: store, BatchWait: node.BatchNone},
		httpapi.Options{AckTimeout: 30 * time.Millisecond, BudgetWait: 30 * time.Millisecond})
	c := newOriginal(t, s.url)
	if err := c.add("t", []byte("first")); err != nil {
		t.Fatal(err)
	}
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
			if err := next.node.DeleteTopic(t.Context(), "t"); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// TestOriginalWithMoreWritersThanConnections: queued connections wait, and success is only reported
// for stored records.
func TestOriginalWithMoreWritersThanConnections(t *testing.T) {
	const writers, connections, n = 64, 8, 1500
	s := serve(t, node.Options{Bucket: "mem:", BatchWait: time.Millisecond}, httpapi.Options{Connections: connections})
	c := newOriginal(t, s.url)
	var w outcomes
	w.write(c, writers, func() bool { return w.count()+int(w.failed.Load()) >= n })()
	c.client.CloseIdleConnections()
	if w.count() == 0 {
		t.Error("nothing was stored")
	}
	w.check(t, newOriginal(t, s.url))
}

// TestOriginalDetectsRefusals: requests that the original's broker accepts and this one refuses
// must not look like success.
func TestOriginalDetectsRefusals(t *testing.T) {
	s := serve(t, node.Options{Bucket: "mem:", BatchWait: node.BatchNone}, httpapi.Options{OriginalClient: true})
	c := newOriginal(t, s.url)
	if err := c.add("t", []byte("a")); err != nil {
		t.Fatal(err)
	}
	for _, topic := range []string{"a/b", "a b", "..", "x:y", "æøå", ""} {
		if c.add(topic, []byte("a")) == nil {
			t.Errorf("topic %q: reported as stored", topic)
		}
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
		if c.addSized("t", sizes, []byte("ab")) == nil {
			t.Errorf("sizes %s the records: reported as stored", name)
		}
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

// TestOriginalLargestRequests: 30 MiB is the original's limit, for one record or many together.
func TestOriginalLargestRequests(t *testing.T) {
	const largest = 30 << 20
	stores(t, func(t *testing.T, bucket string) {
		s := serve(t, node.Options{Bucket: bucket, BatchWait: node.BatchNone}, httpapi.Options{})
		c := newOriginal(t, s.url)
		for topic, n := range map[string]int{"one": 1, "many": 30 << 10} {
			values := make([][]byte, n)
			for i := range values {
				values[i] = bytes.Repeat([]byte{byte(i)}, largest/n)
			}
			if err := c.add(topic, values...); err != nil {
				t.Errorf("%s: %v", topic, err)
				continue
			}
			if got, err := c.record(topic, uint64(n-1)); err != nil || !bytes.Equal(got, values[n-1]) {
				t.Errorf("%s: %d bytes, %v", topic, len(got), err)
			}
			if got, err := c.records(topic, 0, reads{max: 10, buffer: largest}); err != nil || len(got) != min(n, 10) {
				t.Errorf("%s: %d records, %v", topic, len(got), err)
			}
			values[0] = append(values[0], 'x')
			if err := c.add(topic, values...); !errors.Is(err, errTooLarge) {
				t.Errorf("%s, and a byte: %v", topic, err)
			}
		}
	})
}
