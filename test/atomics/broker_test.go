package atomics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

const key = "a-key-of-the-test-of-atomic-requests"

// brokers are two brokers on one bucket. A start deposes the other one.
type brokers struct {
	t      *testing.T
	dir    string
	bucket string
	proxy  *faultproxy.Store // nil: the bucket is a folder
	kafka  [2]string         // addresses of the slots; empty: no Kafka
	client http.Client
	points map[string]bool // failpoints at which a broker was killed
	kills  int
	over   int // takeovers from a broker that lives

	mu   sync.Mutex // guards the fields below
	urls []string   // the newest broker last
	runs [2]*testenv.Broker
}

func newBrokers(t *testing.T, kind string) *brokers {
	c := &brokers{t: t, dir: t.TempDir(), points: map[string]bool{}, urls: []string{"http://127.0.0.1:1"}}
	c.bucket = fmt.Sprintf("file:%s?journal=%v", filepath.Join(c.dir, "bucket"), kind == "journal")
	if kind == "s3" {
		c.proxy = must.Get(faultproxy.NewStore(testenv.S3ForTest(t).Endpoint, 62))(t)
		t.Cleanup(c.proxy.Close)
		c.bucket = c.proxy.Spec("atomics")
	}
	t.Cleanup(func() {
		for _, b := range c.runs {
			if b != nil {
				b.Kill()
			}
		}
	})
	return c
}

// disturb turns faults of the store on or off.
func (c *brokers) disturb(on bool) {
	if c.proxy == nil {
		return
	}
	rates := faultproxy.Rates{}
	if on {
		for _, k := range []faultproxy.Kind{faultproxy.Gateway, faultproxy.GatewayLate, faultproxy.Conflict, faultproxy.Doubled, faultproxy.Late, faultproxy.Stalled} {
			rates[k] = 0.01
		}
	}
	c.proxy.SetConfig(faultproxy.StoreConfig{Rates: rates, StallMax: 300 * time.Millisecond, LateMax: time.Second, BurstMax: 200 * time.Millisecond})
	if !on {
		c.proxy.Unblock()
	}
}

// start starts a broker in one of the two slots, perhaps with a failpoint. It reports whether it leads.
func (c *brokers) start(slot int, failpoints string) bool {
	if b := c.runs[slot]; b != nil {
		b.Kill()
	}
	data := filepath.Join(c.dir, fmt.Sprint("data-", slot))
	env := append([]string{"SEB_API_KEY=" + key, "SEB_HURRY=1", "SEB_HURRY_ALONE=1", "SEB_HURRY_GROUPS=1", "SEB_HURRY_JOURNAL=262144"}, testenv.S3Keys...)
	if failpoints != "" {
		env = append(env, "SEB_FAILPOINTS="+failpoints)
	}
	b := must.Get(testenv.Serve(testenv.Program(c.t, "-tags", "failpoints"), env, "--bucket", c.bucket, "--data-dir", data, "--http-port", "0", "--kafka-listen", c.kafka[slot], "--take-over",
		"--batch-wait-time", "1ms", "--pack-bytes", "32KiB", "--pack-age", "50ms", "--merge-interval", "20ms", "--snapshot-slots", "10", "--memory-limit", "64MiB"))(c.t)
	c.runs[slot] = b
	url, err := b.Address(data)
	if err != nil {
		return false // a failpoint of the start
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.urls = append(c.urls, url)
	return true
}

// url is the address of the newest broker, or rarely of the one before.
func (c *brokers) url(r *rand.Rand) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := len(c.urls)
	if n > 1 && r.IntN(10) == 0 {
		return c.urls[n-2]
	}
	return c.urls[n-1]
}

// reachable reports whether a broker can reach a failpoint.
func (c *brokers) reachable(point string, journal bool) bool {
	switch part, _, _ := strings.Cut(point, "."); part {
	case "disk":
		return c.proxy == nil
	case "journal":
		return journal
	case "cache":
		return c.proxy != nil
	case "stop":
		return false
	}
	return point != "compacted.before" && point != "compacted.after"
}

// round starts a broker that is killed at a failpoint, or by a signal after a time, or deposed by the next one.
func (c *brokers) round(r *rand.Rand, slot int, point string, life time.Duration) {
	other := c.runs[1-slot]
	spec := ""
	if point != "" {
		spec = fmt.Sprintf("%s=kill:%d", point, 1+r.IntN(8))
	}
	if c.start(slot, spec) && other != nil {
		select {
		case <-other.Done():
		default:
			c.over++
		}
	}
	b := c.runs[slot]
	select {
	case <-b.Done():
	case <-time.After(life/2 + time.Duration(r.Int64N(int64(life)))):
		if r.IntN(2) == 0 {
			return // until the next one takes over
		}
		b.Kill()
	}
	if c.kills++; strings.Contains(b.Log(), "failpoint "+point+" kill") {
		c.points[point] = true
	}
}

// answer is that of a request: status 0 means none.
type answer struct {
	status   int
	body     []byte
	sent     bool   // it may have arrived
	position string // of the log
}

func (c *brokers) ask(ctx context.Context, url, method, path, kind, body string, header map[string]string) answer {
	req := must.Get(http.NewRequestWithContext(ctx, method, url+path, strings.NewReader(body)))(c.t)
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", kind)
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := c.client.Do(req)
	if err != nil {
		return answer{sent: !strings.Contains(err.Error(), "connection refused")}
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{sent: true}
	}
	return answer{resp.StatusCode, b, true, resp.Header.Get(api.HeaderPosition)}
}

// must asks until the answer is a success.
func (c *brokers) must(method, path, body string, out any) {
	c.t.Helper()
	r := rand.New(rand.NewPCG(1, 1))
	var a answer
	for range 600 {
		if a = c.ask(c.t.Context(), c.url(r), method, path, api.JSON, body, nil); a.status/100 == 2 {
			if out != nil {
				must.NoErrorf(c.t, json.NewDecoder(bytes.NewReader(a.body)).Decode(out), "%s", a.body)
			}
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
	c.t.Fatalf("%s %s: %d %s", method, path, a.status, a.body)
}
