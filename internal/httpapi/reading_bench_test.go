package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/httpapi/httpconn"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// sink accepts any answer and counts its writes.
type sink struct {
	header http.Header
	writes int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(int)             {}
func (s *sink) Write(b []byte) (int, error) { s.writes++; return len(b), nil }

// BenchmarkMultipart reads 1,024 records from files, starting within a batch, without a connection.
func BenchmarkMultipart(b *testing.B) {
	for _, size := range []int{1 << 10, 16} {
		b.Run(fmt.Sprint(size), func(b *testing.B) { benchmarkMultipart(b, size) })
	}
}

func benchmarkMultipart(b *testing.B, size int) {
	const stored, read = 16 << 10, 1024
	store, err := objstore.OpenDisk(b.TempDir(), objstore.DiskOptions{NoSync: true})
	if err != nil {
		b.Fatal(err)
	}
	recs := make([]record.Record, 2048)
	for i := range recs {
		recs[i] = record.Record{Timestamp: 1, Value: bytes.Repeat([]byte("v"), size)}
	}
	br := opened(b, store)
	if _, err := br.CreateTopic(b.Context(), "t", broker.TopicSpec{}); err != nil {
		b.Fatal(err)
	}
	for range stored / len(recs) {
		data, sum, err := record.Append(nil, recs, record.EncodeOptions{})
		if err != nil {
			b.Fatal(err)
		}
		r := br.Submit(b.Context(), []broker.Append{{Topic: "t", Data: data, Summary: sum, ExpectedOffset: -1}}).Wait(b.Context())[0]
		if r.Err != nil {
			b.Fatal(r.Err)
		}
	}
	if err := br.Close(b.Context()); err != nil {
		b.Fatal(err)
	}
	br = opened(b, store) // with nothing in memory
	defer br.Close(b.Context())
	set := metrics.NewSet()
	s := NewSource(br, readOptions{
		BudgetWait: time.Second, Drain: httpconn.NewDrainGroup(), Timeout: httpconn.ProgressTimeout(time.Second), Records: set.NewCounter("a"), Bytes: set.NewCounter("b"),
	})
	w := &sink{header: http.Header{}}
	r, err := http.NewRequestWithContext(b.Context(), http.MethodGet, "/records", nil)
	if err != nil {
		b.Fatal(err)
	}
	b.SetBytes(int64(read * size))
	b.ReportAllocs()
	for n := int64(0); b.Loop(); n++ {
		g := s.New("t", 0)
		g.Offset, g.MaxRecords, g.Timeout = 1+n*997%(stored-read), read, time.Second
		if err := g.Multipart(w, r); err != nil || g.Count != read {
			b.Fatal(g.Count, err)
		}
		g.Done()
	}
	b.ReportMetric(float64(w.writes)/float64(b.N), "writes/op")
}

func opened(b *testing.B, store objstore.Store) *broker.Broker {
	br, err := broker.Open(b.Context(), broker.Options{Store: store, NoWait: true, Budget: budget.New(256 << 20), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	return br
}
