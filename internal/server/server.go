package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/config"
	"github.com/sebbroker/seb/internal/dispatch"
	"github.com/sebbroker/seb/internal/failpoint"
	"github.com/sebbroker/seb/internal/httpapi"
	"github.com/sebbroker/seb/internal/node"
	"github.com/sebbroker/seb/internal/packer"
	"github.com/sebbroker/seb/internal/webhook"
)

// Server is a running broker with its listeners. Its methods may be called concurrently.
type Server struct {
	cfg      config.Config
	log      *slog.Logger
	node     *node.Node
	listener net.Listener
	api      *httpapi.API
	http     *http.Server
	debug    *debugServer // nil unless enabled
	runtime  Runtime
	keyMade  bool
	targets  webhook.Policy       // where webhooks may go to
	dispatch *dispatch.Dispatcher // nil if read-only

	serving sync.WaitGroup // goroutines of the listeners
	done    chan struct{}  // closed when it can not go on
	fail    sync.Once
	err     error // why; set before done is closed
	closed  sync.Once
	stopErr error // of the first Close
}

// connectionBytes is what a connection is reckoned to cost: buffers both ways, two goroutines, the largest headers. Most
// take half of it.
const connectionBytes = 40 << 10

// Start starts a broker as cfg says and returns when it leads (or follows, if read-only) and accepts requests. It sets
// the process's soft memory limit. Errors: config.Faults, storecheck.Error, node.ErrFolderInUse, and others.
func Start(ctx context.Context, cfg config.Config, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	s := &Server{cfg: cfg, log: log, done: make(chan struct{})}
	var err error
	if s.targets, err = webhook.ParsePolicy(cfg.WebhookTargets()); err != nil {
		return nil, config.Faults{fmt.Errorf("--webhook-targets: %w", err)}
	}
	// The port comes first: a broker that could not be reached must not take the bucket from one that can.
	if err := s.listen(); err != nil {
		return nil, err
	}
	failpoint.Hit("start.listening")
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, ignoreClosed(s.listener.Close()))
	}
	return s, nil
}

func (s *Server) listen() (err error) {
	s.listener, err = httpapi.Listen(net.JoinHostPort(s.cfg.HTTP.Address, strconv.Itoa(s.cfg.HTTP.Port)))
	if err != nil {
		return fmt.Errorf("public listener: %w", err)
	}
	return nil
}

func (s *Server) start(ctx context.Context) error {
	limit := budget.New(int64(s.cfg.MemoryLimit)).GoLimit()
	debug.SetMemoryLimit(limit)
	set := metrics.NewSet()
	options := s.nodeOptions(set)
	// Else the collector would run all the time for what it can not collect.
	options.OnMemoryStore = func(held int64) { debug.SetMemoryLimit(limit + held) }
	var err error
	if s.node, err = node.Open(ctx, options); err != nil {
		return err
	}
	if err = s.deliver(ctx, set); err == nil {
		err = s.serve(set)
	}
	if err != nil {
		return errors.Join(err, s.stopDeliveries(), s.node.Close(ctx))
	}
	go s.watch()
	return nil
}

func (s *Server) nodeOptions(set *metrics.Set) node.Options {
	c := &s.cfg
	o := node.Options{
		Bucket: c.BucketSpec(), DataDir: c.DataDir, ReadOnly: c.ReadOnly, NoAutoCreate: !c.AutoCreate,
		Advertised: c.Advertise, BatchWait: c.Batch.WaitTime, BatchBytes: int64(c.Batch.BytesSoftMax),
		MemoryLimit: int64(c.MemoryLimit), CacheDir: c.CacheDir(), CacheBytes: int64(c.Cache.Size),
		Pack:       packer.Config{Target: int64(c.Life.PackBytes), Age: c.Life.PackAge},
		MergeEvery: c.Life.MergeInterval, SnapshotSlots: c.Life.SnapshotSlots, RetentionEvery: c.Life.RetentionInterval,
		Logger: s.log, Metrics: set,
	}
	if o.Advertised == "" {
		o.Advertised = s.URL()
	}
	switch {
	case c.Batch.WaitTime < 0:
		o.BatchWait = node.BatchAuto
	case c.Batch.WaitTime == 0:
		o.BatchWait = node.BatchNone
	}
	return o
}

// MemoryFor is the least memory limit, in bytes, with which a broker serves so many connections at once.
func MemoryFor(connections int) int64 {
	return budget.LimitFor(budget.Connections, int64(httpapi.ConnectionsOpen(connections))*connectionBytes)
}

