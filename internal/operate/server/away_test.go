package server_test

import (
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// TestAStopDoesNotWaitLongForAStoreThatIsAway: the bucket's folder is removed while the broker
// runs. Clients get the reason, and a stop waits for a bounded time.
func TestAStopDoesNotWaitLongForAStoreThatIsAway(t *testing.T) {
	server.SetStoreTimeout(100 * time.Millisecond)
	t.Cleanup(func() { server.SetStoreTimeout(5 * time.Second) })
	bucket := filepath.Join(t.TempDir(), "bucket")
	s, log := startLogged(t, func(c *config.Config) { c.Bucket, c.Kafka.Listen = bucket+"?journal=false", "" })
	must.NoError(t, produce(t, connect(t, s)))
	must.NoError(t, os.RemoveAll(bucket))
	ctx, cancel := context.WithCancel(t.Context())
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _, _ = post(ctx, s, "/records?topic-name=t")
	}()
	defer func() { cancel(); <-sent }()

	const reason = "the store refuses the broker's requests"
	sebtest.Eventually(t, "/readyz has the reason", func() bool {
		_, body, err := get(t.Context(), s, "/readyz")
		return err == nil && strings.Contains(body, reason)
	})
	// /readyz may have seen the refusal of a read; only the refusal of a slot rejects further
	// writes.
	sebtest.Eventually(t, "the store refuses the slot", func() bool {
		return log.Contains("store refuses s0000/wal/")
	})
	status, body, err := post(t.Context(), s, "/records?topic-name=t")
	if err != nil || status != http.StatusServiceUnavailable || !strings.Contains(body, `"detail":"store unavailable: put s0000/wal/`) {
		t.Errorf("a write: %d %s, %v", status, body, err)
	}
	_, body, err = get(t.Context(), s, "/status")
	if err != nil || !strings.Contains(body, `"ready":false,"reason":"`) || !strings.Contains(body, reason) || !strings.Contains(body, "last request to the store failed") {
		t.Errorf("status: %s, %v", body, err)
	}
	began := time.Now()
	err = s.Close(context.Background())
	check.ErrorContainsf(t, err, "the store did not accept the records in progress within 100ms", "close")
	if took := time.Since(began); took >= server.StopTime {
		t.Errorf("the stop took %s", took)
	}
	check.Containsf(t, log.String(), "stop waits for the store to accept records in progress", "log")
}

func get(ctx context.Context, s *server.Server, path string) (status int, body string, err error) {
	return request(ctx, s, http.MethodGet, path)
}

func post(ctx context.Context, s *server.Server, path string) (status int, body string, err error) {
	return request(ctx, s, http.MethodPost, path)
}

func request(ctx context.Context, s *server.Server, method, path string) (status int, body string, err error) {
	r, err := http.NewRequestWithContext(ctx, method, s.URL()+path, strings.NewReader("x"))
	if err != nil {
		return 0, "", err
	}
	r.Close = true
	r.Header = http.Header{"Authorization": {"Bearer " + s.APIKey()}, "Content-Type": {"text/plain"}, "Accept": {"application/json"}}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), err
}
