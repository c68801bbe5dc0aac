package history

// faulty is a history with one fault, and the rules that it breaks.
type faulty struct {
	make func(s *script)
	want []string
}

func maybe(s *script, client int32, n int64) {
	s.both(Event{Do: Append, Client: client, Seq: 0, N: n}, Event{Is: Unknown})
}

func commitTo(s *script, to int64) int64 {
	return s.both(Event{Do: Commit, Group: "g", To: to}, Event{Is: OK, Epoch: 1})
}

func fetch(s *script, at, by int64) {
	s.both(Event{Do: Fetch, Group: "g"}, Event{Is: OK, At: at, By: by, Epoch: 1})
}

// poll is a read of a session, of a partition that ends at 3.
func poll(s *script, session, group string, runs ...Run) {
	s.both(Event{Do: Read, From: None, Session: session, Group: group}, Event{Is: OK, End: 3, Got: runs})
}

// three appends three records and reads them.
func three(s *script) {
	s.send(1, 0, 3, 0)
	s.see(1, Run{0, 1, 0, 3})
}

// progress is a fetch of a group's progress, answered by a broker of an epoch.
func progress(s *script, at int64, epoch uint32) {
	s.both(Event{Do: Progress, Group: "g"}, Event{Is: OK, At: at, Epoch: epoch})
}

