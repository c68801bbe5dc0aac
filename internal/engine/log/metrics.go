package log

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/VictoriaMetrics/metrics"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/stats"
)

// meters are the metrics of a log.
type meters struct {
	acked, rejected, unknown *metrics.Counter
	records, bytes, objects  *metrics.Counter
	alarms                   *metrics.Counter
	producersExpired         *metrics.Counter
	producersReplaced        *metrics.Counter
	producersRefused         *metrics.Counter
	stored                   *metrics.Counter // bytes of all PUTs
	deleted                  *metrics.Counter
	ackSeconds, putSeconds   *metrics.PrometheusHistogram
	getSeconds, listSeconds  *metrics.PrometheusHistogram
	requests                 map[string]map[string]*metrics.Counter // by request and outcome
	recent                   recent
	latency                  *stats.Latency
}

// recent holds the durations of the last PUTs of commit objects.
type recent struct {
	mu   sync.Mutex // guards the fields below
	took [128]time.Duration
	n    int // of all PUTs
}

func (r *recent) add(took time.Duration) {
	r.mu.Lock()
	r.took[r.n%len(r.took)] = took
	r.n++
	r.mu.Unlock()
}

// PutTimes returns the durations of the last PUTs of commit objects, at most 128, in ascending order.
func (l *Log) PutTimes() []time.Duration {
	r := &l.met.recent
	r.mu.Lock()
	took := slices.Clone(r.took[:min(r.n, len(r.took))])
	r.mu.Unlock()
	slices.Sort(took)
	return took
}

var (
	requestNames = []string{"put", "get", "list"}
	outcomeNames = []string{"ok", "exists", "not_found", "throttled", "no_verdict", "refused"}
)

func newMeters(l *Log) *meters {
	s := l.opt.Metrics
	m := &meters{
		acked:             s.GetOrCreateCounter(`seb_log_appends_total{outcome="acked"}`),
		rejected:          s.GetOrCreateCounter(`seb_log_appends_total{outcome="rejected"}`),
		unknown:           s.GetOrCreateCounter(`seb_log_appends_total{outcome="unknown"}`),
		records:           s.GetOrCreateCounter(`seb_log_records_total`),
		bytes:             s.GetOrCreateCounter(`seb_log_batch_bytes_total`),
		objects:           s.GetOrCreateCounter(`seb_log_objects_total`),
		alarms:            s.GetOrCreateCounter(`seb_log_alarms_total`),
		producersExpired:  s.GetOrCreateCounter(`seb_producers_expired_total`),
		producersReplaced: s.GetOrCreateCounter(`seb_producers_replaced_total`),
		producersRefused:  s.GetOrCreateCounter(`seb_producers_refused_total`),
		stored:            s.GetOrCreateCounter(`seb_store_put_bytes_total`),
		deleted:           s.GetOrCreateCounter(`seb_log_objects_deleted_total`),

		// of the oldest append of each object
		ackSeconds:  s.GetOrCreatePrometheusHistogram(`seb_log_ack_seconds`),
		putSeconds:  s.GetOrCreatePrometheusHistogram(`seb_store_put_seconds`),
		getSeconds:  s.GetOrCreatePrometheusHistogram(`seb_store_get_seconds`),
		listSeconds: s.GetOrCreatePrometheusHistogram(`seb_store_list_seconds`),
		requests:    map[string]map[string]*metrics.Counter{},
		latency:     l.opt.Latency,
	}
	for _, r := range requestNames {
		m.requests[r] = map[string]*metrics.Counter{}
		for _, o := range outcomeNames {
			m.requests[r][o] = s.GetOrCreateCounter(fmt.Sprintf(`seb_store_requests_total{request=%q,outcome=%q}`, r, o))
		}
	}
	for role := core.RoleStarting; role <= core.RoleStopped; role++ {
		s.GetOrCreateGauge(fmt.Sprintf(`seb_log_role{role=%q}`, role.String()), func() float64 {
			if l.Status().Role == role {
				return 1
			}
			return 0
		})
	}
	s.GetOrCreateGauge(`seb_producers`, func() float64 { return float64(l.Producers().Known) })
	s.GetOrCreateGauge(`seb_producers_limit`, func() float64 { return float64(l.Producers().Max) })
	s.GetOrCreateGauge(`seb_log_epoch`, func() float64 { return float64(l.Status().Epoch) })
	s.GetOrCreateGauge(`seb_log_format_level`, func() float64 { return float64(l.Level().Now) })
	s.GetOrCreateGauge(`seb_log_journal`, func() float64 {
		if l.Status().Journaled {
			return 1
		}
		return 0
	})
	s.GetOrCreateGauge(`seb_log_queue_bytes`, func() float64 { return float64(l.queued.Load()) })
	return m
}

func (m *meters) answered(r *Result) {
	switch {
	case r.outcome == outcomeNone:
		m.unknown.Inc()
	case r.err != nil:
		m.rejected.Inc()
	default:
		m.acked.Inc()
	}
}

func (m *meters) committed(f *core.Frozen, p *proposal, now int64) {
	m.objects.Inc()
	m.records.Add(int(f.Head.Records))
	m.bytes.AddInt64(f.Bytes)
	oldest := p.started
	for _, of := range [][]*member{p.ops, p.appends} {
		if len(of) > 0 {
			oldest = min(oldest, of[0].since)
		}
	}
	took := time.Duration(now - oldest)
	m.ackSeconds.Update(took.Seconds())
	m.latency.Record(stats.Acks, took)
}

func (m *meters) put(kind core.EffectKind, took time.Duration, bytes int64, err error) {
	if kind == core.EffPutData {
		m.putSeconds.Update(took.Seconds())
		m.recent.add(took)
		m.latency.Record(stats.Puts, took)
	}
	m.stored.AddInt64(bytes)
	m.request("put", err)
}

func (m *meters) get(took time.Duration, err error) {
	m.getSeconds.Update(took.Seconds())
	m.request("get", err)
}

func (m *meters) list(took time.Duration, err error) {
	m.listSeconds.Update(took.Seconds())
	m.request("list", err)
}

func (m *meters) request(name string, err error) {
	m.requests[name][outcomeName(err)].Inc()
}

func outcomeName(err error) string {
	switch {
	case err == nil:
		return "ok"
	case errors.Is(err, objstore.ErrThrottled):
		return "throttled"
	case errors.Is(err, objstore.ErrNoVerdict):
		return "no_verdict"
	case errors.Is(err, objstore.ErrExists):
		return "exists"
	case errors.Is(err, objstore.ErrNotFound):
		return "not_found"
	case errors.Is(err, objstore.ErrRefused):
		return "refused"
	}
	return "no_verdict"
}
