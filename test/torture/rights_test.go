package torture

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/client"
)

// rightsTopic has one partition. Principals write to it while their rights change.
const rightsTopic = "rights"

// rightsOf is the state of a run's principals. One goroutine, the ruler, changes their rights. It
// marks in the topic which records may follow:
//
//	closed ID N   after a denial, a removed permission or a revocation is acknowledged
//	open ID N     before a permission is requested again
//	retired ID G  after the tokens up to number G are invalid
//
// A change without an answer may take effect much later, because the network delays requests. The
// ruler then leaves the principal and continues with another ID.
type rightsOf struct {
	*user
	principals []*principal
	number     int64 // of the last mark, or of the last ID
}

// principal is a client with a token, and the ruler's knowledge of its rights.
type principal struct {
	kafka  bool // it writes over Kafka
	exists bool
	allow  bool // there is a permission
	deny   bool // there is a denial

	mu         sync.Mutex // guards the fields below
	id, token  string
	generation int             // of the token
	acked      map[string]bool // values
}

// may reports whether the principal may write.
func (p *principal) may() bool { return p.exists && p.allow && !p.deny }

// issued records a new token, or with "" that the principal has none.
func (p *principal) issued(id, token string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.id, p.generation, p.token = id, p.generation+1, token
}

func (p *principal) current() (id, token string, generation int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id, p.token, p.generation
}

// workRights starts three principals and their ruler.
func (r *run) workRights(ctx context.Context, start func(func())) {
	r.rights = &rightsOf{user: r.newUser(client.Options{RetryTime: -1})}
	for n := range 3 {
		p := &principal{kafka: n == 2, acked: map[string]bool{}}
		r.rights.fresh(p)
		r.rights.principals = append(r.rights.principals, p)
		v := r.newUser(client.Options{})
		start(func() { v.produceAs(ctx, p) })
	}
	start(func() { r.rights.rule(ctx) })
}

// fresh gives a principal another ID, without a token and rules.
func (w *rightsOf) fresh(p *principal) {
	w.number++
	p.issued(fmt.Sprintf("principal-%d", w.number), "")
	p.exists, p.allow, p.deny = false, false, false
}

// rule changes the rights of one principal after the other until ctx ends.
func (w *rightsOf) rule(ctx context.Context) {
	for ctx.Err() == nil {
		p := pick(w.rng, w.principals...)
		switch {
		case !p.may():
			w.admit(ctx, p)
		case w.rng.IntN(3) == 0:
			w.rotate(ctx, p)
		default:
			w.exclude(ctx, p)
		}
		w.rest(ctx, false)
	}
}

// exclude takes away the right to write in one of three ways.
func (w *rightsOf) exclude(ctx context.Context, p *principal) {
	id, _, generation := p.current()
	done := false
	switch w.rng.IntN(3) {
	case 0:
		done = w.sure(ctx, p, "denials", func(ctx context.Context) error {
			return w.api.AddRules(ctx, []client.Rule{writeRule(id, true)})
		})
		p.deny = done
	case 1:
		done = w.sure(ctx, p, "removed permissions", func(ctx context.Context) error {
			_, err := w.api.RemoveRules(ctx, client.RuleFilter{Principal: id, Deny: new(false)})
			return err
		})
		p.allow = p.allow && !done
	default:
		done = w.sure(ctx, p, "revocations", func(ctx context.Context) error { return w.api.RevokeToken(ctx, id) })
		if done {
			p.exists, p.allow, p.deny = false, false, false
			w.mark(ctx, "retired", id, int64(generation))
		}
	}
	if done {
		w.number++
		w.mark(ctx, "closed", id, w.number)
	}
}

func writeRule(id string, deny bool) client.Rule {
	return client.Rule{Principal: id, Resource: "topic", Pattern: rightsTopic, Operation: "write", Deny: deny}
}

