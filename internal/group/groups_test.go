package group

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
)

func TestThreeMembersComeAndGo(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", ""), request("", ""))
	if v := b.state(Stable); len(v.Members) != 2 || v.Protocol != "range" || string(v.Members[1].Assignment) != "for "+all[1].Member ||
		string(v.Members[0].Metadata) != "range!" || v.Leader != all[0].Member || v.Generation != all[0].Generation {
		t.Fatalf("%+v", v)
	}
	if len(all[0].Members) != 2 || all[1].Members != nil || all[1].Leader != all[0].Member {
		t.Fatalf("%+v", all)
	}
	third := b.join(request("", ""))
	if c := b.beat(all[0]); c != RebalanceInProgress {
		t.Fatal(c)
	}
	var again []Ticket
	for _, a := range all {
		again = append(again, b.join(request(a.Member, "")))
	}
	next := []JoinAnswer{b.joined(again[0], OK), b.joined(again[1], OK), b.joined(third, OK)}
	if next[0].Generation != all[0].Generation+1 || next[2].Leader != all[0].Member || len(next[0].Members) != 3 {
		t.Fatalf("%+v", next)
	}
	if c := b.beat(next[1]); c != OK {
		t.Fatal("a beat while the leader assigns:", c)
	}
	if c := b.beat(all[1]); c != IllegalGeneration {
		t.Fatal(c)
	}
	b.syncAll(next)
	b.leave(next[0]) // the leader
	r := []Ticket{b.join(request(next[1].Member, "")), b.join(request(next[2].Member, ""))}
	last := []JoinAnswer{b.joined(r[0], OK), b.joined(r[1], OK)}
	if last[0].Leader != next[1].Member || len(last[0].Members) != 2 {
		t.Fatalf("%+v", last)
	}
	b.syncAll(last)
	b.leave(last...)
	b.gone()
}

func TestMemberIDsAreGivenInTwoSteps(t *testing.T) {
	b := newBench(t)
	r := request("", "")
	r.TwoSteps = true
	id := b.joined(b.join(r), MemberIDRequired).Member
	if !strings.HasPrefix(id, "c-3-") {
		t.Fatal(id)
	}
	if c := b.c.Heartbeat(b.now, &Caller{Group: "g", Member: id}); c != UnknownMemberID {
		t.Fatal(c)
	}
	other := b.joined(b.join(r), MemberIDRequired).Member
	in := b.join(request(id, ""))
	b.pass(5 * second)
	first := b.joined(in, OK) // a group that was empty does not wait for ids that nobody may come with
	b.synced(b.sync(first), OK)
	third := b.joined(b.join(r), MemberIDRequired).Member
	late := b.join(request(other, ""))
	in = b.join(request(id, ""))
	b.pass(5 * second)
	if !b.parked[in] || !b.parked[late] {
		t.Fatal("they do not wait for the third one, who has an id")
	}
	b.pass(session) // the third one's id is forgotten
	b.joined(late, OK)
	b.joined(in, OK)
	b.joined(b.join(request(third, "")), UnknownMemberID)
	b.leave(b.joins[in], b.joins[late])
	again := b.joined(b.join(r), MemberIDRequired)
	if again.Member == id || again.Member == other {
		t.Fatal("an id was given out twice")
	}
	b.leave(again) // an id that was not used yet
	b.gone()
}

func TestRequestsThatAreRefused(t *testing.T) {
	with := func(change func(r *JoinRequest)) *JoinRequest {
		r := request("", "")
		change(r)
		return r
	}
	for _, c := range []struct {
		name string
		r    *JoinRequest
		want Code
	}{
		{"no group", with(func(r *JoinRequest) { r.Group = "" }), InvalidGroupID},
		{"short session", with(func(r *JoinRequest) { r.SessionTimeout = 1 }), InvalidSessionTimeout},
		{"long session", with(func(r *JoinRequest) { r.SessionTimeout = math.MaxInt64 }), InvalidSessionTimeout},
		{"no protocol type", with(func(r *JoinRequest) { r.ProtocolType = "" }), InconsistentGroupProtocol},
		{"no protocols", with(func(r *JoinRequest) { r.Protocols = nil }), InconsistentGroupProtocol},
		{"other type", with(func(r *JoinRequest) { r.ProtocolType = "connect" }), InconsistentGroupProtocol},
		{"other protocol", request("", "", "sticky"), InconsistentGroupProtocol},
		{"unknown id", request("x", ""), UnknownMemberID},
		{"unknown id elsewhere", with(func(r *JoinRequest) { r.Group, r.Member = "h", "x" }), UnknownMemberID},
		{"unknown instance", request("x", "i"), UnknownMemberID},
		{"too much metadata", with(func(r *JoinRequest) { r.Protocols[0].Metadata = make([]byte, 10_000) }), GroupMaxSizeReached},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBench(t)
			b.stable(request("", ""))
			before := b.c.Bytes()
			if a := b.joined(b.join(c.r), c.want); a.Generation != -1 {
				t.Fatalf("%+v", a)
			}
			if b.c.Bytes() != before || len(b.c.groups) != 1 {
				t.Fatal("it left something behind")
			}
			b.state(Stable)
		})
	}
}

