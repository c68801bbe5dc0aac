package costsim

import (
	"math"
	"time"
)

// histogram counts times in steps of 2 % from 1 ms.
type histogram struct {
	count [800]int64
	n     int64
	most  time.Duration
}

const (
	step  = 1.02
	least = time.Millisecond
)

func (h *histogram) add(d time.Duration) {
	i := 0
	if d > least {
		i = min(int(math.Log(float64(d)/float64(least))/math.Log(step))+1, len(h.count)-1)
	}
	h.count[i]++
	h.n++
	h.most = max(h.most, d)
}

// percentile is at most 2 % above the true value; 0 without values.
func (h *histogram) percentile(part float64) time.Duration {
	if h.n == 0 {
		return 0
	}
	rank := int64(math.Ceil(part * float64(h.n)))
	for i, n := range h.count {
		if rank -= n; rank <= 0 {
			return min(time.Duration(float64(least)*math.Pow(step, float64(i))), h.most)
		}
	}
	return h.most
}
