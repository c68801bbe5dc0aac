package link

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/protobuf"
	"github.com/sebbroker/seb/internal/engine/cluster"
)

const (
	// Path is the path of links on the HTTP port.
	Path = "/peer/link"
	// Protocol is the protocol to which a connection is upgraded.
	Protocol = "seb-peer/1"

	earlyBytes  = 16 << 10 // that may arrive before the sender is authenticated
	answerBytes = 4 << 10  // of an HTTP response
	reasonMax   = 300      // of a refusal
)

// KeyPair is the key pair of a run's links. It lives in memory only.
type KeyPair struct {
	certificate tls.Certificate
	hash        [32]byte
}

// NewKeyPair makes a key pair.
func NewKeyPair() (*KeyPair, error) {
	public, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("key of links: %w", err)
	}
	// TLS carries the key in a certificate. Only the key counts: nothing else of it is verified.
	template := x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0)}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, public, private)
	if err != nil {
		return nil, fmt.Errorf("certificate of links: %w", err)
	}
	return &KeyPair{certificate: tls.Certificate{Certificate: [][]byte{der}, PrivateKey: private}, hash: sha256.Sum256(public)}, nil
}

// Hash returns the SHA-256 of the public key, for the registration.
func (k *KeyPair) Hash() [32]byte { return k.hash }

// config returns the TLS configuration of both ends. The handshake proves that the other end has the
// private key of its certificate; the caller compares the key with the registration.
func (k *KeyPair) config() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS13, Certificates: []tls.Certificate{k.certificate}, NextProtos: []string{Protocol},
		ClientAuth: tls.RequireAnyClientCert, SessionTicketsDisabled: true, InsecureSkipVerify: true,
		VerifyConnection: func(s tls.ConnectionState) error {
			if _, ok := keyOf(&s); !ok || s.NegotiatedProtocol != Protocol {
				return errors.New("not a link of Seb")
			}
			return nil
		},
	}
}

// keyOf returns the SHA-256 of the other end's key.
func keyOf(s *tls.ConnectionState) (hash [32]byte, ok bool) {
	if len(s.PeerCertificates) == 0 {
		return hash, false
	}
	public, ok := s.PeerCertificates[0].PublicKey.(ed25519.PublicKey)
	return sha256.Sum256(public), ok
}

// prove returns a proof that this end has a key, which is worth nothing on another connection or from
// the other end. Without a key it is empty.
func prove(c *tls.Conn, key []byte, label string, byDialer bool) ([]byte, error) {
	if len(key) == 0 {
		return nil, nil
	}
	s := c.ConnectionState()
	unique, err := s.ExportKeyingMaterial("EXPORTER-seb-peer", nil, sha256.Size)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	fmt.Fprintf(mac, "seb link %s %t ", label, byDialer)
	mac.Write(unique)
	return mac.Sum(nil), nil
}

// hello returns what this end says of itself on an authenticated connection.
func (n *Net) hello(c *tls.Conn, to cluster.Run, byDialer bool) (h hello, err error) {
	h = hello{from: n.o.Self.Run, to: to}
	if h.root, err = prove(c, n.o.RootKey, "root key", byDialer); err == nil {
		h.secrets, err = prove(c, n.o.SecretsKey, "secrets key", byDialer)
	}
	return h, err
}

// others reports whether the other end, which is the dialer or not, has other keys.
func (n *Net) others(c *tls.Conn, h *hello, byDialer bool) (root, secrets bool, err error) {
	want, err := n.hello(c, h.from, byDialer)
	return !hmac.Equal(h.root, want.root), !hmac.Equal(h.secrets, want.secrets), err
}

// early is a connection whose other end is not authenticated yet: it may send few bytes. The owner
// sets left to -1 before another goroutine reads.
type early struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (e *early) Read(b []byte) (int, error) {
	if e.left < 0 {
		return e.Conn.Read(b)
	}
	if e.left == 0 {
		return 0, fmt.Errorf("%w: more than %d bytes before authentication", errFrame, earlyBytes)
	}
	n, err := e.Conn.Read(b[:min(len(b), e.left)])
	e.left -= n
	return n, err
}

// readHello reads the first frame of the other end.
func readHello(r io.Reader) (hello, error) {
	k, b, err := readFrame(r, earlyMax)
	if err != nil {
		return hello{}, err
	}
	if k != kindHello && k != kindRefused {
		return hello{}, fmt.Errorf("%w: kind %d, want hello", errFrame, k)
	}
	var h hello
	err = protobuf.Decode(b, &h, (*hello).fields)
	switch {
	case err != nil:
		return hello{}, wrapFrame(err)
	case k == kindRefused:
		return hello{}, fmt.Errorf("the other broker refuses the link: %q", h.reason[:min(len(h.reason), reasonMax)])
	}
	return h, nil
}

