package group

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestScenarios drives the group g of a coordinator in epoch 3. Clients remember their requests and
// the answers. Generations and member epochs are written as EPOCH.NUMBER. A join or sync without
// output waits; its answer is below the input that causes it. test/README.md explains how to add a
// scenario.
//
//	coordinator epoch=N members=N bytes=N     a new coordinator; the clients stay
//	topic T PARTITIONS|gone                   changes the existing topics
//	pass 3s                                   advances time, with every tick
//	join C id= instance= protocols=a,b type= session= two-steps= skip= group= owns=yes metadata=BYTES
//	member C ...                              sets the options of joins, without a join
//	sync C generation= protocol= type= assign=ID:DATA size=BYTES
//	                                          the leader assigns "for ID" to each, or DATA to ID
//	stable C...                               all join and sync, the first one leads
//	leave C|/INSTANCE|C/INSTANCE...           in one request
//	heartbeat C, begin C commits=T:0,1, offsets C, reserve, end N
//	consumer C topics=a,b pattern= assignor= epoch= keep=yes
//	                                          a heartbeat of a consumer; keep: revokes nothing
//	converge C...                             consumers heartbeat until nothing changes
//	describe, list, memory
func TestScenarios(t *testing.T) {
	sebtest.Scenarios(t, func(t *testing.T) func(c *sebtest.Command) []string {
		s := &scenario{clients: map[string]*player{}, topics: world{}, labels: map[Ticket]string{}}
		s.bench = consumerBench(t, s.topics)
		return s.perform
	})
}

type scenario struct {
	*bench
	*sebtest.Command
	topics  world
	clients map[string]*player
	labels  map[Ticket]string // client of each ticket
	lines   []string          // outputs
}

// player is a client: its requests, and the last generation that it joined.
type player struct {
	JoinRequest
	reader
	joined JoinAnswer
}

func (s *scenario) say(format string, args ...any) {
	s.lines = append(s.lines, fmt.Sprintf(format, args...))
}

func (s *scenario) perform(c *sebtest.Command) []string {
	s.Command, s.lines = c, nil
	switch c.Verb {
	case "coordinator":
		cfg := s.c.cfg
		cfg.Began = s.now
		s.option("epoch", func(v string) { cfg.Epoch = uint32(s.number(v)) })
		s.option("members", func(v string) { cfg.MembersMax = int(s.number(v)) })
		s.option("bytes", func(v string) { cfg.BytesMax = s.number(v) })
		s.c, s.parked = New(cfg), map[Ticket]bool{}
	case "topic":
		if delete(s.topics, c.Args[0]); c.Args[1] != "gone" {
			s.topics.set(c.Args[0], int32(s.number(c.Args[1])))
		}
	case "pass":
		d := must.Get(time.ParseDuration(c.Args[0]))(s.t)
		s.pass(int64(d))
	case "stable":
		for _, name := range c.Args {
			s.join(s.client(name), name)
		}
		s.pass(s.c.cfg.InitialDelay)
		for _, name := range append(c.Args[1:], c.Args[0]) {
			s.request(s.client(name), "sync", name)
		}
	case "leave":
		s.leave()
	case "reserve":
		s.commit(s.c.Reserve(s.now, "g"))
	case "end":
		s.c.End(s.now, "g", uint64(s.number(c.Args[0])), &s.out)
		s.hear("")
	case "converge":
		var all []*reader
		for _, name := range c.Args {
			all = append(all, &s.client(name).reader)
		}
		calm(s.t, s.bench, all...)
		for i, r := range all {
			s.say("%s: epoch %s, has %s", c.Args[i], numbered(r.epoch), s.list(r.owned))
		}
	case "describe":
		s.describe()
	case "list":
		for _, v := range s.c.List() {
			s.say("%s: %s, %s", v.Name, v.State, v.ProtocolType)
		}
	case "memory":
		if s.say("groups %d, bytes %d, waiting %d", len(s.c.groups), s.c.Bytes(), len(s.parked)); s.c.Bytes() == 0 {
			s.gone()
		}
	default:
		s.request(s.client(c.Args[0]), c.Verb, c.Args[0])
	}
	return s.lines
}

// request performs a command of one client.
func (s *scenario) request(p *player, verb, name string) {
	caller := Caller{Group: p.Group, Member: p.Member, Instance: p.Instance, Client: "c", Generation: p.joined.Generation}
	if p.reader.id != "" {
		caller.Member, caller.Generation = p.reader.id, p.reader.epoch
	}
	s.option("generation", func(v string) { caller.Generation = s.generation(v) })
	if verb != "consumer" {
		s.option("id", func(v string) { caller.Member, p.Member = v, v })
	}
	switch verb {
	case "member":
		s.ask(&p.JoinRequest)
	case "join":
		s.join(p, name)
	case "sync":
		s.sync(p, caller, name)
	case "heartbeat":
		s.say("%s", codeName(s.c.Heartbeat(s.now, &caller)))
	case "begin":
		s.option("commits", func(v string) { caller.Commits = s.parse(v) })
		s.commit(s.c.Begin(s.now, &caller))
	case "offsets":
		s.say("%s", codeName(s.c.CheckReader(&caller)))
	case "consumer":
		s.consumer(p)
	default:
		s.t.Fatalf("unknown command %q", verb)
	}
}

