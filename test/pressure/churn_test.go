package pressure

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// held is the memory of a broker without the open files of its cache, at most 128, and without its
// pooled connections to the store.
type held struct {
	goroutines, descriptors int
	heap                    int64 // bytes in use after a collection
}

func (b *broker) held() (h held) {
	b.t.Helper()
	text := b.get("http://" + b.debug + "/debug/pprof/heap?gc=1&debug=1")
	h.heap = int64(field(b.t, text, "# HeapAlloc = "))
	folder := fmt.Sprintf("/proc/%d/fd/", b.Pid())
	list := must.Get(os.ReadDir(folder))(b.t)
	for _, e := range list {
		if name, err := os.Readlink(folder + e.Name()); err == nil && !strings.Contains(name, "/cache/") {
			h.descriptors++
		}
	}
	for stack := range strings.SplitSeq(b.get("http://"+b.debug+"/debug/pprof/goroutine?debug=1"), "\n\n") {
		n := 0
		if _, at, ok := strings.Cut(stack, "\n"); ok && strings.HasPrefix(stack, "goroutine profile") {
			stack = at
		}
		if _, err := fmt.Sscan(stack, &n); err != nil {
			continue // the empty last element
		}
		switch {
		case strings.Contains(stack, "(*persistConn).readLoop"):
			h.descriptors -= n
		case !strings.Contains(stack, "(*persistConn).writeLoop"):
			h.goroutines += n
		}
	}
	return h
}

func (h held) String() string {
	return fmt.Sprintf("%d goroutines, %d descriptors, %s of heap", h.goroutines, h.descriptors, mib(h.heap))
}

// leaks reports whether more is held than before, not counting the heap.
func (h held) leaks(before held) bool {
	return h.goroutines > before.goroutines || h.descriptors > before.descriptors
}

// TestClientsThatComeAndGo checks that disconnected clients leave nothing behind, whatever they
// did.
func TestClientsThatComeAndGo(t *testing.T) {
	beside(t)
	b := start(t)
	warm := max(*churnFor/10, 500*time.Millisecond)
	if *churnFor >= 5*time.Minute {
		warm = max(warm, 3*time.Minute) // until tail and producers reached their limits
	}
	visits := b.churn(t.Context(), warm)
	fresh := b.fresh
	if *churnFor < 5*time.Minute {
		fresh.heap = math.MaxInt64 // otherwise the log needs time to settle
	}
	base := b.settled(fresh)
	visits += b.churn(t.Context(), *churnFor)
	most := int64(8 << 20)
	if *churnFor >= 5*time.Minute {
		most = 2 << 20
	}
	wanted := base
	wanted.heap += most
	after := b.settled(wanted)
	t.Logf("%d connections in %s; before: %s; after: %s", visits, *churnFor, base, after)
	if after.leaks(base) {
		// A part of the broker may start once, after the first clients. A leak grows again.
		visits, base = b.churn(t.Context(), *churnFor), after
		wanted = base
		wanted.heap += most
		after = b.settled(wanted)
		t.Logf("%d connections more; after: %s", visits, after)
		if after.leaks(base) {
			t.Error("goroutines or descriptors leaked")
		}
	}
	// In a short run the tail and idle buffers have not reached their limits before. The log has
	// also grown: a range per object until it is merged, and producers up to their limit.
	if more := after.heap - base.heap; more > most {
		t.Errorf("memory use grew by %s", mib(more))
	}
	b.alive()
	b.within(limit)
}

// settled waits until no more is held than at base, up to a timeout, and returns what is held. A
// log that was written fast shrinks after it is merged and two more snapshots are written.
func (b *broker) settled(base held) (h held) {
	b.t.Helper()
	timeout := 30 * time.Second
	if *churnFor >= 5*time.Minute {
		timeout = 5 * time.Minute
	}
	for until := time.Now().Add(timeout); ; time.Sleep(100 * time.Millisecond) {
		h = b.held()
		if h.goroutines <= base.goroutines && h.descriptors <= base.descriptors && h.heap <= base.heap || time.Now().After(until) {
			return h
		}
	}
}

// churn runs clients for d and returns the number of visits.
func (b *broker) churn(ctx context.Context, d time.Duration) int {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	var visits atomic.Int64
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), uint64(d)))
			for ctx.Err() == nil {
				if err := b.visit(r); err != nil {
					b.t.Error(err)
					return
				}
				visits.Add(1)
			}
		})
	}
	wg.Wait()
	return int(visits.Load())
}

// visit is one connection. Most disconnect in the middle of a request.
func (b *broker) visit(r *rand.Rand) error {
	conn, err := net.DialTimeout("tcp", b.addr, 20*time.Second)
	if err != nil {
		return err
	}
	defer conn.Close()
	body := strings.Repeat("x", 1+r.IntN(64<<10))
	post := fmt.Sprintf("POST /records?topic-name=churn&partition=0&timeout=1s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nAccept: */*\r\n"+
		"Content-Type: text/plain\r\nSeb-Producer-Id: %d\r\nSeb-Sequence: 0\r\nContent-Length: %d\r\n\r\n", key, r.Int64(), len(body))
	get := "GET /records?topic-name=churn&offset=%d&timeout=%s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nAccept: %s\r\n\r\n"
	text, answer := "", false
	switch r.IntN(8) {
	case 0: // sends nothing
	case 1:
		text = post[:r.IntN(len(post))]
	case 2:
		text = post + body[:r.IntN(len(body))]
	case 3:
		text = post + body // disconnects before the answer
	case 4:
		text = fmt.Sprintf(get, 1<<40, "1m", "*/*") // disconnects from its long poll
	case 5:
		text = fmt.Sprintf(get, 0, "1m", "text/event-stream")
	case 6:
		text, answer = fmt.Sprintf(get, 0, "0s", "application/json"), true
	case 7:
		text, answer = post+body, true
	}
	_ = conn.SetDeadline(time.Now().Add(sebtest.Limit))
	if _, err := conn.Write([]byte(text)); err != nil {
		return nil // it was refused
	}
	if answer {
		var status [12]byte
		if n, err := conn.Read(status[:]); err != nil || !strings.HasPrefix(string(status[:n]), "HTTP/1.1 ") {
			return fmt.Errorf("%.20q: %q %w", text, status[:n], err)
		}
	}
	return nil
}
