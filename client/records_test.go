package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// batches returns the records [from, to) in batches of three.
func batches(t *testing.T, from, to int) []byte {
	t.Helper()
	var b []byte
	for at := from; at < to; at += 3 {
		var recs []record.Record
		for i := at; i < min(at+3, to); i++ {
			recs = append(recs, record.Record{Value: fmt.Appendf(nil, "v%d", i), Timestamp: 1})
		}
		one, _ := recordtest.Encode(recs, record.EncodeOptions{})
		record.Patch(one, int64(at), 1)
		b = append(b, one...)
	}
	return b
}

// give answers a fetch with whole batches, beginning with the one that has the offset. If short > 0
// it cuts the answer.
func give(t *testing.T, end, short int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		offset, err := strconv.Atoi(r.URL.Query().Get("offset"))
		check.NoErrorf(t, err, "offset")
		b := batches(t, offset/3*3, end)
		if offset >= end {
			b = nil
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(b)))
		w.Header().Set("Content-Type", api.RecordBatch)
		w.Header().Set("Seb-Next-Offset", strconv.Itoa(end))
		w.Header().Set("Seb-Epoch", "4")
		_, _ = w.Write(b[:len(b)-short])
	}
}

func collect(t *testing.T, c *client.Client, o client.ReadOptions) (string, error) {
	t.Helper()
	var got []string
	for r, err := range c.Records(t.Context(), "t", o) {
		if err != nil {
			return strings.Join(got, " "), err
		}
		check.Equalf(t, string(r.Value), fmt.Sprintf("v%d", r.Offset), "offset %d has value %q", r.Offset, r.Value)
		got = append(got, strconv.Itoa(int(r.Offset)))
	}
	return strings.Join(got, " "), nil
}

func TestOffsetsSince(t *testing.T) {
	c := realBroker(t)
	must.Get(c.Produce(t.Context(), "t", everyKind(), client.ProduceOptions{}))(t)
	for at, want := range map[time.Time]client.PartitionOffset{
		time.UnixMilli(3):                              {Offset: 2, Timestamp: new(int64(3))},
		time.UnixMilli(3).Add(time.Nanosecond):         {Offset: 3, Timestamp: new(int64(4))},
		time.UnixMilli(6).In(time.FixedZone("", 3600)): {Offset: 5},
	} {
		if got, err := c.OffsetsSince(t.Context(), "t", at); err != nil || !reflect.DeepEqual(got, []client.PartitionOffset{want}) {
			t.Errorf("since %v: %+v, %v", at, got, err)
		}
	}
	check.ErrorIs(t, check.Err(c.OffsetsSince(t.Context(), "none", time.Now())), client.ErrUnknownTopic)
}

func TestRecordsEndWhereTheTopicEnded(t *testing.T) {
	c, n := faulty(t, give(t, 8, 0), give(t, 20, 0))
	got, err := collect(t, c, client.ReadOptions{Offset: 4})
	if err != nil || got != "4 5 6 7" {
		t.Errorf("got %q, %v", got, err)
	}
	check.Equalf(t, n.Load(), 1, "requests")
}

func TestRecordsContinueAfterABrokenAnswer(t *testing.T) {
	c, n := faulty(t, give(t, 12, 10), cut(-1, ""), give(t, 12, 1), give(t, 12, 0))
	got, err := collect(t, c, client.ReadOptions{Offset: 1})
	if err != nil || got != "1 2 3 4 5 6 7 8 9 10 11" {
		t.Errorf("got %q, %v", got, err)
	}
	check.Equalf(t, n.Load(), 4, "requests")
}

func TestRecordsOfAnEmptyPartition(t *testing.T) {
	c, _ := faulty(t, give(t, 0, 0))
	if got, err := collect(t, c, client.ReadOptions{}); err != nil || got != "" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestDamagedBatchIsAnErrorAfterTheGoodOnes(t *testing.T) {
	b := batches(t, 0, 6)
	b[len(b)-1] ^= 1
	c, n := faulty(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", api.RecordBatch)
		_, _ = w.Write(b)
	})
	got, err := collect(t, c, client.ReadOptions{})
	if !errors.Is(err, record.ErrCorrupt) || got != "0 1 2" {
		t.Errorf("got %q, %v", got, err)
	}
	check.Equalf(t, n.Load(), 1, "damaged data was requested again: requests")
}

func TestAnswerWithoutABatch(t *testing.T) {
	huge := batches(t, 0, 3)
	copy(huge[8:], []byte{0x7f, 0xff, 0xff, 0xff})
	for name, body := range map[string]string{"text": strings.Repeat("no batch ", 20), "short": "x", "length of 2 GiB": string(huge)} {
		t.Run(name, func(t *testing.T) {
			c := must.Get(client.New("http://127.0.0.1:1", client.Options{RetryTime: -1, HTTPClient: &http.Client{Transport: roundTrip(body)}}))(t)
			if got, err := collect(t, c, client.ReadOptions{}); err == nil || got != "" {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

type roundTrip string

func (s roundTrip) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {api.RecordBatch}}, Body: readCloser{strings.NewReader(string(s))}}, nil
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }

func TestFetchReadsWithoutACopyPerRecord(t *testing.T) {
	const n = 3000
	body := batches(t, 0, n)
	c, err := client.New("http://127.0.0.1:1", client.Options{HTTPClient: &http.Client{Transport: roundTrip(body)}})
	must.NoError(t, err)
	perRun := testing.AllocsPerRun(5, func() {
		f, err := c.Fetch(t.Context(), "t", client.FetchOptions{})
		must.NoError(t, err)
		defer f.Close()
		count := 0
		for _, err := range f.All() {
			must.NoError(t, err)
			count++
		}
		if count != n {
			t.Fatalf("%d records", count)
		}
	})
	if perRun > n/10 {
		t.Errorf("%.0f allocations for %d records", perRun, n)
	}
}
