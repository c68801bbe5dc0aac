package atomics_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// ledger is what the test knows of all groups, which are the atomic requests.
type ledger struct {
	c    *brokers
	mu   sync.Mutex // guards the fields below
	all  []*group
	of   map[string]*item // by value
	seen map[string]*item // by place

	next  []*reader // of the follower
	after string    // position of the log in its newest answer

	acks, unknown, refused, repeated, duplicates, leases int
	pass                                                 atomic.Int64
}

// group is an atomic request.
type group struct {
	items   []*item
	body    string
	bad     bool // a line is refused
	acked   bool
	refused bool  // it is nowhere
	pass    int64 // of the follower, in which it saw a record of the group first; 0: none
}

// item is a line of a group.
type item struct {
	of                  *group
	value, topic, place string // topic: or queue
	said                string // place in the answer
}

// reader is the position of the follower in a partition.
type reader struct {
	topic     string
	partition int
	offset    int64
}

func newLedger(c *brokers) *ledger {
	l := &ledger{c: c, of: map[string]*item{}, seen: map[string]*item{}}
	for _, r := range []reader{{"orders", 0, 0}, {"orders", 1, 0}, {"invoices", 0, 0}, {"invoices", 1, 0}, {"events", 0, 0}} {
		l.next = append(l.next, &r)
	}
	return l
}

// draw makes a group.
func (l *ledger) draw(r *rand.Rand, name string) *group {
	g := &group{bad: r.IntN(10) == 0}
	var b strings.Builder
	add := func(topic, line string, args ...any) {
		x := &item{of: g, topic: topic, value: fmt.Sprintf("%s.%d", name, len(g.items))}
		g.items = append(g.items, x)
		fmt.Fprintf(&b, strings.ReplaceAll(line, "VALUE", x.value)+"\n", args...)
	}
	for range 1 + r.IntN(2) {
		add("orders", `{"topic":"orders","partition":%d,"value":"VALUE"}`, r.IntN(2))
	}
	add("mails", `{"queue":"mails","value":"VALUE"}`)
	if r.IntN(2) == 0 {
		add("invoices", `{"topic":"invoices","key":"VALUE","value":"VALUE"}`)
	}
	if r.IntN(2) == 0 {
		add("mails", `{"queue":"mails","value":"VALUE","delay":"%dms"}`, 1+r.IntN(500))
	}
	if r.IntN(2) == 0 {
		add("events", `{"event":"placed","entity_id":"VALUE"}`)
	}
	if g.bad {
		b.WriteString([]string{`{"queue":"nothing","value":"x"}`, `{"topic":"orders","partition":99,"value":"x"}`, `{"queue":"mails","value":"x","priority":9}`, `{"topic":"seb/internal","value":"x"}`}[r.IntN(4)] + "\n")
	}
	g.body = b.String()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, g)
	for _, x := range g.items {
		l.of[x.value] = x
	}
	return g
}

// produce sends groups until ctx ends, and repeats each until its outcome is known, or gives it up.
func (l *ledger) produce(ctx context.Context, seed uint64, id int) {
	r := rand.New(rand.NewPCG(seed, uint64(id)+1))
	producer, epoch := r.Int64N(1<<62), 0
	for n := 0; ctx.Err() == nil; n++ {
		g := l.draw(r, fmt.Sprintf("g%d.%d", id, n))
		idempotent := r.IntN(4) > 0
		header := map[string]string{}
		if idempotent {
			header = map[string]string{api.HeaderProducerID: fmt.Sprint(producer), api.HeaderProducerEpoch: fmt.Sprint(epoch), api.HeaderSequence: "0"}
		}
		if l.send(ctx, g, header, r) || !idempotent {
			continue // refused: the epoch is not used
		}
		if epoch++; epoch > 32767 {
			producer, epoch = r.Int64N(1<<62), 0
		}
	}
}

