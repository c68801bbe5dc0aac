package httpapi

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/recordtest"
)

// TestInflateBuffersAreNotShared: consecutive readings decompress into the same buffers, and each
// answer has only its own records.
func TestInflateBuffersAreNotShared(t *testing.T) {
	s := start(t)
	const topics = 4
	values := make([]string, topics)
	noise := make([]byte, 8<<10) // keeps the ratio below the limit
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for i := range topics {
		// Each value has about 256 KiB.
		values[i] = hex.EncodeToString(noise) + strings.Repeat(fmt.Sprintf("%08d", i+1), 1<<15+i)
		data, _ := recordtest.Encode([]record.Record{{Timestamp: 1, Value: []byte(values[i])}}, record.EncodeOptions{Compression: record.Zstd})
		if a := s.post(fmt.Sprintf("topic-name=t%d", i), api.RecordBatch, string(data)); a.status != http.StatusCreated {
			t.Fatal(a)
		}
	}
	var wg sync.WaitGroup
	for i := range topics {
		for range 2 {
			wg.Go(func() {
				for range 3 {
					a := s.get(fmt.Sprintf("/records?topic-name=t%d&offset=0", i), api.NDJSON)
					switch {
					case a.status == http.StatusTooManyRequests: // other readers have the memory
					case a.status != http.StatusOK || !bytes.Contains(a.body, []byte(values[i])):
						t.Errorf("topic %d: %d, %.80q", i, a.status, a.body)
					}
				}
			})
		}
	}
	wg.Wait()
}
