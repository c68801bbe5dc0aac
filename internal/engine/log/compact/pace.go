package compact

import (
	"io"
	"time"
)

const (
	// paceStep is the number of bytes after which paced work pauses. The pause takes paceRest times as
	// long as these bytes took.
	paceStep = 256 << 10
	paceRest = 3
	// rangeCost is added to the bytes of each range, because a range takes time however small it is.
	rangeCost = 4 << 10
	// pauseMax bounds a pause: work that waited for a remote store took no processor.
	pauseMax = 5 * time.Millisecond
)

// pace spreads work over time, because producers that wait for an answer need the same processors
// and the same disk.
type pace struct {
	on    bool
	bytes int       // since the last pause
	since time.Time // end of the last pause
}

// start begins work that is paced or not.
func (p *pace) start(on bool) { *p = pace{on: on, since: time.Now()} }

// add counts bytes of work, and pauses if a step is done.
func (p *pace) add(n int) {
	if p.bytes += n; !p.on || p.bytes < paceStep {
		return
	}
	time.Sleep(min(paceRest*time.Since(p.since), pauseMax))
	p.bytes, p.since = 0, time.Now()
}

// pacedReader counts the bytes that are read.
type pacedReader struct {
	from io.Reader
	pace *pace
}

func (r pacedReader) Read(b []byte) (int, error) {
	n, err := r.from.Read(b)
	r.pace.add(n)
	return n, err
}
