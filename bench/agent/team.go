package agent

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/result"
)

// TeamOptions configure a team.
type TeamOptions struct {
	Agents []string // host:port, in the order of their parts
	Token  Token
	Tool   result.Tool
	// Say receives progress lines; nil discards them.
	Say func(line string)
}

// Team is a coordinator and its agents. It performs one run at a time.
type Team struct {
	o       TeamOptions
	version int           // of the protocol
	agents  []*colleague  // nil: not connected
	events  chan event    // frames of agents; a reader blocks until each is taken
	closing chan struct{} // closed when frames are no longer needed
}

// agentsMax bounds the number of agents.
const agentsMax = 1000

// NewTeam returns a team that connects at its first run. Errors concern the options.
func NewTeam(o TeamOptions) (*Team, error) {
	if o.Say == nil {
		o.Say = func(string) {}
	}
	switch {
	case o.Token == (Token{}):
		return nil, ErrNoToken
	case len(o.Agents) == 0 || len(o.Agents) > agentsMax:
		return nil, fmt.Errorf("agents: want 1 to %d, given %d", agentsMax, len(o.Agents))
	}
	seen := map[string]bool{}
	for _, address := range o.Agents {
		if host, port, err := net.SplitHostPort(address); err != nil || host == "" || port == "" {
			return nil, fmt.Errorf("agents: want host:port, given %q", address)
		}
		if seen[address] {
			return nil, fmt.Errorf("agents: %s is given twice", address)
		}
		seen[address] = true
	}
	return &Team{o: o, version: Version}, nil
}

// colleague is a connected agent.
type colleague struct {
	address string
	part    int
	w       *wire
	tool    result.Tool
	// running is set from the order of a run to its result. It belongs to the run's goroutine.
	running bool
	reading sync.WaitGroup
}

// event is a frame of an agent, or the error that ended its frames.
type event struct {
	from  *colleague
	at    time.Time
	frame *frame
	err   error
}

// AgentError is an error of an agent.
type AgentError struct {
	Address string
	Err     error
}

// Error implements error.
func (e *AgentError) Error() string { return "agent " + e.Address + ": " + e.Err.Error() }

// Unwrap returns the reason.
func (e *AgentError) Unwrap() error { return e.Err }

// connect connects to all agents, if not connected.
func (t *Team) connect(ctx context.Context) error {
	if t.agents != nil {
		return nil
	}
	agents := make([]*colleague, len(t.o.Agents))
	errs := make([]error, len(agents))
	var dialing sync.WaitGroup
	for i, address := range t.o.Agents {
		dialing.Go(func() {
			c, err := t.dial(ctx, address)
			if err != nil {
				errs[i] = &AgentError{address, err}
				return
			}
			c.part = i
			agents[i] = c
		})
	}
	dialing.Wait()
	if err := errors.Join(errs...); err != nil {
		for _, c := range agents {
			if c != nil {
				c.w.close()
			}
		}
		return err
	}
	t.agents, t.events, t.closing = agents, make(chan event), make(chan struct{})
	for _, c := range agents {
		c.reading.Go(func() { t.read(c) })
	}
	return nil
}

// read passes on an agent's frames until its connection ends.
func (t *Team) read(c *colleague) {
	for {
		f, err := c.w.receive()
		select {
		case t.events <- event{c, time.Now(), f, err}:
		case <-t.closing:
			return
		}
		if err != nil {
			return
		}
	}
}

// Close ends all connections; agents stop their runs. The next run connects again.
func (t *Team) Close() {
	if t.agents == nil {
		return
	}
	close(t.closing)
	for _, c := range t.agents {
		c.w.close()
		c.reading.Wait()
	}
	t.agents = nil
}

// busyWait is how long an agent may be busy, because it may have to end a run for this coordinator.
const (
	busyWait  = 5 * time.Second
	busyEvery = 200 * time.Millisecond
)

// errBusy is a refusal that may be temporary.
var errBusy = errors.New("another coordinator is connected")

// dial connects to an agent and starts the beats.
func (t *Team) dial(ctx context.Context, address string) (*colleague, error) {
	c, err := t.dialQuietly(ctx, address)
	if err == nil {
		c.w.proven()
	}
	return c, err
}

// dialQuietly is dial without beats.
func (t *Team) dialQuietly(ctx context.Context, address string) (*colleague, error) {
	for patience := time.Now().Add(busyWait); ; {
		c, err := t.dialOnce(ctx, address)
		if !errors.Is(err, errBusy) || time.Now().After(patience) {
			return c, err
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(busyEvery):
		}
	}
}

