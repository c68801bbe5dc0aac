package conformance

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// lane is a process of a conformance command with brokers of its own. It carries out one cell after the other.
type lane struct {
	*lab
	peer      *peer
	dir       string
	sites     [3]*site  // by the number of brokers
	proxies   [2]*proxy // one in front of each broker
	trusted   *proxy    // with TLS
	untrusted *proxy    // with TLS, by an authority that no client trusts
}

// lab is what all lanes need.
type lab struct {
	program     string // seb
	ca          string // PEM file of the authority that clients trust
	own, others *tls.Config
}

// newLane starts a lane.
func newLane(l *lab, dir string, command, env []string) (*lane, error) {
	n := &lane{lab: l, dir: dir}
	var err error
	for _, p := range []struct {
		to   **proxy
		conf *tls.Config
	}{{&n.proxies[0], nil}, {&n.proxies[1], nil}, {&n.trusted, l.own}, {&n.untrusted, l.others}} {
		if *p.to, err = newProxy(p.conf); err != nil {
			return nil, err
		}
	}
	n.peer, err = startPeer(command, append(env, "NODE_EXTRA_CA_CERTS="+l.ca))
	return n, err
}

func (n *lane) close() error {
	err := errors.Join(n.peer.stop(), n.peer.secrets(token, otherKey))
	for _, s := range n.sites {
		if s != nil {
			s.close()
		}
	}
	for _, p := range []*proxy{n.proxies[0], n.proxies[1], n.trusted, n.untrusted} {
		p.refuse()
	}
	return err
}

// site returns the brokers of a lane. It starts them for the first cell that needs them.
func (n *lane) start(brokers int) (err error) {
	if n.sites[brokers] == nil {
		dir := filepath.Join(n.dir, fmt.Sprint(brokers))
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return err
		}
		n.sites[brokers], err = newSite(n.program, dir, brokers)
	}
	return err
}

// cell is one call of one language with one fault.
type cell struct {
	*lane
	call     *call
	fault    *fault
	name     string // of its topic, queue or trigger
	rule     *rule
	receipts []string // of messages that the test has leased

	repair sync.WaitGroup // brokers and proxies that come back, and requests that the broker gets late
	mu     sync.Mutex     // guards wrong
	wrong  []error        // what must not be
}

func (c *cell) site() *site { return c.sites[max(1, c.fault.brokers)] }

// fail notes an error of the test itself, or of a broker.
func (c *cell) fail(err error) {
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.wrong = append(c.wrong, err)
	}
}

// varies: the messages of a lost answer come again when their leases are over.
func (c *cell) varies() bool { return c.call.varies && c.fault.temporary }

// log is the file in which a worker writes what its function gets.
func (c *cell) log() string { return filepath.Join(c.dir, c.name+".log") }

// given counts the calls of a worker's function by value.
func (c *cell) given() map[string]int {
	counts := map[string]int{}
	text, _ := os.ReadFile(c.log()) // no file: no call
	for line := range strings.Lines(string(text)) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " ", 3)
		counts[fields[len(fields)-1]]++
	}
	return counts
}

// outcome is the content of a cell of the table.
type outcome struct {
	class string // such as "ok" or "rejected: unknown_topic"
	whole string // what must be the same for all languages
	says  string // the text of an error
	took  time.Duration
	err   error // the answer is wrong
}

// run carries out the cell.
func (c *cell) run(ctx context.Context) (o outcome) {
	if err := c.start(max(1, c.fault.brokers)); err != nil {
		return outcome{class: "not run", err: err}
	}
	if c.call.prepare != nil {
		if err := c.call.prepare(c); err != nil {
			return outcome{class: "not run", err: fmt.Errorf("prepare: %w", err)}
		}
	}
	if err := c.open(ctx); err != nil {
		return outcome{class: "not run", err: err}
	}
	c.route(c.rule)
	// Requests that the call has sent may start a repair while this function begins to wait, which a counter of 0
	// does not allow.
	c.repair.Add(1)
	begin := time.Now()
	a, err := c.peer.call(ctx, c.call.do, c.call.args(c))
	took := time.Since(begin)
	defer func() { o.took = took }()
	c.repair.Done()
	c.repair.Wait()
	for _, p := range []*proxy{c.proxies[0], c.proxies[1], c.trusted, c.untrusted} {
		c.fail(p.admit())
	}
	c.route(nil)
	if err != nil {
		return outcome{class: "no answer", err: err}
	}
	o = c.outcome(&a)
	c.check(&a)
	if took > time.Minute {
		c.fail(fmt.Errorf("the call took %v", took.Round(time.Second)))
	}
	o.err = errors.Join(c.wrong...)
	return o
}

