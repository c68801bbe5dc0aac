package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

// trustAuthorities trusts what the authorities in a file have signed, and nothing else.
func trustAuthorities(file string) (*tls.Config, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(b) {
		return nil, fmt.Errorf("%s: no certificate in it", file)
	}
	return &tls.Config{RootCAs: pool}, nil
}

// trustFile trusts the certificate that is the first in a file, whatever its names, and nothing else: the local broker's is for the
// names by which others reach it. The file is read at each connection, as the broker reads it again when it changes.
func trustFile(file string) *tls.Config {
	return &tls.Config{
		InsecureSkipVerify: true, // VerifyConnection does
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
				UnverifiedCertificates: s.PeerCertificates, Err: errors.New("not that of the local broker, " + file),
			}
		},
	}
}
