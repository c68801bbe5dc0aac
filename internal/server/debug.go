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
)

// debugServer serves pprof, without a key, on a loopback address and a mux of its own. The command line is left out: the API
// key may stand in it.
type debugServer struct {
	server  *http.Server
	address string
	serving sync.WaitGroup
}

func startDebug(c *config.Debug) (*debugServer, error) {
	l, err := net.Listen("tcp", net.JoinHostPort(c.Address, strconv.Itoa(c.Port)))
	if err != nil {
		return nil, fmt.Errorf("debug listener (--http-debug-address, --http-debug-port): %w", err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	d := &debugServer{
		server:  &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second},
		address: l.Addr().String(),
	}
	d.serving.Go(func() { _ = d.server.Serve(l) })
	return d, nil
}

func (d *debugServer) close() error {
	err := d.server.Close()
	d.serving.Wait()
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
