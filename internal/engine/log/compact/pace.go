package compact

import (
	"io"
	"time"
)

const (
	// paceStep is the time after which paced work rests, paceRest times as long as it took.
	paceStep = time.Millisecond
	paceRest = 3
	// remoteRest bounds the rest after work that may have waited for a remote store, and took no
	// processor then. localRest bounds the others.
	remoteRest = 5 * time.Millisecond
	localRest  = 100 * time.Millisecond
)

// pace limits work to a quarter of a core, because producers that wait for an answer need the same
// processors and the same disk. The work is done in pieces that take less than a few milliseconds.
type pace struct {
	on    bool
	since time.Time // end of the last rest
}

// start begins work that is paced or not.
func (p *pace) start(on bool) { *p = pace{on: on, since: time.Now()} }

// rest ends a piece of work, and rests for at most the given time if a step is done.
func (p *pace) rest(most time.Duration) {
	if !p.on {
		return
	}
	if took := time.Since(p.since); took >= paceStep {
		time.Sleep(min(paceRest*took, most))
		p.since = time.Now()
	}
}

// pacedReader rests between reads.
type pacedReader struct {
	from io.Reader
	pace *pace
	most time.Duration
}

func (r pacedReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.pace.rest(r.most)
	return n, err
}
