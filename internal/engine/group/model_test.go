package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// client is a consumer's view of its group.
type client struct {
	instance string
	id       string
	a        JoinAnswer // of the last OK
	join     Ticket     // parked
	sync     Ticket
}

// history is a run: the clients, and the coordinator's answers.
type history struct {
	*bench
	rt      *rapid.T
	clients []*client
	// The leader, protocol and assignment of each generation.
	leader   map[int32]string
	protocol map[int32]string
	assigned map[int32]map[string]string // assignment by member
	heir     map[string]string           // new ID of a static member to its old one
	commits  map[int32]int               // in flight, by generation
	last     int32
	simple   int // commits of non-members in flight
}

// TestRandomMembers checks these invariants: a generation has one leader and one protocol, only its
// members get its assignment, each request is answered once, no generation starts while a commit of
// an earlier one is in flight, generations grow, and nothing is left after all members have gone.
func TestRandomMembers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		cfg := config()
		cfg.MembersMax = rapid.IntRange(1, 6).Draw(rt, "members")
		cfg.BytesMax = rapid.SampledFrom([]int64{4_000, 10_000, 1 << 20}).Draw(rt, "bytes")
		cfg.InitialDelay = rapid.SampledFrom([]int64{0, second, 3 * second}).Draw(rt, "delay")
		h := &history{
			bench: newBenchWith(t, cfg), rt: rt, leader: map[int32]string{}, protocol: map[int32]string{},
			assigned: map[int32]map[string]string{}, heir: map[string]string{}, commits: map[int32]int{},
		}
		for i := range rapid.IntRange(1, 7).Draw(rt, "clients") {
			c := &client{}
			if i%3 == 1 {
				c.instance = "i"
			}
			if i%3 == 2 {
				c.instance = fmt.Sprint("i", i)
			}
			if rapid.IntRange(0, 2).Draw(rt, "from an earlier leadership") == 0 {
				c.id = memberSerial{cfg.Epoch - 1, uint64(i + 1)}.id("c")
				c.a.Generation = (&Config{Epoch: cfg.Epoch - 1}).firstGeneration() + 5
			}
			h.clients = append(h.clients, c)
		}
		for range rapid.IntRange(1, 120).Draw(rt, "steps") {
			h.step()
		}
		h.wind()
	})
}

func (h *history) step() {
	c := rapid.SampledFrom(h.clients).Draw(h.rt, "client")
	switch rapid.IntRange(0, 12).Draw(h.rt, "does") {
	case 0, 1, 2, 3:
		h.doJoin(c)
	case 4, 5, 6:
		h.doSync(c)
	case 7:
		caller := h.callerOf(c)
		if h.c.Heartbeat(h.now, &caller) == OK && caller.Generation != h.last {
			h.rt.Fatalf("a heartbeat of generation %d is accepted in %d", caller.Generation, h.last)
		}
	case 8:
		h.c.Leave(h.now, "g", []Leaving{{Member: c.id, Instance: rapid.SampledFrom([]string{"", c.instance}).Draw(h.rt, "as")}}, &h.out)
		h.hear()
	case 9:
		h.passHearing(rapid.SampledFrom([]int64{1, second, session, rebal, 400 * second}).Draw(h.rt, "for"))
	case 10, 11:
		h.doCommit(c)
	case 12:
		h.settleOne()
	}
	h.check()
}

// passHearing advances time, with every answer processed at its time.
func (h *history) passHearing(d int64) {
	end := h.now + d
	for h.c.Next() <= end {
		h.now = max(h.now, h.c.Next())
		h.c.Tick(h.now, &h.out)
		h.hear()
	}
	h.now = end
}

func (h *history) callerOf(c *client) Caller {
	r := Caller{Group: "g", Member: c.id, Instance: c.instance, Client: "c", Generation: c.a.Generation}
	if rapid.IntRange(0, 9).Draw(h.rt, "wrong") == 0 {
		r.Generation--
	}
	return r
}