func (t *Team) dialOnce(ctx context.Context, address string) (*colleague, error) {
	ctx, cancel := context.WithTimeout(ctx, helloWait)
	defer cancel()
	raw, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	c := tls.Client(raw, clientTLS())
	w := newWire(c)
	// A handshake in progress ends with ctx.
	stop := context.AfterFunc(ctx, func() { _ = raw.Close() })
	f, err := t.greet(ctx, c, w)
	if err == nil && !stop() {
		err = ctx.Err()
	}
	if err != nil {
		stop()
		w.close()
		return nil, err
	}
	return &colleague{address: address, w: w, tool: f.Hello.Tool}, nil
}

// greet proves this side and requires the other's proof.
func (t *Team) greet(ctx context.Context, c *tls.Conn, w *wire) (*frame, error) {
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("handshake: %w", err)
	}
	proof, err := t.o.Token.proof(c, sideCoordinator)
	if err != nil {
		return nil, err
	}
	if err := w.send(&frame{Kind: kindHello, Hello: &hello{Version: t.version, Proof: proof}}); err != nil {
		return nil, err
	}
	f, err := w.next()
	switch {
	case err != nil:
		return nil, err
	case f.Kind == kindRefused && strings.HasPrefix(f.Error, busyText):
		return nil, fmt.Errorf("refused: %w: %s", errBusy, f.Error)
	case f.Kind == kindRefused:
		return nil, fmt.Errorf("refused: %s", f.Error)
	case f.Kind != kindWelcome || f.Hello == nil:
		return nil, ErrFrame
	case f.Hello.Version != Version:
		return nil, fmt.Errorf("protocol version %d, this side uses version %d", f.Hello.Version, Version)
	case !t.o.Token.proves(c, sideAgent, f.Hello.Proof):
		return nil, errors.New("agent did not prove that it has the token: do not trust it")
	}
	return f, nil
}

// TokenVariable is the environment variable of the token.
const TokenVariable = "SEB_BENCH_TOKEN"

// TokenMin is the shortest token, in bytes.
const TokenMin = 16

// tokenMax bounds a token file, in bytes.
const tokenMax = 4 << 10

// Errors of tokens.
var (
	ErrNoToken    = errors.New("no token: agents need one, in a file (--token-file) or in " + TokenVariable)
	ErrShortToken = fmt.Errorf("token is too short: want at least %d bytes, for example from: head -c 32 /dev/urandom | base64", TokenMin)
)

// Token is the secret of agents and coordinator. Printing it does not reveal it.
type Token struct{ secret string }

// String implements fmt.Stringer.
func (Token) String() string { return "(hidden)" }

// GoString implements fmt.GoStringer.
func (Token) GoString() string { return "(hidden)" }

// ReadToken reads the token from a file, or from the environment if path is "".
func ReadToken(path string) (Token, error) {
	text := os.Getenv(TokenVariable)
	if path != "" {
		info, err := os.Stat(path)
		if err != nil {
			return Token{}, fmt.Errorf("token: %w", err)
		}
		if info.Size() > tokenMax {
			return Token{}, fmt.Errorf("token: %s has %d bytes, limit %d", path, info.Size(), tokenMax)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return Token{}, fmt.Errorf("token: %w", err)
		}
		text = string(b)
	}
	return NewToken(text)
}

// NewToken makes a token of a text without surrounding spaces.
func NewToken(text string) (Token, error) {
	switch text = strings.TrimSpace(text); {
	case text == "":
		return Token{}, ErrNoToken
	case len(text) < TokenMin:
		return Token{}, ErrShortToken
	}
	return Token{text}, nil
}

// The two sides of a connection.
const (
	sideAgent       = "seb-bench agent"
	sideCoordinator = "seb-bench coordinator"
)

// proof returns the proof of a side for a TLS connection.
func (t Token) proof(c *tls.Conn, side string) ([]byte, error) {
	state := c.ConnectionState()
	key, err := state.ExportKeyingMaterial("EXPORTER-Channel-Binding", nil, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("prove the token: %w", err)
	}
	h := hmac.New(sha256.New, []byte(t.secret))
	h.Write([]byte(side))
	h.Write(key)
	return h.Sum(nil), nil
}

// proves reports in constant time whether a proof of a side is valid.
func (t Token) proves(c *tls.Conn, side string, proof []byte) bool {
	want, err := t.proof(c, side)
	return err == nil && hmac.Equal(want, proof)
}

// serverTLS returns the agent's configuration with a temporary certificate, which only provides
// encryption.
func serverTLS() (*tls.Config, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	now := time.Now()
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: now.Add(-24 * time.Hour), NotAfter: now.AddDate(10, 0, 0)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS13, SessionTicketsDisabled: true,
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: key}},
	}, nil
}

// clientTLS returns the coordinator's configuration. It does not verify the certificate: the
// following proof is bound to the connection, and only a holder of the token can compute it.
func clientTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
}
