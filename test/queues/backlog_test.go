package queues

import (
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
)

var (
	backlog = flag.Int("backlog", 0, "messages of TestBacklog, a million or more")
	delayed = flag.Int("delayed", 0, "messages of TestDelayed")
)

// TestBacklog measures workers of a queue with few messages, and of one with many, with 64 MiB.
func TestBacklog(t *testing.T) {
	if *backlog == 0 {
		t.Skip("needs -backlog")
	}
	for _, c := range []struct {
		name, settings string
		key            func(i int) string
	}{
		{"no keys", "", func(int) string { return "" }},
		{"order, 100,000 keys", `"key-mode":"order"`, func(i int) string { return fmt.Sprintf(`"key":"k%d",`, i%100_000) }},
		{"order, half of one key", `"key-mode":"order"`, func(i int) string {
			if i%2 == 0 {
				return `"key":"hot",`
			}
			return fmt.Sprintf(`"key":"k%d",`, i)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := newBroker(t)
			b.memory = "64MiB"
			b.start()
			b.call(t.Context(), "PUT", "/queues/q", `{"settings":{`+c.settings+`}}`, nil)
			b.fill("q", 20_000, c.key)
			few := b.work("q", 10_000)
			b.fill("q", *backlog, c.key)
			b.call(t.Context(), "PUT", "/queues/small", `{"settings":{`+c.settings+`}}`, nil)
			b.work("q", 10_000) // the rest of the few
			b.rest()
			var small, large []string
			for range 3 {
				b.fill("small", 20_000, c.key)
				small = append(small, b.work("small", 20_000))
				large = append(large, b.work("q", 20_000))
			}
			b.Kill()
			began := time.Now()
			b.start()
			var q api.Queue
			b.call(t.Context(), "GET", "/queues/q", "", &q)
			t.Logf("%s before; beside %d: %s with few, %s of them; ready %s after a kill, %d left", few, *backlog, small, large, time.Since(began).Round(time.Millisecond), q.Ready+q.Leased)
		})
	}
}

// TestDelayed measures when delayed messages are given, 5,000 of them for each second.
func TestDelayed(t *testing.T) {
	if *delayed == 0 {
		t.Skip("needs -delayed")
	}
	b := newBroker(t)
	b.memory = "256MiB"
	b.start()
	b.call(t.Context(), "PUT", "/queues/q", `{}`, nil)
	const each, perSecond = 1000, 5000
	first := time.Now().Add(time.Duration(*delayed/12_000+10) * time.Second)
	var busy sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		busy.Go(func() {
			for n := next.Add(each); n <= int64(*delayed); n = next.Add(each) {
				var body strings.Builder
				for i := n - each; i < n; i++ {
					at := first.Add(time.Duration(i) * time.Second / perSecond)
					fmt.Fprintf(&body, `{"value":"%d","at":%q}`+"\n", at.UnixMilli(), at.UTC().Format(time.RFC3339Nano))
				}
				b.post("/queues/q/messages", body.String())
			}
		})
	}
	busy.Wait()
	t.Logf("%d messages were sent %s before the first is due", *delayed, time.Until(first).Round(time.Second))
	var got, late, most atomic.Int64
	for range 16 {
		busy.Go(func() {
			for got.Load() < int64(*delayed) {
				out := b.lease("q", 200)
				now := time.Now().UnixMilli()
				for i := range out.Messages {
					var at int64
					_, _ = fmt.Sscan(*out.Messages[i].Value, &at)
					if d := now - at; d > 1000 {
						late.Add(1)
					} else if d < 0 {
						t.Errorf("message of %d is given at %d", at, now)
					}
					for d := now - at; d > most.Load(); {
						most.Store(d)
					}
				}
				b.done("q", &out)
				got.Add(int64(len(out.Messages)))
			}
		})
	}
	busy.Wait()
	t.Logf("%d messages, %d more than a second late, the latest %d ms", got.Load(), late.Load(), most.Load())
}

// fill sends messages.
func (b *broker) fill(queue string, n int, key func(i int) string) {
	const each = 4000
	var busy sync.WaitGroup
	var next atomic.Int64
	for range 4 {
		busy.Go(func() {
			for at := next.Add(each) - each; at < int64(n); at = next.Add(each) - each {
				var body strings.Builder
				for i := int(at); i < min(n, int(at)+each); i++ {
					fmt.Fprintf(&body, `{%s"value":"message %d"}`+"\n", key(i), i)
				}
				b.post("/queues/"+queue+"/messages", body.String())
			}
		})
	}
	busy.Wait()
}

// work leases and finishes messages with 16 workers, and returns how many a second, and the CPU time of the broker.
func (b *broker) work(queue string, n int64) string {
	began, cpu := time.Now(), b.ticks()
	var got atomic.Int64
	var busy sync.WaitGroup
	for range 16 {
		busy.Go(func() {
			for got.Load() < n {
				out := b.lease(queue, 10)
				b.done(queue, &out)
				got.Add(int64(len(out.Messages)))
			}
		})
	}
	busy.Wait()
	took := time.Since(began)
	return fmt.Sprintf("%.0f/s and %d µs", float64(got.Load())/took.Seconds(), (b.ticks()-cpu).Microseconds()/got.Load())
}

// rest waits until the broker has merged what was sent.
func (b *broker) rest() {
	for began := time.Now(); time.Since(began) < 15*time.Minute; {
		before := b.ticks()
		time.Sleep(5 * time.Second)
		if b.ticks()-before < 200*time.Millisecond {
			return
		}
	}
	b.t.Error("the broker does not rest")
}

// ticks is the CPU time of the broker up to now.
func (b *broker) ticks() time.Duration {
	text := string(must.Get(os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.process.Pid())))(b.t))
	fields := strings.Fields(text[strings.LastIndexByte(text, ')'):])
	user, system := must.Get(strconv.Atoi(fields[12]))(b.t), must.Get(strconv.Atoi(fields[13]))(b.t)
	return time.Duration(user+system) * (time.Second / 100)
}

func (b *broker) lease(queue string, most int) api.QueueMessages {
	return b.wait(queue, most, "1s")
}

// wait leases messages, and waits for the first one.
func (b *broker) wait(queue string, most int, wait string) (out api.QueueMessages) {
	must.NoError(b.t, b.try(b.t.Context(), "POST", "/queues/"+queue+"/lease", api.LeaseRequest{Max: most, Wait: wait}, &out))
	return out
}

func (b *broker) done(queue string, list *api.QueueMessages) {
	if len(list.Messages) == 0 {
		return
	}
	var said api.Settlements
	for i := range list.Messages {
		said.Messages = append(said.Messages, api.Settlement{Receipt: list.Messages[i].Receipt, Do: "done"})
	}
	must.NoError(b.t, b.try(b.t.Context(), "POST", "/queues/"+queue+"/settle", said, nil))
}

// post sends lines of messages, again after 429.
func (b *broker) post(path, lines string) {
	for {
		err := b.tryAs(b.t.Context(), api.NDJSON, "POST", path, lines, nil)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), " 429 ") {
			b.t.Error(err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}
