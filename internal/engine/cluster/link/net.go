package link

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/log/state"
)

// EventKind is a kind of Event. Zero is invalid.
type EventKind uint8

// The kinds of events, and the fields of Event that they have besides From.
const (
	Linked   EventKind = iota + 1 // Registration, OtherKey, OtherSecrets: there is a link; it may replace an older one
	Received                      // Message
	Fed                           // Pos, Prefix: a slot is committed
	Ended                         // ByPeer, Err: the link is over
	Refused                       // Address, Err: the host of the run refused a dial (ECONNREFUSED)
	Replaced                      // Address, Other: the run has ended, because another one answers at its address
	Failed                        // Err: a dial did not make a link, for another reason
)

// Event is what a Net tells. Events of one run come in order.
type Event struct {
	Kind                   EventKind
	From                   cluster.Run
	Registration           cluster.Registration
	OtherKey, OtherSecrets bool // it has another root key, another secrets key
	Message                cluster.Message
	Pos                    state.Position
	Prefix                 []byte // first bytes of the object at Pos; nil: a notice. It belongs to the receiver
	ByPeer                 bool   // the run, or the kernel of its host, ended the link (FIN or RST)
	Err                    error
	Address                string
	Other                  cluster.Run
}

// Times are the durations of links. Zero values mean Designed.
type Times struct {
	Greet time.Duration // until both ends are authenticated, and until an address is connected
	Other time.Duration // without a link after which the run with the larger node dials too
	Soon  time.Duration // longest pause between dials at first
	// Trying is how long the pauses are short. A run without a link for longer gives its place to
	// another one if PeersMax are known.
	Trying time.Duration
	Later  time.Duration // longest pause between dials then
	Idle   time.Duration // a link carries a frame at least this often
	Dead   time.Duration // a link without a frame for so long is over; so is one that takes nothing
}

// Designed are the usual Times.
var Designed = Times{
	Greet: 5 * time.Second, Other: 2 * time.Second, Soon: time.Second, Trying: 30 * time.Second, Later: 10 * time.Second, Idle: time.Second, Dead: 4 * time.Second,
}

const (
	firstPause = 100 * time.Millisecond // between the first two dials; it doubles
	// secondPause is between the first two dials after the other side has ended a link.
	secondPause = 20 * time.Millisecond
	// handshakesMax bounds the connections that are not authenticated yet. A further one ends the
	// oldest, so that clients that send nothing do not keep brokers out.
	handshakesMax = 16
	// lookupEvery bounds the GETs that clients without authentication cause.
	lookupEvery = 100 * time.Millisecond
	// farewell bounds the end of a link in Close.
	farewell = 500 * time.Millisecond
)

// Options configure New. Self, Key and Lookup are required.
type Options struct {
	Self cluster.Registration
	Key  *KeyPair // its hash is in Self
	// RootKey and SecretsKey, a check of that key, are compared with those of other brokers; they are
	// not sent. Empty: none.
	RootKey, SecretsKey []byte
	// Lookup reads the registration of a run (Get).
	Lookup func(ctx context.Context, run cluster.Run) (cluster.Registration, error)
	// Events is called for each event, from several goroutines, but for one run from one at a time.
	// It must not wait, because the link's beats wait with it. It may call Send, Feed, Expect and
	// Forget.
	Events func(Event)
	Logger *slog.Logger // nil discards
	// Dial connects to an address; nil uses TCP.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Outer is the TLS configuration for the ports of other brokers. Nil presents no certificate.
	// Neither verifies the port's certificate, because the link inside is authenticated.
	Outer *tls.Config
	Times Times
	// QueueBytes bounds the slots in all queues; 0 means 8 MiB. A link has at most half of them.
	QueueBytes int64
}

