package group

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// world is the topics that there are.
type world map[string]TopicInfo

// Topic implements Topics.
func (w world) Topic(name string) (TopicInfo, bool) { t, ok := w[name]; return t, ok }

// Names implements Topics.
func (w world) Names() []string { return slices.Sorted(maps.Keys(w)) }

func (w world) set(name string, partitions int32) {
	w[name] = TopicInfo{ID: [16]byte{byte(len(name)), name[0]}, Partitions: partitions}
}

const quiet = 45 * second

func consumerBench(t *testing.T, topics world) *bench {
	cfg := config()
	cfg.Session, cfg.Topics = quiet, topics
	return newBenchWith(t, cfg)
}

// reader is a client of the consumer protocol: it takes what it is told, lets go of what it must, and says so.
type reader struct {
	b        *bench
	instance string
	names    []string
	pattern  string
	assignor string

	id    string
	epoch int32
	owned partitions
	told  partitions // to have
	dirty bool       // what it has is to be said
}

func (r *reader) request() *HeartbeatRequest {
	q := &HeartbeatRequest{Group: "g", Member: r.id, Instance: r.instance, Client: "c", Host: "h", Epoch: r.epoch}
	if r.epoch == JoinEpoch {
		q.RebalanceTimeout, q.Names, q.Pattern, q.Assignor, q.Owned = rebal, r.names, &r.pattern, r.assignor, &[]Partition{}
	} else if r.dirty {
		owned := []Partition(slices.Clone(r.owned))
		q.Owned = &owned
	}
	return q
}

// hear takes an answer.
func (r *reader) hear(a *HeartbeatAnswer) {
	switch a.Code {
	case OK:
		if r.epoch == JoinEpoch {
			r.owned, r.told, r.dirty = nil, nil, false
		}
		r.id, r.epoch = a.Member, a.Epoch
		if a.Assigned != nil {
			r.dirty = false
			r.told = setOf(*a.Assigned)
		}
	case UnknownMemberID, FencedMemberEpoch:
		r.epoch, r.owned, r.told, r.dirty = JoinEpoch, nil, nil, false
	default:
		r.b.t.Fatalf("%s hears %d", r.id, a.Code)
	}
}

// follow makes of what it was told what it has.
func (r *reader) follow() {
	if !slices.Equal(r.owned, r.told) {
		r.owned, r.dirty = r.told, true
	}
}

func (r *reader) beat() {
	r.b.t.Helper()
	a := r.b.c.HeartbeatConsumer(r.b.now, r.request())
	r.hear(&a)
	r.follow()
}

func (r *reader) leave() {
	r.b.t.Helper()
	q := r.request()
	q.Epoch = LeaveEpoch
	if a := r.b.c.HeartbeatConsumer(r.b.now, q); a.Code != OK || a.Epoch != LeaveEpoch {
		r.b.t.Fatalf("%+v", a)
	}
	*r = reader{b: r.b, names: r.names, instance: r.instance}
}

func readers(b *bench, n int, names ...string) []*reader {
	all := make([]*reader, n)
	for i := range all {
		all[i] = &reader{b: b, names: names}
	}
	return all
}

// calm has all beat until nothing changes, and returns how many partitions each has.
func calm(t *testing.T, b *bench, all ...*reader) (counts []int) {
	t.Helper()
	for range 10 {
		for _, r := range all {
			r.beat()
		}
	}
	v, _ := b.c.Describe("g")
	if v.State != Stable || v.Consumers == nil || len(v.Consumers.Members) != len(all) {
		t.Fatalf("%+v", v)
	}
	have := partitions{}
	for _, r := range all {
		if r.epoch != v.Generation || !r.owned.apart(have) {
			t.Fatalf("%s at %d of %d has %v beside %v", r.id, r.epoch, v.Generation, r.owned, have)
		}
		have = have.with(r.owned)
		counts = append(counts, len(r.owned))
	}
	return counts
}

func same(t *testing.T, what string, got, want any) {
	t.Helper()
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("%s: %v, want %v", what, got, want)
	}
}