func (h *history) doJoin(c *client) {
	protocols := rapid.SampledFrom([][]string{{"range"}, {"range", "sticky"}, {"sticky", "range"}, {"sticky"}}).Draw(h.rt, "protocols")
	r := request(c.id, c.instance, protocols...)
	r.TwoSteps = rapid.Bool().Draw(h.rt, "two steps")
	r.CanSkip = rapid.Bool().Draw(h.rt, "can skip")
	r.SessionTimeout = rapid.SampledFrom([]int64{session, 100 * session}).Draw(h.rt, "session")
	if rapid.IntRange(0, 5).Draw(h.rt, "restarted") == 0 {
		r.Member, c.sync = "", 0 // its earlier requests are abandoned
	}
	t := h.ticket()
	c.join = t
	h.c.Join(h.now, r, t, &h.out)
	h.hear()
}

func (h *history) doSync(c *client) {
	t := h.ticket()
	c.sync = t
	r := &SyncRequest{Caller: h.callerOf(c)}
	mine := map[string]string{}
	for _, m := range c.a.Members {
		mine[m.Member] = fmt.Sprintf("%d for %s", r.Generation, m.Member)
		r.Assignments = append(r.Assignments, Assignment{Member: m.Member, Data: []byte(mine[m.Member])})
	}
	if h.leader[r.Generation] == c.id && h.assigned[r.Generation] == nil {
		v, _ := h.c.Describe("g")
		if v.State == Completing && v.Generation == r.Generation && v.Leader == c.id {
			h.assigned[r.Generation] = mine
		}
	}
	h.c.Sync(h.now, r, t, &h.out)
	h.hear()
}

func (h *history) doCommit(c *client) {
	r := h.callerOf(c)
	if rapid.IntRange(0, 5).Draw(h.rt, "simple") == 0 {
		if _, code := h.c.Begin(h.now, &Caller{Group: "g", Generation: -1}); code == OK {
			if v, _ := h.c.Describe("g"); len(v.Members) > 0 {
				h.rt.Fatal("a group with members admits a commit of a non-member")
			}
			h.simple++
		}
		return
	}
	if _, code := h.c.Begin(h.now, &r); code == OK && r.Generation >= 0 {
		if r.Generation != h.last {
			h.rt.Fatalf("a commit of generation %d is admitted in %d", r.Generation, h.last)
		}
		h.commits[r.Generation]++
	} else if r.Generation < 0 {
		if v, ok := h.c.Describe("g"); ok && len(v.Members) == 0 && len(h.c.groups["g"].open) > h.inFlight() {
			h.simple++
		}
	}
}

func (h *history) inFlight() int {
	n := h.simple
	for _, g := range slices.Sorted(maps.Keys(h.commits)) {
		n += h.commits[g]
	}
	return n
}

func (h *history) settleOne() {
	if h.inFlight() == 0 {
		return
	}
	if h.simple > 0 {
		h.simple--
	} else {
		for _, g := range slices.Sorted(maps.Keys(h.commits)) {
			if h.commits[g] > 0 {
				h.commits[g]--
				break
			}
		}
	}
	h.c.End(h.now, "g", h.c.groups["g"].open[0], &h.out)
	h.hear()
}

// hear lets the clients process their answers, and checks them.
func (h *history) hear() {
	h.collect()
	for _, t := range slices.Sorted(maps.Keys(h.joins)) {
		h.hearJoin(h.joins[t])
	}
	clear(h.joins)
	for _, t := range slices.Sorted(maps.Keys(h.syncs)) {
		h.hearSync(h.syncs[t])
	}
	clear(h.syncs)
}

