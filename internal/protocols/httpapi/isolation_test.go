package httpapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/brokertest"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// transactions makes partition 0 of topic t, whose last stable offset is 7:
//
//	0  1       2  3       4      5  6       7     8
//	a  x       b  y       abort  c  commit  open  d
//
// The first four are in one object. It returns the producer of the open transaction.
func (s *server) transactions(size int) *brokertest.Transactor {
	t := s.t
	rec := func(value string) record.Record { return record.Record{Value: []byte(s.long(value, size))} }
	x := brokertest.NewTransactor(t, s.b, "x")
	must.Get(s.b.CreateTopic(t.Context(), "t", broker.TopicSpec{Partitions: 1}))(t)
	for _, r := range s.b.Submit(t.Context(), []broker.Append{
		brokertest.Append("t", 0, rec("a")), x.Append("t", 0, rec("x")), brokertest.Append("t", 0, rec("b")), x.Append("t", 0, rec("y")),
	}).Wait(t.Context()) {
		must.NoError(t, r.Err)
	}
	x.End(t, false)
	x.Send(t, "t", 0, rec("c"))
	x.End(t, true)
	must.Equal(t, x.Send(t, "t", 0, rec("open")), 7)
	brokertest.Produce(t, s.b, "t", 0, rec("d"))
	return x
}

// long makes a value longer.
func (s *server) long(value string, size int) string { return value + strings.Repeat(".", size) }

// isolated is what an answer must have.
type isolated struct {
	query        string
	values       string
	resume, next int64
}

var isolatedReads = []isolated{
	{"offset=0", "a b c", 7, 7},
	{"offset=1", "b c", 7, 7},
	{"offset=4&timeout=0s", "c", 7, 7},
	{"offset=6&timeout=0s", "", 7, 7},
	{"offset=7&timeout=0s", "", 7, 7},
	{"offset=8&timeout=0s", "", 8, 7},
	{"offset=earliest&isolation=committed", "a b c", 7, 7},
	{"offset=latest&timeout=0s", "", 7, 7},
	{"offset=latest&timeout=0s&isolation=uncommitted", "", 9, 9},
	{"offset=0&isolation=uncommitted", "a x b y c open d", 9, 9},
	{"offset=4&isolation=uncommitted", "c open d", 9, 9},
	{"offset=7&isolation=uncommitted", "open d", 9, 9},
}

// TestIsolationInEveryFormat: an answer has the records of its isolation, and tells where the next read goes on.
func TestIsolationInEveryFormat(t *testing.T) {
	s := start(t)
	s.transactions(0)
	for _, c := range isolatedReads {
		for _, kind := range []string{api.JSON, api.NDJSON, api.Multipart, api.RecordBatch} {
			s.isolated(&c, kind, 0)
		}
	}
	for query, want := range map[string]string{
		"": "[5 2 0] 0", "offset=5": "[2 0] 0", "offset=9&max-records=1": "[5] 5", "isolation=uncommitted": "[8 7 5 3 2 1 0] 0",
	} {
		offsets, resume := s.backwards(query)
		check.Equalf(t, fmt.Sprint(offsets, resume), want, "newest first, %s", query)
	}
	for _, path := range []string{"/records?offset=0&", "/record?offset=0&", "/topic/offsets?time=latest&"} {
		if p := s.get(path + "topic-name=t&isolation=dirty").problem(t); p.Field != "isolation" || p.Status != http.StatusBadRequest {
			t.Errorf("%s: %+v", path, p)
		}
	}
}

// isolated checks one answer.
func (s *server) isolated(c *isolated, kind string, size int) {
	t := s.t.(*testing.T)
	a := s.get("/records?topic-name=t&"+c.query, kind)
	var got []string
	switch kind {
	case api.RecordBatch:
		from, _ := strconv.ParseInt(a.header.Get(api.HeaderBaseOffset), 10, 64)
		if offset, _, _ := strings.Cut(strings.TrimPrefix(c.query, "offset="), "&"); offset != "earliest" {
			from, _ = strconv.ParseInt(offset, 10, 64)
		}
		got = a.batchValues(t, from)
		for a.header.Get(api.HeaderResumeOffset) != fmt.Sprint(c.resume) && len(a.body) > 0 { // these answers have few bytes
			query := strings.ReplaceAll(c.query, "offset=", "x=") + "&timeout=0s&offset=" + a.header.Get(api.HeaderResumeOffset)
			a = s.get("/records?topic-name=t&"+query, kind)
			got = append(got, a.batchValues(t, 0)...)
		}
	case api.Multipart:
		if a.status != http.StatusPartialContent {
			got = a.unform(t)
		}
	default:
		lines := json.NewDecoder(strings.NewReader(strings.TrimSuffix(strings.NewReplacer("},\n", "}\n").Replace(strings.TrimPrefix(string(a.body), "[")), "]\n")))
		for lines.More() {
			var r api.Record
			must.NoErrorf(t, lines.Decode(&r), "%s", a)
			got = append(got, *r.Value)
		}
	}
	want := strings.Fields(c.values)
	for i := range want {
		want[i] = s.long(want[i], size)
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("%s as %s: %d records %.100v, want %s", c.query, kind, len(got), got, c.values)
	}
	check.Equalf(t, a.header.Get(api.HeaderResumeOffset), fmt.Sprint(c.resume), "%s as %s: where to go on", c.query, kind)
	check.Equalf(t, a.header.Get(api.HeaderNextOffset), fmt.Sprint(c.next), "%s as %s: end", c.query, kind)
}