func TestTheProtocolThatMostLikeBest(t *testing.T) {
	for _, c := range []struct {
		want    string
		members [][]string
	}{
		{"range", [][]string{{"range"}}},
		{"a", [][]string{{"a", "b"}, {"b", "a"}}},
		{"b", [][]string{{"a", "b"}, {"b", "a"}, {"b", "a"}}},
		{"c", [][]string{{"a", "b", "c"}, {"b", "c"}, {"a", "c"}}},
	} {
		b := newBench(t)
		var rs []*JoinRequest
		for _, m := range c.members {
			rs = append(rs, request("", "", m...))
		}
		for _, a := range b.stable(rs...) {
			if a.Protocol != c.want {
				t.Errorf("%v: %s, want %s", c.members, a.Protocol, c.want)
			}
		}
	}
}

func TestJoiningAgain(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", ""), request("", ""))
	lead, follow := all[0], all[1]
	if a := b.joined(b.join(request(follow.Member, "")), OK); a.Generation != follow.Generation {
		t.Fatal("a follower with nothing new began a rebalance")
	}
	changed := b.join(request(follow.Member, "", "range", "sticky"))
	b.state(Preparing)
	twice := b.join(request(follow.Member, "", "range", "sticky"))
	b.joined(changed, RebalanceInProgress)
	a := []Ticket{b.join(request(lead.Member, "")), twice}
	next := []JoinAnswer{b.joined(a[0], OK), b.joined(a[1], OK)}
	if lost := b.joined(b.join(request(lead.Member, "")), OK); lost.Generation != next[0].Generation || len(lost.Members) != 2 {
		t.Fatalf("an answer that got lost: %+v", lost)
	}
	b.syncAll(next)
	b.join(request(lead.Member, "")) // a leader that joins again wants a rebalance
	b.state(Preparing)
}

func TestWhoIsSilentIsOut(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", ""), request("", ""), request("", ""))
	for range 5 {
		b.pass(session / 2)
		if c := b.beat(all[0]); c != OK && c != RebalanceInProgress {
			t.Fatal(c)
		}
	}
	if v := b.state(Preparing); len(v.Members) != 1 {
		t.Fatalf("%+v", v)
	}
	if c := b.beat(all[1]); c != UnknownMemberID {
		t.Fatal(c)
	}
	b.pass(session)
	b.gone()
}

func TestWhoDoesNotJoinAgainIsOut(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", ""), request("", ""))
	in := b.join(request(all[1].Member, "", "range", "x"))
	for b.parked[in] {
		b.pass(session / 2)
		if c := b.beat(all[0]); c != RebalanceInProgress && b.parked[in] {
			t.Fatal(c)
		}
		if b.now > 2*rebal {
			t.Fatal("the rebalance does not end")
		}
	}
	if a := b.joined(in, OK); a.Leader != a.Member || len(a.Members) != 1 {
		t.Fatalf("%+v", a)
	}
	if c := b.beat(all[0]); c != UnknownMemberID {
		t.Fatal(c)
	}
}

