package history

import (
	"slices"
	"testing"

	"github.com/sebbroker/seb/test/check"
)

// good returns a history without a fault that contains everything: appends of all outcomes,
// conditions, groups, sessions, and a deposed broker.
func good() *script {
	s := &script{}
	s.send(1, 0, 3, 0)
	s.both(Event{Do: Append, Client: 2, Seq: 0, N: 2}, Event{Is: Unknown})
	s.both(Event{Do: Append, Client: 2, Seq: 2, N: 1}, Event{Is: Rejected, Code: "over_budget"})
	s.send(1, 3, 1, 3)
	s.both(Event{Do: Append, Client: 2, Seq: 3, N: 1, Want: new(int64(4))}, Event{Is: OK, At: 4, Epoch: 2})
	s.both(Event{Do: Append, Client: 2, Seq: 4, N: 1, Want: new(int64(4))}, Event{Is: Rejected, Code: CodeMismatch, At: 5, Epoch: 2})
	s.see(2, Run{0, 1, 0, 4}, Run{4, 2, 3, 1})
	// This is an answer of the deposed broker.
	s.both(Event{Do: Read, Client: 9, From: 3}, Event{Is: OK, Epoch: 1, End: 4, Got: []Run{{3, 1, 3, 1}}})
	a := s.both(Event{Do: Commit, Client: 5, Group: "g", To: 2}, Event{Is: OK, Epoch: 2})
	s.both(Event{Do: Fetch, Client: 5, Group: "g"}, Event{Is: OK, At: 2, By: a, Epoch: 2})
	b := s.both(Event{Do: Commit, Client: 5, Group: "g", To: 4}, Event{Is: Unknown})
	s.both(Event{Do: Fetch, Client: 5, Group: "g"}, Event{Is: OK, At: 2, By: a, Epoch: 2})
	s.both(Event{Do: Fetch, Client: 5, Group: "g"}, Event{Is: OK, At: 4, By: b, Epoch: 2})
	s.both(Event{Do: Fetch, Client: 6, Group: "g"}, Event{Is: OK, At: 2, By: a, Epoch: 1})
	s.both(Event{Do: Read, Client: 7, From: None, Session: "s", Group: "h"}, Event{Is: OK, Epoch: 2, End: 5, Got: []Run{{0, 1, 0, 2}}})
	s.both(Event{Do: Read, Client: 7, From: None, Session: "s", Group: "h"}, Event{Is: OK, Epoch: 2, End: 5, Got: []Run{{2, 1, 2, 1}}})
	s.both(Event{Do: Read, Client: 7, From: None, Session: "t", Group: "h"}, Event{Is: OK, Epoch: 2, End: 5, Got: []Run{{1, 1, 1, 3}}})
	// The appends of unknown outcome took effect late.
	s.see(2, Run{0, 1, 0, 4}, Run{4, 2, 3, 1}, Run{5, 2, 0, 2})
	return s
}

// trimmed adds a trim.
func trimmed(s *script) *script {
	s.both(Event{Do: Trim, Client: 8, To: 2}, Event{Is: OK, Epoch: 2, Start: 2})
	s.both(Event{Do: Read, Client: 9, From: 1}, Event{Is: Failed, Code: "offset_below_start", Epoch: 2, Start: 2})
	s.see(2, Run{2, 1, 2, 2}, Run{4, 2, 3, 1}, Run{5, 2, 0, 2})
	return s
}

func TestGoodHistoryIsAccepted(t *testing.T) {
	events := good().events
	if rules := judge(events); len(rules) > 0 {
		t.Errorf("broken: %q", rules)
	}
	if rules := judge(trimmed(good()).events); len(rules) > 0 {
		t.Errorf("broken with a trim: %q", rules)
	}
	if l := linear(t, events); len(l.Faults) > 0 || l.Undecided > 0 || l.Checked < 10 {
		t.Errorf("%+v", l)
	}
}

// Each history has one fault and breaks exactly the expected rules.
func TestEveryRuleFindsItsFault(t *testing.T) {
	for name, c := range faults {
		s := &script{}
		c.make(s)
		slices.Sort(c.want)
		check.EqualSlicesf(t, judge(s.events), c.want, "%s: broken", name)
	}
}

