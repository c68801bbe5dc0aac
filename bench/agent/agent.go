package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/load"

	"github.com/sebbroker/seb/bench/result"
)

// Options configure an agent.
type Options struct {
	Token Token
	Tool  result.Tool // the build
	// Say receives progress lines and may be called concurrently; nil discards them.
	Say func(line string)
}

// Agent serves coordinators, one at a time.
type Agent struct {
	o   Options
	tls *tls.Config

	mu   sync.Mutex // guards busy
	busy string     // the coordinator and its start; "": none
}

// New returns an agent, or ErrNoToken.
func New(o Options) (*Agent, error) {
	if o.Token == (Token{}) {
		return nil, ErrNoToken
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	o.Tool.Modules = nil // too many to send
	config, err := serverTLS()
	if err != nil {
		return nil, err
	}
	return &Agent{o: o, tls: config}, nil
}

const (
	helloWait     = 10 * time.Second // for a whole handshake
	handshakesMax = 16               // concurrent connections, including that of the session
	acceptPause   = 100 * time.Millisecond
)

// Serve serves coordinators that connect to l until ctx ends; it closes l. It stops a run in
// progress at the end.
func (a *Agent) Serve(ctx context.Context, l net.Listener) error {
	stop := context.AfterFunc(ctx, func() { _ = l.Close() })
	defer stop()
	room := make(chan struct{}, handshakesMax)
	var sessions sync.WaitGroup
	defer sessions.Wait()
	for {
		c, err := l.Accept()
		if ctx.Err() != nil {
			if err == nil {
				_ = c.Close() // no coordinator is served any more
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept: %w", err)
		}
		if err != nil { // of one connection, or too many open files: temporary
			a.o.Say("accept: " + err.Error())
			time.Sleep(acceptPause)
			continue
		}
		select {
		case room <- struct{}{}:
		default:
			_ = c.Close() // the connection is not authenticated
			continue
		}
		sessions.Go(func() {
			defer func() { <-room }()
			a.serve(ctx, c)
		})
	}
}

// serve serves one connection.
func (a *Agent) serve(ctx context.Context, raw net.Conn) {
	from := raw.RemoteAddr().String()
	c := tls.Server(raw, a.tls)
	w := newWire(c)
	defer w.close()
	defer context.AfterFunc(ctx, func() { _ = raw.Close() })()
	if err := a.welcome(ctx, c, w); err != nil {
		a.o.Say(fmt.Sprintf("%s: refused: %v", from, err))
		return
	}
	defer a.free()
	a.o.Say(from + ": session begins")
	s := &session{a: a, w: w, from: from}
	err := s.loop(ctx)
	a.o.Say(fmt.Sprintf("%s: session ends: %v", from, err))
}

// refusal is sent to the other side.
type refusal string

func (r refusal) Error() string { return string(r) }

// welcome authenticates a coordinator and makes the agent busy. It sends the reason of a refusal.
func (a *Agent) welcome(ctx context.Context, c *tls.Conn, w *wire) error {
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	if err := c.HandshakeContext(ctx); err != nil {
		return fmt.Errorf("handshake: %w", err)
	}
	f, err := w.next()
	if err != nil {
		return err
	}
	err = a.judge(c, f)
	if err == nil {
		var proof []byte
		if proof, err = a.o.Token.proof(c, sideAgent); err == nil {
			err = w.send(&frame{Kind: kindWelcome, Hello: &hello{Version: Version, Proof: proof, Tool: a.o.Tool}})
		}
		if err != nil {
			a.free()
			return err
		}
		w.proven()
		return nil
	}
	var why refusal
	if errors.As(err, &why) {
		err = errors.Join(err, w.send(&frame{Kind: kindRefused, Error: string(why)}))
	}
	return err
}

// judge checks a hello and takes the agent's single slot for a coordinator.
func (a *Agent) judge(c *tls.Conn, f *frame) error {
	switch {
	case f.Kind != kindHello || f.Hello == nil:
		return ErrFrame
	case f.Hello.Version != Version:
		return refusal(fmt.Sprintf("protocol version %d, this side uses version %d", f.Hello.Version, Version))
	case !a.o.Token.proves(c, sideCoordinator, f.Hello.Proof):
		return refusal("wrong token")
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.busy != "" {
		return refusal(busyText + a.busy)
	}
	a.busy = fmt.Sprintf("%s since %s", c.RemoteAddr(), time.Now().UTC().Format(time.RFC3339))
	return nil
}

// busyText starts the refusal of an agent that serves another coordinator.
const busyText = "busy with "

func (a *Agent) free() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = ""
}

// session is an agent's session with a coordinator.
type session struct {
	a    *Agent
	w    *wire
	from string
	run  *part // the last ordered run; nil: none
}

// errSession reports a coordinator that violates the protocol.
var errSession = errors.New("coordinator violates the protocol")

// loop processes orders until the connection ends. A run in progress ends before loop returns.
func (s *session) loop(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer func() {
		cancel()
		if s.run != nil {
			<-s.run.done
		}
	}()
	for {
		f, err := s.w.receive()
		if err != nil {
			return err
		}
		if f.Kind == kindRun {
			if err := s.begin(ctx, f.Run); err != nil {
				return err
			}
			continue
		}
		if s.run == nil {
			return fmt.Errorf("%w: %q before a run", errSession, f.Kind)
		}
		if err := s.run.take(f, time.Now()); err != nil {
			return err
		}
	}
}

// begin starts a run concurrently with the loop.
func (s *session) begin(ctx context.Context, o *order) error {
	if s.run != nil {
		select {
		case <-s.run.done:
		default:
			return fmt.Errorf("%w: a run during another run", errSession)
		}
	}
	if o == nil || o.Parts < 1 || o.Spin < 0 || o.Spin > time.Second || o.Floor < 0 {
		return fmt.Errorf("%w: invalid run", errSession)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &part{
		w: s.w, cancel: cancel, over: make(chan struct{}), done: make(chan struct{}), start: make(chan time.Time, 1),
		seen: make(chan []load.Receipts, 1),
	}
	s.run = p
	s.a.o.Say(fmt.Sprintf("%s: run %016x: part %d of %d of %s", s.from, o.Run, o.Part+1, o.Parts, o.Target.Name()))
	go func() {
		defer close(p.done)
		defer cancel()
		res, err := load.Run(ctx, load.Options{
			Workload: o.Workload, Target: o.Target, Clock: load.NewMonotonicClock(o.Spin), Spin: o.Spin, Run: o.Run, Part: o.Part, Parts: o.Parts,
			Others: p, Floor: o.Floor,
		})
		answer := &frame{Kind: kindResult, Result: res}
		end := "done"
		if err != nil {
			answer = &frame{Kind: kindFailed, Error: err.Error()}
			end = "failed: " + err.Error()
		}
		s.a.o.Say(fmt.Sprintf("%s: run %016x %s", s.from, o.Run, end))
		p.answer(answer)
	}()
	return nil
}

// part is a run in progress at an agent. It implements load.Others.
type part struct {
	w      *wire
	cancel context.CancelFunc
	start  chan time.Time
	seen   chan []load.Receipts
	over   chan struct{}
	isOver bool // used by the session's loop
	done   chan struct{}
}

// answer sends the result of the run. If that fails, it sends the error to the coordinator.
func (p *part) answer(f *frame) {
	if err := p.w.send(f); err != nil && f.Kind == kindResult {
		// An error means that the connection has ended.
		_ = p.w.send(&frame{Kind: kindFailed, Error: err.Error()})
	}
}

// take processes a frame for the run that arrived at a time.
func (p *part) take(f *frame, at time.Time) error {
	switch f.Kind {
	case kindStart:
		select {
		case p.start <- at.Add(f.After):
			return p.w.send(&frame{Kind: kindBegan})
		default:
		}
	case kindOver:
		if !p.isOver {
			p.isOver = true
			close(p.over)
			return nil
		}
	case kindSeen:
		select {
		case p.seen <- f.Seen:
			return nil
		default:
		}
	case kindStop:
		p.cancel()
		return nil
	}
	return fmt.Errorf("%w: %q out of turn", errSession, f.Kind)
}

// Ready implements load.Others.
func (p *part) Ready(ctx context.Context) (time.Time, error) {
	if err := p.w.send(&frame{Kind: kindReady}); err != nil {
		return time.Time{}, err
	}
	select {
	case at := <-p.start:
		return at, nil
	case <-ctx.Done():
		return time.Time{}, ctx.Err()
	}
}

// Report implements load.Others. It blocks if the coordinator does not read, which ends the
// session.
func (p *part) Report(t load.Totals) {
	// The session's loop detects the end of the connection.
	_ = p.w.send(&frame{Kind: kindTotals, Totals: &t})
}

// Over implements load.Others.
func (p *part) Over() <-chan struct{} { return p.over }

// Exchange implements load.Others.
func (p *part) Exchange(ctx context.Context, mine []load.Receipts) ([]load.Receipts, error) {
	if err := p.w.send(&frame{Kind: kindSeen, Seen: mine}); err != nil {
		return nil, err
	}
	select {
	case list := <-p.seen:
		return list, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