func TestConsumersShare(t *testing.T) {
	topics := world{}
	topics.set("one", 4)
	b := consumerBench(t, topics)
	all := readers(b, 3, "one", "three")
	same(t, "alone", calm(t, b, all[0]), []int{4})
	epoch := all[0].epoch
	if epoch>>generationBits != int32(b.c.cfg.Epoch) {
		t.Errorf("epoch %d does not hold that of the log, %d", epoch, b.c.cfg.Epoch)
	}
	before := all[0].owned
	all[1].beat()
	same(t, "what is not let go of", len(all[1].owned), 0)
	same(t, "two", calm(t, b, all[0], all[1]), []int{2, 2})
	if len(all[0].owned.without(before)) > 0 || all[0].epoch <= epoch {
		t.Errorf("%v became %v, %d %d", before, all[0].owned, epoch, all[0].epoch)
	}
	topics.set("three", 5) // it is made
	same(t, "another topic", calm(t, b, all[0], all[1]), []int{5, 4})
	topics.set("one", 6) // it grows
	same(t, "more partitions", calm(t, b, all...), []int{4, 4, 3})
	all[0].leave()
	same(t, "after one has left", calm(t, b, all[1], all[2]), []int{6, 5})
	delete(topics, "three")
	same(t, "a topic less", calm(t, b, all[1], all[2]), []int{3, 3})
	all[1].leave()
	all[2].leave()
	if len(b.c.groups) > 0 || b.c.bytes != 0 {
		t.Errorf("%d groups, %d bytes are left", len(b.c.groups), b.c.bytes)
	}
	all[0].beat()
	if all[0].epoch <= epoch {
		t.Errorf("a group that comes again begins at %d, after %d", all[0].epoch, epoch)
	}
}

func TestConsumersWishes(t *testing.T) {
	topics := world{}
	for i, name := range []string{"a", "ab", "abc", "b"} {
		topics.set(name, int32(i+2))
	}
	b := consumerBench(t, topics)
	pattern := &reader{b: b, pattern: "ab?", assignor: Range}
	other := &reader{b: b, names: []string{"a", "ab"}, assignor: Range}
	same(t, "by a pattern that is all of a name", calm(t, b, pattern), []int{5})
	topics.set("ab", 4)
	same(t, "ranges", calm(t, b, pattern, other), []int{3, 3})
	v, _ := b.c.Describe("g")
	same(t, "assignor", v.Consumers.Assignor, Range)
	for _, r := range []*reader{pattern, other} {
		for i, p := range r.owned[1:] {
			if p.Topic == r.owned[i].Topic && p.Number != r.owned[i].Number+1 {
				t.Errorf("%v are not neighbours", r.owned)
			}
		}
	}
	q := pattern.request()
	q.Names, q.Pattern, q.Assignor = []string{"b"}, new(string), Uniform
	a := b.c.HeartbeatConsumer(b.now, q)
	pattern.hear(&a)
	pattern.follow()
	same(t, "other wishes", calm(t, b, pattern, other), []int{5, 6})
	bad, large, long := "(a", "(some text){900}", strings.Repeat("(", 200)
	for _, c := range []struct {
		want   Code
		change func(q *HeartbeatRequest)
	}{
		{InvalidRequest, func(q *HeartbeatRequest) { q.Epoch = -3 }},
		{InvalidRequest, func(q *HeartbeatRequest) { q.Member = "" }},
		{InvalidRequest, func(q *HeartbeatRequest) { q.Epoch = JoinEpoch }},
		{UnsupportedAssignor, func(q *HeartbeatRequest) { q.Assignor = "best" }},
		{InvalidRegularExpression, func(q *HeartbeatRequest) { q.Pattern = &bad }},
		{GroupMaxSizeReached, func(q *HeartbeatRequest) { q.Names = make([]string, 1000) }},
		{GroupMaxSizeReached, func(q *HeartbeatRequest) { q.Pattern = &large }},
		{GroupMaxSizeReached, func(q *HeartbeatRequest) { q.Pattern = &long }}, // by its length, before anybody looks what it is
		{UnknownMemberID, func(q *HeartbeatRequest) { q.Member = "nobody" }},
		{FencedMemberEpoch, func(q *HeartbeatRequest) { q.Epoch++ }},
		{FencedMemberEpoch, func(q *HeartbeatRequest) { q.Epoch-- }},
	} {
		q := pattern.request()
		c.change(q)
		if a := b.c.HeartbeatConsumer(b.now, q); a.Code != c.want || a.Assigned != nil {
			t.Errorf("%+v, want %d", a, c.want)
		}
	}
	same(t, "after faults", calm(t, b, pattern, other), []int{5, 6})
}

