package main

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"net"
	"strconv"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
)

// ports checks whether the addresses are free, or a broker answers there.
func (e *examination) ports(ctx context.Context) {
	own, found := false, false // a broker answers at the HTTP address, perhaps that of the data directory
	for _, p := range []struct{ check, address string }{
		{"HTTP address", net.JoinHostPort(e.cfg.HTTP.Address, strconv.Itoa(e.cfg.HTTP.Port))},
		{"Kafka address", e.cfg.Kafka.Listen},
	} {
		if p.address == "" {
			continue
		}
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.address)
		switch {
		case err == nil:
			_ = l.Close()
			e.add(checkOK, p.check, "", "%s is free", p.address)
		case !errors.Is(err, syscall.EADDRINUSE):
			e.add(checkFail, p.check, "use an address of this machine", "%v", err)
		case p.check == "HTTP address":
			if own, found = e.brokerAt(ctx, p.address); !found {
				e.add(checkWarn, p.check, otherProgram, "%s is in use", p.address)
			}
		case own:
			e.add(checkOK, p.check, "", "%s is in use, and a broker answers at the HTTP address", p.address)
		default:
			e.add(checkWarn, p.check, otherProgram, "%s is in use", p.address)
		}
	}
}

// otherProgram is the advice for an address in use.
const otherProgram = "stop the other program, or choose another port, unless it is this broker"

// brokerAt reports whether a Seb broker answers at the HTTP address, and whether it may be the one of the
// data directory, and adds the finding.
func (e *examination) brokerAt(ctx context.Context, address string) (own, found bool) {
	run, ok := e.runAt(ctx, address)
	if !ok {
		return false, false
	}
	local, err := server.Discover(e.cfg.DataDir)
	level, but := checkOK, ""
	if known := err == nil || errors.Is(err, fs.ErrNotExist); known && run != "" && run != local.Run {
		level, but = checkWarn, ", but not the one of data directory "+e.cfg.DataDir
	}
	e.add(level, "HTTP address", "stop it, choose another --http-port, or set its --data-dir", "%s: a broker answers%s", address, but)
	return level == checkOK, true
}

// runAt reports whether a Seb broker answers at an address, and which run; "" if it does not say. Its
// certificate may be for other names. If clients need a certificate, a server that demands one is taken
// for a broker.
func (e *examination) runAt(ctx context.Context, address string) (run string, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	scheme := "http://"
	if e.cfg.TLS.On(config.ListenerHTTP) {
		scheme = "https://"
	}
	var demanded atomic.Bool
	run, err := runAt(ctx, scheme+address, client.Options{RetryTime: time.Nanosecond, TLS: &tls.Config{
		InsecureSkipVerify: true, //nolint:gosec // no data is sent
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			demanded.Store(true)
			return &tls.Certificate{}, nil
		},
	}})
	_, require := e.cfg.TLS.Clients()
	return run, err == nil || require && demanded.Load()
}
