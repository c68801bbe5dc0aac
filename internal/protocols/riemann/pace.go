package riemann

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/base/machine"
)

const (
	// paceBytes is the sustained rate for each core, in bytes of records per second: about 3,000
	// small events. With 100,000 datagrams per second on two cores, the p99 of HTTP and Kafka
	// clients stays below twice that without datagrams.
	paceBytes = 1 << 20
	// paceBurst is the time for which datagrams after a rest may be faster than the rate permits.
	paceBurst = 250 * time.Millisecond
	// paceGroup is the shortest time between two groups of datagrams that are not full.
	paceGroup = 20 * time.Millisecond
)

// pace bounds the share of the cores that datagrams take from clients that wait for an answer.
// Its caller passes the time.
type pace struct {
	rate int64     // bytes per second
	last time.Time // of the last group
	paid time.Time // when the rate has paid for all groups
}

func newPace() pace { return pace{rate: paceBytes * int64(machine.Cores())} }

// due reports whether a group may be submitted before it is full.
func (p *pace) due(now time.Time) bool { return now.Sub(p.last) >= paceGroup }

// spend accounts for a group of a size. It returns how long no datagram may be read.
func (p *pace) spend(now time.Time, size int64) time.Duration {
	if p.last = now; p.paid.Before(now) {
		p.paid = now
	}
	p.paid = p.paid.Add(time.Duration(size) * time.Second / time.Duration(p.rate))
	return max(0, p.paid.Sub(now)-paceBurst)
}
