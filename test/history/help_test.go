package history

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
)

// script is a history written by hand.
type script struct {
	events []Event
	ops    int64
}

func (s *script) put(e Event) {
	e.T = int64(len(s.events)+1) * 1000
	s.events = append(s.events, e)
}

// do begins an operation.
func (s *script) do(e Event) int64 {
	s.ops++
	e.Op = s.ops
	s.put(e)
	return e.Op
}

// is ends an operation.
func (s *script) is(op int64, e Event) {
	e.Op = op
	s.put(e)
}

// both is an operation without concurrency.
func (s *script) both(do, is Event) int64 {
	op := s.do(do)
	s.is(op, is)
	return op
}

// send appends n records of a client, the first with a number, acknowledged at an offset.
func (s *script) send(client int32, seq, n, at int64) {
	s.both(Event{Do: Append, Client: client, Seq: seq, N: n}, Event{Is: OK, At: at, Epoch: 1})
}

// see reads runs in order; the last one ends the partition.
func (s *script) see(epoch uint32, runs ...Run) {
	from, end := runs[0][0], int64(0)
	for _, r := range runs {
		end = max(end, r[0]+r[3])
	}
	s.both(Event{Do: Read, Client: 99, From: from}, Event{Is: OK, Epoch: epoch, End: end, Got: runs})
}

// judge returns the broken rules, each once, in order.
func judge(events []Event) []string {
	c := NewChecker()
	for i := range events {
		c.Add(&events[i])
	}
	c.Finish()
	return rulesOf(c.Violations())
}

func rulesOf(list []Violation) []string {
	var rules []string
	for _, v := range list {
		rules = append(rules, v.Rule)
	}
	slices.Sort(rules)
	return slices.Compact(rules)
}

func lines(t testing.TB, events []Event) []byte {
	t.Helper()
	var b bytes.Buffer
	for i := range events {
		line := must.Get(json.Marshal(&events[i]))(t)
		b.Write(append(line, '\n'))
	}
	return b.Bytes()
}

// linear returns the result of Linear.
func linear(t testing.TB, events []Event) *Linearity {
	t.Helper()
	l := must.Get(Linear(bytes.NewReader(lines(t, events)), 30*time.Second))(t)
	return l
}
