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
)

// TestInflateBuffersAreNotShared: readings that follow each other decompress into the same buffers; each answers with its own
// records only.
func TestInflateBuffersAreNotShared(t *testing.T) {
	s := start(t)
	const topics = 4
	values := make([]string, topics)
	noise := make([]byte, 32<<10) // so that the ratio is not what is refused
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for i := range topics {
		values[i] = hex.EncodeToString(noise) + strings.Repeat(fmt.Sprintf("%08d", i+1), 1<<17+i) // of about 1 MiB
		data, _, err := record.Append(nil, []record.Record{{Timestamp: 1, Value: []byte(values[i])}}, record.EncodeOptions{Compression: record.Zstd})
		if err != nil {
			t.Fatal(err)
		}
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
					case a.status == http.StatusTooManyRequests: // the others have the memory
					case a.status != http.StatusOK || !bytes.Contains(a.body, []byte(values[i])):
						t.Errorf("topic %d: %d, %.80q", i, a.status, a.body)
					}
				}
			})
		}
	}
	wg.Wait()
}
