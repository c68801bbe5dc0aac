package group

import (
	"fmt"
	"strings"
	"testing"
)

// restarted is a coordinator in the epoch after another one's, and what that one's members were told last.
func restarted(t *testing.T, rs ...*JoinRequest) (*bench, []JoinAnswer) {
	t.Helper()
	members := newBench(t).stable(rs...)
	cfg := config()
	cfg.Epoch++
	cfg.Began, cfg.Session, cfg.Topics = second, quiet, world{}
	return newBenchWith(t, cfg), members
}

// TestMembersComeBackWithTheirIDs: a dynamic member of before the restart is asked to join again, does so with its id in a new
// generation, and until then and afterwards no commit of before is taken.
func TestMembersComeBackWithTheirIDs(t *testing.T) {
	b, members := restarted(t, request("", ""), request("", ""))
	refused := func() {
		t.Helper()
		for _, m := range members {
			if c := b.begin(m); c != IllegalGeneration {
				t.Fatalf("a commit of %s in generation %d: %d", m.Member, m.Generation, c)
			}
		}
	}
	for _, m := range members {
		if c := b.beat(m); c != RebalanceInProgress {
			t.Fatalf("a beat of %s: %d", m.Member, c)
		}
		b.synced(b.sync(m), RebalanceInProgress)
	}
	refused()
	b.gone() // asking takes nothing
	var rs []*JoinRequest
	for _, m := range members {
		rs = append(rs, request(m.Member, ""))
	}
	now := b.stable(rs...)
	for i, a := range now {
		if a.Member != members[i].Member || a.Generation <= members[i].Generation {
			t.Fatalf("%+v came back as %+v", members[i], a)
		}
		if c := b.beat(a); c != OK {
			t.Fatal(c)
		}
		if c := b.begin(a); c != OK {
			t.Fatal(c)
		}
		b.end()
	}
	refused()
	if fresh := b.joined(b.join(twoSteps()), MemberIDRequired); fresh.Member == now[0].Member || fresh.Member == now[1].Member {
		t.Fatalf("%s is given twice", fresh.Member)
	}
}

func twoSteps() *JoinRequest {
	r := request("", "")
	r.TwoSteps = true
	return r
}

// TestMembersThatComeTooLate: once a group has had a generation, or a member of it is gone, its members of before the restart are
// not known any more, whether there are others now or not.
func TestMembersThatComeTooLate(t *testing.T) {
	unknown := func(b *bench, late ...JoinAnswer) {
		t.Helper()
		for _, a := range late {
			b.joined(b.join(request(a.Member, "")), UnknownMemberID)
			b.synced(b.sync(a), UnknownMemberID)
			if c := b.beat(a); c != UnknownMemberID {
				t.Fatal(c)
			}
			if c := b.begin(a); c != UnknownMemberID {
				t.Fatal(c)
			}
		}
	}
	b, members := restarted(t, request("", ""), request("", ""))
	now := b.stable(request(members[0].Member, ""))
	unknown(b, members[1])
	b.leave(now[0])
	b.gone()
	unknown(b, members[1], now[0])

	b, members = restarted(t, request("", ""), request("", ""))
	now = b.stable(request(members[0].Member, ""))
	b.pass(session)
	b.gone()
	unknown(b, members[1], now[0])

	b, members = restarted(t, request("", ""), request("", ""))
	b.join(request(members[0].Member, ""))
	b.leave(members[0])
	b.gone()
	unknown(b, members...)

	b, members = restarted(t, request("", ""))
	b.c.HeartbeatConsumer(b.now, (&reader{id: "x", names: []string{"t"}}).request())
	if c := b.beat(members[0]); c != UnknownMemberID {
		t.Fatal(c)
	}

	b, members = restarted(t, request("", ""))
	if _, c := b.c.Begin(b.now, &Caller{Group: "g", Generation: -1}); c != OK {
		t.Fatal(c)
	}
	unknown(b, members...) // its offsets are changed
	b.end()

	b, members = restarted(t, request("", ""))
	b.pass(returnWithin)
	unknown(b, members...)

	b, members = restarted(t, request("", ""))
	for i := range begunMax {
		b.c.begin(fmt.Sprint("group ", i))
	}
	b.c.begin("another")
	unknown(b, members...)
	if len(b.c.begun) != begunMax {
		t.Fatalf("%d are remembered", len(b.c.begun))
	}
}

// TestIDsThatAreNotTaken: only ids that an earlier leadership can have given to this client are.
func TestIDsThatAreNotTaken(t *testing.T) {
	for id, want := range map[string]Code{
		"c-3-1": OK, "c-1-ffffffffffffffff": OK, "c-0-1": OK,
		"c-4-1": UnknownMemberID, "c-5-1": UnknownMemberID, "c-3-0": UnknownMemberID, "c-03-1": UnknownMemberID, "c-3-01": UnknownMemberID,
		"c-3-A": UnknownMemberID, "c-3": UnknownMemberID, "c-3-": UnknownMemberID, "c--1": UnknownMemberID, "c-3-1-1": UnknownMemberID,
		"d-3-1": UnknownMemberID, "3-1": UnknownMemberID, "-3-1": UnknownMemberID, "c-3-+1": UnknownMemberID, "c-100000000-1": UnknownMemberID,
		"c-3-10000000000000000": UnknownMemberID, "c" + strings.Repeat("-c", 1000) + "-3-1": UnknownMemberID,
	} {
		b, _ := restarted(t, request("", ""))
		ticket := b.join(request(id, ""))
		b.pass(config().InitialDelay)
		b.joined(ticket, want)
	}
	b, members := restarted(t, request("", ""), request("", "i"))
	b.joined(b.join(request(members[1].Member, "i")), UnknownMemberID) // static members join again
	b.joined(b.join(request(members[1].Member, "")), UnknownMemberID)
}

// TestStaticMembersOfBeforeAreRefused: a static member joins again, and its last run is fenced then.
func TestStaticMembersOfBeforeAreRefused(t *testing.T) {
	b, members := restarted(t, request("", "i"))
	was := b.caller(members[0])
	was.Instance = "i"
	if c := b.c.Heartbeat(b.now, &was); c != UnknownMemberID {
		t.Fatal(c)
	}
	b.stable(request("", "i"))
	if c := b.c.Heartbeat(b.now, &was); c != FencedInstanceID {
		t.Fatal(c)
	}
	if _, c := b.c.Begin(b.now, &was); c != FencedInstanceID {
		t.Fatal(c)
	}
}

// TestGenerationsStayInTheirEpoch: after the last generation of an epoch comes its first, so no other epoch has the same.
func TestGenerationsStayInTheirEpoch(t *testing.T) {
	b := consumerBench(t, world{})
	b.c.floor += 1<<generationBits - 2
	first, last := b.c.cfg.firstGeneration()+1, b.c.cfg.firstGeneration()+1<<generationBits-1
	for _, want := range []int32{last, first} {
		a := b.stable(request("", ""))[0]
		if a.Generation != want {
			t.Fatalf("generation %d, want %d", a.Generation, want)
		}
		b.leave(a)
	}
	if a := b.c.HeartbeatConsumer(b.now, (&reader{id: "x", names: []string{"t"}}).request()); a.Code != OK || a.Epoch <= last {
		t.Fatalf("%+v, want an epoch above %d", a, last)
	}
}
