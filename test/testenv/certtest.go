// Authorities and certificates for tests.

package testenv

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/tlsport"
)

// Authority signs certificates.
type Authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewAuthority returns an authority that no client trusts yet.
func NewAuthority(t testing.TB) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: number(t), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour * 365),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	check(t, err)
	cert, err := x509.ParseCertificate(der)
	check(t, err)
	return &Authority{cert, key}
}

// Leaf is the content of a certificate.
type Leaf struct {
	Names []string // in addition to 127.0.0.1
	Ended bool     // expired a minute ago
}

// Files writes a certificate for 127.0.0.1, valid for a month, and its key into a folder.
func (a *Authority) Files(t testing.TB, dir string, l Leaf) tlsport.Files {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: number(t), Subject: pkix.Name{CommonName: "broker of a test"}, DNSNames: l.Names,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		NotBefore:   time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
	}
	if l.Ended {
		template.NotAfter = time.Now().Add(-time.Minute)
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	check(t, err)
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	f := tlsport.Files{Cert: filepath.Join(dir, "cert.pem"), Key: filepath.Join(dir, "key.pem")}
	write(t, f.Cert, "CERTIFICATE", der)
	write(t, f.Key, "PRIVATE KEY", keyDER)
	return f
}

// File writes the authority's own certificate into a folder.
func (a *Authority) File(t testing.TB, dir string) string {
	t.Helper()
	file := filepath.Join(dir, "authority.pem")
	write(t, file, "CERTIFICATE", a.cert.Raw)
	return file
}

// Trusted returns the configuration of a client that trusts only this authority.
func (a *Authority) Trusted() *tls.Config {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return &tls.Config{RootCAs: pool}
}

// MustBeSecret fails t if text contains part of a key.
func (*Authority) MustBeSecret(t testing.TB, text string, files ...tlsport.Files) {
	t.Helper()
	for _, f := range files {
		b, err := os.ReadFile(f.Key)
		check(t, err)
		for line := range bytes.Lines(b) {
			if s := strings.TrimSpace(string(line)); len(s) > 20 && !strings.HasPrefix(s, "-----") && strings.Contains(text, s) {
				t.Errorf("text contains a line of %s: %s", f.Key, text)
			}
		}
	}
}

// CertificateSerial returns the serial number of the certificate in a file.
func CertificateSerial(t testing.TB, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	check(t, err)
	block, _ := pem.Decode(b)
	cert, err := x509.ParseCertificate(block.Bytes)
	check(t, err)
	return cert.SerialNumber.String()
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return key
}

func number(t testing.TB) *big.Int {
	t.Helper()
	n, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	check(t, err)
	return n
}

func write(t testing.TB, file, kind string, der []byte) {
	t.Helper()
	check(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
