// Authorities and certificates for tests.

package testenv

import (
	"bytes"
	"cmp"
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

	"github.com/sebbroker/seb/internal/protocols/tlsport"
	"github.com/sebbroker/seb/test/must"
)

// Authority signs certificates.
type Authority struct {
	cert  *x509.Certificate
	key   *ecdsa.PrivateKey
	chain [][]byte // of an intermediate authority: what its clients send in addition
}

// NewAuthority returns an authority that no client trusts yet.
func NewAuthority(t testing.TB) *Authority { t.Helper(); return newAuthority(t, nil) }

// Intermediate returns an authority that a has signed.
func (a *Authority) Intermediate(t testing.TB) *Authority { t.Helper(); return newAuthority(t, a) }

func newAuthority(t testing.TB, above *Authority) *Authority {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: number(t), Subject: pkix.Name{CommonName: "authority of a test"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour * 365),
	}
	a := &Authority{key: key}
	parent, signer := template, key
	if above != nil {
		template.Subject.CommonName = "intermediate authority of a test"
		parent, signer = above.cert, above.key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	check(t, err)
	a.cert, err = x509.ParseCertificate(der)
	check(t, err)
	if above != nil {
		a.chain = append([][]byte{der}, above.chain...)
	}
	return a
}

// Certificate returns the authority's own certificate, without its key.
func (a *Authority) Certificate() tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{a.cert.Raw}, Leaf: a.cert}
}

// Client is the content of a client's certificate.
type Client struct {
	Name string        // CN of CN=Name,OU=services,O=Test
	Ends time.Duration // from now; 0: a month
	Pad  int           // bytes of an extension that nothing reads
}

// Client returns a certificate of a client with its key.
func (a *Authority) Client(t testing.TB, c Client) tls.Certificate {
	t.Helper()
	key := newKey(t)
	template := &x509.Certificate{
		SerialNumber: number(t), Subject: pkix.Name{CommonName: c.Name, OrganizationalUnit: []string{"services"}, Organization: []string{"Test"}},
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(cmp.Or(c.Ends, 30*24*time.Hour)),
	}
	if c.Pad > 0 {
		template.ExtraExtensions = []pkix.Extension{{Id: []int{2, 25, 1}, Value: make([]byte, c.Pad)}}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	check(t, err)
	leaf, err := x509.ParseCertificate(der)
	check(t, err)
	return tls.Certificate{Certificate: append([][]byte{der}, a.chain...), PrivateKey: key, Leaf: leaf}
}

// WriteClient writes a certificate of a client and its key into a folder.
func WriteClient(t testing.TB, dir string, c tls.Certificate) tlsport.Files {
	t.Helper()
	keyDER, err := x509.MarshalPKCS8PrivateKey(c.PrivateKey)
	check(t, err)
	name := filepath.Join(dir, "client-"+c.Leaf.SerialNumber.String())
	f := tlsport.Files{Cert: name + ".pem", Key: name + ".key"}
	var chain bytes.Buffer
	for _, der := range c.Certificate {
		check(t, pem.Encode(&chain, &pem.Block{Type: "CERTIFICATE", Bytes: der}))
	}
	check(t, os.WriteFile(f.Cert, chain.Bytes(), 0o600))
	write(t, f.Key, "PRIVATE KEY", keyDER)
	return f
}

// Revocations replaces a file with the authority's list of revoked certificates, in PEM. The next
// list is due after some time.
func (a *Authority) Revocations(t testing.TB, file string, due time.Duration, revoked ...tls.Certificate) {
	t.Helper()
	list := &x509.RevocationList{Number: number(t), ThisUpdate: time.Now().Add(-time.Hour), NextUpdate: time.Now().Add(due)}
	for i := range revoked {
		list.RevokedCertificateEntries = append(list.RevokedCertificateEntries, x509.RevocationListEntry{
			SerialNumber: revoked[i].Leaf.SerialNumber, RevocationTime: time.Now().Add(-time.Minute),
		})
	}
	der, err := x509.CreateRevocationList(rand.Reader, list, a.cert, a.key)
	check(t, err)
	write(t, file+".new", "X509 CRL", der)
	check(t, os.Rename(file+".new", file))
}

// Leaf is the content of a certificate.
type Leaf struct {
	Names []string // in addition to 127.0.0.1
	Ended bool     // expired a minute ago
	Both  bool     // it is valid as the certificate of a client, too
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
	if l.Both {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageClientAuth)
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
	must.NoError(t, err)
}