func TestALeaderThatMakesNoAssignmentIsOut(t *testing.T) {
	b := newBench(t)
	ts := []Ticket{b.join(request("", "")), b.join(request("", ""))}
	b.pass(3 * second)
	lead, follow := b.joined(ts[0], OK), b.joined(ts[1], OK)
	waits := b.sync(follow)
	for b.parked[waits] {
		b.pass(second)
		b.beat(lead)
	}
	b.synced(waits, RebalanceInProgress)
	if c := b.beat(lead); c != UnknownMemberID {
		t.Fatal(c)
	}
	a := b.joined(b.join(request(follow.Member, "")), OK)
	if a.Leader != follow.Member {
		t.Fatalf("%+v", a)
	}
}

func TestSyncIsChecked(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", ""), request("", ""))
	bad := func(change func(a *JoinAnswer)) Ticket {
		a := all[1]
		change(&a)
		return b.sync(a)
	}
	b.synced(bad(func(a *JoinAnswer) { a.Member = "x" }), UnknownMemberID)
	b.synced(bad(func(a *JoinAnswer) { a.Generation++ }), IllegalGeneration)
	b.synced(bad(func(a *JoinAnswer) { a.Protocol = "sticky" }), InconsistentGroupProtocol)
	b.synced(bad(func(a *JoinAnswer) { a.ProtocolType = "connect" }), InconsistentGroupProtocol)
	if got := b.synced(bad(func(a *JoinAnswer) { a.Protocol, a.ProtocolType = "", "" }), OK); got != "for "+all[1].Member {
		t.Fatal(got)
	}
	b.join(request(all[0].Member, ""))
	b.synced(b.sync(all[1]), RebalanceInProgress)
}

func TestStaticMembers(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", "i"), request("", "j"), request("", ""))
	// A follower comes back: nobody notices, and it has what it had.
	a := b.joined(b.join(request("", "j")), OK)
	if a.Generation != all[1].Generation || a.Member == all[1].Member || a.Leader != all[0].Member {
		t.Fatalf("%+v", a)
	}
	if got := b.synced(b.sync(a), OK); got != "for "+all[1].Member {
		t.Fatal(got)
	}
	old := Caller{Group: "g", Member: all[1].Member, Instance: "j", Generation: a.Generation}
	if c := b.c.Heartbeat(b.now, &old); c != FencedInstanceID {
		t.Fatal(c)
	}
	if _, c := b.c.Begin(b.now, &old); c != FencedInstanceID {
		t.Fatal(c)
	}
	b.joined(b.join(request(all[1].Member, "j")), FencedInstanceID)
	if c := b.beat(all[1]); c != UnknownMemberID {
		t.Fatal(c)
	}
	// The leader comes back: the assignment stands. One that does not know how to skip is told that another leads.
	lead := b.joined(b.join(request("", "i")), OK)
	if !lead.SkipAssignment || lead.Leader != lead.Member || len(lead.Members) != 3 || lead.Generation != a.Generation {
		t.Fatalf("%+v", lead)
	}
	r := request("", "i")
	r.CanSkip = false
	plain := b.joined(b.join(r), OK)
	if plain.SkipAssignment || plain.Leader != lead.Member || plain.Members != nil {
		t.Fatalf("%+v", plain)
	}
	b.state(Stable)
	// An administrator removes by instance; a wrong id with it is refused.
	codes := b.c.Leave(b.now, "g", []Leaving{{Instance: "j"}, {Instance: "k"}, {Instance: "i", Member: "x"}, {Member: all[2].Member}}, &b.out)
	b.collect()
	if !slices.Equal(codes, []Code{OK, UnknownMemberID, FencedInstanceID, OK}) {
		t.Fatal(codes)
	}
	b.pass(session)
	b.gone()
}

func TestAStaticMemberThatComesBackWithOtherProtocolsHasAllChooseAnew(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", "i", "range", "x"), request("", "j", "range", "x"))
	ts := []Ticket{b.join(request("", "j", "x"))}
	b.state(Preparing)
	ts = append(ts, b.join(request(all[0].Member, "i", "range", "x")))
	for _, ticket := range ts {
		if a := b.joined(ticket, OK); a.Protocol != "x" || a.Generation != all[0].Generation+1 {
			t.Fatalf("%+v", a)
		}
	}
}