func (h *history) hearJoin(a JoinAnswer) {
	at := slices.IndexFunc(h.clients, func(c *client) bool { return c.join == a.Ticket })
	if a.Code == OK {
		h.checkGeneration(a)
	}
	if at < 0 {
		return // abandoned request
	}
	c := h.clients[at]
	c.join = 0
	switch a.Code {
	case OK:
		if c.instance != "" && c.id != "" && c.id != a.Member {
			h.heir[a.Member] = c.id
		}
		c.id, c.a = a.Member, a
	case MemberIDRequired:
		c.id = a.Member
	case UnknownMemberID, FencedInstanceID:
		c.id = ""
	}
}

func (h *history) checkGeneration(a JoinAnswer) {
	g := a.Generation
	if g > h.last {
		for of, n := range h.commits {
			if n > 0 {
				h.rt.Fatalf("generation %d starts with %d commits of generation %d in flight", g, n, of)
			}
		}
		if h.simple > 0 {
			h.rt.Fatalf("generation %d starts with a commit of a non-member in flight", g)
		}
		h.last = g
		h.leader[g], h.protocol[g] = a.Leader, a.Protocol
	}
	if g != h.last || h.protocol[g] != a.Protocol {
		h.rt.Fatalf("answer %+v, want generation %d, protocol %s", a, h.last, h.protocol[g])
	}
	if a.SkipAssignment || a.Leader != h.leader[g] {
		v, _ := h.c.Describe("g") // a static leader is back
		if v.Generation == g && v.Leader != a.Leader && v.Leader != a.Member {
			h.rt.Fatalf("answer %+v, want leader %s", a, v.Leader)
		}
		h.leader[g] = v.Leader
	}
	if a.Members != nil && a.Member != a.Leader {
		h.rt.Fatalf("answer %+v: members sent to a follower", a)
	}
}

func (h *history) hearSync(a SyncAnswer) {
	at := slices.IndexFunc(h.clients, func(c *client) bool { return c.sync == a.Ticket })
	if at < 0 {
		return
	}
	c := h.clients[at]
	c.sync = 0
	if a.Code != OK || len(a.Assignment) == 0 {
		return
	}
	made, owner, _ := strings.Cut(string(a.Assignment), " for ")
	if made != fmt.Sprint(h.last) || h.assigned[h.last][owner] != string(a.Assignment) {
		h.rt.Fatalf("member %s is assigned %q in generation %d", c.id, a.Assignment, h.last)
	}
	if c.instance == "" && owner != c.id {
		h.rt.Fatalf("member %s is assigned %q", c.id, a.Assignment)
	}
}

// check compares the core's byte counts with its contents.
func (h *history) check() {
	sum := int64(0)
	for name, g := range h.c.groups {
		n := groupCost + int64(len(name)) + int64(len(g.open))*commitCost
		for _, p := range g.pending {
			n += pendingCost + int64(len(p.id))
		}
		for _, m := range g.order {
			n += m.bytes()
		}
		if n != g.bytes || len(g.order) != len(g.members) || len(g.order)+len(g.pending) > h.c.cfg.MembersMax {
			h.rt.Fatalf("group counts %d bytes and holds %d, with %d members", g.bytes, n, len(g.order))
		}
		sum += n
	}
	if sum != h.c.Bytes() || sum > h.c.cfg.BytesMax {
		h.rt.Fatalf("core counts %d bytes and holds %d, limit %d", h.c.Bytes(), sum, h.c.cfg.BytesMax)
	}
	if h.c.Next() <= h.now-session {
		h.rt.Fatalf("tick at %d is overdue, now %d", h.c.Next(), h.now)
	}
}

// wind settles all commits and lets all sessions expire.
func (h *history) wind() {
	for h.inFlight() > 0 {
		h.settleOne()
	}
	h.passHearing(5000 * second)
	if len(h.parked) > 0 || len(h.c.groups) > 0 || h.c.Bytes() != 0 || h.c.Next() != never {
		h.rt.Fatalf("left: parked requests %v, %d groups, %d bytes", h.parked, len(h.c.groups), h.c.Bytes())
	}
}
