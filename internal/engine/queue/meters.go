package queue

import "github.com/VictoriaMetrics/metrics"

// meters are the metrics of queues, of all together.
type meters struct {
	sent, duplicates, leased, done, retried, expired, dead, failed *metrics.Counter
}

func newMeters(s *metrics.Set) *meters {
	c := s.GetOrCreateCounter
	return &meters{
		sent: c("seb_queue_sent_total"), duplicates: c("seb_queue_duplicates_total"), leased: c("seb_queue_leased_total"),
		done: c("seb_queue_done_total"), retried: c("seb_queue_retried_total"), expired: c("seb_queue_expired_total"),
		dead: c("seb_queue_dead_total"), failed: c("seb_queue_dead_letter_failures_total"),
	}
}
