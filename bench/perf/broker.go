package perf

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/testenv"
)

// broker is a broker in a separate process.
type broker struct {
	*testenv.Broker
	url, key string
	client   *client.Client
	started  time.Duration // from start until it accepts requests
}

// serve starts a broker with a bucket and a data folder.
func (p *Place) serve(bucket, data string, args ...string) (*broker, error) {
	began := time.Now()
	run, err := testenv.Serve(p.Program, nil, append([]string{"--bucket", bucket, "--data-dir", data, "--http-port", "0"}, args...)...)
	if err != nil {
		return nil, err
	}
	b := &broker{Broker: run}
	if b.url, err = run.Address(data); err == nil {
		b.started = time.Since(began)
		var key []byte
		key, err = os.ReadFile(filepath.Join(data, "api-key"))
		b.key = strings.TrimSpace(string(key))
	}
	if err == nil {
		b.client, err = client.New(b.url, client.Options{APIKey: b.key})
	}
	if err != nil {
		run.Kill()
		return nil, err
	}
	return b, nil
}

// stop stops the broker gracefully. It returns an error if the exit code is not 0.
func (b *broker) stop() error {
	b.client.Close()
	if code := b.Stop(); code != 0 {
		return fmt.Errorf("exit code %d\n%s", code, b.Log())
	}
	return nil
}

// history writes objects in sequence, each with the given number of 100-byte records. It calls done
// after each object.
func (p *Place) history(ctx context.Context, bucket, data string, objects, records int, done func()) error {
	b, err := p.serve(bucket, data, "--batch-wait-time", "0s", "--merge-interval", "24h")
	if err != nil {
		return err
	}
	defer b.Kill()
	if _, err := b.client.PutTopic(ctx, "history", client.TopicSpec{Partitions: 1}); err != nil {
		return err
	}
	list := make([]record.Record, records)
	for i := range list {
		list[i].Value = []byte(strings.Repeat(string(rune('a'+i%26)), 100))
	}
	batch, _, err := record.Append(nil, list, record.EncodeOptions{})
	if err != nil {
		return err
	}
	for range objects {
		if _, err := b.client.ProduceBatches(ctx, "history", batch, client.ProduceOptions{}); err != nil {
			return err
		}
		done()
	}
	return b.stop()
}
