package pressure

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/recordtest"
)

// TestDecompressionBombs sends batches of the largest allowed size, and far larger, from many
// clients at once, in every codec. Many clients read them decompressed. The broker must stay within
// its memory.
func TestDecompressionBombs(t *testing.T) {
	beside(t)
	b := start(t, "--batch-wait-time", "0")
	allowed, over := make([]byte, 7<<20), make([]byte, 64<<20)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(allowed[:32<<10]) // keeps the ratio below the limit
	_, _ = r.Read(over[:256<<10])
	var stored, refused, busy atomic.Int64
	for codec := record.Gzip; codec <= record.Zstd; codec++ {
		good, bomb := recordtest.HostileBatch(codec, allowed), recordtest.HostileBatch(codec, over)
		topic := "bomb-" + codec.String()
		var wg sync.WaitGroup
		for i := range 24 {
			wg.Go(func() {
				for j := range 4 {
					body, want := good, http.StatusCreated
					if (i+j)%2 == 0 {
						body, want = bomb, http.StatusRequestEntityTooLarge
					}
					switch status, answer := b.send(topic, body); status {
					case want:
						map[bool]*atomic.Int64{true: &stored, false: &refused}[want == http.StatusCreated].Add(1)
					case http.StatusTooManyRequests:
						busy.Add(1)
					default:
						t.Errorf("%s, %d bytes: %d %.300s, want %d", codec, len(body), status, answer, want)
					}
				}
			})
		}
		wg.Wait()
		for range 24 {
			wg.Go(func() {
				for _, kind := range []string{api.JSON, api.NDJSON, api.Multipart, "text/event-stream"} {
					b.readAll(topic, kind)
				}
			})
		}
		wg.Wait()
	}
	t.Logf("%d batches stored, %d refused as too large, %d for lack of memory", stored.Load(), refused.Load(), busy.Load())
	if stored.Load() == 0 || refused.Load() == 0 {
		t.Error("a kind of request never succeeded")
	}
	b.alive()
	b.produce("after", 0)
	b.within(limit)
}

// send posts batches and returns the answer.
func (b *broker) send(topic string, body []byte) (status int, answer []byte) {
	resp, answer, err := b.ask(b.t.Context(), b.url+"/records?topic-name="+topic, request{method: http.MethodPost, kind: api.RecordBatch, body: body, client: http.DefaultClient})
	if err != nil {
		b.t.Error(err)
		return 0, nil
	}
	return resp.StatusCode, answer
}

// readAll reads a whole topic, for up to a second, and ignores the content.
func (b *broker) readAll(topic, kind string) {
	ctx, cancel := context.WithTimeout(b.t.Context(), time.Second)
	defer cancel()
	url := fmt.Sprintf("%s/records?topic-name=%s&offset=0&max-records=1000&timeout=0s", b.url, topic)
	_, _, _ = b.ask(ctx, url, request{accept: kind, client: http.DefaultClient, discard: true}) // the test may be over
}