// Net keeps the links of a run. Its methods may be called concurrently.
type Net struct {
	o      Options
	tls    *tls.Config
	outer  *tls.Config
	ctx    context.Context
	cancel context.CancelFunc
	work   sync.WaitGroup

	queued atomic.Int64 // bytes of slots in all queues
	linked atomic.Int32

	mu     sync.Mutex // guards the fields below, and the fields of peers that say so
	peers  map[cluster.Run]*peer
	closed bool
	lookAt time.Time // of the next lookup for an unknown client
	// handshakes are the connections that are not authenticated yet, oldest first.
	handshakes []*handshake
}

// peer is another run.
type peer struct {
	run    cluster.Run
	reg    cluster.Registration
	cancel context.CancelFunc // ends its dials
	wake   wake.Signal        // conn or lost has changed

	// telling is held while an event of the run is told, so that events have the order of the
	// changes of conn. It is locked before Net.mu.
	telling sync.Mutex

	expected bool // the first dial does not wait

	// Guarded by Net.mu.
	conn   *conn
	linked bool      // there was a link
	lost   time.Time // begin of the time without a link
	tries  int       // dials since
	tried  time.Time // end of the last one
	byPeer bool      // it ended its last link
	good   string    // address of the last link
	failed string    // the last failure that was logged
}

// New returns a Net without links.
func New(o Options) (*Net, error) {
	var errs []error
	if o.Self.Run.IsZero() {
		errs = append(errs, errors.New("run is required"))
	}
	if o.Key == nil || o.Key.hash != o.Self.KeyHash {
		errs = append(errs, errors.New("the key of the registration is required"))
	}
	if o.Lookup == nil {
		errs = append(errs, errors.New("lookup is required"))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, fmt.Errorf("links: %w", err)
	}
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if o.Events == nil {
		o.Events = func(Event) {}
	}
	if o.Dial == nil {
		o.Dial = func(ctx context.Context, address string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", address)
		}
	}
	o.QueueBytes = cmp.Or(o.QueueBytes, 8<<20)
	t := &o.Times
	t.Greet, t.Other, t.Soon = cmp.Or(t.Greet, Designed.Greet), cmp.Or(t.Other, Designed.Other), cmp.Or(t.Soon, Designed.Soon)
	t.Trying = cmp.Or(t.Trying, Designed.Trying)
	t.Later, t.Idle, t.Dead = cmp.Or(t.Later, Designed.Later), cmp.Or(t.Idle, Designed.Idle), cmp.Or(t.Dead, Designed.Dead)
	n := &Net{o: o, tls: o.Key.config(), outer: o.Outer.Clone(), peers: map[cluster.Run]*peer{}}
	if n.outer == nil {
		n.outer = &tls.Config{MinVersion: tls.VersionTLS12}
	}
	n.outer.InsecureSkipVerify = true
	n.ctx, n.cancel = context.WithCancel(context.Background())
	return n, nil
}

// Expect keeps a link to a run: it dials until there is one, and again after its end. A run that is
// known, and one of the own data folder, is ignored; so is one beyond PeersMax.
func (n *Net) Expect(r *cluster.Registration) {
	if r.Run.Node != n.o.Self.Run.Node && n.learn(r, true) == nil {
		n.o.Logger.Warn("no link to a broker, because there are too many", "broker", r.Name, "run", r.Run.String(), "max", PeersMax)
	}
}

// learn returns the peer of a run, or nil if there are too many or n is closed. expected: the run may
// not know this one.
func (n *Net) learn(r *cluster.Registration, expected bool) *peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	if p := n.peers[r.Run]; p != nil || n.closed || len(n.peers) >= PeersMax && !n.makeRoom() {
		return p
	}
	p := &peer{run: r.Run, reg: *r, expected: expected, wake: wake.New(), lost: time.Now()}
	ctx, cancel := context.WithCancel(n.ctx)
	p.cancel = cancel
	n.peers[r.Run] = p
	n.work.Go(func() { n.keep(ctx, p) })
	return p
}

// makeRoom forgets the run that has been without a link for the longest time. n.mu is held.
func (n *Net) makeRoom() bool {
	var oldest *peer
	for _, p := range n.peers { //tidy:unordered the least is chosen
		if p.conn == nil && (oldest == nil || p.lost.Before(oldest.lost)) {
			oldest = p
		}
	}
	if oldest == nil || time.Since(oldest.lost) <= n.o.Times.Trying {
		return false
	}
	oldest.cancel()
	delete(n.peers, oldest.run)
	return true
}