// TestConsumersWaitForCommits: what a member has committed until it lets go of a partition is settled before another is
// given it; what is committed later is not waited for.
func TestConsumersWaitForCommits(t *testing.T) {
	topics := world{}
	topics.set("t", 2)
	b := consumerBench(t, topics)
	all := readers(b, 2, "t")
	calm(t, b, all[0])
	begin := func(r *reader) uint64 {
		t.Helper()
		n, code := b.c.Begin(b.now, &Caller{Group: "g", Member: r.id, Generation: r.epoch})
		if code != OK {
			t.Fatal(code)
		}
		return n
	}
	first := begin(all[0])
	for _, stale := range []int32{0, all[0].epoch - 1, all[0].epoch + 1} {
		if _, code := b.c.Begin(b.now, &Caller{Group: "g", Member: all[0].id, Generation: stale, Commits: all[0].owned}); code != StaleMemberEpoch {
			t.Error(stale, code)
		}
	}
	if _, code := b.c.Begin(b.now, &Caller{Group: "g", Generation: -1}); code != UnknownMemberID {
		t.Error(code)
	}
	if _, code := b.c.Reserve(b.now, "g"); code != NonEmptyGroup {
		t.Error(code)
	}
	all[1].beat()
	all[0].beat() // is told
	second := begin(all[0])
	all[0].beat() // has let go
	third := begin(all[0])
	for range 3 {
		all[1].beat()
		same(t, "given before the commits are settled", len(all[1].owned), 0)
	}
	v, _ := b.c.Describe("g")
	same(t, "state", v.State, Reconciling)
	b.c.End(b.now, "g", second, &b.out)
	all[1].beat()
	same(t, "given before the first commit is settled", len(all[1].owned), 0)
	b.c.End(b.now, "g", first, &b.out)
	all[1].beat()
	same(t, "given", len(all[1].owned), 1)
	b.c.End(b.now, "g", third, &b.out)
	calm(t, b, all...)
	fourth := begin(all[0])
	b.now += quiet
	b.c.Tick(b.now, &b.out) // both were silent
	all[1].beat()
	same(t, "given of who has expired", len(all[1].owned), 0)
	b.c.End(b.now, "g", fourth, &b.out)
	all[1].beat()
	same(t, "given then", len(all[1].owned), 2)
}

// TestLateCommits: a commit of an epoch that the member has left behind is admitted for what was its own all the time.
func TestLateCommits(t *testing.T) {
	topics := world{}
	topics.set("t", 4)
	b := consumerBench(t, topics)
	all := readers(b, 2, "t")
	calm(t, b, all[0])
	before, had := all[0].epoch, all[0].owned
	calm(t, b, all...)
	late := func(list partitions) Code {
		n, code := b.c.Begin(b.now, &Caller{Group: "g", Member: all[0].id, Generation: before, Commits: list})
		if code == OK {
			b.c.End(b.now, "g", n, &b.out)
		}
		return code
	}
	same(t, "of what it has kept", late(all[0].owned), OK)
	same(t, "of what it had", late(had), StaleMemberEpoch)
	same(t, "of nothing", late(nil), StaleMemberEpoch)
	before = all[0].epoch
	all[1].leave()
	calm(t, b, all[0])
	same(t, "of what it has got back since", late(had), StaleMemberEpoch)
	same(t, "of the rest", late(had.without(had.filter(func(p Partition) bool { return b.c.groups["g"].consumers.members[all[0].id].since[p] > before }))), OK)
}

func TestConsumersExpire(t *testing.T) {
	topics := world{}
	topics.set("t", 4)
	b := consumerBench(t, topics)
	all := readers(b, 2, "t")
	calm(t, b, all...)
	b.now += quiet - 1
	all[0].beat()
	b.c.Tick(b.now, &b.out)
	same(t, "before the session is over", calm(t, b, all...), []int{2, 2})
	gone := *all[1]
	for range 2 {
		b.now += quiet/2 + 1
		b.c.Tick(b.now, &b.out)
		all[0].beat()
	}
	same(t, "after it", calm(t, b, all[0]), []int{4})
	if a := b.c.HeartbeatConsumer(b.now, gone.request()); a.Code != UnknownMemberID {
		t.Errorf("%+v", a)
	}
	// One that is told to let go and does not is out when its time for that is over, though it beats.
	all[1].beat()
	for all[1].owned == nil {
		b.now += 10 * second
		b.c.Tick(b.now, &b.out)
		if a := b.c.HeartbeatConsumer(b.now, &HeartbeatRequest{Group: "g", Member: all[0].id, Epoch: all[0].epoch}); a.Code != OK && b.now < rebal {
			t.Fatalf("%+v", a)
		}
		if b.now > 1000*second {
			t.Fatal("nothing is given")
		}
		all[1].beat()
	}
	same(t, "after the other was put out", len(all[1].owned), 4)
}

