package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestFailuresOfSeveralPartitions: a request is rejected only if none of its records can be stored
// (rule R4).
func TestFailuresOfSeveralPartitions(t *testing.T) {
	p := producing{topic: "t", appends: []broker.Append{
		{Partition: 0, Summary: record.Summary{Span: 3}}, {Partition: 4, Summary: record.Summary{Span: 5}},
	}}
	ok := broker.Result{Base: 7, Span: 3}
	rejected := broker.Result{Err: state.ErrStoreUnavailable}
	unknown := broker.Result{Err: state.ErrOutcomeUnknown}
	for _, c := range []struct {
		name   string
		given  []broker.Result
		code   api.Code
		stored int // results reported as stored
	}{
		{"stored and rejected", []broker.Result{ok, rejected}, api.OutcomeUnknown, 1},
		{"rejected and stored", []broker.Result{rejected, ok}, api.OutcomeUnknown, 1},
		{"unknown and rejected", []broker.Result{unknown, rejected}, api.OutcomeUnknown, 0},
		{"stored and unknown", []broker.Result{ok, unknown}, api.OutcomeUnknown, 1},
		{"rejected twice", []broker.Result{rejected, {Err: state.ErrOverBudget}}, api.StoreUnavailable, 0},
		{"internal and rejected", []broker.Result{{Err: errors.New("?")}, rejected}, api.OutcomeUnknown, 0},
	} {
		got := problemOf(p.failed(c.given))
		if got.Code != c.code || len(got.Results) != 2 || got.Results[1].Partition != 4 || got.Results[1].Count != 5 {
			t.Errorf("%s: %+v", c.name, got)
		}
		stored := 0
		for _, r := range got.Results {
			check.Equalf(t, r.Code == "", r.FirstOffset != nil, "%s: %+v", c.name, r)
			if r.Code == "" {
				stored++
			}
		}
		check.Equalf(t, stored, c.stored, "%s: results say stored", c.name)
	}
}

// TestEveryBrokerErrorHasACode keeps the table complete.
func TestEveryBrokerErrorHasACode(t *testing.T) {
	for err, code := range map[error]api.Code{
		state.ErrUnknownTopic: api.UnknownTopic, state.ErrUnknownPartition: api.UnknownPartition, state.ErrTopicExists: api.TopicExists,
		&state.FencedError{Leader: "x", Epoch: 3}: api.Fenced, state.ErrNotLeader: api.NotLeader, state.ErrReadOnly: api.ReadOnly,
		state.ErrOverBudget: api.OverBudget, state.ErrStoreUnavailable: api.StoreUnavailable, state.ErrCorrupt: api.CorruptData,
		state.ErrOutcomeUnknown: api.OutcomeUnknown, broker.ErrTooLarge: api.TooLarge, &state.InvalidError{Field: "f"}: api.BadRequest,
		&state.OffsetMismatchError{}: api.OffsetMismatch, &broker.BelowStartError{Offset: 1, Start: 5}: api.OffsetBelowStart,
		broker.ErrClosed: api.ShuttingDown, broker.ErrNotSent: api.ShuttingDown, errors.New("secret detail"): api.Internal,
	} {
		p := problemOf(errors.Join(errors.New("wrapped"), err))
		check.Equalf(t, p.Code, code, "%v", err)
		if code == api.Internal && p.Detail != "" {
			t.Errorf("the detail contains internals: %s", p.Detail)
		}
	}
	if p := problemOf(&broker.BelowStartError{Offset: 1, Start: 5}); *p.StartOffset != 5 || *p.Offset != 1 {
		t.Errorf("%+v", p)
	}
	if p := problemOf(&state.FencedError{Leader: "x", Epoch: 3}); p.Leader != "x" || p.Epoch != 3 {
		t.Errorf("%+v", p)
	}
}

// TestWritesNameTheEpoch: with the epoch of a write, a client can tell whether another broker is
// behind (rule R11).
func TestWritesNameTheEpoch(t *testing.T) {
	s := start(t)
	epoch := fmt.Sprint(s.b.Epoch())
	s.mustPost("topic-name=t", api.TextPlain, "x")
	body, kind := form("a", "b")
	for name, a := range map[string]*answered{
		"produced":  s.post("topic-name=t", api.TextPlain, "x"),
		"offsets":   s.post("topic-name=t", kind, body),
		"mismatch":  s.post("topic-name=t&partition=0&expected-offset=99", api.TextPlain, "x"),
		"committed": s.send("PUT", "/offsets?group=g&topic-name=t&partition=0", `{"offset":1}`),
	} {
		check.Equalf(t, a.header.Get(api.HeaderEpoch), epoch, "%s: %v names epoch", name, a)
	}
	if a := s.do(call{method: "GET", path: "/topics", noKey: true}); a.status != 401 || a.header.Get(api.HeaderEpoch) != "" {
		t.Errorf("without the key: %v, epoch %q", a, a.header.Get(api.HeaderEpoch))
	}
}

// TestAnswerForOnePartition: the answer is what encoding/json makes of its type, with its length.
func TestAnswerForOnePartition(t *testing.T) {
	s := start(t)
	name := "AZaz09._-" + strings.Repeat("x", 240)
	for _, partition := range []string{"", "&partition=0"} {
		a := s.mustPost("topic-name="+name+partition, api.TextPlain, "a\nb")
		var out api.Produced
		must.NoError(t, json.Unmarshal(a.body, &out))
		again, err := json.Marshal(&out)
		if err != nil || string(again) != string(a.body) || out.Topic != name || out.Count != 2 || out.Partition == nil || out.FirstOffset == nil {
			t.Errorf("%s, %v, want %s", a.body, err, again)
		}
		if n := a.header.Get("Content-Length"); n != strconv.Itoa(len(a.body)) {
			t.Errorf("Content-Length %q with %d bytes", n, len(a.body))
		}
	}
}
