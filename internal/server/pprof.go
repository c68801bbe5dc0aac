package server

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"strconv"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/httpapi"
)

// pprofServer serves pprof, without a key, on a loopback address with its own mux. It omits the
// command line, which may have the API key.
type pprofServer struct {
	server  *http.Server
	address string
	serving sync.WaitGroup
}

func startPprof(c *config.Pprof, hosts []string) (*pprofServer, error) {
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
		server:  &http.Server{Handler: knownHosts(mux, hosts), ReadHeaderTimeout: 10 * time.Second},
		address: l.Addr().String(),
	}
	p.serving.Go(func() { _ = p.server.Serve(l) })
	return p, nil
}

// knownHosts answers only requests with the name of this machine, because a web page whose own name
// resolves to 127.0.0.1 must not read profiles.
func knownHosts(h http.Handler, hosts []string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !httpapi.KnownHost(r.Host, hosts) {
			http.Error(w, "pprof answers only requests to IP addresses, localhost and the names of --http-host", http.StatusForbidden)
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
