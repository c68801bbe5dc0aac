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
