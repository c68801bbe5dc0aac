package torture

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/history"
)

// kind is the activity of a client.
type kind string

const (
	goProducer      kind = "go"          // the Go client, one call at a time
	sharedProducer  kind = "go-shared"   // three goroutines with one Go client
	plainProducer   kind = "go-plain"    // the Go client without idempotence
	rawProducer     kind = "raw"         // HTTP in every encoding
	windowProducer  kind = "window"      // HTTP, idempotent, five requests in flight
	conditional     kind = "conditional" // with an expected offset
	reader          kind = "reader"      // random offsets, several encodings
	follower        kind = "follower"    // new records, as a stream
	grouped         kind = "group"       // the Go client's consumer
	register        kind = "register"    // commits and fetches of offsets
	trimmer         kind = "trim"
	compactedWriter kind = "compacted" // keys in a compacted topic
	rights          kind = "rights"    // principals whose rules and tokens change

	kafkaProducer kind = "kafka"          // batches over the Kafka protocol, no retries
	kafkaClient   kind = "kafka-client"   // franz-go, idempotent
	kafkaReader   kind = "kafka-reader"   // random offsets and ends
	kafkaFollower kind = "kafka-follower" // franz-go, from the start or the last position
	kafkaGroup    kind = "kafka-group"    // franz-go, changing members of a group
	kafkaRegister kind = "kafka-register" // offsets of the group of register
)

// user is one client of the history.
type user struct {
	r         *run
	id        int32
	rng       *rand.Rand
	seq       int64 // records sent
	transport *http.Transport
	http      *http.Client
	api       *client.Client
	scratch   []byte
	kafkaDial func(context.Context, string, string) (net.Conn, error)
	link      *kafkaLink      // nil: none
	ends      map[int32]int64 // of partitions, as far as this client knows
	committed map[int32]int64 // of the shared group
}

// newUser returns a client that finds brokers through the proxies.
func (r *run) newUser(o client.Options) *user {
	r.mu.Lock()
	r.nextID++
	id := r.nextID
	r.mu.Unlock()
	u := &user{r: r, id: id, kafkaDial: r.kafkaDial(id), rng: stream(r.p.seed, streamClient+int(id)), ends: map[int32]int64{}, committed: map[int32]int64{}}
	dice := rand.New(rand.NewPCG(r.p.seed, uint64(id)+1<<32)) // dials come from many goroutines
	var busy atomic.Bool
	u.transport = &http.Transport{
		MaxIdleConnsPerHost: 8, DisableCompression: true, IdleConnTimeout: 5 * time.Second,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			draw := 0.0
			if busy.CompareAndSwap(false, true) {
				draw = dice.Float64()
				busy.Store(false)
			}
			return r.dial(ctx, draw)
		},
	}
	u.http = &http.Client{Transport: epochs{u.transport}}
	o.APIKey, o.HTTPClient = r.key(), u.http
	var err error
	if u.api, err = client.New("http://seb", o); err != nil {
		panic(err) // the address is a constant
	}
	return u
}

// errNoBroker means that a request was never sent.
var errNoBroker = errors.New("no broker")

// strayShare is the probability that a client uses any broker instead of the newest leader.
const strayShare = 0.12

// dial connects to a broker: usually the newest leader, sometimes, before the calm, any.
func (r *run) dial(ctx context.Context, draw float64) (net.Conn, error) {
	return r.dialTo(ctx, draw, func(s *slot) string { return s.wire.Address() })
}

// dialTo is dial for one of a slot's addresses.
func (r *run) dialTo(ctx context.Context, draw float64, address func(*slot) string) (net.Conn, error) {
	var to *slot
	var since time.Time
	for _, s := range r.slots {
		if at := s.leads(); !at.IsZero() && at.After(since) {
			to, since = s, at
		}
	}
	if draw < strayShare && draw > 0 && !r.calm.Load() {
		to = r.slots[int(draw/strayShare*float64(len(r.slots)))]
	}
	if to == nil {
		sleep(ctx, 10*time.Millisecond)
		return nil, errNoBroker
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", address(to))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoBroker, err)
	}
	return conn, nil
}

// answeredBy collects from the answers of a call the broker's epoch, and how often the call was
// sent, through its context.
type answeredBy struct {
	epoch atomic.Uint32
	sent  atomic.Int32
}

// again reports whether the call was sent more than once.
func (a *answeredBy) again() bool { return a.sent.Load() > 1 }

type answeredKey struct{}

