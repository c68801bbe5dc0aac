package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"golang.org/x/sync/errgroup"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/testenv"
)

const key = "growth-key"

// broker is the seb of a row.
type broker struct {
	path, dir, bucket string
	args              []string
	env               []string // besides the keys

	proxy  *testenv.S3Proxy // nil unless the requests of the row are counted
	counts testenv.S3Counts // at the last start by again
	read   int64

	process *testenv.Broker
	url     string
	kafka   atomic.Value // of string: the address for Kafka clients
	pool    *http.Client // keeps connections
}

// start starts the program and waits until it accepts requests.
func (b *broker) start() (err error) {
	env := slices.Concat([]string{"SEB_API_KEY=" + key}, testenv.S3Keys, b.env)
	args := slices.Concat([]string{"--bucket", b.bucket, "--data-dir", filepath.Join(b.dir, "data"), "--http-port", "0", "--kafka-listen", "127.0.0.1:0"}, b.args, flag.Args())
	b.kafka.Store("")
	b.process, err = testenv.ServeLogged(b.path, env, func(line string) {
		if address, ok := testenv.KafkaAddress(line); ok {
			b.kafka.Store(address)
		}
	}, args...)
	if err != nil {
		return err
	}
	if b.url, err = b.process.Address(filepath.Join(b.dir, "data")); err != nil {
		b.process.Kill()
		return err
	}
	b.pool = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 10_000}}
	return nil
}

// end kills the process.
func (b *broker) end() {
	b.pool.CloseIdleConnections()
	b.process.Kill()
}

// cpu returns the CPU time of the process up to now.
func (b *broker) cpu() time.Duration {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", b.process.Pid()))
	fields := strings.Fields(string(text[max(0, bytes.LastIndexByte(text, ')')):]))
	if err != nil || len(fields) < 14 {
		return 0
	}
	user, _ := strconv.ParseInt(fields[12], 10, 64)
	system, _ := strconv.ParseInt(fields[13], 10, 64)
	return time.Duration(user+system) * (time.Second / 100) // ticks of Linux
}

// idle returns the CPU time that the process takes per second.
func (b *broker) idle(ctx context.Context, d time.Duration) time.Duration {
	before := b.cpu()
	pause(ctx, d)
	return time.Duration(float64(b.cpu()-before) / d.Seconds())
}

func (b *broker) resident() int64 { return b.process.Status("VmRSS") }

// call is a request.
type call struct {
	method, path, body string
	header             []string     // names and values
	client             *http.Client // nil: that of the broker
}

// send sends a request; the caller closes the body of the answer.
func (b *broker) send(ctx context.Context, c call) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, c.method, b.url+c.path, strings.NewReader(c.body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("Content-Type", api.TextPlain)
	if strings.HasPrefix(c.body, "{") {
		r.Header.Set("Content-Type", api.JSON)
	}
	for i := 0; i < len(c.header); i += 2 {
		r.Header.Set(c.header[i], c.header[i+1])
	}
	if c.client == nil {
		c.client = b.pool
	}
	return c.client.Do(r)
}

// refusal is an answer that is no success.
type refusal struct {
	status int
	text   string // code and detail
}

func (r *refusal) Error() string { return fmt.Sprint(r.status, " ", r.text) }

// ask sends a request and returns the whole body of its answer. Errors: *refusal, and those of the
// connection.
func (b *broker) ask(ctx context.Context, c call) ([]byte, error) {
	resp, err := b.send(ctx, c)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err == nil && resp.StatusCode >= http.StatusBadRequest {
		var p struct{ Code, Detail string }
		_ = json.Unmarshal(body, &p)
		return nil, &refusal{resp.StatusCode, p.Code + ": " + p.Detail}
	}
	return body, err
}

// must is ask, and repeats what is refused for now.
func (b *broker) must(ctx context.Context, c call) error {
	for {
		_, err := b.ask(ctx, c)
		var r *refusal
		if !errors.As(err, &r) || r.status != http.StatusTooManyRequests && r.status != http.StatusServiceUnavailable {
			return err
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// fresh sends a request on a new connection.
func (b *broker) fresh(ctx context.Context, c call) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	c.client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	_, err := b.ask(ctx, c)
	return err
}

// state returns the bytes of the state.
func (b *broker) state(ctx context.Context) int64 {
	body, _ := b.ask(ctx, call{method: http.MethodGet, path: "/status"})
	var s api.Status
	_ = json.Unmarshal(body, &s)
	return s.Memory.State
}

// metric returns the sum of the metrics whose names, with labels, match.
func (b *broker) metric(ctx context.Context, pattern string) (sum float64) {
	body, _ := b.ask(ctx, call{method: http.MethodGet, path: "/metrics"})
	for _, m := range regexp.MustCompile(`(?m)^`+pattern+` (\S+)$`).FindAllStringSubmatch(string(body), -1) {
		n, _ := strconv.ParseFloat(m[1], 64)
		sum += n
	}
	return sum
}

const (
	openMetric    = `seb_\w*connections(?:{[^}]*})?`
	refusedMetric = `seb_\w*connections_refused_total(?:{[^}]*})?`
)

// operator reports whether an operator gets in: GET /status and `seb topic list`.
func (b *broker) operator(ctx context.Context) string {
	began := time.Now()
	status := took(b.fresh(ctx, call{method: http.MethodGet, path: "/status"}), began)
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	list := exec.CommandContext(ctx, b.path, "topic", "list", "--address", b.url)
	list.Env = append(os.Environ(), "SEB_API_KEY="+key)
	began = time.Now()
	out, err := list.CombinedOutput()
	if ctx.Err() != nil {
		err = ctx.Err()
	} else if err != nil {
		err = errors.New(string(bytes.TrimSpace(out)))
	}
	return status + ", " + took(err, began)
}

// took returns the error, or the time since began without one.
func took(err error, began time.Time) string {
	if err != nil {
		return fmt.Sprintf("%.60s", err)
	}
	return fmt.Sprintf("%.2f s", time.Since(began).Seconds())
}

// client returns a franz-go client of the broker.
func (b *broker) client(o ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(o, kgo.SeedBrokers(b.kafka.Load().(string)), kgo.SASL(plain.Auth{User: "seb", Pass: key}.AsMechanism()))...)
}

// newTopic creates topic t and waits for the address for Kafka clients.
func (b *broker) newTopic(ctx context.Context, partitions int) error {
	for b.kafka.Load() == "" && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
	}
	return b.must(ctx, call{method: http.MethodPut, path: "/topic?topic-name=t", body: fmt.Sprintf(`{"partitions":%d}`, partitions)})
}

// each calls f for 0 to n-1, with some calls at the same time.
func each(n, concurrent int, f func(i int) error) error {
	var g errgroup.Group
	g.SetLimit(concurrent)
	for i := range n {
		g.Go(func() error { return f(i) })
	}
	return g.Wait()
}

// pause waits, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
