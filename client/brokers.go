package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
)

const (
	// silenceMax is the time without a byte after which a request goes to the next broker, if there is
	// one. The time that the request lets the broker wait is added.
	silenceMax = 5 * time.Second
	// suspectAfter is the time without a byte after which the client asks the other brokers whether one
	// of them leads now, and askEvery is the pause between two such questions to a broker.
	suspectAfter = time.Second
	askEvery     = 250 * time.Millisecond
	// avoidTime is the time for which a broker that did not answer is not preferred.
	avoidTime = 10 * time.Second
	// againAfter is the time after which a broker that failed is asked again without a pause, if all
	// others failed later: in a rolling restart it is probably back.
	againAfter = time.Second
	// listEvery is the interval at which the client asks for the brokers of the bucket.
	listEvery = time.Minute
	// brokersMax bounds the brokers that a client knows.
	brokersMax = 64
)

// brokers are the addresses of the brokers of one bucket. Requests go to one of them: the leader, as
// far as the client knows it.
type brokers struct {
	configured       []string
	silence, suspect time.Duration // silenceMax, suspectAfter

	mu       sync.Mutex // guards the fields below
	list     []string   // configured, and then those that a broker has named
	current  int
	avoid    map[string]time.Time  // until when
	suspects map[string]*suspicion // by address
	listed   time.Time             // when the list was last asked for
	listing  bool
	denied   bool // the key may not list the brokers

	asking sync.WaitGroup // goroutines that ask a broker
	seen   atomic.Pointer[position]
}

// parseAddresses returns the addresses of a list, without trailing slashes.
func parseAddresses(text string) (list []string, err error) {
	for address := range strings.SplitSeq(text, ",") {
		address = strings.Trim(address, " ")
		if err := checkAddress(address); err != nil {
			return nil, err
		}
		if address = strings.TrimRight(address, "/"); !slices.Contains(list, address) {
			list = append(list, address)
		}
	}
	if len(list) > brokersMax {
		return nil, fmt.Errorf("broker addresses: %d, at most %d are allowed", len(list), brokersMax)
	}
	return list, nil
}

// checkAddress returns why an address is invalid, without a possible password.
func checkAddress(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err
		}
		return fmt.Errorf("broker address: want http://host:port: %w", err)
	}
	if u.User != nil || u.RawQuery != "" {
		return errors.New("broker address: want http://host:port, without user, password or query")
	}
	if u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return fmt.Errorf("broker address %q: want http://host:port, or several separated by commas", address)
	}
	return nil
}

func newBrokers(configured []string) *brokers {
	return &brokers{
		configured: configured, silence: silenceMax, suspect: suspectAfter, list: configured, avoid: map[string]time.Time{}, suspects: map[string]*suspicion{},
	}
}

// several reports whether the client was given several addresses. A single one may be that of a load
// balancer, so the client goes to no other address then.
func (b *brokers) several() bool { return len(b.configured) > 1 }

// pick returns the broker for the next request.
func (b *brokers) pick() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.list[b.current]
}

// failed notes that a broker did not answer, or does not serve requests now. The next request goes to
// the one whose last failure is the oldest. fresh: that has not failed within againAfter.
func (b *brokers) failed(base string) (fresh bool) {
	if !b.several() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := time.Now()
	b.avoid[base] = now.Add(avoidTime)
	if b.list[b.current] == base { // else another request has moved on
		next := (b.current + 1) % len(b.list)
		for i := 2; i < len(b.list) && now.Before(b.avoid[b.list[next]]); i++ {
			other := (b.current + i) % len(b.list)
			if b.avoid[b.list[other]].Before(b.avoid[b.list[next]]) {
				next = other
			}
		}
		b.current = next
	}
	return b.avoid[b.list[b.current]].Before(now.Add(avoidTime - againAfter))
}

// answered notes what the head of an answer tells about the brokers.
func (b *brokers) answered(h http.Header) {
	b.see(h.Get(api.HeaderPosition))
	if leader := h.Get(api.HeaderLeader); leader != "" && b.several() {
		b.mu.Lock()
		defer b.mu.Unlock()
		if !time.Now().Before(b.avoid[leader]) {
			b.prefer(leader)
		}
	}
}

