package client_test

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestProduceAll(t *testing.T) {
	t.Parallel()
	c := queueBroker(t, nil)
	must.Get(c.CreateTopic(t.Context(), "orders", client.TopicSpec{Partitions: 3}))(t)
	text := "m"
	items := []client.Item{
		{Topic: "orders", Partition: new(int32(2)), Record: record.Record{Key: []byte("k"), Value: []byte{0xff}, Headers: []record.Header{{Key: "h", Value: []byte("1")}}}},
		{Queue: "jobs", Message: client.OutgoingMessage{Value: &text, Delay: "1h"}},
		{Event: &client.Event{Name: "order_placed", EntityID: "1", Data: []byte(`{"total":3}`)}},
		{Topic: "orders", Partition: new(int32(2)), Record: record.Record{Timestamp: 5}},
	}
	for i := range int64(3) {
		stored := must.Get(c.ProduceAll(t.Context(), items))(t)
		must.Equal(t, len(stored), 4)
		check.Equal(t, stored[0], client.StoredItem{Topic: "orders", Partition: 2, Offset: 2 * i})
		check.Equal(t, stored[1], client.StoredItem{Queue: "jobs", ID: fmt.Sprintf("0-%d", i)})
		check.Equal(t, stored[2].Topic, "events")
		check.Equal(t, stored[3].Offset, 2*i+1)
	}
	f := must.Get(c.Fetch(t.Context(), "orders", client.FetchOptions{Partition: 2}))(t)
	defer f.Close()
	n := 0
	for r, err := range f.All() {
		must.NoError(t, err)
		if n%2 == 0 && (string(r.Value) != "\xff" || string(r.Key) != "k" || string(r.Headers[0].Value) != "1") || n%2 == 1 && (r.Timestamp != 5 || r.Value != nil) {
			t.Errorf("record %d: %+v", n, r)
		}
		n++
	}
	check.Equalf(t, n, 6, "records")

	bad := append(items, client.Item{Queue: "jobs", Message: client.OutgoingMessage{Value: &text, Dedup: "d"}})
	_, err := c.ProduceAll(t.Context(), bad)
	if !errors.Is(err, client.ErrRejected) || !errors.Is(err, client.ErrBadRequest) || !strings.Contains(err.Error(), "record 4: dedup: ") {
		t.Errorf("an invalid item: %v", err)
	}
	check.Equal(t, must.Get(c.Topic(t.Context(), "orders"))(t).Partitions[2].Next, int64(6))
	marked := must.Get(c.ProduceAllLines(t.Context(), []byte("\uFEFF\n{\"topic\":\"orders\",\"value\":\"v\"}\n")))(t)
	check.Equalf(t, len(marked), 1, "items after a mark of UTF-8")
	for _, invalid := range [][]client.Item{nil, {{}}, {{Topic: "a", Queue: "b"}}, {{Event: &client.Event{Name: "\xff", EntityID: "1"}}}} {
		_, err := c.ProduceAll(t.Context(), invalid)
		check.ErrorIsf(t, err, client.ErrRejected, "%+v", invalid)
	}
}

// TestOutcomesOfProduceAll: the epoch of the producer is the number of the request.
func TestOutcomesOfProduceAll(t *testing.T) {
	t.Parallel()
	stored := answer(201, "Content-Type: application/json", `{"records":[{"topic":"t","partition":0,"offset":7}]}`)
	for name, tc := range map[string]struct {
		script []http.HandlerFunc
		want   error
		then   string // epochs and sequences of all requests; the last one is of a second call
	}{
		"stored":                   {[]http.HandlerFunc{stored, stored}, nil, "0/0 1/0"},
		"no verdict, then stored":  {[]http.HandlerFunc{problem(504, "outcome_unknown", ""), stored, stored}, nil, "0/0 0/0 1/0"},
		"cut":                      {[]http.HandlerFunc{cut(-1, ""), stored, stored}, nil, "0/0 0/0 1/0"},
		"refused":                  {[]http.HandlerFunc{problem(413, "too_large", ""), stored}, client.ErrRejected, "0/0 0/0"},
		"refused after an unknown": {[]http.HandlerFunc{cut(-1, ""), problem(400, "bad_request", ""), stored}, client.ErrOutcomeUnknown, "0/0 0/0 1/0"},
		"gap":                      {[]http.HandlerFunc{problem(409, "sequence_gap", ""), stored}, client.ErrRejected, "0/0 1/0"},
		"fenced":                   {[]http.HandlerFunc{problem(409, "producer_fenced", ""), stored}, client.ErrRejected, "0/0 1/0"},
	} {
		t.Run(name, func(t *testing.T) {
			var s seen
			for i := range tc.script {
				tc.script[i] = s.note(tc.script[i])
			}
			c, _ := faulty(t, tc.script...)
			all := func() error {
				return check.Err(c.ProduceAll(t.Context(), []client.Item{{Topic: "t", Record: record.Record{Value: []byte("v")}}}))
			}
			if err := all(); !errors.Is(err, tc.want) {
				t.Errorf("%v, want %v", err, tc.want)
			}
			check.NoError(t, all())
			check.Equalf(t, s.numbers(t), tc.then, "requests")
		})
	}
	for name, body := range map[string]string{
		"fewer": `{"records":[]}`, "no offset": `{"records":[{"topic":"t","partition":0}]}`,
	} {
		c, _ := faulty(t, answer(201, "Content-Type: application/json", body), problem(413, "too_large", ""))
		_, err := c.ProduceAll(t.Context(), []client.Item{{Topic: "t"}})
		check.ErrorIsf(t, err, client.ErrOutcomeUnknown, "an answer with %s", name)
	}
}
