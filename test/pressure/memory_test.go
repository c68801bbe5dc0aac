package pressure

import (
	"context"
	"os"
	"strconv"
	"testing"
	"time"
)

// TestMemoryUnderLoad: more clients than fit push bodies while the store answers late. The process stays within its limit,
// what is acknowledged is there, and who is not served is told so.
func TestMemoryUnderLoad(t *testing.T) {
	args := []string{}
	if *pushFor < time.Minute { // packs are made while it lasts
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
		t.Error("nothing was acknowledged")
	}
	b.alive()
	l.check(t, b)
	t.Logf("connections: %.0f found no place free, %.0f were ended for others, %.0f were refused",
		b.metric("seb_http_connections_held_total"), b.metric("seb_http_connections_evicted_total"), b.metric("seb_http_connections_refused_total"))
	b.within(limit)
}

// sample follows what of the process the kernel can not take back: all but the pages of files.
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
			text, err := os.ReadFile("/proc/" + strconv.Itoa(b.Pid()) + "/status")
			if err != nil {
				return // it has ended
			}
			held := program
			for _, name := range []string{"RssAnon", "RssShmem"} {
				n, _ := statusField(string(text), name)
				held += n
			}
			b.most = max(b.most, held)
		}
	})
}

// within checks the most memory that the broker has ever had. It may be called once.
func (b *broker) within(limit int64) {
	b.t.Helper()
	close(b.stop)
	b.sampled.Wait()
	b.t.Logf("peak: %s of its own and of the program, whose pages were %s at the start; %s resident with all pages of files", mib(b.most), mib(b.program), mib(b.status("VmHWM")))
	bytes, kills, ok := b.cell.peak()
	if !ok {
		if b.most > limit {
			b.t.Errorf("the process has had %s, more than %s", mib(b.most), mib(limit))
		}
		return
	}
	// The kernel keeps the limit by taking back pages of files, and by killing.
	b.t.Logf("peak of its control group: %s, what the kernel holds for it included", mib(bytes))
	if kills > 0 {
		b.t.Errorf("%d kills", kills)
	}
}
