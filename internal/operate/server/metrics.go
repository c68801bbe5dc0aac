// Package server is the broker as a program: a node with a public HTTP listener, a Kafka listener,
// pprof on a separate loopback listener, the API key, and the order of stopping.
package server

import (
	"bytes"
	"cmp"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/pprof"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/base/failpoint"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/cost"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/internal/engine/stats"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/protocols/httpapi"
)

// metricsHelp has a line for each metric: its name and its help text.
//
//go:embed metrics.txt
var metricsHelp string

// maxGroupLags bounds the series of seb_group_lag_records: groups are named by clients.
const maxGroupLags = 200

// newMetricsWriter returns the writer of GET /metrics: the series of set with HELP and TYPE, the
// lag of consumer groups, queues by name, and the metrics of the Go runtime and the process.
func newMetricsWriter(set *metrics.Set, b *broker.Broker, q *queue.Queues) func(io.Writer) {
	metrics.ExposeMetadata(true)
	help := map[string]string{}
	for line := range strings.Lines(metricsHelp) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), " ")
		help[name] = text
	}
	return func(w io.Writer) {
		var series bytes.Buffer
		set.WritePrometheus(&series)
		writeGroupLags(&series, b)
		writeQueues(&series, q.Figures())
		for line := range bytes.Lines(series.Bytes()) {
			if name, ok := bytes.CutPrefix(line, []byte("# HELP ")); ok {
				name = bytes.TrimSpace(name)
				fmt.Fprintf(w, "# HELP %s %s\n", name, help[string(name)])
				continue
			}
			if name, ok := bytes.CutSuffix(line, []byte("_total gauge\n")); ok {
				// The library reports a counter that a function reads as a gauge.
				line = append(name[:len(name):len(name)], "_total counter\n"...)
			}
			w.Write(line)
		}
		metrics.WriteProcessMetrics(w)
	}
}

// writeGroupLags writes the lag of consumer groups by topic, the largest maxGroupLags of them.
func writeGroupLags(w io.Writer, b *broker.Broker) {
	lags, groups := b.GroupLags(maxGroupLags)
	fmt.Fprintf(w, "# HELP seb_groups_committed\n# TYPE seb_groups_committed gauge\nseb_groups_committed %d\n", groups)
	if len(lags) == 0 {
		return
	}
	fmt.Fprint(w, "# HELP seb_group_lag_records\n# TYPE seb_group_lag_records gauge\n")
	for _, l := range lags {
		// Names are printable UTF-8. Go and the text format quote them the same way: \\ and ".
		fmt.Fprintf(w, "seb_group_lag_records{group=%q,topic=%q} %d\n", l.Group, l.Topic, l.Records)
	}
}

// maxQueueMetrics bounds the queues with series of their own.
const maxQueueMetrics = 200

// writeQueues writes the metrics of queues by name, of the maxQueueMetrics with most messages that are not
// done.
func writeQueues(w io.Writer, all []queue.Figures) {
	fmt.Fprintf(w, "# HELP seb_queues\n# TYPE seb_queues gauge\nseb_queues %d\n", len(all))
	if len(all) > maxQueueMetrics {
		slices.SortStableFunc(all, func(a, b queue.Figures) int { return cmp.Compare(b.Left(), a.Left()) })
		all = all[:maxQueueMetrics]
	}
	family := func(name, kind string, series func(f *queue.Figures, write func(labels string, value any))) {
		first := true
		for i := range all {
			series(&all[i], func(labels string, value any) {
				if first {
					fmt.Fprintf(w, "# HELP %s\n# TYPE %s %s\n", name, name, kind)
					first = false
				}
				fmt.Fprintf(w, "%s{queue=%q%s} %v\n", name, all[i].Name, labels, value)
			})
		}
	}
	family("seb_queue_messages", "gauge", func(f *queue.Figures, write func(string, any)) {
		write(`,state="ready"`, f.Ready)
		write(`,state="leased"`, f.InFlight)
		write(`,state="delayed"`, f.Delayed)
		write(`,state="retry"`, f.Retrying)
		write(`,state="dying"`, f.Dying)
	})
	family("seb_queue_oldest_ready_seconds", "gauge", func(f *queue.Figures, write func(string, any)) { write("", f.OldestReadyAge.Seconds()) })
	family("seb_queue_letters", "gauge", func(f *queue.Figures, write func(string, any)) {
		if f.Letters {
			write("", f.Left())
		}
	})
	family("seb_queue_events_total", "counter", func(f *queue.Figures, write func(string, any)) {
		write(`,event="sent"`, f.Sent)
		write(`,event="leased"`, f.Leased)
		write(`,event="done"`, f.Done)
		write(`,event="retried"`, f.Retried)
		write(`,event="lease_over"`, f.LeasesOver)
		write(`,event="dead"`, f.Dead)
	})
}

