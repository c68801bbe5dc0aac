package conformance

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/sebbroker/seb/api"
)

// fault is a column of the matrix: what happens to the request of a call that meets it.
type fault struct {
	name  string
	times int // requests that meet it; 0: all
	act   func(c *cell, x *exchange)
	// lasts: the call gets no other answer, so its client has little time for retries.
	lasts bool
	// races: which of two requests the broker carries out first depends on time.
	races bool
	// temporary: a worker waits until it is over.
	temporary bool
	// brokers is the number of brokers, if not one.
	brokers int
	// only selects calls; nil: all.
	only func(*call) bool
	// address changes the addresses and the options of the client.
	address func(c *cell, open args)
}

const (
	waitShort = 300 * time.Millisecond
	waitLong  = 1500 * time.Millisecond
	htmlPage  = "<html>\n<head><title>Welcome to the network</title></head>\n<body>Sign in</body>\n</html>\n"
	textHTML  = "text/html; charset=utf-8"
	otherKey  = "another-key-9876543210"
)

var faults = []*fault{
	{name: "none", times: 1, act: func(_ *cell, x *exchange) { x.pass() }},
	{name: "slow answer", times: 1, act: func(_ *cell, x *exchange) { time.Sleep(waitLong); x.pass() }},
	{name: "killed before", times: 1, temporary: true, act: func(c *cell, x *exchange) { c.kill(x, false) }},
	{name: "killed after", times: 1, temporary: true, act: func(c *cell, x *exchange) { c.kill(x, true) }},
	{name: "takeover before", times: 1, brokers: 2, temporary: true, act: func(c *cell, x *exchange) { c.kill(x, false) }},
	{name: "takeover after", times: 1, brokers: 2, temporary: true, act: func(c *cell, x *exchange) { c.kill(x, true) }},
	{name: "silent, two addresses", times: 1, temporary: true, only: func(c *call) bool { return c.bounded }, address: twoAddresses, act: silent},
	{name: "connection refused, then back", times: 1, temporary: true, act: func(c *cell, x *exchange) { c.refuseFor(x) }},
	{name: "connection refused", lasts: true, temporary: true, address: func(c *cell, open args) {
		c.proxies[0].refuse()
		open["addresses"] = []string{c.proxies[0].url()}
	}},
	{name: "reset before", times: 1, temporary: true, act: func(_ *cell, x *exchange) { x.cut() }},
	{name: "reset after", times: 1, temporary: true, act: after(func(x *exchange, _ reply) { x.cut() })},
	{name: "reset, stored later", times: 1, races: true, temporary: true, act: (*cell).later},
	{name: "answer cut in its head", times: 1, temporary: true, act: after(func(x *exchange, _ reply) { x.cutHead() })},
	{name: "answer cut in its body", times: 1, temporary: true, act: after(func(x *exchange, a reply) { x.cutBody(a) })},
	{name: "429 Retry-After", times: 1, temporary: true, act: refused(api.OverBudget, "1")},
	{name: "429 of a proxy", times: 1, temporary: true, act: func(_ *cell, x *exchange) { x.answer(429, textHTML, "slow down\n") }},
	{name: "503 Retry-After", times: 1, temporary: true, act: refused(api.StoreUnavailable, "1")},
	{name: "503 without Retry-After", times: 1, temporary: true, act: refused(api.StoreUnavailable, "")},
	{name: "503 without code", times: 1, temporary: true, act: func(_ *cell, x *exchange) { x.answer(503, "text/plain", "no backend\n") }},
	{name: "503 without code, stored", times: 1, temporary: true, act: after(func(x *exchange, _ reply) { x.answer(503, "text/plain", "no backend\n") })},
	{name: "504 outcome_unknown", times: 1, temporary: true, act: after(func(x *exchange, _ reply) { x.problem(api.OutcomeUnknown, "") })},
	{name: "500 internal", times: 1, temporary: true, act: refused(api.Internal, "")},
	{name: "clock_wrong", lasts: true, temporary: true, act: refused(api.ClockWrong, "1")},
	{name: "503 each time", lasts: true, temporary: true, act: refused(api.ShuttingDown, "1")},
	{name: "HTML 200", times: 1, act: func(_ *cell, x *exchange) { x.answer(200, textHTML, htmlPage) }},
	{name: "HTML 200, stored", times: 1, act: after(func(x *exchange, _ reply) { x.answer(200, textHTML, htmlPage) })},
	{name: "JSON 200 of another server", times: 1, act: func(_ *cell, x *exchange) { x.answer(200, api.JSON, `{"status":"ok"}`) }},
	{name: "HTML 502", times: 1, temporary: true, act: func(_ *cell, x *exchange) { x.answer(502, textHTML, htmlPage) }},
	{name: "HTML 403", lasts: true, act: func(_ *cell, x *exchange) { x.answer(403, textHTML, htmlPage) }},
	{name: "redirect", lasts: true, act: func(c *cell, x *exchange) {
		x.answer(307, textHTML, htmlPage, "Location", "http://"+c.site().nodes[0].address+x.r.URL.RequestURI())
	}},
	{name: "older broker", lasts: true, act: func(_ *cell, x *exchange) { x.answer(404, "text/plain; charset=utf-8", "404 page not found\n") }},
	{name: "wrong key", lasts: true, address: func(_ *cell, open args) { open["token"] = otherKey }},
	{name: "TLS", times: 1, act: func(_ *cell, x *exchange) { x.pass() }, address: func(c *cell, open args) { c.secure(open, c.trusted) }},
	{name: "TLS of an authority that is not trusted", lasts: true, address: func(c *cell, open args) { c.secure(open, c.untrusted) }},
	{name: "http:// to TLS", lasts: true, temporary: true, address: func(c *cell, open args) {
		c.secure(open, c.trusted)
		open["addresses"] = []string{strings.Replace(c.trusted.url(), "https", "http", 1)}
	}},
	{name: "https:// without TLS", lasts: true, address: func(c *cell, open args) {
		open["addresses"] = []string{strings.Replace(c.proxies[0].url(), "http", "https", 1)}
	}},
}