func (s *scenario) client(name string) *player {
	p := s.clients[name]
	if p == nil {
		p = &player{JoinRequest: *request("", ""), reader: reader{b: s.bench, names: []string{"t"}}, joined: JoinAnswer{Generation: -1}}
		s.clients[name] = p
	}
	s.option("instance", func(v string) { p.JoinRequest.Instance, p.reader.instance = v, v })
	return p
}

// ask applies the options of joins.
func (s *scenario) ask(r *JoinRequest) {
	s.option("protocols", func(v string) {
		if r.Protocols = nil; v != "none" {
			r.Protocols = request("", "", strings.Split(v, ",")...).Protocols
		}
	})
	s.option("metadata", func(v string) { r.Protocols[0].Metadata = bytes.Repeat([]byte("m"), int(s.number(v))) })
	s.option("type", func(v string) { r.ProtocolType = v })
	s.option("group", func(v string) { r.Group = v })
	s.option("session", func(v string) { r.SessionTimeout = s.number(v) * second })
	s.option("two-steps", func(v string) { r.TwoSteps = v == "yes" })
	s.option("skip", func(v string) { r.CanSkip = v == "yes" })
	s.option("owns", func(v string) { r.Owns = v == "yes" })
}

func (s *scenario) join(p *player, name string) {
	s.ask(&p.JoinRequest)
	s.labels[s.tickets+1] = "join " + name
	s.bench.join(&p.JoinRequest)
	s.hear("")
}

func (s *scenario) sync(p *player, caller Caller, name string) {
	r := &SyncRequest{Caller: caller, ProtocolType: p.joined.ProtocolType, Protocol: p.joined.Protocol}
	for _, m := range p.joined.Members {
		r.Assignments = append(r.Assignments, Assignment{Member: m.Member, Data: []byte("for " + m.Member)})
	}
	s.option("protocol", func(v string) { r.Protocol = v })
	s.option("type", func(v string) { r.ProtocolType = v })
	s.option("assign", func(v string) {
		id, data, _ := strings.Cut(v, ":")
		r.Assignments = []Assignment{{Member: id, Data: []byte(data)}}
	})
	s.option("size", func(v string) { r.Assignments[0].Data = make([]byte, s.number(v)) })
	t := s.ticket()
	s.labels[t] = "sync " + name
	s.c.Sync(s.now, r, t, &s.out)
	s.hear("")
}

// pass is bench.pass, and prints the time of each answer.
func (s *scenario) pass(d int64) {
	began, end := s.now, s.now+d
	for s.c.Next() <= end {
		s.now = max(s.now, s.c.Next())
		s.c.Tick(s.now, &s.out)
		s.hear(fmt.Sprintf("after %v: ", time.Duration(s.now-began)))
	}
	s.now = end
}

// hear prints new answers, and lets the clients process them.
func (s *scenario) hear(when string) {
	s.collect()
	for _, t := range slices.Sorted(maps.Keys(s.joins)) {
		a, line := s.joins[t], ""
		if _, name, _ := strings.Cut(s.labels[t], " "); a.Code == OK || a.Code == MemberIDRequired {
			s.clients[name].Member = a.Member
			if a.Code == OK {
				s.clients[name].joined = a
			}
		}
		if a.Member != "" {
			line = ", member " + a.Member
		}
		if a.Generation != -1 {
			line += fmt.Sprintf(", generation %s, %s %s, leader %s", numbered(a.Generation), a.ProtocolType, a.Protocol, a.Leader)
		}
		if a.SkipAssignment {
			line += ", skip the assignment"
		}
		for _, m := range a.Members {
			line += fmt.Sprintf(", %s%s %s", m.Member, strings.TrimSuffix("/"+m.Instance, "/"), m.Metadata[:min(10, len(m.Metadata))])
		}
		s.say("%s%s: %s%s", when, s.labels[t], codeName(a.Code), line)
	}
	for _, t := range slices.Sorted(maps.Keys(s.syncs)) {
		a := s.syncs[t]
		if s.say("%s%s: %s", when, s.labels[t], codeName(a.Code)); a.Code == OK {
			s.lines[len(s.lines)-1] += fmt.Sprintf(", %s %s, %q", a.ProtocolType, a.Protocol, a.Assignment)
		}
	}
	clear(s.joins)
	clear(s.syncs)
}

