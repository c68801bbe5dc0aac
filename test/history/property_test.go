package history

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestIdealHistoriesAreAccepted(t *testing.T) {
	checked, seeds := 0, sebtest.Runs(400, 120)
	for seed := range uint64(seeds) {
		x := idealHistory(seed, 150)
		if rules := judge(x.events); len(rules) > 0 {
			c := NewChecker()
			for i := range x.events {
				c.Add(&x.events[i])
			}
			c.Finish()
			t.Fatalf("idealHistory(%d, 150): broken are %v\n%s", seed, c.Violations(), lines(t, x.events))
		}
		if seed%4 > 0 {
			continue
		}
		l := linear(t, x.events)
		if len(l.Faults) > 0 || l.Undecided > 0 {
			t.Fatalf("idealHistory(%d, 150): %+v\n%s", seed, l, lines(t, x.events))
		}
		checked += l.Checked
	}
	if checked < seeds*5/2 {
		t.Errorf("only %d operations were checked by Linear", checked)
	}
}

// broken makes a correct history incorrect and returns the rules that may detect it; none if it
// cannot be applied.
type broken struct {
	rules  []string
	linear bool // Linear must detect it as well
	apply  func(x *ideal, rng *rand.Rand) bool
}

// of picks an event.
func of(x *ideal, rng *rand.Rand, fits func(*Event) bool) *Event {
	var all []*Event
	for i := range x.events {
		if fits(&x.events[i]) {
			all = append(all, &x.events[i])
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all[rng.IntN(len(all))]
}

// begins finds the invocation of an event's operation.
func begins(x *ideal, e *Event) *Event {
	return &x.events[slices.IndexFunc(x.events, func(b Event) bool { return b.Op == e.Op })]
}

// readAt finds a record in an answer, except the last of the partition.
func readAt(x *ideal, rng *rand.Rand) (e *Event, i int) {
	e = of(x, rng, func(e *Event) bool { return len(e.Got) > 1 })
	if e == nil {
		return nil, 0
	}
	return e, rng.IntN(len(e.Got) - 1)
}

var mutations = map[string]broken{
	"a record is left out of an answer": {[]string{RuleGap}, true, func(x *ideal, rng *rand.Rand) bool {
		e, i := readAt(x, rng)
		if e == nil {
			return false
		}
		e.Got = slices.Delete(slices.Clone(e.Got), i, i+1)
		return true
	}},
	"an append is lost for all readers": {[]string{RuleGap}, true, func(x *ideal, rng *rand.Rand) bool {
		e, i := readAt(x, rng)
		if e == nil {
			return false
		}
		lost := e.Got[i]
		for j := range x.events {
			x.events[j].Got = slices.DeleteFunc(slices.Clone(x.events[j].Got), func(r Run) bool {
				return r[1] == lost[1] && r[2]+r[3] > lost[2] && r[2] < lost[2]+lost[3]
			})
		}
		return true
	}},
	"two records of an answer are swapped": {[]string{RuleOffset, RuleMoved, RuleDuplicate}, true, func(x *ideal, rng *rand.Rand) bool {
		e, i := readAt(x, rng)
		if e == nil || x.seen(e.Got[i]) < 2 {
			return false
		}
		e.Got = slices.Clone(e.Got)
		a, b := &e.Got[i], &e.Got[i+1]
		n := min(a[3], b[3])
		a[1], a[2], b[1], b[2], a[3] = b[1], b[2], a[1], a[2], n
		b[0], b[3] = a[0]+n, n
		e.Got = e.Got[:i+2]
		return true
	}},
	"an acknowledgement names the next offset": {[]string{RuleOffset, RuleMoved, RuleDuplicate, RuleWant, RuleTime, RuleTorn}, true, func(x *ideal, rng *rand.Rand) bool {
		e := of(x, rng, func(e *Event) bool { return e.Is == OK && begins(x, e).Do == Append && e.At >= x.start })
		if e == nil {
			return false
		}
		e.At++
		return true
	}},
	"a stored append is reported as rejected": {[]string{RuleAborted}, false, func(x *ideal, rng *rand.Rand) bool {
		e := of(x, rng, func(e *Event) bool { return e.Is == OK && begins(x, e).Do == Append && e.At >= x.start })
		if e == nil {
			return false
		}
		*e = Event{T: e.T, Op: e.Op, Is: Rejected}
		return true
	}},
	"a broker shows less than before": {[]string{RuleStale, RuleGap}, true, func(x *ideal, rng *rand.Rand) bool {
		last := len(x.events) - 1 // the final reads, at the newest epoch
		if e := &x.events[last]; len(e.Got) > 0 && x.end > 0 {
			e.End, e.Got, e.Cut = x.end-1, nil, false
			return true
		}
		return false
	}},
	"a group gets an old offset back": {[]string{RuleGroup}, true, func(x *ideal, _ *rand.Rand) bool {
		old := x.both(Event{Do: Commit, Client: 91, Group: "g", To: 500}, Event{Is: OK, Epoch: x.epoch})
		x.both(Event{Do: Commit, Client: 91, Group: "g", To: 501}, Event{Is: OK, Epoch: x.epoch})
		x.both(Event{Do: Fetch, Client: 92, Group: "g"}, Event{Is: OK, Epoch: x.epoch, At: 500, By: old})
		return true
	}},
	"bytes change": {[]string{RuleForeign}, false, func(x *ideal, rng *rand.Rand) bool {
		e, i := readAt(x, rng)
		if e == nil {
			return false
		}
		v := Value(int32(e.Got[i][1]), e.Got[i][2])
		v[rng.IntN(len(v))] ^= 1 << rng.IntN(8)
		if _, _, _, err := ParseValue(v, nil); err != nil {
			e.Bad = err.Error()
		}
		return true
	}},
}

// seen counts the answers that contain a record.
func (x *ideal) seen(r Run) (n int) {
	for i := range x.events {
		if slices.ContainsFunc(x.events[i].Got, func(o Run) bool { return o[1] == r[1] && o[2] == r[2] }) {
			n++
		}
	}
	return n
}

func TestBrokenHistoriesAreRejected(t *testing.T) {
	for name, m := range mutations {
		t.Run(name, func(t *testing.T) {
			done, found := 0, 0
			for seed := range uint64(sebtest.Runs(200, 50)) {
				x := idealHistory(seed, 120)
				if !m.apply(x, rand.New(rand.NewPCG(seed, 4))) {
					continue
				}
				done++
				rules := judge(x.events)
				if !slices.ContainsFunc(rules, func(r string) bool { return slices.Contains(m.rules, r) }) {
					t.Fatalf("idealHistory(%d, 120): broken are %q, want one of %q\n%s", seed, rules, m.rules, lines(t, x.events))
				}
				if m.linear && seed%8 == 0 {
					if l := linear(t, x.events); len(l.Faults) > 0 {
						found++
					}
				}
			}
			if done < 20 || m.linear && found == 0 {
				t.Errorf("Linear found %[2]d of %[1]d broken histories", done, found)
			}
		})
	}
}

func TestExcerptHasTheViolation(t *testing.T) {
	x := idealHistory(7, 2000)
	x.put(Event{Note: "SIGKILL", Lane: "broker 1"})
	x.both(Event{Do: Read, Client: 93, From: 0}, Event{Is: OK, Epoch: x.epoch, End: 1, Bad: "x"})
	x.both(Event{Do: Read, Client: 94, Part: 1}, Event{Is: Failed})
	c := NewChecker()
	for i := range x.events {
		c.Add(&x.events[i])
	}
	dir := t.TempDir()
	whole, part := filepath.Join(dir, "history"), filepath.Join(dir, "excerpt")
	must.NoError(t, os.WriteFile(whole, lines(t, x.events), 0o600))
	must.NoError(t, WriteExcerpt(part, whole, c.Violations()[0]))
	text := must.Get(os.ReadFile(part))(t)
	end := lines(t, x.events[len(x.events)-5:len(x.events)-2])
	if n := bytes.Count(text, []byte("\n")); n != excerptBefore || !bytes.HasSuffix(text, end) {
		t.Errorf("%d lines, which end in\n%s\nwant\n%s", n, text[max(0, len(text)-500):], end)
	}
}

func TestRecordedHistoryIsReadBack(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	r := must.Get(NewRecorder(path))(t)
	r.Return(r.Invoke(Event{Do: Append, Client: 1, N: 2}), Event{Is: OK, At: 0, Epoch: 3})
	r.Note("broker 1", "killed")
	open := r.Invoke(Event{Do: Append, Client: 1, Seq: 2, N: 1})
	r.Return(r.Invoke(Event{Do: Read, Client: 2}), Event{Is: OK, Epoch: 3, End: 2, Got: []Run{{0, 1, 0, 2}}})
	if start, end := r.Ends(0); start != 0 || end != 2 {
		t.Errorf("ends %d, %d", start, end)
	}
	select {
	case <-r.Bad():
		t.Error("the correct history has a violation")
	default:
	}
	violations, err := r.Finish(true)
	if err != nil || len(violations) > 0 {
		t.Fatalf("%v, %v", violations, err)
	}
	violations, stats, err := CheckFile(path, true)
	if err != nil || len(violations) > 0 || stats.Acked != 1 || stats.Records != 2 || stats.Read != 2 || stats.Ops != open+1 {
		t.Errorf("%v, %+v, %v", violations, stats, err)
	}
	whole, err := os.ReadFile(path)
	must.NoError(t, err)
	// A history whose last line is incomplete is valid up to that line.
	must.NoError(t, os.WriteFile(path, whole[:len(whole)-3], 0o600))
	if _, stats, err = CheckFile(path, false); err != nil || stats.Ops != open+1 || stats.Read != 0 {
		t.Errorf("%+v, %v", stats, err)
	}
}

func TestRecorderBad(t *testing.T) {
	r := must.Get(NewRecorder(filepath.Join(t.TempDir(), "history")))(t)
	r.Return(r.Invoke(Event{Do: Read}), Event{Is: OK, Bad: "x"})
	<-r.Bad()
	if violations, err := r.Finish(true); err != nil || len(violations) == 0 {
		t.Errorf("%v, %v", violations, err)
	}
}
