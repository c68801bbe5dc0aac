package group

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// world implements Topics with a map.
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

// reader is a client of the consumer protocol. It follows its assignment: it adds and revokes
// partitions and reports them.
type reader struct {
	b        *bench
	instance string
	names    []string
	pattern  string
	assignor string

	id    string
	epoch int32
	owned partitions
	told  partitions // assigned
	dirty bool       // its next heartbeat reports owned
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

// hear processes an answer.
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
		r.b.t.Fatalf("reader %s: answered with code %d", r.id, a.Code)
	}
}

// follow adopts the assignment.
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
		r.b.t.Fatalf("leaving: answer %+v", a)
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

// calm lets all readers send heartbeats until nothing changes, and returns the number of partitions
// of each.
func calm(t *testing.T, b *bench, all ...*reader) (counts []int) {
	t.Helper()
	for range 10 {
		for _, r := range all {
			r.beat()
		}
	}
	v, _ := b.c.Describe("g")
	if v.State != Stable || v.Consumers == nil || len(v.Consumers.Members) != len(all) {
		t.Fatalf("group of %d readers: %+v, want stable", len(all), v)
	}
	have := partitions{}
	for _, r := range all {
		if r.epoch != v.Generation || !r.owned.disjoint(have) {
			t.Fatalf("reader %s in epoch %d of %d owns %v, others own %v", r.id, r.epoch, v.Generation, r.owned, have)
		}
		have = have.union(r.owned)
		counts = append(counts, len(r.owned))
	}
	return counts
}

func TestConsumerRequestsThatAreRefused(t *testing.T) {
	topics := world{}
	topics.set("a", 2)
	topics.set("ab", 4)
	b := consumerBench(t, topics)
	pattern := &reader{b: b, pattern: "ab?"}
	other := readers(b, 1, "a", "ab")[0]
	calm(t, b, pattern, other)
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
		{GroupMaxSizeReached, func(q *HeartbeatRequest) { q.Pattern = &long }}, // not parsed
		{UnknownMemberID, func(q *HeartbeatRequest) { q.Member = "unknown" }},
		{FencedMemberEpoch, func(q *HeartbeatRequest) { q.Epoch++ }},
		{FencedMemberEpoch, func(q *HeartbeatRequest) { q.Epoch-- }},
	} {
		q := pattern.request()
		c.change(q)
		if a := b.c.HeartbeatConsumer(b.now, q); a.Code != c.want || a.Assigned != nil {
			t.Errorf("heartbeat %+v: %+v, want code %d", q, a, c.want)
		}
	}
	if got := calm(t, b, pattern, other); !slices.Equal(got, []int{3, 3}) {
		t.Errorf("readers own %v partitions after refused requests, want 3 and 3", got)
	}
}

type story struct {
	*bench
	rt      *rapid.T
	topics  world
	all     []*reader
	commits map[uint64]partitions
}

// TestRandomConsumers checks that two readers never own the same partition, that no partition
// passes on while an earlier commit of its last reader is in flight, and that the final assignment
// is even.
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
						rt.Fatalf("partition %v is owned by %s and %s", p, r.id, used[p].id)
					}
					used[p] = r
				}
			}
		}
		for _, n := range slices.Sorted(maps.Keys(y.commits)) {
			b.c.End(b.now, "g", n, &b.out)
		}
		b.now += quiet // expires crashed members
		b.c.Tick(b.now, &b.out)
		counts := calm(t, b, y.all...)
		if slices.Max(counts)-slices.Min(counts) > 1 {
			rt.Fatalf("readers own %v partitions, want an even assignment", counts)
		}
		for _, r := range y.all {
			r.leave()
		}
		if len(b.c.groups) > 0 || b.c.bytes != 0 {
			rt.Fatalf("%d groups, %d bytes are left", len(b.c.groups), b.c.bytes)
		}
	})
}

// step performs a step of a reader, the log or time.
func (y *story) step(r *reader) {
	steps := map[string]func(r *reader){
		"beat": y.beat, "beat again": y.beat, "commit": y.commit, "commit more": y.commit, "end": y.settle, "end more": y.settle, "time": y.pass,
		"lose": func(r *reader) { // the answer is lost, so the next heartbeat repeats everything
			y.c.HeartbeatConsumer(y.now, r.request())
			r.dirty = r.epoch != JoinEpoch
		},
		"slow": func(r *reader) { // it receives its assignment, but does not follow it yet
			a, keep := y.c.HeartbeatConsumer(y.now, r.request()), r.owned
			r.hear(&a)
			if a.Code == OK && r.owned != nil {
				r.owned = keep
			}
		},
		// A request from before the crash may still arrive.
		"crash": func(r *reader) { *r = reader{b: y.bench, names: r.names} },
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
		if got := r.owned.without(was).intersect(had); len(got) > 0 {
			y.rt.Fatalf("partitions %v are assigned while commit %d is in flight", got, n)
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

// pass advances time. Readers whose session is over stop.
func (y *story) pass(*reader) {
	y.now += quiet / 2
	y.c.Tick(y.now, &y.out)
	for _, r := range y.all {
		if g := y.c.groups["g"]; r.epoch > 0 && (g == nil || g.consumers.members[r.id] == nil) {
			*r = reader{b: y.bench, names: r.names}
		}
	}
}