// send sends a group, again and again if it has a producer and its outcome is unknown. It reports whether the
// group is certainly not stored.
func (l *ledger) send(ctx context.Context, g *group, header map[string]string, r *rand.Rand) (refused bool) {
	maybe := false
	for try := 0; ; try++ {
		limit := 20 * time.Second
		if ctx.Err() == nil {
			limit = time.Duration(20+r.IntN(3000)) * time.Millisecond
		}
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		a := l.c.ask(call, l.c.url(r), http.MethodPost, "/records?atomic=true", api.NDJSON, g.body, header)
		cancel()
		switch {
		case a.status == http.StatusCreated:
			l.stored(g, a.body)
			return false
		case a.status == 0 && a.sent, a.status/100 == 5 && a.status != http.StatusServiceUnavailable:
			maybe = true
			l.count(&l.unknown)
			if len(header) == 0 {
				return false
			}
		case a.status == http.StatusBadRequest, a.status == http.StatusNotFound, a.status == http.StatusForbidden, a.status == http.StatusConflict:
			if !g.bad {
				l.c.t.Errorf("a group was refused: %d %s\n%s", a.status, a.body, g.body)
			}
			fallthrough
		case !maybe && try > 20 && r.IntN(4) == 0:
			l.mu.Lock()
			defer l.mu.Unlock()
			l.refused++
			g.refused = !maybe
			return !maybe
		}
		l.count(&l.repeated)
		if try > 3000 {
			l.c.t.Errorf("no outcome after %d attempts: %d %s", try, a.status, a.body)
			return false
		}
		time.Sleep(time.Duration(5+r.IntN(20)) * time.Millisecond)
	}
}

func (l *ledger) count(n *int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n++
}

// stored notes the answer to a group.
func (l *ledger) stored(g *group, body []byte) {
	var s api.Stored
	must.NoErrorf(l.c.t, json.Unmarshal(body, &s), "%s", body)
	l.mu.Lock()
	defer l.mu.Unlock()
	if g.bad || len(s.Records) != len(g.items) {
		l.c.t.Errorf("acknowledged with %s:\n%s", body, g.body)
		return
	}
	l.acks++
	g.acked = true
	if s.Duplicate {
		l.duplicates++
	}
	for i, x := range s.Records {
		if g.items[i].said = "mails/" + x.ID; x.Queue == "" {
			g.items[i].said = placeOf(x.Topic, *x.Partition, *x.Offset)
		}
	}
}

// found notes where a value is.
func (l *ledger) found(value, place, topic string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x := l.of[value]
	switch {
	case x == nil:
		l.c.t.Errorf("%s has %q, which was not sent", place, value)
		return
	case x.topic != topic:
		l.c.t.Errorf("%s has %q of %s", place, value, x.topic)
	case x.place != "" && x.place != place:
		l.c.t.Errorf("%q is at %s and at %s", value, x.place, place)
	case l.seen[place] != nil && l.seen[place] != x:
		l.c.t.Errorf("%s has %q and %q", place, value, l.seen[place].value)
	case x.of.bad:
		l.c.t.Errorf("%s has %q of a group with a bad line", place, value)
	}
	x.place, l.seen[place] = place, x
	if topic != "mails" && x.of.pass == 0 {
		x.of.pass = l.pass.Load()
	}
}

// follow reads all partitions to their ends, one after the other, again and again. What a pass has seen a
// record of is whole after the next pass: the answers of that one include the slot of the record, even those of a
// broker that was deposed, as they name the position that they follow.
func (l *ledger) follow(ctx context.Context) {
	r := rand.New(rand.NewPCG(1, 2))
	for ctx.Err() == nil {
		pass := l.pass.Add(1)
		for _, at := range l.next {
			for !l.read(ctx, at, r) && ctx.Err() == nil {
				time.Sleep(10 * time.Millisecond)
			}
		}
		if ctx.Err() != nil {
			return
		}
		l.mu.Lock()
		for _, g := range l.all {
			if g.pass == 0 || g.pass >= pass {
				continue
			}
			for _, x := range g.items {
				if x.place == "" && x.topic != "mails" {
					l.c.t.Errorf("%q is not there, but others of its group\n%s", x.value, g.body)
				}
			}
		}
		l.mu.Unlock()
		time.Sleep(10 * time.Millisecond)
	}
}