// route directs the proxies to the brokers.
func (c *cell) route(r *rule) {
	for i, n := range c.site().nodes {
		c.proxies[i].set(n.address, r)
	}
}

// open gives the cell a new client.
func (c *cell) open(ctx context.Context) error {
	f := c.fault
	c.rule = &rule{hits: c.call.matches, times: f.times, act: func(x *exchange) { f.act(c, x) }}
	if f.act == nil {
		c.rule.act = (*exchange).pass
	}
	c.route(nil)
	s := c.site()
	in := args{"addresses": []string{c.proxies[s.leader].url()}, "token": token, "retry_time": 30}
	if len(s.nodes) > 1 {
		in["addresses"] = []string{c.proxies[s.leader].url(), c.proxies[1-s.leader].url()}
	}
	if f.lasts {
		in["retry_time"] = 1
	}
	if f.address != nil {
		f.address(c, in)
	}
	if err := c.must(ctx, "open", in); err != nil || len(s.nodes) == 1 {
		return err
	}
	// The client sees a position, so that a broker which takes over must not answer from before.
	if err := c.site().send("PUT", "/topic?topic-name=seen", args{}, nil); err != nil {
		return err
	}
	return c.must(ctx, "topic_get", args{"topic": "seen"})
}

// must carries out a call that must succeed.
func (c *cell) must(ctx context.Context, call string, in args) error {
	a, err := c.peer.call(ctx, call, in)
	switch {
	case err != nil:
		return err
	case a.Error != nil:
		return fmt.Errorf("%s: %+v", call, *a.Error)
	case a.Crash != "":
		return fmt.Errorf("%s: %s", call, a.Crash)
	}
	return nil
}

// outcome describes an answer.
func (c *cell) outcome(a *answer) (o outcome) {
	switch {
	case a.Crash != "":
		c.fail(fmt.Errorf("crash: %s", a.Crash))
		return outcome{class: "crash", whole: "crash"}
	case a.Error != nil:
		o.class = map[string]string{"rejected": "rejected", "unknown": "unknown", "none": "error"}[a.Error.Outcome]
		if o.class == "" {
			c.fail(fmt.Errorf("outcome %q", a.Error.Outcome))
		}
		switch e := a.Error; {
		case e.Code != "":
			o.class += ": " + e.Code
		case e.Status != 0:
			o.class += fmt.Sprint(": ", e.Status)
		}
	default:
		o.class = "ok"
	}
	if n := c.rule.requests(); n > 1 && !c.call.many {
		o.class += ", repeated"
	}
	o.whole = o.class
	if a.Error != nil {
		o.says = a.Error.Detail
	}
	switch {
	case a.Error != nil && a.Error.Code != "" && a.Error.Status != 0: // the words of the broker
		o.whole += "\n" + masked(quoted(a.Error.Detail))
	case a.Error == nil && !c.varies() && !c.fault.races:
		o.whole += "\n" + masked(a.Result)
	}
	return o
}

func quoted(text string) json.RawMessage {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // a string has a JSON form
	}
	return b
}

// check compares an answer with the brokers.
func (c *cell) check(a *answer) {
	if a.Error == nil && a.Crash == "" && c.call.right != nil {
		c.fail(c.call.right(c, a.Result))
	}
	if c.call.stored == nil {
		if a.Error != nil && a.Error.Outcome != "none" && c.call.hits[:3] == http.MethodGet && !c.call.input {
			c.fail(fmt.Errorf("outcome %q of a read", a.Error.Outcome))
		}
		return
	}
	least, most, err := c.call.stored(c)
	c.fail(err)
	once := max(1, c.call.doubled)
	switch {
	case err != nil || a.Crash != "":
	case a.Error == nil && (least < 1 || most > once):
		c.fail(fmt.Errorf("acknowledged, but stored %d to %d times", least, most))
	case a.Error != nil && a.Error.Outcome == "none":
		c.fail(errors.New("the error of a write has no outcome"))
	case a.Error != nil && a.Error.Outcome == "rejected" && most > 0:
		c.fail(fmt.Errorf("rejected, but stored %d to %d times", least, most))
	case a.Error != nil && most > once:
		c.fail(fmt.Errorf("outcome %s, and stored %d to %d times", a.Error.Outcome, least, most))
	}
}
