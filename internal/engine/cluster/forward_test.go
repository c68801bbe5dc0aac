package cluster

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/record"
)

func TestForwarding(t *testing.T) {
	run := func(name string) Member {
		return Member{Registration: Registration{Run: Run{Node: record.ID([]byte(name + "0123456789abcdef")[:16])}, Name: name, URL: name}, Up: true}
	}
	self, b, c := run("a"), run("b"), run("c")
	self.Self = true
	board := NewBoard(self.Registration)
	lead := func(name string) {
		list := []Member{self, b, c}
		for i := range list {
			list[i].Leads = list[i].Name == name
		}
		board.Set(list, nil)
	}
	now := time.Unix(100, 0)
	f := Forwarding{Address: func(r *Registration) string { return r.URL }, Until: now.Add(time.Second)}
	step := func(leads bool, want Route, to string) {
		t.Helper()
		if got, route := f.Next(board, leads, now); route != want || got.Name != to && route == ForwardCall {
			t.Fatalf("route %d to %q, want %d to %q", route, got.Name, want, to)
		}
	}
	step(false, HoldCall, "")
	lead("b")
	step(false, ForwardCall, "b")
	if !f.Again(CallRefused, true) || f.Again(CallRefused, false) || f.Again(CallUnknown, true) || f.Again(CallAnswered, true) || !f.Again(Unanswered(false), true) || f.Again(Unanswered(true), true) {
		t.Error("only a call that is whole and has no effect is sent again")
	}
	step(false, HoldCall, "") // the broker that has refused it is not asked at once
	f.Hint("c")
	step(false, ForwardCall, "c")
	f.Hint("a stranger")
	step(false, ForwardCall, "b")
	now = now.Add(2 * againAfter)
	step(false, ForwardCall, "b")
	if f.Again(CallRefused, true) {
		t.Errorf("a fifth attempt")
	}
	step(true, ServeCall, "")
	lead("a") // the log of this broker knows better
	step(false, HoldCall, "")
	now = now.Add(2 * time.Second)
	step(false, RefuseCall, "")

	lead("b")
	f = Forwarding{Address: f.Address, Forwarded: true, Until: now.Add(time.Second)}
	step(false, RefuseCall, "")
	step(true, ServeCall, "")
	f = Forwarding{Address: f.Address, Reads: true}
	if step(false, ForwardCall, "b"); !f.Again(CallUnknown, true) {
		t.Error("a read is not repeated")
	}
	lead("c")
	if grace, moved := Moved(board, b.Run); !moved || grace != movedGrace {
		t.Errorf("a leader that is heard: moved %v, grace %v", moved, grace)
	}
	b.Up = false
	lead("c")
	if grace, moved := Moved(board, b.Run); !moved || grace != silentGrace {
		t.Errorf("a leader that is silent: moved %v, grace %v", moved, grace)
	}
	if lead(""); true {
		if _, moved := Moved(board, b.Run); moved {
			t.Error("moved, though no other broker is known to lead")
		}
	}
}
