package httpapi

import (
	"bytes"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/must"
)

// TestLargestRecordOfAFile: the memory for answers holds the largest record once, without a second
// copy.
func TestLargestRecordOfAFile(t *testing.T) {
	store := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
	mem := budget.New(32 << 20)
	open := func() *broker.Broker {
		br := must.Get(broker.Open(t.Context(), broker.Options{Options: log.Options{Store: store, NoWait: true, Budget: mem, Logger: slog.New(slog.DiscardHandler)}}))(t)
		return br
	}
	br := open()
	must.Get(br.CreateTopic(t.Context(), "t", broker.TopicSpec{}))(t)
	value := bytes.Repeat([]byte("0123456789abcdef"), int(mem.RequestMax()-64<<10)/16)
	brokertest.Produce(t, br, "t", 0, record.Record{Timestamp: 1, Value: value})
	must.NoError(t, br.Close(t.Context()))
	br = open() // nothing is in memory
	defer br.Close(t.Context())
	set := metrics.NewSet()
	s := NewSource(br, readOptions{
		BudgetWait: time.Second, Drain: httpconn.NewDrainGroup(), Timeout: httpconn.ProgressTimeout(time.Minute), Records: set.NewCounter("a"), Bytes: set.NewCounter("b"),
	})
	for _, from := range []string{"memory, verified", "the file"} {
		w := httptest.NewRecorder()
		r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, "/records", nil))(t)
		g := s.New("t", 0)
		g.MaxRecords, g.Timeout = 10, time.Second
		if err := g.Multipart(w, r); err != nil || g.Count != 1 {
			t.Errorf("from %s: %d records, %v", from, g.Count, err)
		}
		g.Done()
		if !bytes.Contains(w.Body.Bytes(), value) {
			t.Errorf("from %s: another value", from)
		}
	}
}