func (s *scenario) leave() {
	var list []Leaving
	for _, arg := range s.Args {
		id, instance, _ := strings.Cut(arg, "/")
		if p := s.clients[id]; p != nil {
			id = p.Member
		}
		list = append(list, Leaving{Member: id, Instance: instance})
	}
	var codes []string
	for _, code := range s.c.Leave(s.now, "g", list, &s.out) {
		codes = append(codes, codeName(code))
	}
	s.say("%s", strings.Join(codes, ", "))
	s.hear("")
}

func (s *scenario) commit(n uint64, code Code) {
	if s.say("%s", codeName(code)); code == OK {
		s.lines[len(s.lines)-1] += fmt.Sprintf(", commit %d", n)
	}
}

func (s *scenario) consumer(p *player) {
	r := &p.reader
	s.option("id", func(v string) { r.id, r.epoch = v, JoinEpoch })
	q, told, keeps := r.request(), true, false
	s.option("topics", func(v string) { r.names = strings.Split(v, ","); q.Names = r.names })
	s.option("pattern", func(v string) { r.pattern, q.Pattern = v, &v })
	s.option("assignor", func(v string) { r.assignor, q.Assignor = v, v })
	s.option("keep", func(string) { keeps = true })
	s.option("epoch", func(v string) { q.Epoch, told = s.generation(v), false })
	a := s.c.HeartbeatConsumer(s.now, q)
	line := codeName(a.Code)
	if a.Code == OK {
		line += fmt.Sprintf(", member %s, epoch %s", a.Member, numbered(a.Epoch))
	}
	if a.Assigned != nil {
		line += ", assigned " + s.list(*a.Assigned)
	}
	s.say("%s", line)
	switch {
	case a.Code == OK && q.Epoch == LeaveEpoch:
		*r = reader{b: s.bench, names: r.names, instance: r.instance}
	case told && slices.Contains([]Code{OK, UnknownMemberID, FencedMemberEpoch}, a.Code):
		r.hear(&a)
	}
	if !keeps {
		r.follow()
	}
}

func (s *scenario) describe() {
	v, _ := s.c.Describe("g")
	s.say("%s, generation %s, %q %q, leader %q", v.State, numbered(v.Generation), v.ProtocolType, v.Protocol, v.Leader)
	for _, m := range v.Members {
		s.say("%s/%s: %q, %q", m.Member, m.Instance, m.Metadata, m.Assignment)
	}
	if v.Consumers != nil {
		for _, m := range v.Consumers.Members {
			s.say("%s/%s: epoch %s, %s, has %s, target %s", m.Member, m.Instance, numbered(m.Epoch), v.Consumers.Assignor, s.list(m.Assigned), s.list(m.Target))
		}
	}
}

// option passes the value of an option to set, if it is given.
func (s *scenario) option(name string, set func(v string)) {
	if v, given := s.Option(name); given {
		set(v)
	}
}

func (s *scenario) number(v string) int64 {
	n := must.Get(strconv.ParseInt(v, 10, 64))(s.t)
	return n
}

// generation parses EPOCH.NUMBER, or a negative number.
func (s *scenario) generation(v string) int32 {
	epoch, number, _ := strings.Cut(v, ".")
	if number == "" {
		return int32(s.number(v))
	}
	return int32(s.number(epoch)<<generationBits + s.number(number))
}

func numbered(generation int32) string {
	if generation < 0 {
		return fmt.Sprint(generation)
	}
	return fmt.Sprintf("%d.%d", generation>>generationBits, generation&(1<<generationBits-1))
}

func (s *scenario) list(ps []Partition) string {
	var words []string
	for _, p := range ps {
		for name, topic := range s.topics {
			if topic.ID == p.Topic {
				words = append(words, fmt.Sprintf("%s:%d", name, p.Number))
			}
		}
	}
	return fmt.Sprint(words)
}

func (s *scenario) parse(v string) (ps []Partition) {
	for _, word := range strings.Split(v, ",") {
		name, number, _ := strings.Cut(word, ":")
		ps = append(ps, Partition{Topic: s.topics[name].ID, Number: int32(s.number(number))})
	}
	return ps
}

func codeName(c Code) string {
	return [...]string{
		"OK", "RequestTimedOut", "CoordinatorLoadInProgress", "CoordinatorNotAvailable", "NotCoordinator", "IllegalGeneration",
		"InconsistentGroupProtocol", "InvalidGroupID", "UnknownMemberID", "InvalidSessionTimeout", "RebalanceInProgress",
		"InvalidRequest", "NonEmptyGroup", "GroupIDNotFound", "MemberIDRequired", "GroupMaxSizeReached", "FencedInstanceID",
		"FencedMemberEpoch", "UnreleasedInstanceID", "UnsupportedAssignor", "StaleMemberEpoch", "InvalidRegularExpression",
	}[c]
}
