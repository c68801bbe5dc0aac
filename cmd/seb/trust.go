package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// trustAuthorities trusts only certificates that the authorities in a file have signed.
func trustAuthorities(file string) (*tls.Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s: no certificate", file)
	}
	return &tls.Config{RootCAs: pool}, nil
}

// trustFile trusts only the first certificate of a file, whatever its names: the local broker's
// certificate has the names by which remote clients reach it. Each connection reads the file,
// because the broker reloads it when it changes.
func trustFile(file string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection verifies the certificate
		VerifyConnection: func(s tls.ConnectionState) error {
			b, err := os.ReadFile(file)
			if err != nil {
				return fmt.Errorf("certificate of the local broker: %w", err)
			}
			for block, rest := pem.Decode(b); block != nil; block, rest = pem.Decode(rest) {
				if block.Type != "CERTIFICATE" {
					continue
				}
				own, err := x509.ParseCertificate(block.Bytes)
				if err == nil && len(s.PeerCertificates) > 0 && own.Equal(s.PeerCertificates[0]) {
					return nil
				}
				break
			}
			return &tls.CertificateVerificationError{
				UnverifiedCertificates: s.PeerCertificates, Err: errors.New("not the certificate of the local broker, " + file),
			}
		},
	}
}