// TestIsolationOfFiles: batches that are sent from a file are those that the isolation allows.
func TestIsolationOfFiles(t *testing.T) {
	const size = 20_000
	store := must.Get(objstore.OpenDisk(t.TempDir(), objstore.DiskOptions{NoSync: true}))(t)
	t.Cleanup(func() { store.Close() })
	disk := func(c *setup) { c.store = store }
	start(t, disk).transactions(size)
	s := start(t, disk) // without the records in memory
	for range 2 {       // the first read verifies them
		for _, c := range isolatedReads {
			s.isolated(&c, api.RecordBatch, size)
			s.isolated(&c, api.JSON, size)
		}
	}
}

// TestIsolationOfStreams: an event stream gets the records of a transaction when it is committed, and those behind it.
func TestIsolationOfStreams(t *testing.T) {
	s := start(t)
	x := s.transactions(0)
	for _, query := range []string{"topic-name=t&offset=0", "topic-name=t&partition=all&offset=earliest"} {
		ch := s.events(t.Context(), query+"&max-records=7&isolation=uncommitted", "")
		for _, want := range []string{"a", "x", "b", "y", "c", "open", "d"} {
			if e := next(t, ch); !strings.Contains(e.data, `"value":"`+want+`"`) {
				t.Errorf("%s: %+v, want %s", query, e, want)
			}
		}
	}
	single := s.events(t.Context(), "topic-name=t&offset=0&max-records=5", "")
	all := s.events(t.Context(), "topic-name=t&partition=all&offset=earliest&max-records=5", "")
	expect := func(values ...string) {
		t.Helper()
		for _, want := range values {
			for _, ch := range []<-chan event{single, all} {
				if e := next(t, ch); !strings.Contains(e.data, `"value":"`+want+`"`) {
					t.Errorf("%+v, want %s", e, want)
				}
			}
		}
	}
	expect("a", "b", "c")
	polled := make(chan *answered)
	go func() { polled <- s.get("/records?topic-name=t&offset=6&timeout=5m", api.RecordBatch) }()
	x.End(t, true)
	expect("open", "d")
	check.Equal(t, strings.Join((<-polled).batchValues(t, 6), " "), "open d")
}

// TestIsolationOfSingleRecords: errors say why an offset has no record.
func TestIsolationOfSingleRecords(t *testing.T) {
	s := start(t)
	s.transactions(0)
	for query, want := range map[string]string{
		"offset=2":                       "200 b",
		"offset=1":                       "aborted transaction",
		"offset=6":                       "aborted transaction, or its end",
		"offset=7":                       "last stable offset is 7",
		"offset=8":                       "last stable offset is 7",
		"offset=9":                       "last stable offset is 7",
		"offset=1&isolation=uncommitted": "200 x",
		"offset=4&isolation=uncommitted": "its end",
		"offset=8&isolation=uncommitted": "200 d",
		"offset=9&isolation=uncommitted": "next offset is 9",
	} {
		if a := s.get("/record?topic-name=t&" + query); !strings.Contains(a.String(), want) {
			t.Errorf("%s: %s, want %s", query, a, want)
		}
	}
}

// TestIsolationOfOffsets: a topic tells both ends, and lookups of offsets the end of their isolation.
func TestIsolationOfOffsets(t *testing.T) {
	s := start(t)
	s.transactions(0)
	var topic api.Topic
	s.must(200, s.get("/topic?topic-name=t"), &topic)
	check.Equal(t, topic.Partitions[0].LastStable, 7)
	check.Equal(t, topic.Partitions[0].Next, 9)
	for query, want := range map[string]int64{
		"time=latest": 7, "time=latest&isolation=uncommitted": 9, "time=0": 0, "time=2100-01-01T00:00:00Z": 7,
		"time=2100-01-01T00:00:00Z&isolation=uncommitted": 9,
	} {
		var out api.TopicOffsets
		s.must(200, s.get("/topic/offsets?topic-name=t&"+query), &out)
		check.Equalf(t, out.Partitions[0].Offset, want, "%s", query)
	}
}