func TestStaticConsumers(t *testing.T) {
	topics := world{}
	topics.set("t", 4)
	b := consumerBench(t, topics)
	static := &reader{b: b, names: []string{"t"}, instance: "i", id: "first"}
	other := &reader{b: b, names: []string{"t"}}
	calm(t, b, static, other)
	had, epoch := static.owned, other.epoch
	second := &reader{b: b, names: []string{"t"}, instance: "i", id: "second"}
	if a := b.c.HeartbeatConsumer(b.now, second.request()); a.Code != UnreleasedInstanceID {
		t.Errorf("%+v", a)
	}
	if a := b.c.HeartbeatConsumer(b.now, &HeartbeatRequest{Group: "g", Member: "first", Epoch: LeaveStaticEpoch}); a.Code != InvalidRequest {
		t.Errorf("%+v", a)
	}
	q := static.request()
	q.Epoch = LeaveStaticEpoch
	if a := b.c.HeartbeatConsumer(b.now, q); a.Code != OK || a.Epoch != LeaveStaticEpoch {
		t.Errorf("%+v", a)
	}
	other.beat()
	same(t, "while it is away", len(other.owned), 2)
	same(t, "epoch", other.epoch, epoch)
	same(t, "when it is back", calm(t, b, second, other), []int{2, 2})
	same(t, "what it has", second.owned, had)
	static.epoch = other.epoch
	if a := b.c.HeartbeatConsumer(b.now, static.request()); a.Code != FencedInstanceID {
		t.Errorf("%+v", a)
	}
	q = second.request()
	q.Epoch = LeaveStaticEpoch
	if a := b.c.HeartbeatConsumer(b.now, q); a.Code != OK {
		t.Errorf("%+v", a)
	}
	second.id, second.epoch = other.id, JoinEpoch // who was a member without an instance takes the place
	same(t, "one in two places", calm(t, b, second), []int{4})
	other = &reader{b: b, names: []string{"t"}}
	calm(t, b, second, other)
	codes := b.c.Leave(b.now, "g", []Leaving{{Instance: "i"}, {Member: "nobody"}}, &b.out)
	same(t, "removed", codes, []Code{OK, UnknownMemberID})
	same(t, "what is left", calm(t, b, other), []int{4})
}

func TestConsumersAndClassicMembers(t *testing.T) {
	topics := world{}
	topics.set("t", 2)
	b := consumerBench(t, topics)
	r := readers(b, 1, "t")[0]
	calm(t, b, r)
	ticket := b.join(request("", ""))
	same(t, "a classic member", b.joins[ticket].Code, InconsistentGroupProtocol)
	r.leave()
	b.join(request("", ""))
	if a := b.c.HeartbeatConsumer(b.now, r.request()); a.Code != GroupIDNotFound {
		t.Errorf("%+v", a)
	}
	if code := b.c.CheckReader(&Caller{Group: "g", Member: "anybody", Generation: 7}); code != OK {
		t.Errorf("who asks for the offsets of a classic group hears %d", code)
	}
	for _, m := range b.c.groups["g"].order {
		b.c.Leave(b.now, "g", []Leaving{{Member: m.id}}, &b.out)
	}
	commit, code := b.c.Begin(b.now, &Caller{Group: "g", Generation: -1})
	if code != OK {
		t.Fatal(code)
	}
	r.beat()
	same(t, "given with a commit in flight of who was no member", len(r.owned), 0)
	b.c.End(b.now, "g", commit, &b.out)
	same(t, "given", calm(t, b, r), []int{2})
}

// story is a run of readers, with what they have committed and the log has not settled: what each one's sender had.
type story struct {
	*bench
	rt      *rapid.T
	topics  world
	all     []*reader
	commits map[uint64]partitions
}

