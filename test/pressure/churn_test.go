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
)

// held is what a broker holds, but for the files of its cache, of which it keeps 128 open at most, and its idle
// connections to the store, which a pool keeps for a minute.
type held struct {
	goroutines, descriptors int
	heap                    int64 // bytes in use after a collection
}

func (b *broker) held() (h held) {
	b.t.Helper()
	text := b.get("http://" + b.debug + "/debug/pprof/heap?gc=1&debug=1")
	h.heap = int64(field(b.t, text, "# HeapAlloc = "))
	folder := fmt.Sprintf("/proc/%d/fd/", b.Pid())
	list, err := os.ReadDir(folder)
	if err != nil {
		b.t.Fatal(err)
	}
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
			continue // the empty end
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

// TestClientsThatComeAndGo: whatever clients do before they leave, nothing of them stays.
func TestClientsThatComeAndGo(t *testing.T) {
	b := start(t)
	warm := max(*churnFor/10, 500*time.Millisecond)
	if *churnFor >= 5*time.Minute {
		warm = max(warm, 3*time.Minute) // until newest records and producers have reached their shares
	}
	visits := b.churn(t.Context(), warm)
	fresh := b.fresh
	if *churnFor < 5*time.Minute {
		fresh.heap = math.MaxInt64 // else the log is given its time to come to rest
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
	if after.goroutines > base.goroutines || after.descriptors > base.descriptors {
		t.Error("goroutines or descriptors are left")
	}
	// In a short run the newest records, kept for readers, and idle buffers have not reached their shares before; and the log
	// has grown: a range of each object until it is merged, producers up to their share.
	if more := after.heap - base.heap; more > most {
		t.Errorf("%s more are in use", mib(more))
	}
	b.alive()
	b.within(limit)
}

// settled waits until no more is held than at base; it returns what is held then, or at the end of its patience. What a log
// that was written fast holds goes when it is merged, and its snapshots are two further.
func (b *broker) settled(base held) (h held) {
	b.t.Helper()
	patience := 30 * time.Second
	if *churnFor >= 5*time.Minute {
		patience = 5 * time.Minute
	}
	for until := time.Now().Add(patience); ; time.Sleep(100 * time.Millisecond) {
		h = b.held()
		if h.goroutines <= base.goroutines && h.descriptors <= base.descriptors && h.heap <= base.heap || time.Now().After(until) {
			return h
		}
	}
}

// churn lets clients come and go for so long, and says how often one did.
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

// visit is one connection: most of them leave in the middle of something.
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
	case 0: // nothing at all
	case 1:
		text = post[:r.IntN(len(post))]
	case 2:
		text = post + body[:r.IntN(len(body))]
	case 3:
		text = post + body // and leaves before the answer
	case 4:
		text = fmt.Sprintf(get, 1<<40, "1m", "*/*") // leaves its long poll
	case 5:
		text = fmt.Sprintf(get, 0, "1m", "text/event-stream")
	case 6:
		text, answer = fmt.Sprintf(get, 0, "0s", "application/json"), true
	case 7:
		text, answer = post+body, true
	}
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := conn.Write([]byte(text)); err != nil {
		return nil // it was refused meanwhile
	}
	if answer {
		var status [12]byte
		if n, err := conn.Read(status[:]); err != nil || !strings.HasPrefix(string(status[:n]), "HTTP/1.1 ") {
			return fmt.Errorf("%.20q: %q %w", text, status[:n], err)
		}
	}
	return nil
}