var faults = map[string]faulty{
	"a group's progress decreases": {func(s *script) {
		three(s)
		poll(s, "a", "g", Run{0, 1, 0, 3})
		progress(s, 2, 1)
		progress(s, 1, 1)
	}, []string{RuleBack}},
	"a group's progress decreases at a newer broker": {func(s *script) {
		three(s)
		poll(s, "a", "g", Run{0, 1, 0, 3})
		progress(s, 2, 1)
		progress(s, None, 2)
	}, []string{RuleBack}},
	"members commit what they did not get": {func(s *script) {
		three(s)
		poll(s, "a", "g", Run{0, 1, 0, 1})
		progress(s, 2, 1)
	}, []string{RuleBack}},
	"a rejected record is read": {func(s *script) {
		s.both(Event{Do: Append, Client: 1, Seq: 0, N: 1}, Event{Is: Rejected})
		s.see(1, Run{0, 1, 0, 1})
	}, []string{RuleAborted}},
	"a record is read, then rejected": {func(s *script) {
		op := s.do(Event{Do: Append, Client: 1, Seq: 0, N: 1})
		s.see(1, Run{0, 1, 0, 1})
		s.is(op, Event{Is: Rejected})
	}, []string{RuleAborted}},
	"two records are acknowledged at one offset": {func(s *script) {
		a := s.do(Event{Do: Append, Client: 1, Seq: 0, N: 1})
		s.send(2, 0, 1, 0)
		s.is(a, Event{Is: OK, At: 0, Epoch: 1})
		s.see(1, Run{0, 2, 0, 1})
	}, []string{RuleLost, RuleOffset}},
	"two readers see two records at one offset": {func(s *script) {
		maybe(s, 1, 1)
		maybe(s, 2, 1)
		s.see(1, Run{0, 1, 0, 1})
		s.see(1, Run{0, 2, 0, 1})
	}, []string{RuleOffset}},
	"an acknowledged record is missing between others": {func(s *script) {
		s.send(1, 0, 1, 0)
		s.send(1, 1, 1, 1)
		s.send(1, 2, 1, 2)
		s.see(1, Run{0, 1, 0, 1}, Run{2, 1, 2, 1})
	}, []string{RuleGap, RuleLost}},
	"an acknowledged record was overwritten by another": {func(s *script) {
		s.send(1, 0, 1, 0)
		maybe(s, 2, 1)
		s.see(1, Run{0, 2, 0, 1})
	}, []string{RuleLost, RuleOffset, RuleTime}},
	"the last acknowledged record is missing": {func(s *script) {
		s.send(1, 0, 1, 0)
		s.send(1, 1, 1, 1)
		s.both(Event{Do: Read, From: 0}, Event{Is: OK, Epoch: 0, End: 1, Got: []Run{{0, 1, 0, 1}}})
	}, []string{RuleUnseen}},
	"a record is there twice": {func(s *script) {
		maybe(s, 1, 1)
		s.see(1, Run{0, 1, 0, 1}, Run{1, 1, 0, 1})
	}, []string{RuleDuplicate, RuleGap}},
	"an acknowledged record is elsewhere": {func(s *script) {
		maybe(s, 2, 1)
		s.send(1, 0, 1, 0)
		s.see(1, Run{0, 2, 0, 1}, Run{1, 1, 0, 1})
	}, []string{RuleGap, RuleOffset, RuleMoved}},
	"an idempotent producer's records are reordered": {func(s *script) {
		s.both(Event{Do: Append, Client: 1, Seq: 0, N: 1, Ordered: true}, Event{Is: Unknown})
		s.both(Event{Do: Append, Client: 1, Seq: 1, N: 1, Ordered: true}, Event{Is: OK, At: 0, Epoch: 1})
		s.see(1, Run{0, 1, 1, 1}, Run{1, 1, 0, 1})
	}, []string{RuleOrder}},
	"an append is torn apart": {func(s *script) {
		maybe(s, 1, 2)
		s.send(2, 0, 1, 1)
		s.see(1, Run{0, 1, 0, 1}, Run{1, 2, 0, 1}, Run{2, 1, 1, 1})
	}, []string{RuleTorn}},
	"only a part of an append is there": {func(s *script) {
		maybe(s, 1, 2)
		s.see(1, Run{0, 1, 0, 1})
	}, []string{RuleTorn}},
	"an append is below the known end": {func(s *script) {
		maybe(s, 2, 1)
		s.send(1, 0, 1, 1)
		s.send(1, 1, 1, 0)
		s.see(1, Run{0, 1, 1, 1}, Run{1, 1, 0, 1})
	}, []string{RuleTime}},
	"an unknown append is below the known end": {func(s *script) {
		s.send(1, 0, 1, 1)
		maybe(s, 2, 1)
		s.see(1, Run{0, 2, 0, 1}, Run{1, 1, 0, 1})
	}, []string{RuleTime}},
	"an append against its condition": {func(s *script) {
		s.both(Event{Do: Append, Client: 1, N: 1, Want: new(int64(1))}, Event{Is: OK, At: 0, Epoch: 1})
		s.see(1, Run{0, 1, 0, 1})
	}, []string{RuleWant}},
	"a condition that held is said to fail": {func(s *script) {
		s.both(Event{Do: Append, Client: 1, N: 1, Want: new(int64(0))}, Event{Is: Rejected, Code: CodeMismatch, At: 0, Epoch: 1})
	}, []string{RuleWant}},
	"a condition fails for an old end": {func(s *script) {
		three(s)
		s.both(Event{Do: Append, Client: 1, Seq: 3, N: 1, Want: new(int64(3))}, Event{Is: Rejected, Code: CodeMismatch, At: 2, Epoch: 1})
	}, []string{RuleStale}},

	"a session skips a record": {func(s *script) {
		s.send(1, 0, 3, 0)
		poll(s, "s", "", Run{0, 1, 0, 1})
		poll(s, "s", "", Run{2, 1, 2, 1})
		s.see(1, Run{0, 1, 0, 3})
	}, []string{RulePoll}},
	"a session goes back": {func(s *script) {
		s.send(1, 0, 3, 0)
		poll(s, "s", "", Run{0, 1, 0, 2})
		poll(s, "s", "", Run{1, 1, 1, 2})
		s.see(1, Run{0, 1, 0, 3})
	}, []string{RulePoll}},
	"a group's next reader skips a record": {func(s *script) {
		s.send(1, 0, 3, 0)
		poll(s, "s", "h", Run{0, 1, 0, 1})
		poll(s, "t", "h", Run{2, 1, 2, 1})
		s.see(1, Run{0, 1, 0, 3})
	}, []string{RuleSkip}},
	"a read has a gap within": {func(s *script) {
		s.send(1, 0, 3, 0)
		s.both(Event{Do: Read, From: 0}, Event{Is: OK, End: 3, Got: []Run{{0, 1, 0, 1}, {2, 1, 2, 1}}})
		s.see(1, Run{0, 1, 0, 3})
	}, []string{RuleGap}},
	"a read begins too late": {func(s *script) {
		s.send(1, 0, 3, 0)
		s.both(Event{Do: Read, From: 0}, Event{Is: OK, End: 3, Got: []Run{{1, 1, 1, 2}}})
		s.see(1, Run{0, 1, 0, 3})
	}, []string{RuleGap}},
	"a read gives nothing where something is": {func(s *script) {
		s.send(1, 0, 3, 0)
		s.both(Event{Do: Read, From: 1}, Event{Is: OK, Epoch: 1, End: 3})
		s.see(1, Run{0, 1, 0, 3})
	}, []string{RuleGap}},
	"an offset is never read": {func(s *script) {
		s.send(1, 0, 1, 0)
		s.send(2, 0, 1, 2)
		s.both(Event{Do: Read, From: 0}, Event{Is: OK, Epoch: 1, End: 3, Got: []Run{{0, 1, 0, 1}}})
		s.see(1, Run{2, 2, 0, 1})
	}, []string{RuleGap}},
	"bytes that were not sent": {func(s *script) {
		s.both(Event{Do: Read}, Event{Is: OK, Bad: "offset 0: xyz"})
	}, []string{RuleForeign}},
	"a record that was not sent": {func(s *script) {
		s.see(1, Run{0, 3, 0, 1})
	}, []string{RuleForeign, RuleGap}},
	"a record at an absurd offset": {func(s *script) {
		three(s)
		s.see(1, Run{1 << 50, 1, 0, 1})
	}, []string{RuleForeign}},
	"a record of another partition": {func(s *script) {
		three(s)
		s.both(Event{Do: Read, Part: 1}, Event{Is: OK, End: 1, Got: []Run{{0, 1, 0, 1}}})
	}, []string{RuleForeign, RuleGap}},
	"an end behind an acknowledgement": {func(s *script) {
		s.send(1, 0, 3, 0)
		s.both(Event{Do: Read, From: 0}, Event{Is: OK, Epoch: 1, End: 1, Got: []Run{{0, 1, 0, 1}}})
		s.see(1, Run{0, 1, 0, 3})
	}, []string{RuleStale}},
	"an end behind that of an older broker": {func(s *script) {
		maybe(s, 1, 2)
		s.see(1, Run{0, 1, 0, 2})
		s.both(Event{Do: Read, From: 5}, Event{Is: OK, Epoch: 3, End: 1})
	}, []string{RuleStale}},
	"a record behind the end": {func(s *script) {
		maybe(s, 1, 2)
		s.both(Event{Do: Read, From: 0}, Event{Is: OK, Epoch: 1, End: 1, Got: []Run{{0, 1, 0, 2}}})
	}, []string{RuleStale}},
	"a trimmed record comes back": {func(s *script) {
		three(s)
		s.both(Event{Do: Trim, To: 2}, Event{Is: OK, Epoch: 1, Start: 2})
		s.see(1, Run{0, 1, 0, 3})
	}, []string{RuleStale}},
	"the start goes back": {func(s *script) {
		s.both(Event{Do: Trim, To: 2}, Event{Is: OK, Epoch: 1, Start: 2})
		s.both(Event{Do: Read, From: 0}, Event{Is: Failed, Epoch: 1, Start: 1})
	}, []string{RuleStale}},
	"records go too early": {func(s *script) {
		three(s)
		s.both(Event{Do: Trim, To: 1}, Event{Is: Unknown})
		s.both(Event{Do: Read, From: 0}, Event{Is: Failed, Epoch: 1, Start: 2})
	}, []string{RuleStart}},
	"a trim that did not trim": {func(s *script) {
		s.both(Event{Do: Trim, To: 3}, Event{Is: OK, Epoch: 1, Start: 1})
	}, []string{RuleStart}},

	"a group's offset is an old one": {func(s *script) {
		old := commitTo(s, 1)
		commitTo(s, 2)
		fetch(s, 1, old)
	}, []string{RuleGroup}},
	"a group's offset is lost": {func(s *script) {
		commitTo(s, 1)
		fetch(s, None, 0)
	}, []string{RuleGroup}},
	"a group's offset goes back after one of unknown outcome was seen": {func(s *script) {
		old := commitTo(s, 1)
		op := s.both(Event{Do: Commit, Group: "g", To: 2}, Event{Is: Unknown})
		fetch(s, 2, op)
		fetch(s, 1, old)
	}, []string{RuleGroup}},
	"a group's offset without a commit": {func(s *script) {
		fetch(s, 7, 5)
	}, []string{RuleGroup}},
	"a group's offset is another than was committed": {func(s *script) {
		fetch(s, 7, commitTo(s, 1))
	}, []string{RuleGroup}},
	"a rejected commit is there": {func(s *script) {
		op := s.both(Event{Do: Commit, Group: "g", To: 2}, Event{Is: Rejected})
		fetch(s, 2, op)
	}, []string{RuleAborted}},
	"a commit was refused although its condition held": {func(s *script) {
		s.both(Event{Do: Commit, Group: "g", To: 2, Want: new(int64(None))}, Event{Is: Rejected, Code: CodeMismatch, At: None})
	}, []string{RuleWant}},

	"an operation ends twice": {func(s *script) {
		op := s.both(Event{Do: Fetch, Group: "g"}, Event{Is: Failed})
		s.is(op, Event{Is: Failed})
	}, []string{RuleHistory}},
	"a number is used twice": {func(s *script) {
		three(s)
		s.send(1, 0, 1, 3)
	}, []string{RuleHistory, RuleMoved}},
}