// Every rule must be broken by a history here, otherwise it is untested.
func TestEveryRuleHasAFault(t *testing.T) {
	var all []string
	for _, c := range faults {
		all = append(all, c.want...)
	}
	for _, rule := range []string{
		RuleAborted, RuleOffset, RuleLost, RuleDuplicate, RulePoll, RuleOrder, RuleUnseen, RuleForeign, RuleMoved, RuleTorn, RuleTime,
		RuleGap, RuleStale, RuleStart, RuleGroup, RuleSkip, RuleWant, RuleHistory,
	} {
		if !slices.Contains(all, rule) {
			t.Errorf("no history breaks %q", rule)
		}
	}
}

// An older broker may be behind; the same answer by the newer one is a violation.
func TestOnlyOlderEpochsMayBeBehind(t *testing.T) {
	for _, c := range []struct {
		epoch uint32
		want  []string
	}{{1, nil}, {2, []string{RuleGroup, RuleStale}}, {3, []string{RuleGroup, RuleStale}}} {
		s := &script{}
		s.send(1, 0, 1, 0)
		a := s.both(Event{Do: Commit, Group: "g", To: 1}, Event{Is: OK, Epoch: 1})
		s.both(Event{Do: Append, Client: 1, Seq: 1, N: 1}, Event{Is: OK, At: 1, Epoch: 2})
		s.both(Event{Do: Commit, Group: "g", To: 2}, Event{Is: OK, Epoch: 2})
		s.both(Event{Do: Read, From: 0}, Event{Is: OK, Epoch: c.epoch, End: 1, Got: []Run{{0, 1, 0, 1}}})
		s.both(Event{Do: Fetch, Group: "g"}, Event{Is: OK, At: 1, By: a, Epoch: c.epoch})
		s.see(2, Run{0, 1, 0, 2})
		check.EqualSlicesf(t, judge(s.events), c.want, "epoch %d: broken", c.epoch)
	}
}

// A commit that a client repeats after a missing answer may take effect twice, so that a commit
// between the two is overwritten. A commit that was sent once takes effect once. This happened in a
// campaign: a killed broker had stored the first attempt, which was read. Another client's commit
// was acknowledged. Then the second attempt was.
func TestCommitsThatAreSentAgain(t *testing.T) {
	for _, c := range []struct {
		name           string
		may, was       bool // sent again
		late           bool // the other commit comes after its return
		want           []string
		faults, orders int // of Linear
	}{
		{"sent twice", true, true, false, nil, 0, 0},
		{"sent twice, and the other one came later", true, true, true, nil, 0, 0},
		{"sent once", true, false, true, []string{RuleGroup}, 1, 4},
		{"never sent twice", false, false, false, []string{RuleGroup}, 1, 4},
	} {
		s := &script{}
		a := s.do(Event{Do: Commit, Client: 1, Group: "g", To: 1, Again: c.may})
		fetch(s, 1, a)
		returned := Event{Is: OK, Epoch: 1, Again: c.was}
		if c.late {
			s.is(a, returned)
		}
		s.both(Event{Do: Commit, Client: 2, Group: "g", To: 2}, Event{Is: OK, Epoch: 1})
		if !c.late {
			s.is(a, returned)
		}
		fetch(s, 1, a)
		check.EqualSlicesf(t, judge(s.events), c.want, "%s: broken", c.name)
		if l := linear(t, s.events); len(l.Faults) != c.faults || l.Checked != c.orders {
			t.Errorf("%s: %+v", c.name, l)
		}
	}
}

func TestParseValue(t *testing.T) {
	var scratch []byte
	for client := range int32(50) {
		for seq := range int64(200) {
			v := Value(client, seq)
			c, s, again, err := ParseValue(v, scratch)
			scratch = again
			if err != nil || c != client || s != seq {
				t.Fatalf("%d.%d: %d.%d, %v", client, seq, c, s, err)
			}
		}
	}
}

func TestParseValueDetectsChanges(t *testing.T) {
	v := Value(12, 345)
	for i := range v {
		for bit := range 8 {
			bad := slices.Clone(v)
			bad[i] ^= 1 << bit
			if c, s, _, err := ParseValue(bad, nil); err == nil {
				t.Fatalf("bit %d of byte %d: accepted as %d.%d", bit, i, c, s)
			}
		}
		if _, _, _, err := ParseValue(v[:i], nil); err == nil {
			t.Fatalf("a prefix of %d bytes was accepted", i)
		}
	}
}
