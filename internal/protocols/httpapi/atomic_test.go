package httpapi

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// atomic posts lines as one atomic request.
func (s *server) atomic(kind, body string, header ...string) *answered {
	s.t.Helper()
	h := map[string]string{"Content-Type": kind}
	for i := 0; i < len(header); i += 2 {
		h[header[i]] = header[i+1]
	}
	return s.do(call{method: "POST", path: "/records?atomic=true", body: strings.NewReader(body), header: h})
}

// frame returns a frame of an atomic request with batches.
func frame(topic string, partition int, batches []byte) string {
	return fmt.Sprintf("{\"topic\":%q,\"partition\":%d,\"bytes\":%d}\n%s", topic, partition, len(batches), batches)
}

func TestAtomicRequest(t *testing.T) {
	s := start(t)
	newTopic(s, "orders", 4)
	s.must(201, s.send("PUT", "/queues/mails", `{"priorities":2}`), nil)
	s.mustPost("topic-name=orders&partition=1", api.TextPlain, "earlier")
	lines := `{"topic":"orders","partition":1,"value":"a","headers":{"h":"1"}}

 {"queue":"mails","value":"urgent"}
{"queue":"mails","value":"second","priority":1}
{ "event" : "order_placed", "entity_id": "ö", "data": {"total": 10} }
{"topic":"orders","key":"k","value_base64":"/w=="}
{"topic":"orders","partition":1,"value":"b"}
{"queue":"mails","value":"late","delay":"1h"}
{"topic":"notes","value":null}
`
	k := record.PartitionOf([]byte("k"), 4)
	want := fmt.Sprintf(`{"records":[{"topic":"orders","partition":1,"offset":1},{"queue":"mails","id":"0-0"},{"queue":"mails","id":"1-0"},`+
		`{"topic":"events","partition":0,"offset":0},{"topic":"orders","partition":%d,"offset":0},{"topic":"orders","partition":1,"offset":2},`+
		`{"queue":"mails","id":"0-1"},{"topic":"notes","partition":0,"offset":0}]}`, k)
	a := s.atomic(api.NDJSON, lines)
	check.Equal(t, a.String(), "201 "+want)
	check.EqualSlicesf(t, s.values("orders", 1), []string{"earlier", "a", "b"}, "orders")
	check.EqualSlicesf(t, s.values("orders", int(k)), []string{"base64:/w=="}, "orders")
	check.EqualSlicesf(t, s.values("events", 0), []string{`{"event":"order_placed","entity_id":"ö","data":{"total":10}}`}, "events")
	check.EqualSlicesf(t, s.values("notes", 0), []string{"null"}, "notes")
	check.Equal(t, valuesOf(s.lease("mails", `{"max":10}`)), "urgent second")
	must.Equalf(t, s.queue("mails").Delayed, int64(1), "delayed messages")

	frames := frame("orders", 2, batch(t, record.EncodeOptions{}, value("x"), value("y"))) + frame("notes", 0, batch(t, record.EncodeOptions{Compression: record.Zstd}, value("z")))
	a = s.atomic(api.RecordBatch, frames)
	check.Equal(t, a.String(), `201 {"results":[{"topic":"orders","partition":2,"first_offset":0,"count":2},{"topic":"notes","partition":0,"first_offset":1,"count":1}]}`)
	check.EqualSlicesf(t, s.values("notes", 0), []string{"null", "z"}, "notes")
}
