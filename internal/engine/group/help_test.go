package group

import (
	"fmt"
	"slices"
	"testing"

	"github.com/sebbroker/seb/test/must"
)

const (
	second  = int64(1e9)
	session = 10 * second
	rebal   = 60 * second
)

func config() Config {
	return Config{
		Epoch: 3, InitialDelay: 3 * second, SessionMin: second, SessionMax: 1000 * second, MembersMax: 20, BytesMax: 1 << 20,
		MemberBytesMax: 10_000,
	}
}

// bench drives a core and records its answers.
type bench struct {
	t       *testing.T
	c       *Core
	now     int64
	out     Answers
	tickets Ticket
	parked  map[Ticket]bool
	joins   map[Ticket]JoinAnswer
	syncs   map[Ticket]SyncAnswer
}

func newBench(t *testing.T) *bench { return newBenchWith(t, config()) }

func newBenchWith(t *testing.T, cfg Config) *bench {
	return &bench{t: t, c: New(cfg), now: second, parked: map[Ticket]bool{}, joins: map[Ticket]JoinAnswer{}, syncs: map[Ticket]SyncAnswer{}}
}

func (b *bench) ticket() Ticket {
	b.tickets++
	b.parked[b.tickets] = true
	return b.tickets
}

// collect records new answers. Each ticket is answered once.
func (b *bench) collect() {
	b.t.Helper()
	settle := func(t Ticket) {
		if !b.parked[t] {
			b.t.Fatalf("ticket %d is answered twice or unknown", t)
		}
		delete(b.parked, t)
	}
	for _, a := range b.out.Joins {
		settle(a.Ticket)
		b.joins[a.Ticket] = a
	}
	for _, a := range b.out.Syncs {
		settle(a.Ticket)
		b.syncs[a.Ticket] = a
	}
	b.out = Answers{}
}

func request(member, instance string, protocols ...string) *JoinRequest {
	r := &JoinRequest{
		Group: "g", Member: member, Instance: instance, Client: "c", Host: "h", ProtocolType: "consumer",
		SessionTimeout: session, RebalanceTimeout: rebal, CanSkip: true,
	}
	if len(protocols) == 0 {
		protocols = []string{"range"}
	}
	for _, p := range protocols {
		r.Protocols = append(r.Protocols, Protocol{Name: p, Metadata: []byte(p + "!")})
	}
	return r
}

func (b *bench) join(r *JoinRequest) Ticket {
	b.t.Helper()
	t := b.ticket()
	b.c.Join(b.now, r, t, &b.out)
	b.collect()
	return t
}

func (b *bench) sync(a JoinAnswer, assign ...Assignment) Ticket {
	b.t.Helper()
	t := b.ticket()
	b.c.Sync(b.now, &SyncRequest{Caller: b.caller(a), ProtocolType: a.ProtocolType, Protocol: a.Protocol, Assignments: assign}, t, &b.out)
	b.collect()
	return t
}

func (b *bench) caller(a JoinAnswer) Caller {
	return Caller{Group: "g", Member: a.Member, Client: "c", Generation: a.Generation}
}

func (b *bench) beat(a JoinAnswer) Code {
	c := b.caller(a)
	return b.c.Heartbeat(b.now, &c)
}

// pass advances time, with all ticks until then.
func (b *bench) pass(d int64) {
	b.t.Helper()
	end := b.now + d
	for b.c.Next() <= end {
		b.now = max(b.now, b.c.Next())
		b.c.Tick(b.now, &b.out)
		b.collect()
	}
	b.now = end
}

// joined returns the answer of a join, which must have the given code.
func (b *bench) joined(t Ticket, code Code) JoinAnswer {
	b.t.Helper()
	a, ok := b.joins[t]
	if !ok || a.Code != code {
		b.t.Fatalf("join %d: answered %v, %+v, want code %d", t, ok, a, code)
	}
	return a
}

func (b *bench) synced(t Ticket, code Code) string {
	b.t.Helper()
	a, ok := b.syncs[t]
	if !ok || a.Code != code {
		b.t.Fatalf("sync %d: answered %v, %+v, want code %d", t, ok, a, code)
	}
	return string(a.Assignment)
}

// stable creates a group of new members, led by the first.
func (b *bench) stable(rs ...*JoinRequest) []JoinAnswer {
	b.t.Helper()
	var ts []Ticket
	for _, r := range rs {
		ts = append(ts, b.join(r))
	}
	b.pass(b.c.cfg.InitialDelay)
	var all []JoinAnswer
	for _, t := range ts {
		all = append(all, b.joined(t, OK))
	}
	b.syncAll(all)
	return all
}

// syncAll lets all members sync, the leader last. Each is assigned its own ID.
func (b *bench) syncAll(all []JoinAnswer) {
	b.t.Helper()
	var assign []Assignment
	var ts []Ticket
	lead := slices.IndexFunc(all, func(a JoinAnswer) bool { return a.Member == a.Leader })
	for _, m := range all[lead].Members {
		assign = append(assign, Assignment{Member: m.Member, Data: []byte("for " + m.Member)})
	}
	for i, a := range all {
		if i != lead {
			ts = append(ts, b.sync(a))
		}
	}
	b.synced(b.sync(all[lead], assign...), OK)
	i := 0
	for _, a := range all {
		if a.Member != a.Leader {
			must.Equalf(b.t, b.synced(ts[i], OK), "for "+a.Member, "member %s is assigned", a.Member)
			i++
		}
	}
}

// gone checks that nothing is left.
func (b *bench) gone() {
	b.t.Helper()
	if len(b.c.groups) != 0 || len(b.c.queue) != 0 || b.c.Bytes() != 0 || b.c.Next() != never || len(b.parked) != 0 {
		b.t.Fatalf("left: %d groups, %d in the queue, %d bytes, next tick %d, parked requests %v", len(b.c.groups), len(b.c.queue), b.c.Bytes(), b.c.Next(), b.parked)
	}
}

func (b *bench) leave(as ...JoinAnswer) {
	b.t.Helper()
	for _, a := range as {
		codes := b.c.Leave(b.now, "g", []Leaving{{Member: a.Member}}, &b.out)
		b.collect()
		must.Equalf(b.t, codes[0], OK, "member %s leaves: codes %v", a.Member, codes)
	}
}

func (b *bench) begin(a JoinAnswer) Code {
	c := b.caller(a)
	_, code := b.c.Begin(b.now, &c)
	return code
}

func ids(as []JoinAnswer) string {
	s := ""
	for _, a := range as {
		s += fmt.Sprintf(" %s/%d", a.Member, a.Generation)
	}
	return s
}
