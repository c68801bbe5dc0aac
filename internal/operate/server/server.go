package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/log/compact"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/node"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/connlimit"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/internal/triggers/delivery/webhook"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/record"
)

// Server is a running broker with its listeners. Its methods may be called concurrently.
type Server struct {
	cfg      config.Config
	log      *slog.Logger
	node     *node.Node
	auth     *auth.Authority
	listener net.Listener
	api      *httpapi.API
	http     *http.Server
	kafka    kafkaServer
	riemann  riemannServer
	dash     front // of subscriptions to the index of Riemann events
	limits   *connlimit.Limiter
	ports    ports
	groups   *coordinator.Coordinator // nil without Kafka: groups then have no members
	pprof    *pprofServer             // nil: disabled
	run      record.ID
	key      string
	keyFile  string         // file of the key; "" if it was configured
	keyMade  bool           // at this start
	stopping chan struct{}  // closed when Close starts
	targets  webhook.Policy // allowed targets of webhooks
	secrets  *secrets.Ring  // nil: no key
	stats    *stats.Sampler // nil: too little memory
	latency  stats.Latency
	peers    *peers      // nil: it knows no other brokers
	prices   cost.Prices // of the bucket's requests and bytes
	budget   cost.Setting

	serving sync.WaitGroup // goroutines of the listeners
	done    chan struct{}  // closed when the server cannot continue
	fail    sync.Once
	err     error // the reason; set before done is closed
	closed  sync.Once
	stopErr error // result of the first Close
}

// Alive returns nil once the goroutine that owns the log has answered. It does not wait for the
// store. Errors: broker.ErrClosed, ctx's cause.
func (s *Server) Alive(ctx context.Context) error { return s.node.Broker.Alive(ctx) }

// Start starts a broker with cfg. It returns when the broker leads (or follows, if read-only) and
// accepts requests. It sets the process's soft memory limit. Errors: config.Faults,
// objstore.CheckError, node.ErrFolderInUse, and others.
func Start(ctx context.Context, cfg config.Config, log *slog.Logger) (*Server, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	bucket, err := cfg.BucketSpec()
	if err != nil {
		return nil, err
	}
	cfg.Bucket, cfg.S3Bucket = bucket, ""
	s := &Server{cfg: cfg, log: log, run: record.NewID(), done: make(chan struct{}), stopping: make(chan struct{})}
	if s.targets, err = webhook.ParsePolicy(cfg.WebhookTargets()); err != nil {
		return nil, config.Faults{fmt.Errorf("--webhook-targets: %w", err)}
	}
	if s.secrets, err = cfg.Secrets.Ring(); err != nil {
		return nil, config.Faults{err}
	}
	if s.prices, s.budget, err = LoadPrices(&s.cfg); err != nil {
		return nil, err
	}
	// Listen before the log is opened: a broker with an address in use must not take the bucket
	// from a working one.
	set := metrics.NewSet()
	if s.ports, err = newPorts(&cfg.TLS, log, set); err != nil {
		return nil, err
	}
	if err := s.listen(); err != nil {
		s.ports.clients.Close()
		return nil, err
	}
	failpoint.Hit("start.listening")
	if err := s.start(ctx, set); err != nil {
		s.ports.clients.Close()
		return nil, errors.Join(err, s.abandon(), s.stopPprof())
	}
	if err := s.peers.ready(ctx); err != nil {
		return nil, errors.Join(err, s.Close(context.WithoutCancel(ctx)))
	}
	return s, nil
}

// prepare checks settings, files and addresses before the log is opened, because a broker that
// cannot start must not take the log from a running one. It locks the data folder.
func (s *Server) prepare() (err error) {
	removeTemp(s.cfg.DataDir)
	if err = s.findKey(); err != nil {
		return err
	}
	s.checkKey()
	if err := state.CheckTopicName(s.cfg.EventsTopic); err != nil {
		return config.Faults{fmt.Errorf("--events-topic: %w", err)}
	}
	if err := s.checkAuditTopic(); err != nil {
		return config.Faults{fmt.Errorf("--audit-topic: %w", err)}
	}
	if s.kafka.on() && s.cfg.Kafka.Advertise != "" {
		if err := kafka.CheckAddress(s.cfg.Kafka.Advertise); err != nil {
			return config.Faults{fmt.Errorf("--kafka-advertise: %w", err)}
		}
	}
	if err := s.checkRiemannTopic(); err != nil {
		return config.Faults{fmt.Errorf("--riemann-topic: %w", err)}
	}
	if err := s.checkCacheDir(); err != nil {
		return err
	}
	if s.cfg.Pprof.Enable {
		s.pprof, err = startPprof(&s.cfg.Pprof, s.knownHosts())
	}
	return err
}

