package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestRecordsWithAFilter(t *testing.T) {
	c := realBroker(t)
	records := everyKind()
	for i := range 100 {
		records = append(records, record.Record{Timestamp: 6, Value: fmt.Appendf(nil, `{"event":"e","entity_id":"u","data":{"n":%d}}`, i%10)})
	}
	must.Get(c.Produce(t.Context(), "t", records, client.ProduceOptions{}))(t)
	read := func(o client.ReadOptions) (got []record.Record, err error) {
		for r, err := range c.Records(t.Context(), "t", o) {
			if err != nil {
				return got, err
			}
			got = append(got, *r)
		}
		return got, nil
	}
	var last client.ScanProgress
	got, err := read(client.ReadOptions{Offset: client.Earliest, Where: `n = 7 AND event = "e"`, Progress: func(p client.ScanProgress) { last = p }})
	if err != nil || len(got) != 10 || got[3].Offset != 42 {
		t.Errorf("%d records, %v", len(got), err)
	}
	if last.Records != 105 || *last.Offset != 105 || *last.NextOffset != 105 || last.Bytes < 4000 {
		t.Errorf("%+v", last)
	}
	for part, want := range map[string][]record.Record{"\xff": records[2:3], "tombst": records[3:4], "tex": records[:1]} {
		for i := range want {
			want[i].Offset = map[string]int64{"\xff": 2, "tombst": 3}[part]
		}
		if got, err := read(client.ReadOptions{Contains: []byte(part)}); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, %v, want %v", part, got, err, want)
		}
	}
	large := fmt.Sprintf(`{"n":-1,"text":"%s"}`, strings.Repeat("é", 500_000))
	must.Get(c.Produce(t.Context(), "large", []record.Record{{Key: []byte("k"), Value: []byte(large), Timestamp: 1}}, client.ProduceOptions{}))(t)
	for r, err := range c.Records(t.Context(), "large", client.ReadOptions{Where: "n < 0"}) {
		if err != nil || string(r.Key) != "k" || string(r.Value) != large {
			t.Errorf("a large value: %v, %d bytes", err, len(r.Value))
		}
	}
	_, err = read(client.ReadOptions{Where: "n ="})
	if e, ok := errors.AsType[*client.Error](err); !ok || !errors.Is(err, client.ErrBadRequest) || !strings.Contains(err.Error(), "1:4: expected a number") {
		t.Errorf("%v %+v", err, e)
	}

	// A reader that follows gets the match of a later record.
	var produced sync.WaitGroup
	defer produced.Wait()
	produced.Go(func() {
		for _, value := range []string{`{"n":70}`, `{"n":71}`} {
			if _, err := c.Produce(t.Context(), "t", []record.Record{{Value: []byte(value)}}, client.ProduceOptions{}); err != nil {
				t.Error(err)
			}
		}
	})
	for r, err := range c.Records(t.Context(), "t", client.ReadOptions{Offset: 105, Follow: true, Where: "n = 71"}) {
		if err != nil || r.Offset != 106 {
			t.Errorf("%+v, %v", r, err)
		}
		break
	}
}

// lines answers a read with a filter: the records [offset, to) of which every third matches. If
// short > 0 it cuts the answer.
func lines(t *testing.T, to, end, short int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		offset, err := strconv.Atoi(q.Get("offset"))
		if err != nil || q.Get("where") != "a = 1" || q.Get("contains") != "b\xff" {
			t.Errorf("%v: %v", q, err)
		}
		var body strings.Builder
		for i := offset; i < to; i++ {
			if i%3 == 0 {
				fmt.Fprintf(&body, `{"offset":%d,"timestamp":1,"key":null,"value":"v%d"}`+"\n", i, i)
			}
		}
		h := w.Header()
		h.Set("Content-Length", strconv.Itoa(body.Len()))
		h.Set("Seb-Next-Offset", strconv.Itoa(end))
		h.Set("Seb-Resume-Offset", strconv.Itoa(to))
		h.Set("Seb-Scanned-Records", strconv.Itoa(to-offset))
		h.Set("Seb-Scanned-Bytes", strconv.Itoa(10*(to-offset)))
		_, _ = w.Write([]byte(body.String()[:body.Len()-short]))
	}
}

// TestFilterContinues: a read with a filter has each match once, over answers without a match and
// over answers that break.
func TestFilterContinues(t *testing.T) {
	c, n := faulty(t, lines(t, 1, 12, 0), lines(t, 3, 12, 0), lines(t, 8, 13, 5), cut(-1, ""), lines(t, 11, 20, 0), lines(t, 12, 20, 0))
	var progress []string
	got, err := collect(t, c, client.ReadOptions{Where: "a = 1", Contains: []byte("b\xff"), Progress: func(p client.ScanProgress) {
		progress = append(progress, fmt.Sprint(p.Records, p.Bytes, *p.Offset, *p.NextOffset))
	}})
	if err != nil || got != "0 3 6 9" {
		t.Errorf("got %q, %v", got, err)
	}
	check.Equalf(t, n.Load(), 6, "requests")
	if want := "[1 10 1 12 3 30 3 12 10 100 11 20 11 110 12 20]"; fmt.Sprint(progress) != want {
		t.Errorf("progress %v, want %s", progress, want)
	}
}

func TestBrokerThatIgnoresFilters(t *testing.T) {
	c, _ := faulty(t, answer(200, "Seb-Next-Offset: 1\nSeb-Resume-Offset: 1", `{"offset":0,"timestamp":1,"key":null,"value":"v0"}`))
	if got, err := collect(t, c, client.ReadOptions{Where: "a = 1"}); err == nil || !strings.Contains(err.Error(), "ignores filters") || got != "" {
		t.Errorf("%q, %v", got, err)
	}
}
