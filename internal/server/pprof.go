package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/config"
)

// pprofServer serves pprof, without a key, on a loopback address with its own mux. It omits the
// command line, which may have the API key.
type pprofServer struct {
	server  *http.Server
	address string
	serving sync.WaitGroup
}

func startPprof(c *config.Pprof) (*pprofServer, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(c.Address, strconv.Itoa(c.Port)))
	if err != nil {
		return nil, fmt.Errorf("pprof listener (--http-debug-address, --http-debug-port): %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	p := &pprofServer{
		server:  &http.Server{Handler: localOnly(mux), ReadHeaderTimeout: 10 * time.Second},
		address: l.Addr().String(),
	}
	p.serving.Go(func() { _ = p.server.Serve(l) })
	return p, nil
}

// localOnly answers only requests to localhost or a loopback address. A web page whose DNS name
// resolves to 127.0.0.1 must not read profiles.
func localOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "pprof answers only requests to localhost and loopback addresses", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (p *pprofServer) close() error {
	err := p.server.Close()
	p.serving.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