// upgrade asks for a link, and reads the answer.
func upgrade(conn net.Conn, address string) error {
	if _, err := fmt.Fprintf(conn, "GET %s HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: %s\r\n\r\n", Path, address, Protocol); err != nil {
		return err
	}
	r := bufio.NewReaderSize(&io.LimitedReader{R: conn, N: answerBytes}, answerBytes)
	answer, err := http.ReadResponse(r, nil)
	if err != nil {
		return fmt.Errorf("upgrade: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusSwitchingProtocols || !strings.EqualFold(answer.Header.Get("Upgrade"), Protocol) {
		return fmt.Errorf("upgrade: answered %q instead of a link", answer.Status)
	}
	if r.Buffered() > 0 {
		return fmt.Errorf("upgrade: %w", errFrame)
	}
	return nil
}

// refusal is a reason that the other end learns.
type refusal string

func (r refusal) Error() string { return string(r) }

// errAnother: a dialed address is that of another run.
type errAnother struct{ reg cluster.Registration }

func (e *errAnother) Error() string { return fmt.Sprintf("run %s answers", e.reg.Run) }

// greetDialed makes a connection to an address of p a link.
func (n *Net) greetDialed(ctx context.Context, raw net.Conn, p *peer, address string) (*conn, error) {
	if p.reg.Secure {
		// The link inside authenticates the broker. The outer TLS only satisfies the port.
		outer := tls.Client(raw, n.outer)
		if err := outer.HandshakeContext(ctx); err != nil {
			return nil, fmt.Errorf("TLS of the port: %w", err)
		}
		raw = outer
	}
	if err := upgrade(raw, address); err != nil {
		return nil, err
	}
	limited := &early{Conn: raw, left: earlyBytes}
	c := tls.Client(limited, n.tls)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS of the link: %w", err)
	}
	s := c.ConnectionState()
	key, _ := keyOf(&s)
	mine := hello{from: n.o.Self.Run, to: p.reg.Run} // without proofs for another key
	if key == p.reg.KeyHash {
		var err error
		if mine, err = n.hello(c, p.reg.Run, true); err != nil {
			return nil, err
		}
	}
	if _, err := c.Write(appendHello(nil, kindHello, &mine)); err != nil {
		return nil, err
	}
	theirs, err := readHello(c)
	switch {
	case err != nil:
		return nil, err
	case theirs.from == n.o.Self.Run && key == n.o.Key.hash:
		return nil, errSelf
	case theirs.from != p.reg.Run:
		r, err := n.lookup(ctx, theirs.from, true)
		if err != nil || r.KeyHash != key {
			return nil, errors.Join(fmt.Errorf("a broker with another key answers as run %s", theirs.from), err)
		}
		return nil, &errAnother{r}
	case key != p.reg.KeyHash:
		return nil, errKey
	}
	limited.left = -1
	l := newConn(n, p, c, raw, true)
	l.otherKey, l.otherSecrets, err = n.others(c, &theirs, false)
	return l, err
}

// greetAccepted makes a connection that asked for it a link.
func (n *Net) greetAccepted(ctx context.Context, raw net.Conn) (*conn, error) {
	limited := &early{Conn: raw, left: earlyBytes}
	c := tls.Server(limited, n.tls)
	if err := c.HandshakeContext(ctx); err != nil {
		return nil, fmt.Errorf("TLS of the link: %w", err)
	}
	theirs, err := readHello(c)
	if err != nil {
		return nil, err
	}
	s := c.ConnectionState()
	key, _ := keyOf(&s)
	otherKey, otherSecrets, err := n.others(c, &theirs, true)
	if err != nil {
		return nil, err
	}
	p, err := n.admit(ctx, &theirs, key, !otherKey)
	if refused, ok := errors.AsType[refusal](err); ok {
		_, _ = c.Write(appendHello(nil, kindRefused, &hello{reason: string(refused)}))
		return nil, err
	}
	if errors.Is(err, errNotMe) {
		_, _ = c.Write(appendHello(nil, kindHello, &hello{from: n.o.Self.Run, to: theirs.from}))
	}
	if err != nil {
		return nil, err
	}
	limited.left = -1
	l := newConn(n, p, c, raw, false)
	l.otherKey, l.otherSecrets = otherKey, otherSecrets
	mine, err := n.hello(c, theirs.from, false)
	l.small = append(l.small, appendHello(nil, kindHello, &mine)) // before everything else
	return l, err
}

var (
	errSelf  = errors.New("this broker itself answers")
	errNotMe = errors.New("the other broker wants another run")
)

// admit finds the run of an accepted connection, and checks its key. rooted: it has proved the root
// key.
func (n *Net) admit(ctx context.Context, h *hello, key [32]byte, rooted bool) (*peer, error) {
	self := n.o.Self.Run
	switch {
	case h.to != self:
		return nil, errNotMe
	case h.from.IsZero():
		return nil, refusal("no run is named")
	case h.from.Node == self.Node:
		return nil, refusal("a run of the same data folder")
	}
	p := n.find(h.from)
	var r cluster.Registration
	if p != nil {
		r = p.reg
	} else {
		var err error
		if r, err = n.lookup(ctx, h.from, rooted); errors.Is(err, errBusy) {
			return nil, refusal(err.Error())
		}
		if err != nil {
			n.o.Logger.Debug("registration of a broker not read", "run", h.from.String(), "err", err)
			return nil, refusal("this broker cannot read the registration of run " + h.from.String())
		}
	}
	if r.KeyHash != key {
		return nil, errKey
	}
	if p == nil {
		p = n.learn(&r, false)
	}
	if p == nil {
		return nil, refusal(fmt.Sprintf("%d brokers are known already", PeersMax))
	}
	return p, nil
}

const errKey refusal = "the key is not that of the registration"