func TestAStaticMemberThatIsAwayKeepsItsPlace(t *testing.T) {
	b := newBench(t)
	r := request("", "i")
	r.SessionTimeout = 500 * second
	all := b.stable(r, request("", ""))
	in := b.join(request(all[1].Member, "", "range", "x")) // a rebalance that i does not notice
	b.pass(rebal)
	a := b.joined(in, OK)
	if a.Leader != a.Member || len(a.Members) != 2 {
		t.Fatalf("%+v", a)
	}
	b.synced(b.sync(a, Assignment{Member: all[0].Member, Data: []byte("kept")}), OK)
	back := b.joined(b.join(request("", "i")), OK)
	if got := b.synced(b.sync(back), OK); got != "kept" || back.Generation != a.Generation {
		t.Fatalf("%q %+v", got, back)
	}
}

func TestStaticMembersAloneWaitForTheirLastOne(t *testing.T) {
	b := newBench(t)
	r := request("", "i")
	r.SessionTimeout = 500 * second
	all := b.stable(r, request("", ""))
	b.leave(all[1])
	b.pass(3 * rebal)
	b.state(Preparing)
	a := b.joined(b.join(request("", "i")), OK)
	if a.Leader != a.Member || a.Generation <= all[0].Generation {
		t.Fatalf("%+v", a)
	}
	b.pass(session)
	b.gone()
}

func TestATakeoverWhileItsLastRunIsParked(t *testing.T) {
	b := newBench(t)
	first := b.join(request("", "i"))
	second := b.join(request("", "i"))
	b.joined(first, FencedInstanceID)
	b.pass(3e9)
	a := b.joined(second, OK)
	third := b.join(request("", "i")) // while the assignment is due
	b.joined(third, OK)
	if b.joins[third].Generation != a.Generation+1 {
		t.Fatalf("%+v", b.joins[third])
	}
}

func TestCommitsAreChecked(t *testing.T) {
	b := newBench(t)
	simple := JoinAnswer{Generation: -1}
	if c := b.begin(simple); c != OK {
		t.Fatal(c)
	}
	if c := b.begin(JoinAnswer{Member: "x", Generation: 5}); c != UnknownMemberID {
		t.Fatal(c)
	}
	b.end()
	b.gone()
	all := b.stable(request("", ""), request("", ""))
	stale, wrong := all[0], all[0]
	stale.Generation--
	wrong.Member = "x"
	for a, want := range map[*JoinAnswer]Code{&simple: UnknownMemberID, &stale: IllegalGeneration, &wrong: UnknownMemberID} {
		if c := b.begin(*a); c != want {
			t.Errorf("%+v: %d, want %d", a, c, want)
		}
	}
	if _, c := b.c.Reserve(b.now, "g"); c != NonEmptyGroup {
		t.Fatal(c)
	}
	if _, c := b.c.Begin(b.now, &Caller{Generation: -1}); c != InvalidGroupID {
		t.Fatal(c)
	}
}

// TestAGenerationEndsWhenItsCommitsAreSettled: nobody is in the next one while a commit of this one may still land.
func TestAGenerationEndsWhenItsCommitsAreSettled(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", ""), request("", ""))
	for range 2 {
		if c := b.begin(all[0]); c != OK {
			t.Fatal(c)
		}
	}
	ts := []Ticket{b.join(request(all[0].Member, "", "range", "x"))}
	if c := b.begin(all[1]); c != OK {
		t.Fatal("a commit while others join:", c)
	}
	ts = append(ts, b.join(request(all[1].Member, "")))
	if c := b.begin(all[1]); c != RebalanceInProgress {
		t.Fatal("a commit that would hold all up:", c)
	}
	for range 3 {
		b.pass(2 * rebal)
		if !b.parked[ts[0]] || !b.parked[ts[1]] {
			t.Fatal("a generation began too early")
		}
		b.end()
	}
	next := []JoinAnswer{b.joined(ts[0], OK), b.joined(ts[1], OK)}
	if c := b.begin(next[0]); c != RebalanceInProgress {
		t.Fatal("a commit before the assignment is known:", c)
	}
	b.syncAll(next)
	if c := b.begin(all[0]); c != IllegalGeneration {
		t.Fatal(c)
	}
	// A member that left with a commit in flight, and one that comes: it waits too. So it does for a simple consumer's.
	b.begin(next[0])
	b.leave(next...)
	fresh := b.join(request("", ""))
	b.pass(second)
	if !b.parked[fresh] {
		t.Fatal("a new group does not wait for the old one's commit")
	}
	b.end()
	b.joined(fresh, OK)
	b.leave(b.joins[fresh])
	b.gone()
	if c := b.begin(JoinAnswer{Generation: -1}); c != OK {
		t.Fatal(c)
	}
	member := b.join(request("", ""))
	b.pass(rebal)
	if !b.parked[member] {
		t.Fatal("it does not wait for the simple consumer's commit")
	}
	b.end()
	b.joined(member, OK)
}

