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

// pprofServer serves pprof, without a key, on a loopback address and a mux of its own. The command line is left out: the API
// key may stand in it.
type pprofServer struct {
	server  *http.Server
	address string
	serving sync.WaitGroup
}

func startPprof(c *config.Pprof) (*pprofServer, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(c.Address, strconv.Itoa(c.Port)))
	if err != nil {
		return nil, fmt.Errorf("debug listener (--http-debug-address, --http-debug-port): %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	d := &pprofServer{
		server:  &http.Server{Handler: localOnly(mux), ReadHeaderTimeout: 10 * time.Second},
		address: l.Addr().String(),
	}
	d.serving.Go(func() { _ = d.server.Serve(l) })
	return d, nil
}

// localOnly answers requests for this machine by a name that no DNS server gives: a page of another site, whose name means
// 127.0.0.1 by now, must not read profiles.
func localOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, err := net.SplitHostPort(r.Host)
		if err != nil {
			host = strings.Trim(r.Host, "[]")
		}
		if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			http.Error(w, "pprof answers to localhost and loopback addresses only", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

func (d *pprofServer) close() error {
	err := d.server.Close()
	d.serving.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
