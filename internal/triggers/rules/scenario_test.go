package rules

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/driplang"
	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// scenario runs the commands of a file in testdata on an engine and a log in memory.
type scenario struct {
	*stepped
	sizes Sizes
	shown map[rule.ID]string // firings as last printed
	made  Put
	lines []string // outputs
	// Of the command that is executed: NAME ARG... [MEMBER=VALUE...] [: EXPRESSION]
	args    [4]string
	members []byte // as JSON
	expr    string
}

// TestScenarios runs testdata/*.txt with engines that do little, very little and much work at a
// time. A line is a command, or several with "; " between them; see the table commands. Its output
// is the answers and errors, then the firings that are new, changed or gone. "== name" starts with
// an empty log and a new engine. To add a scenario, write a comment and commands, run "go test -run
// Scenarios -update", and check each output against docs/reference/driplang.md and
// docs/guide/triggers.md.
func TestScenarios(t *testing.T) {
	one, large := small, DefaultSizes()
	one.Prune, one.Dues, one.Outbox, one.Sweep = 1, 1, 1, 1
	large.TickEvery, large.Retry, large.Unsafe = small.TickEvery, small.Retry, true
	for name, sizes := range map[string]Sizes{"small": small, "one": one, "large": large} {
		if testing.Short() && name != "one" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			sebtest.Scenarios(t, func(t *testing.T) func(c *sebtest.Command) []string {
				s := &scenario{sizes: sizes}
				s.open(t, newLog().broker(true), "")
				return func(c *sebtest.Command) []string { return s.run(c.Line()) }
			})
		})
	}
}

// open ends the engine and opens one on b. Only commands move the clock.
func (s *scenario) open(t testing.TB, b *fakeBroker, path string) {
	if s.stepped != nil {
		s.end()
	}
	s.stepped = stepBy(t, b, path, &s.sizes)
	parked := 0
	s.park = func() {
		if parked++; parked > 10_000 {
			t.Fatalf("a command does not return\n%s", s.logs)
		}
		s.w.Step(t.Context())
	}
}

func (s *scenario) print(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *scenario) try(err error) {
	if err != nil {
		s.print("error: %v", err)
	}
}

// run executes a line, and returns the answers of its commands and the changed firings.
func (s *scenario) run(line string) []string {
	s.lines = nil
	if strings.HasPrefix(line, "==") {
		s.shown = nil
		s.open(s.t, newLog().broker(true), "")
		return nil
	}
	for text := range strings.SplitSeq(line, "; ") {
		text, s.expr, _ = strings.Cut(text, ": ")
		words, members, n := strings.Fields(text), map[string]json.RawMessage{}, 0
		s.args = [4]string{}
		for _, word := range words[1:] {
			if name, value, ok := strings.Cut(word, "="); ok && !strings.Contains(name, "{") {
				members[name] = jsonOf(value)
			} else {
				s.args[n] = word
				n++
			}
		}
		s.members, _ = json.Marshal(members)
		if commands[words[0]] == nil {
			s.t.Fatalf("%s: unknown command", text)
		}
		commands[words[0]](s)
	}
	shown := map[rule.ID]string{}
	for _, x := range s.sorted() {
		shown[x.ID] = show(&x)
		if shown[x.ID] != s.shown[x.ID] {
			s.print("%s", shown[x.ID])
		}
		delete(s.shown, x.ID)
	}
	for _, gone := range slices.Sorted(maps.Values(s.shown)) {
		s.print("gone: %s", gone)
	}
	s.shown = shown
	return s.lines
}

// jsonOf returns a value as JSON: @DURATION is a time, and other text that is not JSON a string.
func jsonOf(value string) json.RawMessage {
	if json.Valid([]byte(value)) {
		return json.RawMessage(value)
	}
	after, _ := strings.CutPrefix(value, "@")
	if d, err := driplang.ParseDuration(after); err == nil && after != value {
		return fmt.Append(nil, start+d.Milliseconds())
	}
	return fmt.Appendf(nil, "%q", value)
}

// into decodes the members of the command.
func (s *scenario) into(v any) {
	d := json.NewDecoder(bytes.NewReader(s.members))
	d.DisallowUnknownFields()
	must.NoErrorf(s.t, d.Decode(v), "%s", s.members)
}

