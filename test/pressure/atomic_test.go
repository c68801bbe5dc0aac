package pressure

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestAtomicRequests: clients send atomic requests of 1,000 parts, more than fit, while the store is slow. Each
// is stored or refused, and the broker stays within its limit.
func TestAtomicRequests(t *testing.T) {
	const partitions = 1000
	beside(t)
	b := start(t)
	b.queue(http.MethodPut, "/topic?topic-name=wide", fmt.Sprintf(`{"partitions":%d}`, partitions), nil)
	var body strings.Builder
	for i := range partitions {
		fmt.Fprintf(&body, `{"topic":"wide","partition":%d,"value":"v"}`+"\n", i)
	}
	b.store.SetDelay(*storeWait)
	ctx, cancel := context.WithTimeout(t.Context(), *pushFor)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex // guards counts
	counts := map[int]int{}
	for range *clients / 4 {
		wg.Go(func() {
			client := &http.Client{Transport: &http.Transport{}}
			for ctx.Err() == nil {
				resp, answer, err := b.ask(t.Context(), b.url+"/records?atomic=true&timeout=1m", request{method: http.MethodPost, kind: api.NDJSON, body: []byte(body.String()), client: client})
				if err != nil {
					t.Error(err)
					return
				}
				if resp.StatusCode != http.StatusCreated && (resp.StatusCode != http.StatusTooManyRequests || resp.Header.Get("Retry-After") == "") {
					t.Errorf("%d %.300s", resp.StatusCode, answer)
				}
				mu.Lock()
				counts[resp.StatusCode]++
				mu.Unlock()
				time.Sleep(20 * time.Millisecond)
			}
		})
	}
	wg.Wait()
	b.store.SetDelay(0)
	b.alive()
	t.Logf("answers: %v", counts)
	if counts[http.StatusCreated] == 0 || counts[http.StatusTooManyRequests] == 0 {
		t.Error("not more than fit")
	}
	var topic api.Topic
	must.NoError(t, json.Unmarshal([]byte(b.get(b.url+"/topic?topic-name=wide")), &topic))
	for _, p := range topic.Partitions {
		check.Equalf(t, p.Next, int64(counts[http.StatusCreated]), "end of partition %d", p.Partition)
	}
	b.within(limit)
}