// serve makes the API and starts the listeners.
func (s *Server) serve(set *metrics.Set) error {
	removeNew(s.cfg.DataDir) // the folder is ours: the node has its lock
	key, made, err := apiKey(&s.cfg)
	if err != nil {
		return err
	}
	s.keyMade = made
	share := httpapi.ConnectionsWithin(int(s.node.Budget().Class(budget.Connections).Limit() / connectionBytes))
	var known func(context.Context, string, int32, string, string) (int64, bool)
	if engine := s.node.Triggers(); engine != nil {
		known = func(ctx context.Context, topic string, partition int32, entity, id string) (int64, bool) {
			yes, err := engine.Duplicate(ctx, topic, uint32(partition), entity, id)
			return -1, err == nil && yes // where it is the engine does not keep
		}
	}
	s.api, err = httpapi.New(s.node.Broker, httpapi.Options{
		APIKey: key, Keys: s.node.Keys(), Triggers: s.node.Triggers(), Logger: s.log, Metrics: set, Connections: min(s.cfg.HTTP.Connections, share),
		ProfileLabels: s.cfg.Debug.Enable, EventsTopic: s.cfg.EventsTopic,
		WebhookTargets: s.targets, KnownEvent: known,
		WriteMetrics: func(w io.Writer) {
			set.WritePrometheus(w)
			metrics.WriteProcessMetrics(w)
		},
	})
	if err != nil {
		return err
	}
	if s.cfg.Debug.Enable {
		if s.debug, err = startDebug(&s.cfg.Debug); err != nil {
			return err
		}
	}
	s.runtime = Runtime{Address: s.URL(), APIKey: key, Bucket: s.node.StoreName(), PID: os.Getpid(), Started: time.Now().UTC()}
	if err := s.runtime.write(s.cfg.DataDir); err != nil {
		// Commands will have to be told where the broker is; it serves all the same (a full disk must not stop it).
		s.log.Warn("address not written to the data folder", "err", err)
	}
	failpoint.Hit("start.announced")
	s.http = s.api.Server()
	s.serving.Go(func() {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			s.end(fmt.Errorf("public listener: %w", err))
		}
	})
	return nil
}

// watch ends the server when the broker can not go on.
func (s *Server) watch() {
	select {
	case <-s.node.Done():
		s.end(s.node.Err())
	case <-s.done:
	}
}

func (s *Server) end(err error) {
	s.fail.Do(func() {
		s.err = err
		close(s.done)
	})
}

// URL is the address of the public listener as clients of this machine reach it.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// APIKey is the key that requests must carry.
func (s *Server) APIKey() string { return s.runtime.APIKey }

// Done is closed when the server can not go on: another broker took over, the log stopped on corruption, or the listener
// failed. Close is to be called all the same; it answers what is waiting.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err says why Done is closed: broker.ErrFenced, broker.ErrCorrupt or another; nil before.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// stopTime bounds a graceful stop: beyond it what was not stored is rejected or unknown, and connections are cut.
const stopTime = 20 * time.Second

// pollTime bounds the part of it in which long polls get what they have.
const pollTime = 2 * time.Second

// Close stops in order: nothing new is accepted; what is there is stored and answered; then the rest is closed. It takes
// at most stopTime, or until ctx ends. Closing twice waits for the first to end.
func (s *Server) Close(ctx context.Context) error {
	s.closed.Do(func() { s.stopErr = s.stop(ctx) })
	return s.stopErr
}

// stop is the order of stopping.
func (s *Server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var errs []error
	// Commands no longer find this broker.
	errs = append(errs, ignoreMissing(os.Remove(filepath.Join(s.cfg.DataDir, RuntimeFile))))
	failpoint.Hit("stop.begun")
	// Long polls end with what they have, the listener closes, and requests under way are waited for ...
	polls, end := context.WithTimeout(ctx, pollTime)
	s.api.Drain(polls)
	end()
	shut := make(chan error, 1)
	go func() { shut <- s.http.Shutdown(ctx) }()
	errs = append(errs, s.stopDeliveries())
	// ... while the broker stores what they wait for, without collecting any longer, and refuses more.
	errs = append(errs, s.node.Broker.Close(ctx))
	if err := <-shut; err != nil {
		errs = append(errs, fmt.Errorf("requests under way: %w", err), s.http.Close())
	}
	s.serving.Wait()
	failpoint.Hit("stop.flushed")
	// Nobody uses the cache, the store and the data folder any more.
	errs = append(errs, s.node.Close(ctx))
	if s.debug != nil {
		errs = append(errs, s.debug.close())
	}
	s.end(nil)
	return errors.Join(errs...)
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
