package pressure

import (
	"context"
	"testing"
	"time"
)

// TestMemoryUnderLoad: more clients than fit send bodies while the store is slow. The process stays
// within its limit, acknowledged records are stored, and other clients get a refusal.
func TestMemoryUnderLoad(t *testing.T) {
	args := []string{}
	if *pushFor < time.Minute { // packs are made meanwhile
		args = append(args, "--merge-interval", "1s", "--pack-age", "1s")
	}
	b := start(t, args...)
	b.store.SetDelay(*storeWait)
	ctx, cancel := context.WithTimeout(t.Context(), *pushFor)
	defer cancel()
	l := push(ctx, b, *clients, 4**storeWait+20*time.Second)
	b.store.SetDelay(0)
	t.Logf("%d clients: %s", *clients, l)
	for _, fault := range l.faults {
		t.Error(fault)
	}
	if len(l.acked) == 0 {
		t.Error("no record was acknowledged")
	}
	b.alive()
	l.check(t, b)
	t.Logf("connections: %.0f queued, %.0f evicted, %.0f refused",
		b.metric("seb_http_connections_held_total"), b.metric("seb_http_connections_evicted_total"), b.metric("seb_http_connections_refused_total"))
	b.within(limit)
}

// sample records the memory that the kernel cannot reclaim: everything except pages of files.
func (b *broker) sample() {
	program := b.status("RssFile")
	b.program = program
	b.sampled.Go(func() {
		tick := time.NewTicker(5 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-b.stop:
				return
			case <-b.Done():
				return
			case <-tick.C:
			}
			held := program + b.Status("RssAnon") + b.Status("RssShmem") // 0 after its end
			b.most = max(b.most, held)
		}
	})
}

// within checks the broker's peak memory. Call it once.
func (b *broker) within(limit int64) {
	b.t.Helper()
	close(b.stop)
	b.sampled.Wait()
	b.t.Logf("peak: %s including the program, whose pages were %s at the start; %s resident with all pages of files", mib(b.most), mib(b.program), mib(b.status("VmHWM")))
	bytes, kills, ok := b.cell.peak()
	if !ok {
		if b.most > limit {
			b.t.Errorf("the process used %s, limit %s", mib(b.most), mib(limit))
		}
		return
	}
	// The kernel enforces the limit by reclaiming pages of files, and by killing.
	b.t.Logf("peak of its control group: %s, including the kernel's memory for it", mib(bytes))
	if kills > 0 {
		b.t.Errorf("%d kills", kills)
	}
}
