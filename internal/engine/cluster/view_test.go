package cluster

import (
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

func TestBoardTellsOfANewLeader(t *testing.T) {
	self := Registration{Run: Run{Node: record.ID{1}, ID: record.ID{1}}}
	other := Registration{Run: Run{Node: record.ID{2}, ID: record.ID{2}}}
	b := NewBoard(self)
	var v View = b
	if _, ok := v.Leader(); ok || v.Self().Run != self.Run || len(v.Members()) != 1 {
		t.Fatalf("a new board has the members %v, a leader: %v", v.Members(), ok)
	}
	changed := v.Changed()
	b.Set([]Member{{Registration: self, Self: true}, {Registration: other, Up: true}}, []string{"no leader"})
	select {
	case <-changed:
		t.Fatal("a member without a claim is told as a new leader")
	default:
	}
	b.Set([]Member{{Registration: self, Self: true}, {Registration: other, Up: true, Leads: true}}, nil)
	select {
	case <-changed:
	default:
		t.Fatal("a new leader does not close the channel")
	}
	if r, ok := v.Leader(); !ok || r.Run != other.Run {
		t.Fatalf("leader %v, %v, want %v", r.Run, ok, other.Run)
	}
	must.Equalf(t, len(v.Wrong()), 0, "wrong: %q after it was repaired", v.Wrong())
}
