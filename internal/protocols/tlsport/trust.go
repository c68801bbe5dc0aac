package tlsport

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"
)

// trust is the content of the files of Clients: the authorities that sign the certificates of
// clients, and the certificates that are revoked. It is immutable.
type trust struct {
	sum     [sha256.Size]byte // of both files
	pool    *x509.CertPool
	revoked map[serial]struct{}
	lists   int
	next    time.Time // when the first list is outdated; zero: never
}

// serial identifies a certificate: its authority's name in DER, and the number as big-endian bytes.
type serial struct{ issuer, number string }

// clientFileMax bounds a file of authorities or lists, because its content is in memory. A list of
// 100,000 certificates takes about 4 MiB.
const clientFileMax = 4 << 20

// errRevoked: a certificate of the client or of an authority between is on a list.
var errRevoked = errors.New("certificate is revoked")

// loadTrust reads a file of authorities in PEM, and a file of revocation lists in PEM, or one list in
// DER, unless its name is "". Errors name the setting and the file.
func loadTrust(authorities, lists string) (*trust, error) {
	t := &trust{pool: x509.NewCertPool(), revoked: map[serial]struct{}{}}
	text, err := readBounded(authorities)
	if err != nil {
		return nil, fmt.Errorf("--tls-client-ca: %w", err)
	}
	signers, err := parseAuthorities(text)
	if err != nil {
		return nil, fmt.Errorf("--tls-client-ca %s: %w", authorities, err)
	}
	for _, c := range signers {
		t.pool.AddCert(c)
	}
	sum := sha256.New()
	_, _ = sum.Write(text)
	if lists != "" {
		if text, err = readBounded(lists); err != nil {
			return nil, fmt.Errorf("--tls-client-crl: %w", err)
		}
		if err := t.addLists(text, signers); err != nil {
			return nil, fmt.Errorf("--tls-client-crl %s: %w", lists, err)
		}
		_, _ = sum.Write(text)
	}
	sum.Sum(t.sum[:0])
	return t, nil
}

// CheckClientFiles reads the files of client certificates as a broker does. next is when the first
// revocation list is outdated; zero if there is none. Errors name the setting and the file.
func CheckClientFiles(authorities, lists string) (next time.Time, err error) {
	t, err := loadTrust(authorities, lists)
	if err != nil {
		return time.Time{}, err
	}
	return t.next, nil
}

func readBounded(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, clientFileMax+1))
	if err == nil && len(text) > clientFileMax {
		err = fmt.Errorf("%s: more than %d MiB", name, clientFileMax>>20)
	}
	return text, err
}

func parseAuthorities(text []byte) (list []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			return nil, fmt.Errorf("%q: want only certificates", block.Type)
		}
		c, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		if !c.IsCA {
			// As an authority it would make its own client trusted.
			return nil, fmt.Errorf("certificate %.100q is not one of an authority", c.Subject)
		}
		list = append(list, c)
	}
	if len(list) == 0 {
		return nil, errors.New("no certificate in PEM")
	}
	return list, nil
}

// addLists reads revocation lists. Each must be signed by one of the authorities.
func (t *trust) addLists(text []byte, signers []*x509.Certificate) error {
	block, rest := pem.Decode(text)
	if block == nil {
		return t.addList(text, signers)
	}
	for ; block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "X509 CRL" {
			return fmt.Errorf("%q: want only X509 CRL", block.Type)
		}
		if err := t.addList(block.Bytes, signers); err != nil {
			return err
		}
	}
	return nil
}

func (t *trust) addList(der []byte, signers []*x509.Certificate) error {
	list, err := x509.ParseRevocationList(der)
	if err != nil {
		return err
	}
	refused := errors.New("it is not in --tls-client-ca")
	for _, c := range signers {
		if !bytes.Equal(c.RawSubject, list.RawIssuer) {
			continue
		}
		if refused = list.CheckSignatureFrom(c); refused == nil {
			break
		}
	}
	if refused != nil {
		return fmt.Errorf("list of %.100q is not signed by that authority: %w", list.Issuer, refused)
	}
	// A critical extension changes the meaning: a list of changes only, or of a part of the certificates.
	for _, e := range list.Extensions {
		if e.Critical {
			return fmt.Errorf("list of %.100q: unsupported critical extension %s", list.Issuer, e.Id)
		}
	}
	for i := range list.RevokedCertificateEntries {
		e := &list.RevokedCertificateEntries[i]
		for _, x := range e.Extensions {
			if x.Critical {
				return fmt.Errorf("list of %.100q: unsupported critical extension %s of an entry", list.Issuer, x.Id)
			}
		}
		t.revoked[serial{string(list.RawIssuer), string(e.SerialNumber.Bytes())}] = struct{}{}
	}
	t.lists++
	if !list.NextUpdate.IsZero() && (t.next.IsZero() || list.NextUpdate.Before(t.next)) {
		t.next = list.NextUpdate
	}
	return nil
}

// chain verifies the certificates that a client sent, the leaf first, and returns a chain to an
// authority without a revoked certificate. The known chains, if any, are valid.
func (t *trust) chain(sent []*x509.Certificate, known [][]*x509.Certificate) ([]*x509.Certificate, error) {
	if len(known) == 0 {
		o := x509.VerifyOptions{Roots: t.pool, Intermediates: x509.NewCertPool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
		for _, c := range sent[1:] {
			o.Intermediates.AddCert(c)
		}
		var err error
		if known, err = sent[0].Verify(o); err != nil {
			return nil, &tls.CertificateVerificationError{UnverifiedCertificates: sent, Err: err}
		}
	}
	for _, chain := range known {
		if !t.revokes(serialsOf(chain)) {
			return chain, nil
		}
	}
	return nil, &tls.CertificateVerificationError{UnverifiedCertificates: sent, Err: errRevoked}
}

// serialsOf returns the identities of certificates.
func serialsOf(chain []*x509.Certificate) []serial {
	list := make([]serial, len(chain))
	for i, c := range chain {
		list[i] = serial{string(c.RawIssuer), string(c.SerialNumber.Bytes())}
	}
	return list
}

// revokes reports whether a certificate is revoked.
func (t *trust) revokes(chain []serial) bool {
	return slices.ContainsFunc(chain, func(s serial) bool {
		_, found := t.revoked[s]
		return found
	})
}