// prefer sends the next requests to a broker if it is in the list. b.mu is held.
func (b *brokers) prefer(base string) {
	if i := slices.Index(b.list, base); i >= 0 {
		b.current = i
		delete(b.avoid, base)
	}
}

// due reports whether to ask for the list of brokers now. The caller calls learn afterwards.
func (b *brokers) due() bool {
	if !b.several() {
		return false
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.listing || b.denied || time.Since(b.listed) < listEvery {
		return false
	}
	b.listing, b.listed = true, time.Now()
	return true
}

// learn replaces the brokers that are not configured. An address that is less protected than all
// configured ones would get the key in plain text, and is left out.
func (b *brokers) learn(c *Cluster, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listing = false
	if err != nil {
		b.denied = errors.Is(err, ErrForbidden) || errors.Is(err, ErrUnauthorized)
		return
	}
	secure := !slices.ContainsFunc(b.configured, func(a string) bool { return strings.HasPrefix(a, "http://") })
	current, list := b.list[b.current], slices.Clone(b.configured)
	for _, m := range c.Members {
		at := strings.TrimRight(m.URL, "/")
		if m.State == api.MemberUp && checkAddress(at) == nil && (!secure || strings.HasPrefix(at, "https://")) && !slices.Contains(list, at) && len(list) < brokersMax {
			list = append(list, at)
		}
	}
	b.list, b.current = list, max(0, slices.Index(list, current))
}

// refresh asks for the list of brokers in the background if it is due.
func (c *Client) refresh() {
	if !c.brokers.due() {
		return
	}
	c.brokers.asking.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), silenceMax)
		defer cancel()
		var all Cluster
		r := &request{method: http.MethodGet, path: "/cluster", header: map[string]string{"Accept": api.JSON + ", " + api.ProblemJSON}}
		resp, fault := c.once(ctx, r, c.brokers.pick())
		if fault != nil {
			c.brokers.learn(nil, fault)
			return
		}
		defer drain(resp.Body)
		c.brokers.learn(&all, json.NewDecoder(resp.Body).Decode(&all))
	})
}

// position is a position of the log.
type position struct {
	epoch, slot uint64
	text        string
}

func parsePosition(text string) (p position, ok bool) {
	shard, rest, _ := strings.Cut(text, ":")
	epoch, slot, _ := strings.Cut(rest, ":")
	e, err := strconv.ParseUint(epoch, 10, 32)
	s, fault := strconv.ParseUint(slot, 10, 64)
	return position{e, s, text}, shard == "0" && err == nil && fault == nil
}

func (p *position) before(q *position) bool {
	return p.epoch < q.epoch || p.epoch == q.epoch && p.slot < q.slot
}

// see notes the position of an answer, if it is the highest.
func (b *brokers) see(text string) {
	old := b.seen.Load()
	if text == "" || old != nil && old.text == text {
		return
	}
	now, ok := parsePosition(text)
	if !ok {
		return
	}
	for old == nil || old.before(&now) {
		if b.seen.CompareAndSwap(old, &now) {
			return
		}
		old = b.seen.Load()
	}
}

// after returns the position that the next read must include, or "".
func (b *brokers) after() string {
	if p := b.seen.Load(); p != nil {
		return p.text
	}
	return ""
}

// forget drops the position after an answer that does not include it, although it had to: the bucket
// is another one now.
func (b *brokers) forget(text string) {
	if p := b.seen.Load(); p != nil && p.text == text {
		b.seen.CompareAndSwap(p, nil)
	}
}

// misses reports whether an answer does not include a position that its request named.
func misses(h http.Header, after string) bool {
	got, ok := parsePosition(h.Get(api.HeaderPosition))
	wanted, fault := parsePosition(after)
	return ok && fault && got.before(&wanted)
}

// elsewhere reports whether another broker may serve the request that failed.
func (e *Error) elsewhere() bool {
	switch e.Code {
	case string(api.NotLeader), string(api.Fenced), string(api.ShuttingDown), string(api.NotYet), string(api.StoreUnavailable):
		return true
	}
	return e.Status == 0 && !isContext(e.Err) || e.Status/100 == 2 && !notAnswer(e.Err)
}
