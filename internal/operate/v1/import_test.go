package v1_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/operate/v1"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// realBroker is a broker on a bucket in memory. A wrapper may change its answers.
func realBroker(t *testing.T, wrap ...func(http.Handler) http.Handler) *client.Client {
	t.Helper()
	b, err := broker.Open(t.Context(), broker.Options{Options: log.Options{Store: objstore.NewMemory(), NoWait: true, Logger: slog.New(slog.DiscardHandler)}, AutoCreate: true})
	must.NoError(t, err)
	t.Cleanup(func() { b.Close(context.Background()) })
	authority := auth.New(auth.Options{Broker: b, RootKey: "key"})
	t.Cleanup(authority.Close)
	a := must.Get(httpapi.New(b, httpapi.Options{Auth: authority}))(t)
	handler := a.Server().Handler
	for _, w := range wrap {
		handler = w(handler)
	}
	s := httptest.NewServer(handler)
	t.Cleanup(s.Close)
	c := must.Get(client.New(s.URL, client.Options{APIKey: "key", RetryTime: -1}))(t)
	t.Cleanup(c.Close)
	return c
}

// files are the files of a version-1 topic.
type files struct {
	t      *testing.T
	store  objstore.Store
	topic  string
	next   int64
	values []string
}

func (f *files) add(values ...string) {
	f.t.Helper()
	b := v1.Batch{TimeMicros: 1_700_000_000_000_000 + f.next*1_001_001, Gzipped: true}
	for _, v := range values {
		b.Values = append(b.Values, []byte(v))
	}
	must.NoError(f.t, v1.Write(f.t.Context(), f.store, v1.Name(f.topic, f.next), b))
	f.next += int64(len(values))
	f.values = append(f.values, values...)
}

// lose removes a file with two records, or damages it.
func (f *files) lose(damage []byte) {
	f.t.Helper()
	if damage != nil {
		put(f.t, f.store, v1.Name(f.topic, f.next), damage)
	}
	f.next += 2
}

func holds(t *testing.T, c *client.Client, topic string, want []string) {
	t.Helper()
	var got []string
	for r, err := range c.Records(t.Context(), topic, client.ReadOptions{}) {
		must.NoError(t, err)
		got = append(got, string(r.Value))
	}
	check.Equalf(t, strings.Join(got, "|"), strings.Join(want, "|"), "%s: records %q, want %q", topic, got, want)
}

func TestImportOfDamage(t *testing.T) {
	c, store := realBroker(t), objstore.NewMemory()
	whole := &files{t: t, store: store, topic: "whole"}
	whole.add("d", "e")
	obj := must.Get(store.Get(t.Context(), v1.Name("whole", 0), objstore.Whole))(t)
	o := must.Get(io.ReadAll(obj.Body))(t)
	flipped := bytes.Clone(o)
	flipped[len(o)-6] ^= 1
	for name, damage := range map[string][]byte{"cut": o[:len(o)-3], "flipped": flipped, "empty": {}, "gap": nil} {
		t.Run(name, func(t *testing.T) {
			f := &files{t: t, store: store, topic: name}
			f.add("a", "b")
			f.lose(damage)
			f.add("f")
			text := "000000000002.record_batch, records from offset 2 on"
			if damage == nil {
				text = "the records at offsets 2 to 3 are in no file"
			}
			opt := v1.ImportOptions{Store: store, From: name, Client: c, Topic: name}
			for range 2 {
				if _, err := v1.Import(t.Context(), opt); !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), text) {
					t.Fatalf("import: %v, want %q", err, text)
				}
				holds(t, c, name, []string{"a", "b"})
			}
			opt.SkipDamaged = true
			for run, sent := range []int64{1, 0} {
				if done, err := v1.Import(t.Context(), opt); err != nil || done.Skipped != 1 || done.Records != sent || done.Next != 3 {
					t.Errorf("run %d with skipping: %+v %v", run, done, err)
				}
			}
			holds(t, c, name, f.values)
		})
	}
	t.Run("a file at the end that only the offsets name", func(t *testing.T) {
		(&files{t: t, store: store, topic: "tail"}).add("a")
		put(t, store, "tail/offsets_000000000000.offsets", offsetsFile(0, 1))
		_, err := v1.Import(t.Context(), v1.ImportOptions{Store: store, From: "tail", Client: c, Topic: "tail"})
		if !errors.Is(err, record.ErrCorrupt) || !strings.Contains(err.Error(), "000000000001.record_batch is missing") {
			t.Error(err)
		}
	})
}

// TestImportAfterAKilledOne: the topic is created after the import has looked for it, by a request
// of an import that was killed.
func TestImportAfterAKilledOne(t *testing.T) {
	c := realBroker(t, func(h http.Handler) http.Handler {
		created := false
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPut && !created {
				created = true
				body, err := io.ReadAll(r.Body)
				check.NoError(t, err)
				killed := r.Clone(r.Context())
				killed.Body, r.Body = io.NopCloser(bytes.NewReader(body)), io.NopCloser(bytes.NewReader(body))
				h.ServeHTTP(httptest.NewRecorder(), killed)
			}
			h.ServeHTTP(w, r)
		})
	})
	f := &files{t: t, store: objstore.NewMemory(), topic: "t"}
	f.add("a", "b")
	must.Get(v1.Import(t.Context(), v1.ImportOptions{Store: f.store, From: "t", Client: c, Topic: "t"}))(t)
	holds(t, c, "t", []string{"a", "b"})
}

func TestImportRefuses(t *testing.T) {
	c, store := realBroker(t), objstore.NewMemory()
	(&files{t: t, store: store, topic: "t"}).add("a", "b", "c")
	put(t, store, "above/below/000000000000.record_batch", nil)
	produce := func(topic string, values ...[]byte) {
		must.Get(c.ProduceValues(t.Context(), topic, values, client.ProduceOptions{}))(t)
	}
	refused := func(from, to, want string) {
		t.Helper()
		_, err := v1.Import(t.Context(), v1.ImportOptions{Store: store, From: from, Client: c, Topic: to})
		check.ErrorContainsf(t, err, want, "import of %s to %s", from, to)
	}
	produce("taken", []byte("a"), []byte("b"))
	must.Get(c.CreateTopic(t.Context(), "wide", client.TopicSpec{Partitions: 2}))(t)
	refused("t", "taken", "is not empty")
	refused("t", "wide", "2 partitions")
	refused("above", "above", "only 1 in folders below")
	refused("none", "none", "no files of topic none")
	// A topic that ends after the files has other records.
	must.Get(v1.Import(t.Context(), v1.ImportOptions{Store: store, From: "t", Client: c, Topic: "t"}))(t)
	produce("t", []byte("mine"))
	refused("t", "t", "it has other records")
}
