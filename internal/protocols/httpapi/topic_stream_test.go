package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// placed decodes an event of a topic's stream.
func placed(t *testing.T, e event) (r api.PartitionRecord) {
	t.Helper()
	if err := json.Unmarshal([]byte(e.data), &r); err != nil || e.kind != "" {
		t.Fatalf("%+v: %v", e, err)
	}
	return r
}

// linesOf posts numbered values to a partition of topic t.
func (s *server) linesOf(partition, from, to int) {
	var lines strings.Builder
	for i := from; i < to; i++ {
		fmt.Fprintf(&lines, "%d.%d\n", partition, i)
	}
	s.mustPost(fmt.Sprintf("topic-name=t&partition=%d", partition), api.TextPlain, lines.String())
}

func TestTopicStreamFollowsAllPartitions(t *testing.T) {
	s := start(t)
	s.put("t", `{"partitions":2}`).topic(t)
	s.linesOf(0, 0, 2)
	s.linesOf(1, 0, 1)
	ch := s.events(t.Context(), "topic-name=t&partition=all&offset=earliest", "")
	want := func(id string, partition int32, offset int64) {
		t.Helper()
		e := next(t, ch)
		r := placed(t, e)
		if e.id != id || r.Partition != partition || r.Offset != offset || *r.Value != fmt.Sprintf("%d.%d", partition, offset) {
			t.Fatalf("%+v, want %s", e, id)
		}
	}
	want("0:1,1:0", 0, 0)
	want("0:2,1:0", 0, 1)
	want("0:2,1:1", 1, 0)
	s.linesOf(1, 1, 2)
	want("0:2,1:2", 1, 1)
	s.linesOf(0, 2, 3)
	want("0:3,1:2", 0, 2)
	// A partition that the topic gets later is part of the stream.
	if a := s.put("t", `{"partitions":3}`); a.status != http.StatusOK {
		t.Fatal(a)
	}
	s.linesOf(2, 0, 1)
	want("0:3,1:2,2:1", 2, 0)

	ch = s.events(t.Context(), "topic-name=t&partition=all&offset=latest", "")
	s.linesOf(0, 3, 4)
	want("0:4,1:2,2:1", 0, 3)
	// The positions of partitions that the ID does not have are their starts.
	ch = s.events(t.Context(), "topic-name=t&partition=all&max-records=2", "0:4,1:1")
	want("0:4,1:2,2:0", 1, 1)
	want("0:4,1:2,2:1", 2, 0)
	if _, open := <-ch; open {
		t.Error("the stream continues after max-records")
	}
}

func TestTopicStreamResumes(t *testing.T) {
	s := start(t)
	s.put("t", `{"partitions":3}`).topic(t)
	const each = 2000
	for p := range 3 {
		s.linesOf(p, 0, each)
	}
	var seen [3]int64
	last := ""
	for i := 0; i < 3*each; {
		ctx, cancel := context.WithCancel(t.Context())
		ch := s.events(ctx, "topic-name=t&partition=all&offset=earliest", last)
		for range min(700, 3*each-i) {
			e := next(t, ch)
			r := placed(t, e)
			must.Equalf(t, r.Offset, seen[r.Partition], "after %q: partition %d, offset", last, r.Partition)
			seen[r.Partition]++
			last = e.id
			i++
		}
		cancel()
	}
	check.Equalf(t, last, fmt.Sprintf("0:%d,1:%d,2:%d", each, each, each), "the last ID")
}

// TestTopicStreamIsFair: a partition with many records does not delay another one, whichever is
// first.
func TestTopicStreamIsFair(t *testing.T) {
	for many := range 2 {
		s := start(t)
		s.put("t", `{"partitions":2}`).topic(t)
		s.linesOf(many, 0, 10*streamRecords)
		s.linesOf(1-many, 0, 1)
		ch := s.events(t.Context(), "topic-name=t&partition=all&offset=earliest", "")
		at := 0
		for int(placed(t, next(t, ch)).Partition) != 1-many {
			at++
		}
		if at > streamRecords {
			t.Errorf("%d records of partition %d come before the one of the other", at, many)
		}
	}
}

