package httpapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/encoding"
	"github.com/sebbroker/seb/internal/protocols/httpapi/httpconn"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// source is a real broker in memory with a topic t of two partitions.
func source(t *testing.T, limit int64) (*Source, *broker.Broker) {
	t.Helper()
	b := must.Get(broker.Open(t.Context(), broker.Options{
		Options: log.Options{Store: objstore.NewMemory(), NoWait: true, Budget: budget.New(limit), Logger: slog.New(slog.DiscardHandler)},
	}))(t)
	must.Get(b.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 2}))(t)
	t.Cleanup(func() {
		check.Equalf(t, b.Budget().Class(budget.Fetch).Used(), 0, "bytes still in use")
		_ = b.Close(t.Context())
	})
	set := metrics.NewSet()
	return NewSource(b, readOptions{
		BudgetWait: time.Second, Drain: httpconn.NewDrainGroup(), Timeout: httpconn.ProgressTimeout(time.Second), Records: set.NewCounter("a"), Bytes: set.NewCounter("b"),
	}), b
}

func produce(t *testing.T, b *broker.Broker, partition int32, c record.Compression, values ...string) {
	t.Helper()
	var recs []record.Record
	for _, v := range values {
		recs = append(recs, record.Record{Timestamp: 1, Key: []byte("k"), Value: []byte(v)})
	}
	brokertest.Send(t, b, brokertest.AppendWith("t", int(partition), record.EncodeOptions{Compression: c}, recs...))
}

// collected returns the values of a page as "partition:offset=value", and the results of Collect.
func collected(t *testing.T, p *Records, ids []RecordID) (got []string, done int, gone []int) {
	t.Helper()
	defer p.Memory.Release()
	done, gone = must.Get2(p.Collect(t.Context(), ids))(t)
	must.NoError(t, p.Out.Finish(&p.Memory))
	w := httptest.NewRecorder()
	must.NoError(t, p.Send(w))
	var page api.KeyHistory
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Header().Get("Content-Length") != fmt.Sprint(w.Body.Len()) {
		t.Fatalf("%v: %s", err, w.Body)
	}
	for _, r := range page.Records {
		v := *r.Value
		if len(v) > 10 {
			v = fmt.Sprint(len(v), " bytes")
		}
		got = append(got, fmt.Sprintf("%d:%d=%s", r.Partition, r.Offset, v))
	}
	return got, done, gone
}

func TestRecordsInOrder(t *testing.T) {
	s, b := source(t, 64<<20)
	for i := range 10 {
		produce(t, b, 0, record.None, fmt.Sprint("a", i), strings.Repeat("x", 100_000))
		produce(t, b, 1, record.Gzip, fmt.Sprint("b", i), "c", strings.Repeat("y", 50))
	}
	must.Get(b.Trim(t.Context(), "t", 0, 5))(t)
	ids := []RecordID{{1, 28}, {0, 18}, {0, 4}, {1, 0}, {0, 5}, {0, 19}, {1, 29}, {1, 30}, {0, 20}, {0, 6}, {1, 3}, {1, 3}}
	p := s.RecordsOf("t", encoding.Page)
	p.Timeout = time.Minute
	got, done, gone := collected(t, p, ids)
	want := []string{"1:28=c", "0:18=a9", "1:0=b0", "0:5=100000 bytes", "0:19=100000 bytes", "1:29=50 bytes", "0:6=a3", "1:3=b1", "1:3=b1"}
	if !slices.Equal(got, want) || done != len(ids) || !slices.Equal(gone, []int{2, 7, 8}) {
		t.Errorf("got %v, %d, gone %v", got, done, gone)
	}
	for bytesMax, want := range map[int64]int{1: 1, 4: 1, 5: 3, 8: 4, 100_000: 4, 200_000: 5} {
		p := s.RecordsOf("t", encoding.Page)
		p.BytesMax, p.Timeout = bytesMax, time.Minute
		if got, done, _ := collected(t, p, ids); done != want {
			t.Errorf("%d bytes: %v, %d done, want %d", bytesMax, got, done, want)
		}
	}
	p = s.RecordsOf("t", encoding.Page) // without time: one fetch
	if _, done, _ := collected(t, p, ids); done != fetchedAtOnce {
		t.Errorf("without time: %d done", done)
	}
	p = s.RecordsOf("none", encoding.Page)
	if done, _, err := p.Collect(t.Context(), ids); done != 0 || !errors.Is(err, state.ErrUnknownTopic) {
		t.Errorf("unknown topic: %d, %v", done, err)
	}
	p.Memory.Release()
}

