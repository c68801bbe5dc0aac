package campaign

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/test/testenv"
)

var startsFlag = flag.Int("starts", 30, "how many starts are measured")

// TestStart measures a start after a kill: the released program, an empty cache, a checked store
// with a topic. It measures from exec until the broker leads and has answered its first request. It
// prints that time and its CPU time. It asserts the number of requests, which does not depend on
// the machine.
func TestStart(t *testing.T) {
	server := testenv.S3ForTest(t)
	proxy, err := testenv.NewS3Proxy(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	for _, c := range []struct{ name, bucket string }{
		{"a folder", filepath.Join(t.TempDir(), "bucket")},
		{"the S3 server", server.Spec("start")},
		{"the S3 server behind a proxy that counts", proxy.Spec("counted")},
	} {
		dir := t.TempDir()
		startAndFill(t, c.bucket, dir)
		var all, led, cpu []time.Duration
		for range *startsFlag {
			if err := os.RemoveAll(filepath.Join(dir, "cache")); err != nil {
				t.Fatal(err)
			}
			before := proxy.Counts()
			m := measureStart(t, c.bucket, dir)
			all, led, cpu = append(all, m.answered), append(led, m.led), append(cpu, m.cpu)
			// Two LISTs of snapshots and three beyond the end, the SEAL twice, possibly a snapshot,
			// and the cluster's name. The reader reads up to 32 slots ahead; there are few, because
			// snapshots are frequent.
			if made := proxy.Counts().Sub(before); made.Of(testenv.Put) > 3 || made.Of(testenv.List) > 5 || made.Total() > 70 {
				t.Errorf("a start made %v", made)
			}
		}
		t.Logf("on %s, %v:\n  until a broker leads, median %v: %s\n  until it has answered, median %v: %s\n  CPU of the broker until it was killed, median %v",
			c.name, machine.Here(), median(led), quantiles(led), median(all), quantiles(all), median(cpu))
	}
}

func median(d []time.Duration) time.Duration {
	if len(d) == 0 {
		return 0
	}
	return slices.Sorted(slices.Values(d))[len(d)/2].Round(100 * time.Microsecond)
}

// startAndFill has the store checked and writes a topic.
func startAndFill(t *testing.T, bucket, dir string) {
	t.Helper()
	b, address := startBroker(t, bucket, dir)
	defer b.Kill()
	c, err := client.New(address, client.Options{APIKey: apiKey})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.CreateTopic(t.Context(), topic, client.TopicSpec{}); err != nil {
		t.Fatal(err)
	}
	for n := range 20 {
		if _, err := c.ProduceValues(t.Context(), topic, [][]byte{fmt.Appendf(nil, "%d", n)}, client.ProduceOptions{}); err != nil {
			t.Fatal(err)
		}
	}
}

func startBroker(t *testing.T, bucket, dir string) (b *testenv.Broker, address string) {
	t.Helper()
	b, err := testenv.Serve(built(t, delivered), environment(apiKey), "--bucket", bucket, "--data-dir", dir, "--http-port", "0", "--batch-wait-time", "0s")
	if err != nil {
		t.Fatal(err)
	}
	if address, err = b.Address(dir); err != nil {
		b.Kill()
		t.Fatal(err)
	}
	return b, address
}

// measured is one start.
type measured struct{ led, answered, cpu time.Duration }

func measureStart(t *testing.T, bucket, dir string) (m measured) {
	t.Helper()
	built(t, delivered) // before the measurement
	begin := time.Now()
	b, address := startBroker(t, bucket, dir)
	defer func() {
		b.Kill()
		m.cpu = b.CPU()
	}()
	m.led = time.Since(begin)
	req, err := http.NewRequestWithContext(context.Background(), http.MethodGet, address+"/records?topic-name="+topic+"&offset=19", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+apiKey)
	resp, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Fatalf("first answer: %v", resp.Status)
	}
	m.answered = time.Since(begin)
	return m
}