// withEpoch returns a context whose calls record the last epoch and the number of attempts.
func withEpoch(ctx context.Context) (context.Context, *answeredBy) {
	a := &answeredBy{}
	return context.WithValue(ctx, answeredKey{}, a), a
}

// epochs is a transport that records the epoch of answers.
type epochs struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (e epochs) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := e.next.RoundTrip(req)
	if a, ok := req.Context().Value(answeredKey{}).(*answeredBy); ok {
		a.epoch.Store(0)
		if !errors.Is(err, errNoBroker) {
			a.sent.Add(1)
		}
		if err == nil {
			n, _ := strconv.ParseUint(resp.Header.Get(api.HeaderEpoch), 10, 32)
			a.epoch.Store(uint32(n))
		}
	}
	return resp, err
}

// timeout returns a context with the time that a client waits for an answer.
func (u *user) timeout(ctx context.Context) (context.Context, context.CancelFunc) {
	if u.r.calm.Load() {
		return context.WithTimeout(ctx, calmTime)
	}
	return context.WithTimeout(ctx, span(u.rng, 30*time.Millisecond, 5*time.Second))
}

// rest is the pause between two operations. After a failure it closes the connections.
func (u *user) rest(ctx context.Context, failed bool) {
	if failed {
		u.transport.CloseIdleConnections()
	}
	sleep(ctx, time.Duration(u.rng.Int64N(int64(u.r.p.pause)+1)))
}

// answer is an HTTP answer; status 0 means none.
type answer struct {
	status  int
	header  http.Header
	body    []byte
	problem api.Problem
	sent    bool  // it may have been received
	err     error // why there is no complete answer
}

// ask makes one HTTP request.
func (u *user) ask(ctx context.Context, method, path string, query url.Values, header map[string]string, body []byte) *answer {
	req, err := http.NewRequestWithContext(ctx, method, "http://seb"+path+"?"+query.Encode(), strings.NewReader(string(body)))
	if err != nil {
		return &answer{err: err}
	}
	req.Header.Set("Authorization", "Bearer "+u.r.key())
	req.Header.Set("Accept", "application/json, "+api.ProblemJSON)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := u.http.Do(req)
	if err != nil {
		return &answer{err: err, sent: !errors.Is(err, errNoBroker)}
	}
	defer resp.Body.Close()
	a := &answer{status: resp.StatusCode, header: resp.Header, sent: true}
	a.body, a.err = io.ReadAll(resp.Body)
	if resp.Header.Get("Content-Type") == api.ProblemJSON && a.err == nil {
		a.err = json.Unmarshal(a.body, &a.problem)
	}
	return a
}

func (a *answer) epoch() uint32 {
	n, _ := strconv.ParseUint(a.header.Get(api.HeaderEpoch), 10, 32)
	return uint32(n)
}

// outcome returns the outcome of a write according to the API description.
func (a *answer) outcome() string {
	switch {
	case !a.sent:
		return history.Rejected
	case a.status == 0, a.status/100 == 5 && a.status != http.StatusServiceUnavailable:
		return history.Unknown
	case a.status/100 == 2 && a.err != nil:
		return history.Unknown
	case a.status/100 == 2:
		return history.OK
	}
	return history.Rejected
}

// unexpected are codes that no broker may return in a run: its topic exists throughout, and
// requests are valid. A wrong key is possible, because a broker of a concurrent run may reuse the
// address of a killed one.
var unexpected = map[api.Code]bool{
	api.UnknownTopic: true, api.UnknownPartition: true, api.BadRequest: true, api.TooLarge: true, api.Internal: true,
	api.NotFound: true, api.MethodNotAllowed: true, api.UnsupportedMediaType: true, api.ReadOnly: true, api.TopicExists: true,
	api.OffsetCompacted: true,
}

// noted counts an error's code, and reports forbidden ones.
func (u *user) noted(code api.Code, detail string) {
	if code == "" {
		return
	}
	u.r.counts.add("answer "+string(code), 1)
	damaged := u.r.p.store.Rates[faultproxy.Damaged] > 0 && !u.r.p.disk
	if unexpected[code] || code == api.CorruptData && !damaged {
		u.r.fault("client %d got %s: %s", u.id, code, detail)
	}
}

// notedError is noted for an error of the Go client.
func (u *user) notedError(err error) *client.Error {
	var e *client.Error
	if errors.As(err, &e) {
		u.noted(api.Code(e.Code), e.Detail)
		return e
	}
	return &client.Error{NextOffset: -1, Start: -1, Committed: -1}
}