func (n *Net) find(run cluster.Run) *peer {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.peers[run]
}

// Forget ends the link to a run, without an event, and its dials. The run may make a new link.
func (n *Net) Forget(run cluster.Run) {
	n.mu.Lock()
	p := n.peers[run]
	delete(n.peers, run)
	var c *conn
	if p != nil {
		p.cancel()
		c = p.conn
		n.drop(p)
	}
	n.mu.Unlock()
	if c != nil {
		c.end(errForgotten)
	}
}

// drop takes the link away from a peer. n.mu is held.
func (n *Net) drop(p *peer) {
	if p.conn != nil {
		n.linked.Add(-1)
	}
	p.conn, p.lost, p.tries, p.failed = nil, time.Now(), 0, ""
}

// Linked returns the number of links.
func (n *Net) Linked() int { return int(n.linked.Load()) }

// Send queues a message and returns false if there is no link to the run, or if its queue is full. It
// does not wait.
func (n *Net) Send(to cluster.Run, m *cluster.Message) bool {
	n.mu.Lock()
	p := n.peers[to]
	var c *conn
	if p != nil {
		c = p.conn
	}
	n.mu.Unlock()
	return c != nil && c.send(appendMessage(nil, m))
}

// Feed queues a committed slot for all links: its position and the first bytes of its object, which
// it copies. A link gets the position alone if the bytes are more than SlotMax, or if it is behind.
// It does not wait.
func (n *Net) Feed(pos state.Position, prefix []byte) {
	if n.linked.Load() == 0 {
		return
	}
	var frame []byte
	if len(prefix) <= SlotMax {
		w := body{posEpoch: pos.Epoch, slot: pos.Slot, prefix: prefix}
		frame = w.append(make([]byte, 0, len(prefix)+64), kindSlot)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, p := range n.peers { //tidy:unordered each link has its own queue
		if p.conn != nil {
			p.conn.feed(pos, frame)
		}
	}
}

// Close ends all links and returns when their goroutines have ended. With goodbye it first sends that
// message.
func (n *Net) Close(goodbye bool) {
	n.mu.Lock()
	n.closed = true
	var conns []*conn
	for _, p := range n.peers { //tidy:unordered all are ended
		if p.conn != nil {
			conns = append(conns, p.conn)
		}
	}
	n.mu.Unlock()
	n.cancel()
	for _, c := range conns {
		if goodbye {
			c.send(appendMessage(nil, &cluster.Message{Kind: cluster.MsgGoodbye}))
		}
		c.finish()
	}
	n.work.Wait()
}

// tell calls Events for an event of p, unless c is no longer the link of p. c may be nil: the event is
// of no link.
func (n *Net) tell(p *peer, c *conn, ev Event) {
	p.telling.Lock()
	defer p.telling.Unlock()
	n.mu.Lock()
	is := n.peers[p.run] == p && p.conn == c && (c != nil || !n.closed)
	n.mu.Unlock()
	if ev.From = p.run; is {
		n.o.Events(ev)
	}
}

// errBusy: too many clients without the root key cause lookups.
var errBusy = errors.New("too many brokers without the root key")

// lookup reads a registration. For clients that have not proved the root key it does so once each
// lookupEvery.
func (n *Net) lookup(ctx context.Context, run cluster.Run, known bool) (cluster.Registration, error) {
	n.mu.Lock()
	now := time.Now()
	late := now.Before(n.lookAt)
	if !known && !late {
		n.lookAt = now.Add(lookupEvery)
	}
	n.mu.Unlock()
	if !known && late {
		return cluster.Registration{}, errBusy
	}
	r, err := n.o.Lookup(ctx, run)
	if err == nil && r.Run != run {
		err = ErrDamaged
	}
	return r, err
}
