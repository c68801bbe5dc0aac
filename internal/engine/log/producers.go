package log

import "github.com/sebbroker/seb/internal/engine/log/core"

// Producers describes the idempotent producers that a log remembers, each once per partition.
type Producers struct{ Known, Max int } // Max 0: no limit

// Producers returns the number of idempotent producers and their limit. It makes no request.
func (l *Log) Producers() (p Producers) {
	l.mu.RLock()
	defer l.mu.RUnlock()
	if s := l.core.State(); s != nil {
		p.Known = s.Producers()
	}
	p.Max = l.core.ProducersMax()
	return p
}

// RefusesProducer returns the error with which an append of a new idempotent producer of a principal
// would be refused now, or nil if that is not known. "" is the root key. It makes no request.
func (l *Log) RefusesProducer(principal string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.core.RefusesProducer(principal, l.now())
}

// noteProducers counts, and tells an operator, that new producers were refused, or that others were
// forgotten for them.
func (o *owner) noteProducers() {
	last, now := o.producers, o.core.ProducerCounts()
	if now == last {
		return
	}
	if o.producers = now; now.Expired < last.Expired || now.Replaced < last.Replaced || now.Refused < last.Refused {
		last = core.ProducerCounts{} // another core
	}
	o.met.producersExpired.AddInt64(int64(now.Expired - last.Expired))
	o.met.producersReplaced.AddInt64(int64(now.Replaced - last.Replaced))
	o.met.producersRefused.AddInt64(int64(now.Refused - last.Refused))
	const hint = "raise --memory-limit, or use fewer producers or partitions"
	known, most := o.core.State().Producers(), o.core.ProducersMax()
	if n := now.Refused - last.Refused; n > 0 {
		o.lines.Warn(o.opt.Logger, "", "new idempotent producers are refused: none of the others can be forgotten yet",
			"refused", n, "known", known, "limit", most, "hint", hint)
	}
	if n := now.Replaced - last.Replaced; n > 0 {
		o.lines.Warn(o.opt.Logger, "", "idempotent producers are forgotten before they expire: a retry of their last batches would be stored again",
			"forgotten", n, "known", known, "limit", most, "hint", hint)
	}
}
