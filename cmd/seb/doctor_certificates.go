package main

import (
	"crypto/tls"
	"time"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/tlsport"
)

func (e *examination) certificate() {
	c := e.cfg.TLS
	if c.CertFile == "" {
		return
	}
	pair, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		e.add(checkFail, "certificate", "set a PEM certificate and its key with --tls-cert and --tls-key", "%v", err)
		return
	}
	end := pair.Leaf.NotAfter
	switch left := time.Until(end); {
	case left <= 0:
		e.add(checkFail, "certificate", "renew it; the broker reloads the file", "%s ended at %s", c.CertFile, end.UTC().Format(time.RFC3339))
	case left < certificateWarn:
		e.add(checkWarn, "certificate", "renew it; the broker reloads the file", "%s ends at %s", c.CertFile, end.UTC().Format(time.RFC3339))
	default:
		e.add(checkOK, "certificate", "", "%s ends at %s", c.CertFile, end.UTC().Format(time.RFC3339))
	}
	if ask, _ := c.Clients(); ask {
		e.clientCertificates(c)
	}
}

func (e *examination) clientCertificates(c config.TLS) {
	const check = "client certificates"
	switch next, err := tlsport.CheckClientFiles(c.ClientCA, c.ClientCRL); {
	case err != nil:
		e.add(checkFail, check, "correct the file", "%v", err)
	case !next.IsZero() && next.Before(time.Now()):
		e.add(checkWarn, check, "make a new list; the broker reloads the file", "--tls-client-crl %s is outdated since %s", c.ClientCRL, next.UTC().Format(time.RFC3339))
	default:
		e.add(checkOK, check, "", "authorities of %s", c.ClientCA)
	}
}