// checkAuditTopic checks the name of the audit topic, which must be no other topic of Seb.
func (s *Server) checkAuditTopic() error {
	if s.cfg.AuditTopic == "" {
		return nil
	}
	return node.CheckPurpose(s.cfg.AuditTopic, s.cfg.EventsTopic)
}

// checkCacheDir checks that the folder of the disk cache of a remote bucket can be created.
func (s *Server) checkCacheDir() error {
	spec, err := objstore.ParseSpec(s.cfg.Bucket)
	if err != nil || spec.Kind != objstore.KindS3 || s.cfg.Cache.Size == 0 || s.cfg.CacheDir() == "" {
		return err
	}
	if err := os.MkdirAll(s.cfg.CacheDir(), 0o700); err != nil {
		return fmt.Errorf("--cache-dir: %w", err)
	}
	f, err := os.CreateTemp(s.cfg.CacheDir(), tempPattern)
	if err != nil {
		return fmt.Errorf("--cache-dir: %w", err)
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

func (s *Server) listen() (err error) {
	s.listener, err = httpapi.Listen(net.JoinHostPort(s.cfg.HTTP.Address, strconv.Itoa(s.cfg.HTTP.Port)), s.ports.http)
	if err != nil {
		return fmt.Errorf("public listener (--http-address, --http-port): %w", err)
	}
	if err = s.kafka.listen(&s.cfg.Kafka, s.log); err == nil {
		err = s.riemann.listen(&s.cfg.Riemann)
	}
	if web := s.cfg.Riemann.WebListen; err == nil && web != "" {
		if s.dash.listener, err = httpapi.Listen(web, s.ports.riemannWeb); err != nil {
			err = fmt.Errorf("--riemann-web-listen: %w", err)
		}
	}
	if err != nil {
		return errors.Join(err, s.abandon())
	}
	s.ports.warn(s.log, s.listener.Addr().String(), s.kafka.address())
	s.warnAnonymous()
	return nil
}

// abandon closes the listeners of a server that does not start.
func (s *Server) abandon() error {
	return errors.Join(ignoreClosed(s.listener.Close()), s.kafka.abandon(), s.riemann.abandon(), s.dash.abandon())
}

func (s *Server) start(ctx context.Context, set *metrics.Set) error {
	limit := budget.New(int64(s.cfg.MemoryLimit)).GoLimit()
	debug.SetMemoryLimit(limit)
	options := s.nodeOptions(set)
	// Without this the garbage collector would run permanently because of memory that it cannot
	// free.
	options.OnMemoryStore = func(held int64) { debug.SetMemoryLimit(limit + held) }
	var err error
	if s.node, err = node.Open(ctx, options); err != nil {
		return err
	}
	s.auth = auth.New(auth.Options{Broker: s.node.Broker, RootKey: s.key, Internal: s.ownTopics(), Keys: s.secrets, Logger: s.log, Metrics: set})
	s.deliver(set)
	if err = s.open(ctx, set); err != nil {
		close(s.stopping)
		s.peers.close(ctx)
		s.auth.Close()
		s.closeGroups()
		s.closeStats()
		return errors.Join(err, s.stopDeliveries(), s.node.Close(ctx))
	}
	go s.watch()
	return nil
}

// ownTopics are the topics of Seb itself, which no prefix of a rule matches.
func (s *Server) ownTopics() []string {
	own := append(node.InternalTopics(), s.cfg.EventsTopic)
	if s.cfg.AuditTopic != "" {
		own = append(own, s.cfg.AuditTopic)
	}
	return own
}

// standby starts servers that know no others, and follow after they were fenced. Only tests set it.
var standby = false

func (s *Server) nodeOptions(set *metrics.Set) node.Options {
	c := &s.cfg
	o := node.Options{
		Bucket: c.Bucket, DataDir: c.DataDir, ReadOnly: c.ReadOnly, Standby: standby, HoldUpgrade: c.HoldUpgrade, ProducerExpiration: c.ProducerExpiration, AcceptClock: c.AcceptClock, NoAutoCreate: !c.AutoCreate, DefaultPartitions: c.DefaultPartitions,
		AuditTopic: c.AuditTopic, Advertised: c.Advertise, BatchWait: c.Batch.WaitTime, BatchBytes: int64(c.Batch.BytesSoftMax),
		MemoryLimit: int64(c.MemoryLimit), CacheDir: c.CacheDir(), CacheBytes: int64(c.Cache.Size),
		Pack:       compact.Policy{Target: int64(c.Maintenance.PackBytes), Age: c.Maintenance.PackAge},
		MergeEvery: c.Maintenance.MergeInterval, SnapshotSlots: c.Maintenance.SnapshotSlots, RetentionEvery: c.Maintenance.RetentionInterval,
		Prices: &s.prices, PutBudget: s.budget, SecretsKeys: s.secrets, Prepare: s.prepare, Logger: s.log, Metrics: set, Latency: &s.latency,
	}
	if !strings.HasPrefix(c.Bucket, objstore.MemoryName) && !standby {
		o.Join = s.join
	}
	if c.Riemann.On() {
		o.RiemannTopic = c.Riemann.Topic
	}
	if o.Advertised == "" {
		o.Advertised = s.advertisedURL(s.advertisedHosts())
	}
	switch {
	case c.Batch.WaitTime < 0:
		o.BatchWait = node.BatchAuto
	case c.Batch.WaitTime == 0:
		o.BatchWait = node.BatchNone
	}
	return o
}

// open creates the API and starts the listeners.
func (s *Server) open(ctx context.Context, set *metrics.Set) error {
	trusts, err := s.ports.clusterTLS(&s.cfg.TLS)
	if err != nil {
		return err
	}
	s.limits = s.newLimits()
	failures := auth.NewFailures(s.log, nil)
	if s.node.Audits() {
		failures.Audit = s.node.FailedLogin
	}
	s.openGroups(ctx, set)
	s.openStats(set)
	if err := errors.Join(s.peers.start(ctx), s.peers.leadsFirst(ctx)); err != nil {
		return err
	}
	o := httpapi.OptionsOf(s.node)
	o.Auth, o.Logins, o.Logger, o.Metrics = s.auth, failures, s.log, set
	o.Limits, o.Connections, o.TLSBytes = s.limits, s.cfg.HTTP.Connections, s.ports.tlsBytes(s.ports.http)
	o.ProfileLabels, o.OriginalClient, o.EventsTopic = s.cfg.Pprof.Enable, s.cfg.HTTP.OriginalClient, s.cfg.EventsTopic
	o.Origins, o.Hosts, o.WebhookTargets = s.cfg.HTTP.Origins.List(), s.knownHosts(), s.targets
	o.Groups, o.Members, o.WriteMetrics = s.httpGroups(), s.groupMembers(), newMetricsWriter(set, s.node.Broker, s.node.Queues())
	o.Version, o.Run, o.Started, o.Warnings = s.cfg.Version, s.run.String(), time.Now().UTC(), s.ports.warnings
	o.Stats, o.Latency, o.NoSQS = s.stats, &s.latency, !s.cfg.HTTP.SQS
	if strings.Contains(s.cfg.Advertise, "://") {
		o.SQSBase = s.cfg.Advertise
	}
	o.Cluster, o.ClusterTLS, o.Control, o.PeerLink = s.peers.view(), trusts, s.peers.control(), s.peers.link()
	o.Console, o.Kafka, o.RiemannStatus = s.consoleFiles(), s.kafkaStatus, s.riemannStatus
	if s.api, err = httpapi.New(s.node.Broker, o); err != nil {
		return err
	}
	if err := s.kafka.start(ctx, s, kafka.Options{
		Limits: s.limits, TLSBytes: s.ports.tlsBytes(s.ports.kafka), Logins: failures,
		Auth: s.auth, Port: s.ports.kafka, Advertised: s.cfg.Kafka.Advertise, Cluster: s.peers.view(), ClusterTLS: trusts, RootKey: s.key, Groups: s.groups, TransactionTimeout: s.cfg.TransactionMaxTimeout, Logger: s.log, Metrics: set,
	}); err != nil {
		return err
	}
	if err := s.riemann.start(ctx, s, set); err != nil {
		return err
	}
	s.logLimits()
	s.startDash()
	s.writeRuntime()
	s.http = s.api.Server()
	s.serve("public listener", func() error {
		if err := s.http.Serve(s.listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	return nil
}

// watch ends the server when the broker cannot continue.
func (s *Server) watch() {
	select {
	case <-s.node.Done():
		s.end(s.node.Err())
	case <-s.node.Broken():
		s.end(s.node.BrokenBy())
	case <-s.done:
	}
}

func (s *Server) end(err error) {
	s.fail.Do(func() {
		s.err = err
		close(s.done)
	})
}

// URL returns the address of the public listener for clients on this machine.
func (s *Server) URL() string {
	host, port, err := net.SplitHostPort(s.listener.Addr().String())
	if err != nil {
		return ""
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	if s.ports.http.Secure() {
		return "https://" + net.JoinHostPort(host, port)
	}
	return "http://" + net.JoinHostPort(host, port)
}

// KafkaAddress returns the host:port for Kafka clients; "" without a listener.
func (s *Server) KafkaAddress() string { return s.kafka.address() }

// APIKey returns the key that requests must have.
func (s *Server) APIKey() string { return s.key }

// Done is closed when the server cannot continue: another broker took over, the log is corrupt, or
// the listener failed. Call Close also then; it answers waiting requests.
func (s *Server) Done() <-chan struct{} { return s.done }

// Err returns the reason why Done is closed: state.ErrFenced, state.ErrCorrupt or another error;
// nil before.
func (s *Server) Err() error {
	select {
	case <-s.done:
		return s.err
	default:
		return nil
	}
}

// stopTime bounds a graceful stop. After it unstored records are rejected or their outcome is
// unknown, and connections are closed.
const stopTime = 20 * time.Second

// pollTime bounds the part of a stop in which long polls answer with their records.
const pollTime = 2 * time.Second

// Close stops in order: it accepts no new requests, stores and answers those in progress, and
// closes the rest. It takes at most stopTime, or until ctx ends. A second Close waits for the
// first.
func (s *Server) Close(ctx context.Context) error {
	s.closed.Do(func() {
		close(s.stopping)
		s.stopErr = s.stop(ctx)
	})
	return s.stopErr
}

// stop stops the components in this order. Outcomes of deliveries and of groups are records, so the
// broker closes after the deliveries stop and before the coordinator does.
//
//	remove broker.json
//	hand over to a standby, if there is one, and tell Kafka clients
//	end long polls, close the listeners        (requests in progress complete meanwhile)
//	stop deliveries and the trigger engine
//	broker: store and acknowledge records, refuse others
//	wait for requests, close the coordinator
//	say goodbye to other brokers
//	cache, store, data folder, pprof
func (s *Server) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stopTime)
	defer cancel()
	var errs []error
	// Commands no longer find this broker.
	errs = append(errs, ignoreMissing(os.Remove(filepath.Join(s.cfg.DataDir, RuntimeFile))))
	failpoint.Hit("stop.begun")
	s.peers.leave(ctx)
	s.kafka.leave(ctx)
	// Long polls answer with their records, the listener closes, and requests in progress complete
	// ...
	polls, end := context.WithTimeout(ctx, pollTime)
	s.kafka.drain()
	s.riemann.drain()
	s.api.Drain(polls)
	end()
	errs = append(errs, s.dash.close(ctx))
	shut := make(chan error, 1)
	go func() {
		shut <- errors.Join(s.http.Shutdown(ctx), s.api.EndStreams(ctx), s.kafka.close(ctx), s.riemann.close(ctx))
	}()
	errs = append(errs, s.stopDeliveries())
	// ... while the broker stores their records without collecting, and refuses others.
	s.auth.Close()
	storing, stored := s.storeContext(ctx)
	errs = append(errs, s.node.Broker.Close(storing))
	stored()
	if err := <-shut; err != nil {
		errs = append(errs, fmt.Errorf("requests in progress: %w", err), s.http.Close())
	}
	s.serving.Wait()
	s.api.Close()
	s.ports.clients.Close()
	s.closeGroups()
	s.closeStats()
	failpoint.Hit("stop.flushed")
	s.peers.close(ctx)
	// No component uses the cache, the store and the data folder any more.
	errs = append(errs, s.node.Close(ctx))
	errs = append(errs, s.stopPprof())
	s.end(nil)
	return errors.Join(errs...)
}

// storeTimeout is the time for which a stop waits for a store whose last answer was an error.
var storeTimeout = 5 * time.Second

// storeContext returns a context that ends when the store has answered only errors for
// storeTimeout, or at once if its error is permanent. The caller must call done.
func (s *Server) storeContext(parent context.Context) (ctx context.Context, done func()) {
	ctx, cancel := context.WithCancelCause(parent)
	var watching sync.WaitGroup
	watching.Go(func() {
		tick := time.NewTicker(storeTimeout / 50)
		defer tick.Stop()
		var since time.Time // time of the first error in a row
		for {
			fault, now := s.node.StoreFault(), time.Now()
			switch {
			case fault == nil:
				since = time.Time{}
			case s.node.BrokenBy() != nil:
				cancel(s.node.BrokenBy())
			case since.IsZero():
				since = now
				s.log.Warn("stop waits for the store to accept records in progress; a second signal does not wait", "up_to", storeTimeout, "err", fault)
			case now.Sub(since) >= storeTimeout:
				// The error is not wrapped, so that it does not determine the exit code.
				cancel(fmt.Errorf("the store did not accept the records in progress within %s, their outcome is unknown: %s", storeTimeout, fault.Error()))
			}
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return ctx, func() { cancel(nil); watching.Wait() }
}

func (s *Server) stopPprof() error {
	if s.pprof == nil {
		return nil
	}
	return s.pprof.close()
}