// TestRandomConsumers: whatever readers do, no partition is used by two, no partition changes hands with an earlier commit of
// its last reader in flight, and in the end all is shared out evenly.
func TestRandomConsumers(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		topics := world{}
		topics.set("t", rapid.Int32Range(0, 9).Draw(rt, "partitions"))
		b := consumerBench(t, topics)
		y := &story{bench: b, rt: rt, topics: topics, all: readers(b, rapid.IntRange(1, 5).Draw(rt, "readers"), "t", "uu"), commits: map[uint64]partitions{}}
		for range rapid.IntRange(1, 150).Draw(rt, "steps") {
			y.step(rapid.SampledFrom(y.all).Draw(rt, "reader"))
			used := map[Partition]*reader{}
			for _, r := range y.all {
				for _, p := range r.owned {
					if used[p] != nil {
						rt.Fatalf("%v is used by %s and %s", p, r.id, used[p].id)
					}
					used[p] = r
				}
			}
		}
		for _, n := range slices.Sorted(maps.Keys(y.commits)) {
			b.c.End(b.now, "g", n, &b.out)
		}
		b.now += quiet // whom nobody speaks for any more is out
		b.c.Tick(b.now, &b.out)
		counts := calm(t, b, y.all...)
		if slices.Max(counts)-slices.Min(counts) > 1 {
			rt.Fatalf("%v", counts)
		}
		for _, r := range y.all {
			r.leave()
		}
		if len(b.c.groups) > 0 || b.c.bytes != 0 {
			rt.Fatalf("%d groups, %d bytes are left", len(b.c.groups), b.c.bytes)
		}
	})
}

// step has a reader, the log or time do something.
func (y *story) step(r *reader) {
	steps := map[string]func(r *reader){
		"beat": y.beat, "beat again": y.beat, "commit": y.commit, "commit more": y.commit, "end": y.settle, "end more": y.settle, "time": y.pass,
		"lose": func(r *reader) { // the answer, so it says all again
			y.c.HeartbeatConsumer(y.now, r.request())
			r.dirty = r.epoch != JoinEpoch
		},
		"slow": func(r *reader) { // it takes the answer, and goes on with what it has for now
			a, keep := y.c.HeartbeatConsumer(y.now, r.request()), r.owned
			r.hear(&a)
			if a.Code == OK && r.owned != nil {
				r.owned = keep
			}
		},
		"crash": func(r *reader) { *r = reader{b: y.bench, names: r.names} }, // what it has sent may still arrive
		"leave": func(r *reader) {
			if r.epoch > 0 {
				q := r.request()
				q.Epoch = LeaveEpoch
				y.c.HeartbeatConsumer(y.now, q)
				*r = reader{b: y.bench, names: r.names}
			}
		},
		"grow": func(*reader) {
			y.topics.set("t", y.topics["t"].Partitions+1)
			y.topics.set("uu", y.topics["uu"].Partitions+1)
		},
	}
	steps[rapid.SampledFrom(slices.Sorted(maps.Keys(steps))).Draw(y.rt, "step")](r)
}

func (y *story) beat(r *reader) {
	was := r.owned
	r.beat()
	for n, had := range y.commits {
		if got := r.owned.without(was).both(had); len(got) > 0 {
			y.rt.Fatalf("%v is given with commit %d in flight", got, n)
		}
	}
}

func (y *story) commit(r *reader) {
	n, code := y.c.Begin(y.now, &Caller{Group: "g", Member: r.id, Generation: r.epoch})
	switch {
	case code != OK:
	case r.epoch > 0:
		y.commits[n] = r.owned
	default:
		y.c.End(y.now, "g", n, &y.out)
	}
}

// settle settles the oldest commit.
func (y *story) settle(*reader) {
	if len(y.commits) > 0 {
		oldest := slices.Min(slices.Collect(maps.Keys(y.commits)))
		y.c.End(y.now, "g", oldest, &y.out)
		delete(y.commits, oldest)
	}
}

// pass lets time go by. Those whose session is over stop by themselves.
func (y *story) pass(*reader) {
	y.now += quiet / 2
	y.c.Tick(y.now, &y.out)
	for _, r := range y.all {
		if g := y.c.groups["g"]; r.epoch > 0 && (g == nil || g.consumers.members[r.id] == nil) {
			*r = reader{b: y.bench, names: r.names}
		}
	}
}