// admit gives the right to write.
func (w *rightsOf) admit(ctx context.Context, p *principal) {
	id, _, _ := p.current()
	w.number++
	if !w.mark(ctx, "open", id, w.number) {
		return
	}
	if !p.exists {
		p.exists = w.sure(ctx, p, "new tokens", func(ctx context.Context) error {
			created, err := w.api.CreateToken(ctx, client.TokenSpec{ID: id})
			if err == nil {
				p.issued(id, created.Secret)
			}
			return err
		})
	}
	if p.exists && p.deny && w.sure(ctx, p, "removed denials", func(ctx context.Context) error {
		_, err := w.api.RemoveRules(ctx, client.RuleFilter{Principal: id, Deny: new(true)})
		return err
	}) {
		p.deny = false
	}
	if p.exists && !p.allow {
		p.allow = w.sure(ctx, p, "permissions", func(ctx context.Context) error {
			return w.api.AddRules(ctx, []client.Rule{writeRule(id, false)})
		})
	}
}

// rotate replaces the token of a principal at once.
func (w *rightsOf) rotate(ctx context.Context, p *principal) {
	id, _, before := p.current()
	if w.sure(ctx, p, "rotations", func(ctx context.Context) error {
		created, err := w.api.RotateToken(ctx, id, 0)
		if err == nil {
			p.issued(id, created.Secret)
		}
		return err
	}) {
		w.mark(ctx, "retired", id, int64(before))
	}
}

// changeTime bounds a request of the ruler.
const changeTime = 5 * time.Second

// sure repeats a change that is rejected until it is acknowledged, or ctx ends. After an attempt
// without an answer it replaces the principal.
func (w *rightsOf) sure(ctx context.Context, p *principal, what string, change func(context.Context) error) bool {
	for {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
		err := change(call)
		cancel()
		if err == nil {
			w.r.counts.add(what, 1)
			return true
		}
		if w.notedError(err); !errors.Is(err, client.ErrRejected) {
			w.r.counts.add("principals left", 1)
			w.fresh(p)
			return false
		}
		if ctx.Err() != nil {
			return false
		}
		w.rest(ctx, true)
	}
}

// mark writes a mark until it is acknowledged, or ctx ends. It may be stored more than once.
func (w *rightsOf) mark(ctx context.Context, what, id string, n int64) bool {
	for {
		call, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTime)
		_, err := w.api.ProduceValues(call, rightsTopic, [][]byte{fmt.Appendf(nil, "%s %s %d", what, id, n)}, client.ProduceOptions{Partition: new(int32)})
		cancel()
		if err == nil || ctx.Err() != nil {
			return err == nil
		}
		w.notedError(err)
		w.rest(ctx, true)
	}
}

// produceAs writes as a principal until ctx ends. The values name the number of the token.
func (u *user) produceAs(ctx context.Context, p *principal) {
	var send func(ctx context.Context, value string) error
	stop := func() {}
	defer func() { stop() }()
	last := 0
	for n := 0; ctx.Err() == nil; n++ {
		id, token, generation := p.current()
		if token == "" {
			sleep(ctx, 10*time.Millisecond)
			continue
		}
		if generation != last {
			stop()
			send, stop = u.senderAs(p.kafka, id, token)
			last = generation
		}
		value := fmt.Sprintf("write %s %d %d", id, generation, n)
		call, cancel := u.timeout(context.WithoutCancel(ctx))
		err := send(call, value)
		if call.Err() != nil {
			last = 0 // the next record needs a new client
		}
		cancel()
		if err == nil {
			u.r.counts.add("records of principals", 1)
			p.mu.Lock()
			p.acked[value] = true
			p.mu.Unlock()
		}
		u.rest(ctx, err != nil)
	}
}