func (s *scenario) duration(i int) time.Duration {
	d := must.Get(driplang.ParseDuration(s.args[i]))(s.t)
	return d
}

// last returns the last firing of TRIGGER for ENTITY, or with @TIME the one of that instant.
func (s *scenario) last() *Firing {
	for _, x := range slices.Backward(s.sorted()) {
		if x.Trigger == s.args[0] && x.Entity == s.args[1] && (s.args[2] == "" || s.args[2][0] != '@' || s.args[2] == since(x.At)) {
			return &x
		}
	}
	s.t.Fatalf("%q: no firing", s.args)
	return nil
}

// since formats a time relative to start.
func since(ms int64) string {
	if ms < start {
		return "@-" + driplang.FormatDuration(time.Duration(start-ms)*time.Millisecond)
	}
	return "@" + cmp.Or(driplang.FormatDuration(time.Duration(ms-start)*time.Millisecond), "0s")
}

func show(x *Firing) string {
	text := fmt.Sprintf("%s/%d %s %s %s", x.Trigger, x.Version, x.Entity, since(x.At), x.State)
	if x.RetractedAt != 0 {
		text += " retracted " + since(x.RetractedAt)
	}
	if x.Retraction {
		text += " retraction"
	}
	if x.Tries > 0 {
		text += fmt.Sprintf(" tries %d %s", x.Tries, x.Outcome)
	}
	return strings.TrimSpace(text)
}

