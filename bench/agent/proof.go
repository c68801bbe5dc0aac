package agent

import (
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
	"os"
	"strings"
	"time"
)

// TokenVariable is the environment variable of the token.
const TokenVariable = "SEB_BENCH_TOKEN"

// TokenMin is the shortest token, in bytes.
const TokenMin = 16

// tokenMax is the largest file of a token.
const tokenMax = 4 << 10

// Errors of a token.
var (
	ErrNoToken    = errors.New("no token: agents want one, in a file (--token-file) or in " + TokenVariable)
	ErrShortToken = fmt.Errorf("the token is too short: want at least %d bytes, as of: head -c 32 /dev/urandom | base64", TokenMin)
)

// Token is what agents and coordinator share. It does not print.
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
			return Token{}, fmt.Errorf("token: %s has %d bytes, the limit is %d", path, info.Size(), tokenMax)
		}
		b, err := os.ReadFile(path)
		if err != nil {
			return Token{}, fmt.Errorf("token: %w", err)
		}
		text = string(b)
	}
	return NewToken(text)
}

// NewToken makes a token of a text; spaces around it do not count.
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

// proof is what a side that has the token sends over a TLS connection.
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

// proves says, in the same time whatever is wrong, whether a side has the token.
func (t Token) proves(c *tls.Conn, side string, proof []byte) bool {
	want, err := t.proof(c, side)
	return err == nil && hmac.Equal(want, proof)
}

// serverTLS is the agent's side: a certificate for as long as it runs, which only carries the keys.
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

// clientTLS is the coordinator's side. It does not look at the certificate: the proof that follows is bound to the connection,
// and only who has the token can give it.
func clientTLS() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}
}
