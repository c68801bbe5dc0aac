package httpapi

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/recordtest"
)

// offsetsAt returns the offsets of a topic at a time, as "partition:offset@timestamp".
func (s *server) offsetsAt(query string) string {
	s.t.Helper()
	a := s.get("/topic/offsets?" + query)
	var out api.TopicOffsets
	if err := json.Unmarshal(a.body, &out); err != nil || a.status != http.StatusOK || a.header.Get("Cache-Control") != "no-store" {
		s.t.Fatalf("%s: %s: %v", query, a, err)
	}
	var all []string
	for _, p := range out.Partitions {
		at := "-"
		if p.Timestamp != nil {
			at = fmt.Sprint(*p.Timestamp)
		}
		all = append(all, fmt.Sprintf("%d:%d@%s", p.Partition, p.Offset, at))
	}
	return strings.Join(all, " ")
}

func TestOffsetsAtATime(t *testing.T) {
	s := start(t)
	s.put("t", `{"partitions":2}`).topic(t)
	line := func(times ...int) string {
		var all []string
		for _, at := range times {
			all = append(all, fmt.Sprintf(`{"value":"v","timestamp":%d}`, at))
		}
		return strings.Join(all, "\n")
	}
	// Times are those of producers, so they are not in order.
	s.mustPost("topic-name=t&partition=0", api.NDJSON, line(100, 300, 200))
	s.mustPost("topic-name=t&partition=0", api.NDJSON, line(250, 900))
	s.mustPost("topic-name=t&partition=1", api.NDJSON, line(500))
	for at, want := range map[string]string{
		"0":   "0:0@100 1:0@500",
		"100": "0:0@100 1:0@500",
		"101": "0:1@300 1:0@500",
		"301": "0:4@900 1:0@500",
		"501": "0:4@900 1:1@-",
		"901": "0:5@- 1:1@-",
		// Between two milliseconds is the next one.
		"1970-01-01T00:00:00.100Z":         "0:0@100 1:0@500",
		"1970-01-01T00:00:00.1000001Z":     "0:1@300 1:0@500",
		"1970-01-01T01:00:00.301%2B01:00":  "0:4@900 1:0@500",
		"1890-01-01T00:00:00Z":             "0:0@100 1:0@500",
		"9999-12-31T23:59:59Z":             "0:5@- 1:1@-",
		"9223372036854775807":              "0:5@- 1:1@-",
		"earliest":                         "0:0@- 1:0@-",
		"latest":                           "0:5@- 1:1@-",
		"latest&read=latest&partition=1":   "1:1@-",
		"500&partition=1":                  "1:0@500",
		"500&partition=0&topic-name-2=any": "0:4@900",
	} {
		check.Equalf(t, s.offsetsAt("topic-name=t&time="+at), want, "at %s", at)
	}
	s.must(200, s.send("POST", "/topic/trim?topic-name=t&partition=0&offset=2", ""), nil)
	check.Equalf(t, s.offsetsAt("topic-name=t&time=0"), "0:2@200 1:0@500", "after a trim")
	check.Equalf(t, s.offsetsAt("topic-name=t&time=earliest"), "0:2@- 1:0@-", "earliest after a trim")
}

func TestOffsetsAtATimeRefused(t *testing.T) {
	s := start(t)
	s.put("t", `{"partitions":2}`).topic(t)
	for query, want := range map[string]api.Problem{
		"time=0":                                {Code: api.BadRequest, Field: "topic-name"},
		"topic-name=t":                          {Code: api.BadRequest, Field: "time"},
		"topic-name=t&time=":                    {Code: api.BadRequest, Field: "time"},
		"topic-name=t&time=-1":                  {Code: api.BadRequest, Field: "time"},
		"topic-name=t&time=9223372036854775808": {Code: api.BadRequest, Field: "time"},
		"topic-name=t&time=yesterday":           {Code: api.BadRequest, Field: "time"},
		"topic-name=t&time=0&time=1":            {Code: api.BadRequest, Field: "time"},
		"topic-name=t&time=0&partition=-1":      {Code: api.BadRequest, Field: "partition"},
		"topic-name=t&time=0&partition=2":       {Code: api.UnknownPartition},
		"topic-name=t&time=0&read=now":          {Code: api.BadRequest, Field: "read"},
		"topic-name=none&time=0":                {Code: api.UnknownTopic},
	} {
		if p := s.get("/topic/offsets?" + query).problem(t); p.Code != want.Code || p.Field != want.Field {
			t.Errorf("%s: %+v", query, p)
		}
	}
}

// TestOffsetsAtATimeNeedMemory: what a batch decompresses to is taken from the budget, and released.
func TestOffsetsAtATimeNeedMemory(t *testing.T) {
	s := start(t)
	noise := make([]byte, 32<<10) // keeps the ratio below the limit
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	value := append([]byte(hex.EncodeToString(noise)), make([]byte, 1<<20)...)
	data, _ := recordtest.Encode([]record.Record{{Timestamp: 7, Value: value}}, record.EncodeOptions{Compression: record.Zstd})
	s.mustPost("topic-name=t", api.RecordBatch, string(data))
	class := s.budget.Class(budget.Fetch)
	all := must.Get(class.Reserve(class.Limit() - 1<<20))(t)
	if p := s.get("/topic/offsets?topic-name=t&time=7").problem(t); p.Code != api.OverBudget {
		t.Errorf("%+v", p)
	}
	all.Release()
	check.Equal(t, s.offsetsAt("topic-name=t&time=7"), "0:0@7")
}

// TestOffsetsAtATimeOfTheFuture: without a record the offset is the end that later records follow.
func TestOffsetsAtATimeOfTheFuture(t *testing.T) {
	s := start(t)
	s.mustPost("topic-name=t", api.TextPlain, "a\nb")
	at := time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	check.Equal(t, s.offsetsAt("topic-name=t&time="+at), "0:2@-")
}
