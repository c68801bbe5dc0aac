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

// Options are an agent's.
type Options struct {
	Token Token
	Tool  result.Tool       // which build it is
	Say   func(line string) // what happens, for people; nil for nobody. It may be called concurrently
}

// Agent serves coordinators, one at a time.
type Agent struct {
	o   Options
	tls *tls.Config

	mu   sync.Mutex // guards busy
	busy string     // whom it serves, and since when; "": nobody
}

// New returns an agent. The error is ErrNoToken if there is none.
func New(o Options) (*Agent, error) {
	if o.Token == (Token{}) {
		return nil, ErrNoToken
	}
	if o.Say == nil {
		o.Say = func(string) {}
	}
	o.Tool.Modules = nil // they are many
	config, err := serverTLS()
	if err != nil {
		return nil, err
	}
	return &Agent{o: o, tls: config}, nil
}

const (
	helloWait     = 10 * time.Second // for the whole of a handshake
	handshakesMax = 16               // connections at once, that of the session included
	acceptPause   = 100 * time.Millisecond
)

// Serve serves coordinators that connect to l until ctx ends; it closes l. A run under way is then stopped.
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
				_ = c.Close() // nobody is served any more
			}
			return nil
		}
		if errors.Is(err, net.ErrClosed) {
			return fmt.Errorf("accept: %w", err)
		}
		if err != nil { // of one connection, or too many files: it passes
			a.o.Say("accept: " + err.Error())
			time.Sleep(acceptPause)
			continue
		}
		select {
		case room <- struct{}{}:
		default:
			_ = c.Close() // nobody has proven anything yet
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

// refusal is told to the other side.
type refusal string

func (r refusal) Error() string { return string(r) }

// welcome takes a connection that proves itself; the agent is then busy. The other side is told why not.
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

// judge looks at a hello, and takes the place of the agent's coordinator.
func (a *Agent) judge(c *tls.Conn, f *frame) error {
	switch {
	case f.Kind != kindHello || f.Hello == nil:
		return ErrFrame
	case f.Hello.Version != Version:
		return refusal(fmt.Sprintf("it speaks version %d of the protocol, and not version %d", Version, f.Hello.Version))
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

// busyText begins the refusal of an agent that serves somebody else.
const busyText = "busy with "

func (a *Agent) free() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.busy = ""
}

// session is an agent's with a coordinator.
type session struct {
	a    *Agent
	w    *wire
	from string
	run  *part // the last that was ordered; nil: none was
}

// errSession is why a session ends that breaks the protocol.
var errSession = errors.New("the coordinator does not follow the protocol")

// loop takes orders until the connection ends. A run under way ends before it returns.
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

// begin does a run beside the loop.
func (s *session) begin(ctx context.Context, o *order) error {
	if s.run != nil {
		select {
		case <-s.run.done:
		default:
			return fmt.Errorf("%w: a run while another is under way", errSession)
		}
	}
	if o == nil || o.Parts < 1 || o.Spin < 0 || o.Spin > time.Second || o.Floor < 0 {
		return fmt.Errorf("%w: a run that makes no sense", errSession)
	}
	ctx, cancel := context.WithCancel(ctx)
	p := &part{
		w: s.w, cancel: cancel, over: make(chan struct{}), done: make(chan struct{}), start: make(chan time.Time, 1),
		seen: make(chan []load.Sighting, 1),
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
		end := "is done"
		if err != nil {
			answer = &frame{Kind: kindFailed, Error: err.Error()}
			end = "failed: " + err.Error()
		}
		s.a.o.Say(fmt.Sprintf("%s: run %016x %s", s.from, o.Run, end))
		p.answer(answer)
	}()
	return nil
}

// part is a run under way at an agent. It is its load's Others.
type part struct {
	w      *wire
	cancel context.CancelFunc
	start  chan time.Time
	seen   chan []load.Sighting
	over   chan struct{}
	isOver bool // of the session's loop
	done   chan struct{}
}

// answer sends what came of the run. What can not be sent, the coordinator misses: it is told why, or gone.
func (p *part) answer(f *frame) {
	if err := p.w.send(f); err != nil && f.Kind == kindResult {
		_ = p.w.send(&frame{Kind: kindFailed, Error: err.Error()}) // if that can not be sent, the connection has ended
	}
}

// take takes a frame for the run, which came at a time.
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

// Report implements load.Others. It waits when the coordinator does not read; that ends the session.
func (p *part) Report(t load.Totals) {
	_ = p.w.send(&frame{Kind: kindTotals, Totals: &t}) // the session's loop notices a connection that has ended
}

// Over implements load.Others.
func (p *part) Over() <-chan struct{} { return p.over }

// Exchange implements load.Others.
func (p *part) Exchange(ctx context.Context, mine []load.Sighting) ([]load.Sighting, error) {
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