// RuntimeFile is the file in the data folder with the address of a running broker.
const RuntimeFile = "broker.json"

// Runtime is the content of RuntimeFile. It has the key, so only the owner can read the file. The
// broker removes it at a stop; a killed broker leaves it, and another one may have taken its address.
type Runtime struct {
	Address string    `json:"address"` // URL
	APIKey  string    `json:"api_key"`
	Bucket  string    `json:"bucket"`
	PID     int       `json:"pid"`
	Run     string    `json:"run,omitempty"` // as in GET /healthz; "" of an earlier version
	Started time.Time `json:"started"`
	// Certificate is the certificate file of Address, if it begins with https. Commands on this
	// machine trust it, whatever its names.
	Certificate string `json:"certificate,omitempty"`
}

// Discover reads the RuntimeFile of a data folder. Without one it returns the stored API key, which
// the next broker will use. The error is fs.ErrNotExist if there is neither.
func Discover(dataDir string) (Runtime, error) {
	var r Runtime
	b, err := os.ReadFile(filepath.Join(dataDir, RuntimeFile))
	if errors.Is(err, fs.ErrNotExist) {
		r.APIKey, err = ReadKey(filepath.Join(dataDir, KeyFile))
		return r, err
	}
	if err != nil {
		return r, err
	}
	if err := json.Unmarshal(b, &r); err != nil {
		return Runtime{}, fmt.Errorf("%s: %w", filepath.Join(dataDir, RuntimeFile), err)
	}
	return r, nil
}

// writeRuntime writes the RuntimeFile before the broker answers the first request: a command that gets the
// answer of another run than that of the file reads the file again.
func (s *Server) writeRuntime() {
	r := Runtime{Address: s.URL(), APIKey: s.key, Bucket: s.node.StoreName(), PID: os.Getpid(), Run: s.run.String(), Started: time.Now().UTC()}
	if s.ports.http.Secure() {
		r.Certificate = absolute(s.cfg.TLS.CertFile)
	}
	b, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = writeFile(filepath.Join(s.cfg.DataDir, RuntimeFile), append(b, '\n'))
	}
	if err != nil {
		// Commands then need the address on the command line, but a full disk must not stop the
		// broker.
		s.log.Warn("address not written to the data folder", "err", err)
	}
	failpoint.Hit("start.announced")
}

// openStats starts the statistics of GET /stats and the histograms of GET /latency. Their memory is a part of that for readers at the end of the log, which
// is a cache.
func (s *Server) openStats(set *metrics.Set) {
	var err error
	write := func(w io.Writer) {
		set.WritePrometheus(w)
		writeGroupLags(w, s.node.Broker)
	}
	if s.stats, err = stats.Start(s.node.Budget().Class(budget.Tail), write, s.node.Queues().Stats); err != nil {
		s.log.Warn("no statistics for GET /stats", "err", err, "hint", "raise --memory-limit")
	}
	if err := s.latency.Start(s.node.Budget().Class(budget.Tail), time.Now()); err != nil {
		s.log.Warn("no histograms for GET /latency", "err", err, "hint", "raise --memory-limit")
	}
}

// closeStats may be called before openStats, and after stopping is closed.
func (s *Server) closeStats() {
	if s.stats != nil {
		s.stats.Close()
	}
	s.latency.Close()
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

// LoadPrices reads the price list of --prices, and the budget at these prices.
func LoadPrices(cfg *config.Config) (prices cost.Prices, budget cost.Setting, err error) {
	spec, err := objstore.ParseSpec(cfg.Bucket)
	if err != nil {
		return prices, budget, err
	}
	if prices, err = cost.LoadPrices(cfg.Prices, spec.Kind); err != nil {
		return prices, budget, config.Faults{fmt.Errorf("--prices %q: %w", cfg.Prices, err)}
	}
	if budget, err = cost.ParseSetting(cfg.PutBudget); err == nil {
		_, err = budget.Limit(&prices, 0)
	}
	if err != nil {
		err = config.Faults{fmt.Errorf("--put-budget %q: %w", cfg.PutBudget, err)}
	}
	return prices, budget, err
}

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