// read reads a partition up to the end that the broker shows. It reports whether the end was reached.
func (l *ledger) read(ctx context.Context, at *reader, r *rand.Rand) (end bool) {
	call, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	path := fmt.Sprintf("/records?topic-name=%s&partition=%d&offset=%d&max-records=1000&timeout=0s", at.topic, at.partition, at.offset)
	a := l.c.ask(call, l.c.url(r), http.MethodGet, path, api.JSON, "", map[string]string{"Accept": api.JSON, api.HeaderAfter: l.after})
	if at.topic == "events" && at.offset == 0 && a.status == http.StatusNotFound {
		return true // no event yet
	}
	var list []api.Record
	if a.status != http.StatusOK || json.Unmarshal(a.body, &list) != nil {
		return false
	}
	l.after = a.position
	for i := range list {
		x := &list[i]
		if x.Offset != at.offset {
			l.c.t.Errorf("%s/%d: offset %d, want %d", at.topic, at.partition, x.Offset, at.offset)
		}
		value := *x.Value
		if at.topic == "events" {
			value = *x.Key
		}
		l.found(value, placeOf(at.topic, int32(at.partition), x.Offset), at.topic)
		at.offset = x.Offset + 1
	}
	return len(list) < 1000
}

// work leases and finishes messages.
func (l *ledger) work(ctx context.Context) {
	r := rand.New(rand.NewPCG(1, 3))
	for ctx.Err() == nil {
		var out api.QueueMessages
		a := l.c.ask(ctx, l.c.url(r), http.MethodPost, "/queues/mails/lease", api.JSON, `{"max":100,"wait":"100ms"}`, nil)
		if a.status != http.StatusOK || json.Unmarshal(a.body, &out) != nil {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		var said api.Settlements
		for i := range out.Messages {
			m := &out.Messages[i]
			l.found(*m.Value, "mails/"+m.ID, "mails")
			said.Messages = append(said.Messages, api.Settlement{Receipt: m.Receipt, Do: "done"})
		}
		l.mu.Lock()
		l.leases += len(out.Messages)
		l.mu.Unlock()
		if len(said.Messages) > 0 {
			l.c.ask(ctx, l.c.url(r), http.MethodPost, "/queues/mails/settle", api.JSON, string(must.Get(json.Marshal(said))(l.c.t)), nil)
		}
	}
}

// drained waits until the queue is empty and the follower has made two whole passes.
func (l *ledger) drained() {
	var q api.Queue
	sebtest.Eventually(l.c.t, "the queue is empty", func() bool {
		l.c.must("GET", "/queues/mails", "", &q)
		return q.Ready+q.Leased+q.Delayed+q.Retry+q.Dying == 0
	})
	at := l.pass.Load()
	sebtest.Eventually(l.c.t, "everything is read", func() bool { return l.pass.Load() > at+3 })
}

// judge checks that each group is there as a whole, or not at all.
func (l *ledger) judge() {
	stored, items := 0, 0
	for _, g := range l.all {
		there := 0
		for _, x := range g.items {
			if x.place != "" {
				there++
			}
			if g.acked && x.place != x.said {
				l.c.t.Errorf("%q was acknowledged at %q and is at %q", x.value, x.said, x.place)
			}
		}
		switch {
		case there != 0 && there != len(g.items):
			l.c.t.Errorf("%d of %d lines are stored of\n%s", there, len(g.items), g.body)
		case there > 0 && (g.refused || g.bad):
			l.c.t.Errorf("refused and stored:\n%s", g.body)
		}
		if there > 0 {
			stored++
			items += there
		}
	}
	l.c.t.Logf("%d groups, %d of them stored with %d lines; %d acknowledged, %d as duplicates; %d refused; %d unknown outcomes, %d attempts more; %d leases, %d passes of the follower",
		len(l.all), stored, items, l.acks, l.duplicates, l.refused, l.unknown, l.repeated, l.leases, l.pass.Load())
	if stored == 0 || l.refused == 0 {
		l.c.t.Error("nothing was tested")
	}
}