// after lets the broker carry out a request before its client gets another answer.
func after(f func(x *exchange, a reply)) func(*cell, *exchange) {
	return func(c *cell, x *exchange) {
		a, err := x.stored()
		if err != nil {
			c.fail(err)
			x.cut()
		}
		f(x, a)
	}
}

// refused answers as a broker that refuses a request.
func refused(code api.Code, after string) func(*cell, *exchange) {
	return func(_ *cell, x *exchange) { x.problem(code, after) }
}

// problem sends an error of a broker.
func (x *exchange) problem(code api.Code, after string) {
	status := api.Statuses[code]
	var header []string
	if after != "" {
		header = []string{"Retry-After", after}
	}
	body := fmt.Sprintf(`{"type":"urn:seb:problem:%s","title":%q,"status":%d,"code":%q,"detail":"made up by a test"}`, code, api.Titles[code], status, code)
	x.answer(status, api.ProblemJSON, body, header...)
}

// kill kills the broker that leads, and starts it again, or lets the other one take over. The client gets no
// answer.
func (c *cell) kill(x *exchange, after bool) {
	if after {
		if _, err := x.stored(); err != nil {
			c.fail(err)
		}
	}
	s := c.site()
	// The answer of the call may come as soon as the connection is cut, so the repair has begun before.
	c.repair.Go(func() {
		s.kill()
		leader := s.leader
		c.proxies[leader].refuse()
		again := s.restart
		if len(s.nodes) > 1 {
			again = s.takeOver
		}
		c.fail(again())
		c.fail(c.proxies[leader].listen())
	})
	x.ended()
}

// later sends the request to the broker when the client has gone.
func (c *cell) later(x *exchange) {
	c.repair.Go(func() {
		time.Sleep(waitShort)
		_, err := x.stored()
		c.fail(err)
	})
	x.cut()
}

// refuseFor refuses connections for a moment.
func (c *cell) refuseFor(x *exchange) {
	c.repair.Go(func() {
		x.p.refuse()
		time.Sleep(waitShort)
		c.fail(x.p.listen())
	})
	x.ended()
}

// twoAddresses gives the client two addresses of one broker.
func twoAddresses(c *cell, open args) {
	c.proxies[1].set(c.site().nodes[0].address, nil)
	open["addresses"] = []string{c.proxies[0].url(), c.proxies[1].url()}
}

// silent sends nothing, for longer than a client waits.
func silent(_ *cell, x *exchange) { x.ended() }

// ended waits for the end of the connection.
func (x *exchange) ended() {
	<-x.r.Context().Done()
	panic(http.ErrAbortHandler)
}

// secure gives the client the address of a proxy with TLS, and the authority that it trusts.
func (c *cell) secure(open args, p *proxy) {
	p.set(c.site().nodes[0].address, c.rule)
	open["addresses"], open["ca"] = []string{p.url()}, c.ca
}