func TestTopicStreamEndsWithTheRight(t *testing.T) {
	s := start(t)
	s.put("t", `{"partitions":2}`).topic(t)
	s.linesOf(1, 0, 1)
	key := s.token("reader", time.Time{}, permit(access.Read, access.Topic, "t"))
	ch := s.eventsAs(t.Context(), key, "topic-name=t&partition=all&offset=earliest", "")
	if r := placed(t, next(t, ch)); r.Partition != 1 {
		t.Fatalf("%+v", r)
	}
	s.must(204, s.send("DELETE", "/tokens/reader", ""), nil)
	if e := next(t, ch); e.kind != "error" || !strings.Contains(e.data, "revoked") {
		t.Errorf("%+v", e)
	}
	s.linesOf(0, 0, 1)
	for e := range ch {
		t.Errorf("after the error: %+v", e)
	}
}

func TestTopicStreamReportsErrors(t *testing.T) {
	s := start(t)
	s.put("t", `{"partitions":2}`).topic(t)
	s.linesOf(1, 0, 3)
	ch := s.events(t.Context(), "topic-name=t&partition=all&offset=latest", "")
	s.must(204, s.do(call{method: "DELETE", path: "/topic?topic-name=t"}), nil)
	if e := next(t, ch); e.kind != "error" || !strings.Contains(e.data, string(api.UnknownTopic)) {
		t.Errorf("%+v", e)
	}
	s.put("t", `{"partitions":2}`).topic(t)
	s.put("wide", `{"partitions":101}`).topic(t)
	s.linesOf(1, 0, 3)
	s.must(200, s.send("POST", "/topic/trim?topic-name=t&partition=1&offset=2", ""), nil)
	for _, c := range []struct {
		query, last string
		code        api.Code
		field       string
	}{
		{"topic-name=t&partition=all", "", api.BadRequest, "offset"},
		{"topic-name=t&partition=all&offset=3", "", api.BadRequest, "offset"},
		{"topic-name=t&partition=all&group=g", "", api.BadRequest, "group"},
		{"topic-name=t&partition=every&offset=latest", "", api.BadRequest, "partition"},
		{"topic-name=wide&partition=all&offset=latest", "", api.BadRequest, "partition"},
		{"topic-name=none&partition=all&offset=latest", "", api.UnknownTopic, ""},
		{"topic-name=t&partition=all", "17", api.BadRequest, "Last-Event-ID"},
		{"topic-name=t&partition=all", "0:1,2:1", api.BadRequest, "Last-Event-ID"},
		{"topic-name=t&partition=all", "0:1,0:1", api.BadRequest, "Last-Event-ID"},
		{"topic-name=t&partition=all", "0:0,1:2,", api.BadRequest, "Last-Event-ID"},
		{"topic-name=t&partition=all", "0:0,1:2,2:0", api.UnknownPartition, ""},
		{"topic-name=t&partition=all", "0:0,1:4", api.OffsetBeyondEnd, ""},
		{"topic-name=t&partition=all", "0:0,1:1", api.OffsetBelowStart, ""},
		{"topic-name=t&partition=0", "0:0,1:1", api.BadRequest, "Last-Event-ID"},
	} {
		a := s.do(call{method: "GET", path: "/records?" + c.query, header: map[string]string{"Accept": api.EventStream, "Last-Event-ID": c.last}})
		if p := a.problem(t); p.Code != c.code || p.Field != c.field {
			t.Errorf("%s after %q: %+v", c.query, c.last, p)
		}
	}
	for _, kind := range []string{api.JSON, api.RecordBatch} {
		if p := s.get("/records?topic-name=t&partition=all&offset=latest", kind).problem(t); p.Field != "partition" || !strings.Contains(p.Detail, "only with "+api.EventStream) {
			t.Errorf("%s: %+v", kind, p)
		}
	}
}
