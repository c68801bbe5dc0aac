package queues

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"testing"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

const key = "a-key-of-the-test-of-queues"

// broker is a `seb serve` at one address.
type broker struct {
	t                         *testing.T
	program, bucket, dir, url string
	port, secrets             string
	memory                    string // --memory-limit
	env                       []string
	mu                        sync.Mutex // guards the process
	process                   *testenv.Broker
	client                    http.Client
}

func newBroker(t *testing.T) *broker {
	b := &broker{t: t, program: testenv.Program(t), dir: t.TempDir(), env: []string{"SEB_API_KEY=" + key}}
	b.bucket = filepath.Join(t.TempDir(), "bucket")
	if *onS3 {
		b.bucket = testenv.S3ForTest(t).Spec("queues")
		b.env = append(b.env, testenv.S3Keys...)
	}
	_, b.port = must.Get2(net.SplitHostPort(must.Get(testenv.FreeAddress())(t)))(t)
	b.secrets = filepath.Join(b.dir, "secrets-key")
	must.Get(testenv.Command(t.Context(), ".", b.program, "secrets", "init", b.secrets))(t)
	t.Cleanup(b.Kill)
	return b
}

// start starts the broker, also after a kill.
func (b *broker) start() {
	b.t.Helper()
	p := must.Get(testenv.Serve(b.program, b.env, "--bucket", b.bucket, "--data-dir", b.dir, "--http-port", b.port, "--memory-limit", cmp.Or(b.memory, "128MiB"), "--secrets-key-file", b.secrets))(b.t)
	url, err := p.Address(b.dir)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, p.Log())
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.process, b.url = p, url
}

// Kill sends SIGKILL.
func (b *broker) Kill() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.process != nil {
		b.process.Kill()
	}
}

// try sends a request. The error is also that of a broker that is gone.
func (b *broker) try(ctx context.Context, method, path string, in, out any) error {
	return b.tryAs(ctx, api.JSON, method, path, in, out)
}

func (b *broker) tryAs(ctx context.Context, kind, method, path string, in, out any) error {
	body, ok := in.(string)
	if !ok {
		body = string(must.Get(json.Marshal(in))(b.t))
	}
	b.mu.Lock()
	url := b.url
	b.mu.Unlock()
	req := must.Get(http.NewRequestWithContext(ctx, method, url+path, bytes.NewReader([]byte(body))))(b.t)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", kind)
	resp, err := b.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		return err
	}
	if resp.StatusCode >= 300 {
		if resp.StatusCode < 500 && resp.StatusCode != http.StatusTooManyRequests {
			b.t.Errorf("%s %s: %d %s", method, path, resp.StatusCode, answer)
		}
		return fmt.Errorf("%s %s: %d %s", method, path, resp.StatusCode, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}

// call sends a request that must succeed.
func (b *broker) call(ctx context.Context, method, path, in string, out any) {
	b.t.Helper()
	must.NoError(b.t, b.try(ctx, method, path, in, out))
}

// drained waits until a queue has no messages.
func (b *broker) drained(queue string) {
	b.t.Helper()
	var q api.Queue
	sebtest.Eventually(b.t, "queue "+queue+" is empty", func() bool {
		b.call(b.t.Context(), "GET", "/queues/"+queue, "", &q)
		return q.Ready+q.Leased+q.Delayed+q.Retry+q.Dying == 0
	})
}
