package agent

import (
	"sync"
	"time"

	"github.com/sebbroker/seb/bench/machine"
	"github.com/sebbroker/seb/bench/result"
)

// usage measures the broker's process in each second of a run, if it is on the coordinator's
// machine.
type usage struct {
	cores  []float64
	bytes  []int64
	ending chan struct{}
	done   sync.WaitGroup
	once   sync.Once
}

// watchUsage measures a process from a time on; nil if pid is unknown.
func watchUsage(pid int, from time.Time) *usage {
	if pid <= 0 {
		return nil
	}
	u := &usage{ending: make(chan struct{})}
	u.done.Go(func() {
		last, _ := machine.Process(pid) // a process that has ended uses nothing
		for n := 1; ; n++ {
			select {
			case <-time.After(time.Until(from.Add(time.Duration(n) * time.Second))):
			case <-u.ending:
				return
			}
			now, err := machine.Process(pid)
			if err != nil {
				return
			}
			u.cores = append(u.cores, (now.CPU - last.CPU).Seconds())
			u.bytes = append(u.bytes, now.RSSBytes)
			last = now
		}
	})
	return u
}

// stop ends the measurement. It may be called again.
func (u *usage) stop() {
	u.once.Do(func() { close(u.ending) })
	u.done.Wait()
}

// fill writes the measurement into the seconds of a result.
func (u *usage) fill(seconds []result.Second) {
	for i := range seconds {
		if i < len(u.cores) {
			seconds[i].BrokerCPU, seconds[i].BrokerRSS = u.cores[i], u.bytes[i]
		}
	}
}