// senderAs returns a function that writes one record with a token.
func (u *user) senderAs(kafka bool, id, token string) (send func(context.Context, string) error, stop func()) {
	if kafka {
		how := scram.Auth{User: id, Pass: token}.AsSha256Mechanism()
		// A client that is refused would wait for the outcome of an earlier attempt for its life. The
		// option does not end the wait for a request that was sent, so that is aborted.
		c := u.franzAs(how, kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.DefaultProduceTopic(rightsTopic), kgo.AllowIdempotentProduceCancellation())
		return func(ctx context.Context, value string) error {
			defer context.AfterFunc(ctx, c.UnsafeAbortBufferedRecords)()
			return c.ProduceSync(ctx, &kgo.Record{Value: []byte(value)}).FirstErr()
		}, c.Close
	}
	c, err := client.New("http://seb", client.Options{APIKey: token, HTTPClient: u.http, RetryTime: time.Second})
	if err != nil {
		panic(err) // the address is a constant
	}
	return func(ctx context.Context, value string) error {
		_, err := c.ProduceValues(ctx, rightsTopic, [][]byte{[]byte(value)}, client.ProduceOptions{Partition: new(int32)})
		u.notedError(err)
		return err
	}, func() {}
}

// rightsHold checks in the calm that the last broker, which has only the bucket, has the rules and
// tokens that were acknowledged, that every principal can write again, and the records.
func (r *run) rightsHold(ctx context.Context) {
	w := r.rights
	if w == nil || r.failed.Load() {
		return
	}
	tokens, err := w.api.Tokens(ctx)
	if err != nil {
		r.fault("cannot list tokens: %v", err)
		return
	}
	ids := map[string]bool{}
	for _, t := range tokens {
		ids[t.ID] = true
	}
	for _, p := range w.principals {
		id, _, _ := p.current()
		rules, err := w.api.Rules(ctx, client.RuleFilter{Principal: id})
		allow, deny := false, false
		for _, rule := range rules {
			allow, deny = allow || !rule.Deny, deny || rule.Deny
		}
		if err != nil || ids[id] != p.exists || allow != p.allow || deny != p.deny {
			r.fault("%s: exists %v, allowed %v, denied %v; acknowledged was %v, %v, %v; %v", id, ids[id], allow, deny, p.exists, p.allow, p.deny, err)
		}
	}
	for _, p := range w.principals {
		for !p.may() && ctx.Err() == nil && !r.failed.Load() {
			w.admit(ctx, p)
		}
		w.canWrite(ctx, p)
	}
	w.judgeRecords(ctx)
}

// canWrite waits until a principal can write.
func (w *rightsOf) canWrite(ctx context.Context, p *principal) {
	id, token, generation := p.current()
	send, stop := w.senderAs(p.kafka, id, token)
	defer stop()
	w.r.until(ctx, id+" can write again", func() bool {
		call, cancel := context.WithTimeout(ctx, changeTime)
		defer cancel()
		return send(call, fmt.Sprintf("write %s %d last", id, generation)) == nil
	})
}

// judgeRecords reads the topic. No record may have a slot after its principal's right or token had
// ended, and every acknowledged record is there.
func (w *rightsOf) judgeRecords(ctx context.Context) {
	type state struct {
		number  int64
		closed  bool
		retired int64
	}
	states := map[string]*state{}
	seen := map[string]bool{}
	for rec, err := range w.api.Records(ctx, rightsTopic, client.ReadOptions{Offset: client.Earliest, MaxBytes: 64 << 10}) {
		if err != nil {
			w.r.fault("cannot read %s: %v", rightsTopic, err)
			return
		}
		value := string(rec.Value)
		seen[value] = true
		words := strings.Fields(value)
		s := states[words[1]]
		if s == nil {
			s = &state{}
			states[words[1]] = s
		}
		n, _ := strconv.ParseInt(words[2], 10, 64)
		switch {
		case words[0] == "retired":
			s.retired = max(s.retired, n)
		case words[0] != "write" && n > s.number: // a mark may be stored again later
			s.number, s.closed = n, words[0] == "closed"
		case words[0] == "write" && (s.closed || n <= s.retired):
			w.r.fault("offset %d has %q: after mark %d, closed %v; tokens up to %d are invalid", rec.Offset, value, s.number, s.closed, s.retired)
		}
	}
	for _, p := range w.principals {
		for _, value := range slices.Sorted(maps.Keys(p.acked)) {
			if !seen[value] {
				w.r.fault("acknowledged record %q is missing", value)
			}
		}
	}
}