// TestAStaticMemberComesBackBesideCommits: they are no reason for a rebalance.
func TestAStaticMemberComesBackBesideCommits(t *testing.T) {
	b := newBench(t)
	all := b.stable(request("", "i"), request("", ""))
	b.begin(all[0])
	b.begin(all[1])
	if a := b.joined(b.join(request("", "i")), OK); a.Generation != all[0].Generation {
		t.Fatalf("%+v", a)
	}
	b.end()
	b.end()
	b.state(Stable)
}

// TestNothingIsUsedTwice: not by one coordinator, and not by another one.
func TestNothingIsUsedTwice(t *testing.T) {
	seen, last := map[string]bool{}, int32(0)
	for _, epoch := range []uint32{0, 1, 2, 17, 100_000} {
		cfg := config()
		cfg.Epoch = epoch
		b := newBenchWith(t, cfg)
		for range 5 {
			all := b.stable(request("", ""), request("", "i"))
			for _, a := range all {
				if seen[a.Member] || a.Generation <= last {
					t.Fatalf("epoch %d:%s after generation %d", epoch, ids(all), last)
				}
				seen[a.Member] = true
			}
			last = all[0].Generation
			b.leave(all...)
			b.gone()
		}
	}
	cfg := config()
	cfg.Epoch = math.MaxUint32
	if a := newBenchWith(t, cfg).stable(request("", ""))[0]; a.Generation <= 0 || !strings.HasPrefix(a.Member, "c-ffffffff-") {
		t.Fatalf("%+v", a)
	}
}

func TestLimits(t *testing.T) {
	b := newBench(t)
	var all []*JoinRequest
	for range b.c.cfg.MembersMax {
		all = append(all, request("", ""))
	}
	answers := b.stable(all...)
	b.joined(b.join(request("", "")), GroupMaxSizeReached)
	b.leave(answers[0])
	two := request("", "")
	two.TwoSteps = true
	b.joined(b.join(two), MemberIDRequired)
	b.joined(b.join(request("", "")), GroupMaxSizeReached)

	cfg := config()
	cfg.BytesMax = 20_000
	b = newBenchWith(t, cfg)
	for i := range 100 { // each a group
		r := request("", "")
		r.Group, r.TwoSteps = fmt.Sprint("g", i), i%2 == 0
		b.join(r)
		if b.c.Bytes() > cfg.BytesMax {
			t.Fatal(b.c.Bytes())
		}
	}
	if n := len(b.c.groups); n < 8 || n > 20 {
		t.Fatal(n, "groups")
	}
	b.pass(1000 * second)
	b.gone()
	// What fits is let in, and an assignment that does not is refused to all.
	one := b.stable(request("", ""))
	again := b.joined(b.join(request(one[0].Member, "", "range", "x")), OK)
	b.synced(b.sync(again, Assignment{Member: again.Member, Data: make([]byte, 20_000)}), GroupMaxSizeReached)
	big := request("", "", "range", "x")
	big.Protocols[0].Metadata = make([]byte, 9_000)
	b.join(big)
	late := b.join(big)
	b.joined(late, GroupMaxSizeReached)
	big.Member = again.Member
	b.joined(b.join(big), GroupMaxSizeReached)
	b.pass(1000 * second)
	b.gone()
}

func TestListing(t *testing.T) {
	b := newBench(t)
	for _, name := range []string{"b", "a", "c"} {
		r := request("", "")
		r.Group = name
		b.join(r)
	}
	var names []string
	for _, v := range b.c.List() {
		names = append(names, v.Name+" "+v.State.String()+" "+v.ProtocolType)
	}
	if got := strings.Join(names, ", "); got != "a PreparingRebalance consumer, b PreparingRebalance consumer, c PreparingRebalance consumer" {
		t.Fatal(got)
	}
	if v, ok := b.c.Describe("none"); ok || v.State != Dead {
		t.Fatalf("%+v", v)
	}
}
