package httpapi

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
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
	store := must.Get(objstore.OpenDisk(b.TempDir(), objstore.DiskOptions{NoSync: true}))(b)
	recs := make([]record.Record, 2048)
	for i := range recs {
		recs[i] = record.Record{Timestamp: 1, Value: bytes.Repeat([]byte("v"), size)}
	}
	br, s := filled(b, store, recs, stored/len(recs), record.None)
	defer br.Close(b.Context())
	w := &sink{header: http.Header{}}
	r := must.Get(http.NewRequestWithContext(b.Context(), http.MethodGet, "/records", nil))(b)
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

// filled appends recs several times to a topic t, and returns the broker with nothing in memory.
func filled(b *testing.B, store objstore.Store, recs []record.Record, times int, codec record.Compression) (*broker.Broker, *Source) {
	br := opened(b, store)
	must.Get(br.CreateTopic(b.Context(), "t", broker.TopicSpec{}))(b)
	for range times {
		brokertest.Send(b, br, brokertest.AppendWith("t", 0, record.EncodeOptions{Compression: codec}, recs...))
	}
	must.NoError(b, br.Close(b.Context()))
	br = opened(b, store)
	set := metrics.NewSet()
	return br, NewSource(br, readOptions{
		BudgetWait: time.Second, Drain: httpconn.NewDrainGroup(), Timeout: httpconn.ProgressTimeout(time.Second), Records: set.NewCounter("a"), Bytes: set.NewCounter("b"),
	})
}

// BenchmarkScan looks at events of 300 bytes in files, of which none matches.
func BenchmarkScan(b *testing.B) {
	for _, codec := range []record.Compression{record.None, record.Zstd} {
		for name, text := range map[string]string{"where": `amount > 100 AND plan = "free"`, "contains": ""} {
			b.Run(fmt.Sprintf("%s/%s", codec, name), func(b *testing.B) {
				benchmarkScan(b, codec, text)
			})
		}
	}
}

func benchmarkScan(b *testing.B, codec record.Compression, where string) {
	const times = 100
	recs := make([]record.Record, 2000)
	for i := range recs {
		head := fmt.Sprintf(`{"event":"page_view","entity_id":"user-%07d","data":{"url":"https://example.com/%07d","amount":%d,"plan":"pro","agent":"`, i*7919%100_000, i, i%100)
		value := append([]byte(head), bytes.Repeat([]byte("x"), 300-len(head)-3)...)
		recs[i] = record.Record{Timestamp: 1, Key: fmt.Appendf(nil, "user-%07d", i), Value: append(value, `"}}`...)}
	}
	store, err := objstore.OpenDisk(b.TempDir(), objstore.DiskOptions{NoSync: true})
	must.NoError(b, err)
	br, s := filled(b, store, recs, times, codec)
	defer br.Close(b.Context())
	wanted := &scan{contains: []byte("nothing")}
	if where != "" {
		wanted.contains = nil
		if wanted.where, err = driplang.ParseFilter(where); err != nil {
			b.Fatal(err)
		}
	}
	wanted.stop, wanted.until = math.MaxInt64, time.Now().Add(time.Hour)
	b.ReportAllocs()
	for b.Loop() {
		g := s.New("t", 0)
		g.scan, g.MaxRecords = wanted, 10
		if err := g.Collect(b.Context(), &encoding.Text{Form: encoding.Array}); err != nil || g.Count != 0 || g.Offset != int64(times*len(recs)) {
			b.Fatal(g.Count, g.Offset, err)
		}
		g.Done()
	}
	b.ReportMetric(float64(b.N*times*len(recs))/b.Elapsed().Seconds(), "records/s")
}

func opened(b *testing.B, store objstore.Store) *broker.Broker {
	br, err := broker.Open(b.Context(), broker.Options{Options: log.Options{Store: store, NoWait: true, Budget: budget.New(256 << 20), Logger: slog.New(slog.DiscardHandler)}})
	must.NoError(b, err)
	return br
}