func TestRecordsWithoutMemory(t *testing.T) {
	s, b := source(t, 16<<20)
	var ids []RecordID
	for i := range 20 {
		produce(t, b, 0, record.None, strings.Repeat("x", 1_000_000))
		ids = append(ids, RecordID{0, int64(i)})
	}
	p := s.RecordsOf("t", encoding.Page)
	p.Timeout = time.Minute
	got, done, _ := collected(t, p, ids)
	if done == 0 || done == len(ids) || len(got) != done {
		t.Errorf("%d of %d done, %d records", done, len(ids), len(got))
	}
	all := must.Get(s.fetch.Reserve(s.fetch.Limit() - s.fetch.Used()))(t)
	p = s.RecordsOf("t", encoding.Page)
	if done, _, err := p.Collect(t.Context(), ids); done != 0 || !lacksMemory(err) {
		t.Errorf("without memory: %d, %v", done, err)
	}
	p.Memory.Release()
	all.Release()
}

// TestCompactedRecordIsGone: after compaction a batch covers an offset without having its record.
func TestCompactedRecordIsGone(t *testing.T) {
	s, _ := source(t, 64<<20)
	data, _ := recordtest.Encode([]record.Record{{Key: []byte("k"), Value: []byte("0")}, {Key: []byte("k"), Value: []byte("1")}, {Key: []byte("k"), Value: []byte("2")}}, record.EncodeOptions{})
	record.Patch(data, 0, 1)
	for name, keep := range map[string]int64{"the last": 2, "the first": 0, "none": -1} {
		var c record.Compactor
		left, _ := must.Get2(c.Append(nil, data, func(e *record.CompactEntry) bool { return e.Offset == keep }))(t)
		part := broker.FetchedPart{HighWatermark: 3, Chunks: []broker.Chunk{{Base: 0, End: 3, Size: int64(len(left)), Parts: [][]byte{left}}}}
		for offset := range int64(3) {
			p := s.RecordsOf("t", encoding.Page)
			err := p.one(&part, RecordID{0, offset})
			if offset == keep && (err != nil || p.count != 1 || !bytes.Contains(p.Out.Out.List[0], fmt.Appendf(nil, `"value":"%d"`, offset))) {
				t.Errorf("%s stays: offset %d: %v", name, offset, err)
			}
			if offset != keep && (!errors.Is(err, ErrGone) || p.count != 0) {
				t.Errorf("%s stays: offset %d is not gone: %v", name, offset, err)
			}
			p.Memory.Release()
		}
	}
}

func TestReadOneRecord(t *testing.T) {
	s, b := source(t, 64<<20)
	produce(t, b, 1, record.Zstd, "a", "b")
	produce(t, b, 1, record.None, "c")
	must.Get(b.Trim(t.Context(), "t", 1, 1))(t)
	for offset, want := range []string{"", "b", "c", ""} {
		g := s.New("t", 1)
		g.Offset = int64(offset)
		var v encoding.Values
		err := g.One(t.Context(), &v)
		if want == "" && !errors.Is(err, ErrGone) || want != "" && (err != nil || len(v.Refs) != 1 || string(v.Refs[0]) != want) {
			t.Errorf("offset %d: %q, %v", offset, v.Refs, err)
		}
		g.Done()
	}
}

// TestOneReadsOneBatch checks that a single record is read without the batches behind its own.
func TestOneReadsOneBatch(t *testing.T) {
	s, b := source(t, 64<<20)
	for _, v := range []string{"a", "b", "c"} {
		produce(t, b, 0, record.None, v)
	}
	for offset, want := range []string{"a", "b", "c"} {
		g := s.New("t", 0)
		g.Offset = int64(offset)
		var v encoding.Values
		must.NoError(t, g.One(t.Context(), &v))
		check.Equalf(t, string(v.Refs[0]), want, "value at %d", offset)
		var ends []int64
		for _, f := range g.fetched {
			for _, c := range f.Parts[0].Chunks {
				ends = append(ends, c.End)
			}
		}
		check.Equalf(t, fmt.Sprint(ends), fmt.Sprint([]int64{int64(offset) + 1}), "ends of what was read for %d", offset)
		g.Done()
	}
}
