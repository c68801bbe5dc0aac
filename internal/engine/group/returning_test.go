package group

import (
	"fmt"
	"strings"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

// restarted returns a coordinator in the next epoch, and the members of the last one.
func restarted(t *testing.T, rs ...*JoinRequest) (*bench, []JoinAnswer) {
	t.Helper()
	members := newBench(t).stable(rs...)
	cfg := config()
	cfg.Epoch++
	cfg.Began, cfg.Session, cfg.Topics = second, quiet, world{}
	return newBenchWith(t, cfg), members
}

// TestIDsThatAreNotTaken: a coordinator accepts only IDs that an earlier leadership can have issued
// to this client.
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

// TestGenerationsStayInTheirEpoch: the last generation of an epoch is followed by its first, so
// generations of different epochs differ.
func TestGenerationsStayInTheirEpoch(t *testing.T) {
	b := consumerBench(t, world{})
	b.c.floor += 1<<generationBits - 2
	first, last := b.c.cfg.firstGeneration()+1, b.c.cfg.firstGeneration()+1<<generationBits-1
	for _, want := range []int32{last, first} {
		a := b.stable(request("", ""))[0]
		must.Equalf(t, a.Generation, want, "generation")
		b.leave(a)
	}
	if a := b.c.HeartbeatConsumer(b.now, (&reader{id: "x", names: []string{"t"}}).request()); a.Code != OK || a.Epoch <= last {
		t.Fatalf("answer %+v, want an epoch above %d", a, last)
	}
}

// TestGroupsThatAreRememberedAreBounded: above the bound no group accepts an ID of an earlier
// leadership.
func TestGroupsThatAreRememberedAreBounded(t *testing.T) {
	b, members := restarted(t, request("", ""))
	for i := range begunMax {
		b.c.begin(fmt.Sprint("group ", i))
	}
	b.c.begin("another")
	b.joined(b.join(request(members[0].Member, "")), UnknownMemberID)
	b.synced(b.sync(members[0]), UnknownMemberID)
	if beat, commit := b.beat(members[0]), b.begin(members[0]); beat != UnknownMemberID || commit != UnknownMemberID {
		t.Errorf("codes: heartbeat %d, commit %d, want UnknownMemberID", beat, commit)
	}
	must.Equalf(t, len(b.c.begun), begunMax, "groups are remembered")
}

// TestNoReturns: with NoReturns a member of an earlier leadership has to read the committed offsets again.
func TestNoReturns(t *testing.T) {
	b, members := restarted(t, request("", ""))
	b.c.cfg.NoReturns = true
	b.joined(b.join(request(members[0].Member, "")), UnknownMemberID)
	if beat, commit := b.beat(members[0]), b.begin(members[0]); beat != UnknownMemberID || commit != UnknownMemberID {
		t.Errorf("codes: heartbeat %d, commit %d, want UnknownMemberID", beat, commit)
	}
}