var commands = map[string]func(s *scenario){
	"advance": func(s *scenario) { s.b.advance(s.duration(0)) }, // DURATION
	"at":      func(s *scenario) { s.b.until(s.duration(0)) },   // DURATION since the start
	"calm":    func(s *scenario) { s.calm() },                   // runs until it waits
	"settle":  func(s *scenario) { s.settle() },                 // runs until idle; moves the clock by milliseconds
	"restart": func(s *scenario) { s.open(s.t, s.b, s.path); s.settle() },
	"crash":   func(s *scenario) { s.open(s.t, s.b, ""); s.settle() }, // without the file

	"put": func(s *scenario) { // ID [MEMBER=VALUE...] : EXPRESSION
		d := newDefinition(s.t, s.args[0], s.expr)
		s.into(&d)
		var err error
		if s.made, err = s.Put(s.t.Context(), d, nil); err == nil {
			s.print("version %d", s.made.Version)
		}
		s.try(err)
	},
	"answer": func(s *scenario) { // the last put
		s.print("events %s", strings.Join(s.made.Names, ", "))
		for _, text := range s.made.Warnings {
			s.print("warning: %s", text)
		}
	},
	"pause":  func(s *scenario) { s.try(s.Pause(s.t.Context(), s.args[0], true)) },     // ID
	"resume": func(s *scenario) { s.try(s.Pause(s.t.Context(), s.args[0], false)) },    // ID
	"delete": func(s *scenario) { s.try(s.Delete(s.t.Context(), s.args[0], nil)) },     // ID
	"erase":  func(s *scenario) { s.try(s.Erase(s.t.Context(), "events", s.args[0])) }, // ENTITY
	"resend": func(s *scenario) { s.try(s.Resend(s.t.Context(), s.last().ID)) },        // TRIGGER ENTITY
	"deliver": func(s *scenario) { // reports all pending firings as delivered
		for _, x := range s.sorted() {
			if x.State == rule.Pending {
				s.try(s.Report(s.t.Context(), x.ID, Attempt{Retraction: x.Retraction, State: rule.Delivered}))
			}
		}
	},
	"report": func(s *scenario) { // TRIGGER ENTITY STATE [MEMBER=VALUE...]: an attempt at the last firing
		rec := rule.Record{State: rule.State(s.args[2])}
		s.into(&rec)
		a := Attempt{Retraction: rec.Retraction, State: rec.State, NextTry: time.UnixMilli(rec.NextTry), Outcome: rec.Outcome}
		s.try(s.Report(s.t.Context(), s.last().ID, a))
	},
	"post": func(s *scenario) { // ENTITY EVENT [EVENT EVENT] [topic=NAME] [id=ID] [data=JSON]: in one batch
		e := struct {
			rule.Event
			Topic string
		}{Topic: "events"}
		s.into(&e)
		var list []rule.Event
		for _, name := range s.args[1:] {
			if e.EntityID, e.Name = s.args[0], name; name != "" {
				list = append(list, e.Event)
			}
		}
		s.b.postTo(e.Topic, list...)
	},
	"post-raw": func(s *scenario) { // ENTITY [VALUE]
		s.append("events", record.Record{Key: []byte(s.args[0]), Value: []byte(s.args[1])})
	},
	"counted": func(s *scenario) { s.capSpan = s.duration(0) }, // DURATION for frequency caps
	"expire": func(s *scenario) { // trims all records of firings, a day later
		s.b.advance(day + time.Second)
		p, _ := s.b.Position(topicID(s.t, s.b, "firings"))
		s.try(s.tick(s.t.Context()))
		s.settle()
		s.b.trim("firings", 0, p.Topics[0][0].Next)
		s.settle()
	},
	"topics": func(s *scenario) { s.topics() }, // creates the topics of a trigger
	"create-topic": func(s *scenario) { // NAME partitions=N
		var x struct{ Partitions int }
		s.into(&x)
		s.try(s.b.Create(s.t.Context(), s.args[0], x.Partitions, AppendTimes))
	},
	"delete-topic": func(s *scenario) { s.b.remove(s.args[0]) }, // NAME
	"trim": func(s *scenario) { // TOPIC offset=N, the first one that stays, of partition 0
		var x struct{ Offset int64 }
		s.into(&x)
		s.b.trim(s.args[0], 0, x.Offset)
	},

	"counter": func(s *scenario) { s.print("%d", s.counted(s.args[0])) }, // NAME
	"trigger": func(s *scenario) { // ID
		x, err := s.Trigger(s.t.Context(), s.args[0])
		if s.try(err); err == nil {
			s.print("version %d, %s, past up to %s, created %s, missing %t, deliver %q",
				x.Version, x.Status, since(x.At), since(x.Created), x.Missing, x.Deliver)
		}
	},
	"due": func(s *scenario) { // TRIGGER
		ids, next, err := s.Due(s.t.Context(), s.b.now())
		s.try(err)
		list, _, err := s.Pending(s.t.Context(), s.args[0], s.b.now(), PendingQuery{Limit: LimitMax})
		s.try(err)
		s.print("due %q, %d pending", ids, len(list))
		if !next.IsZero() {
			s.print("next %s", since(next.UnixMilli()))
		}
	},
	"witnesses": func(s *scenario) { // TRIGGER ENTITY: the matched events of the last firing
		list, err := s.MatchedEvents(s.t.Context(), s.last())
		s.try(err)
		for _, w := range list {
			s.print("%s %s %s", w.EntityID, w.Name, since(w.Time))
		}
	},
	"after": func(s *scenario) { // TRIGGER ENTITY: the firings after the last one
		list, err := s.Firings(s.t.Context(), FiringQuery{After: s.last().Seq, Limit: LimitMax})
		s.try(err)
		for i := range list {
			s.print("%s", show(&list[i]))
		}
	},
	"recorded": func(s *scenario) { // the records of firings, including trimmed ones
		t, _ := s.b.Topic("firings")
		var r record.Reader
		for _, b := range s.b.topicLocked(t.ID).parts[0].batches {
			for r.Reset(b, 0); r.Next(); {
				rec, _, err := rule.ParseRecord(r.Record().Value)
				if s.try(err); rec.Kind == rule.FiredRecord {
					s.print("%s/%d %s %s", rec.Trigger, rec.Version, rec.Entity, since(rec.At))
				}
			}
		}
	},
	"duplicate": func(s *scenario) { // TOPIC ENTITY ID
		t, _ := s.b.Topic(s.args[0])
		at, is, known := s.Duplicate(s.t.Context(), s.args[0], s.b.partOf(t, s.args[1]), s.args[1], s.args[2])
		s.print("duplicate %t, known %t, offset %d", is, known, at)
	},
}
