package pressure

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

const key = "pressure-key"

// broker is a `seb serve` with 64 MiB.
type broker struct {
	*testenv.Broker
	t     *testing.T
	url   string
	addr  string
	debug string           // address of pprof
	store *testenv.S3Proxy // can delay the answers of the S3 server; nil: the bucket is a folder
	cell  *cell
	again func() error // starts another process on the same bucket and data directory

	fresh   held          // before any load
	stop    chan struct{} // ends the sampling
	sampled sync.WaitGroup
	// program is the page cache of the process after its start: mostly the program itself.
	program int64
	most    int64 // peak of memory that the kernel could not reclaim; valid after sampled
}

// start starts a broker on a real S3 server behind a proxy.
func start(t *testing.T, args ...string) *broker {
	t.Helper()
	server := testenv.S3ForTest(t)
	proxy := must.Get(testenv.NewS3Proxy(server.Endpoint))(t)
	t.Cleanup(proxy.Close)
	b := startOn(t, proxy.Spec("pressure"), args...)
	b.store = proxy
	return b
}

// startOn starts a broker on a bucket, to which it writes a record.
func startOn(t *testing.T, bucket string, args ...string) *broker {
	t.Helper()
	b := launch(t, bucket, args...)
	b.produce("first", 0)
	b.fresh = b.held()
	return b
}

// launch starts a broker on a bucket.
func launch(t *testing.T, bucket string, args ...string) *broker {
	t.Helper()
	b := &broker{t: t, cell: newCell(t, limit), debug: freeAddress(t), stop: make(chan struct{})}
	_, debugPort := must.Get2(net.SplitHostPort(b.debug))(t)
	dir, program := t.TempDir(), seb(t)
	env := append([]string{"SEB_API_KEY=" + key}, testenv.S3Keys...)
	args = append([]string{
		"--bucket", bucket, "--data-dir", dir, "--http-port", "0", "--memory-limit", strconv.Itoa(limit),
		"--http-connections", "100000", "--http-debug-enable", "--http-debug-port", debugPort,
	}, args...)
	b.again = func() (err error) {
		if b.Broker, err = testenv.Serve(b.cell.wrap(program), env, args...); err != nil {
			return err
		}
		if b.url, err = b.Address(dir); err != nil {
			return err
		}
		b.addr = strings.TrimPrefix(b.url, "http://")
		b.sample()
		return nil
	}
	t.Cleanup(func() {
		b.Kill()
		b.cell.remove()
	})
	must.NoError(t, b.again())
	return b
}

// restart stops the broker, whose memory was within the limit, and starts it again.
func (b *broker) restart() {
	b.t.Helper()
	b.within(limit)
	if code := b.Stop(); code != 0 {
		b.t.Fatalf("exit %d\n%s", code, b.Log())
	}
	b.stop, b.most = make(chan struct{}), 0
	if err := b.again(); err != nil {
		b.t.Fatalf("%v\n%s", err, b.Log())
	}
}

func freeAddress(t *testing.T) string {
	t.Helper()
	address := must.Get(testenv.FreeAddress())(t)
	return address
}

// status returns a number of bytes in /proc/PID/status.
func (b *broker) status(field string) int64 {
	b.t.Helper()
	n := b.Status(field)
	if n == 0 && field != "RssShmem" {
		b.t.Fatalf("process status has no %s\n%s", field, b.Log())
	}
	return n
}

// request is a request over HTTP with the broker's key. Its zero value is a GET.
type request struct {
	method, accept, kind string // kind is the media type of body
	body                 []byte
	client               *http.Client // nil: a new connection
	discard              bool         // ignores the body of the answer
}

// ask sends a request and returns the answer and its whole body.
func (b *broker) ask(ctx context.Context, url string, r request) (resp *http.Response, body []byte, err error) {
	req, err := http.NewRequestWithContext(ctx, cmp.Or(r.method, http.MethodGet), url, bytes.NewReader(r.body))
	if err != nil {
		return nil, nil, err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", cmp.Or(r.accept, "*/*"))
	if r.accept == noAccept {
		req.Header.Del("Accept")
	}
	if r.kind != "" {
		req.Header.Set("Content-Type", r.kind)
	}
	client := r.client
	if client == nil {
		client, req.Close = http.DefaultClient, true
	}
	if resp, err = client.Do(req); err != nil {
		return nil, nil, err
	}
	defer resp.Body.Close()
	if r.discard {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		body, err = io.ReadAll(resp.Body)
	}
	return resp, body, err
}

// noAccept sends no Accept header, like the original's client.
const noAccept = "none"

// get returns the body of an answer with status 200.
func (b *broker) get(url string) string {
	b.t.Helper()
	resp, body, err := b.ask(b.t.Context(), url, request{})
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %v %.300s %v\n%s", url, resp, body, err, b.Log())
	}
	return string(body)
}

// metric reads one metric.
func (b *broker) metric(name string) float64 {
	b.t.Helper()
	return field(b.t, b.get(b.url+"/metrics"), name+" ")
}

// field returns the number after prefix on the first line that starts with prefix.
func field(t *testing.T, text, prefix string) float64 {
	t.Helper()
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, prefix); ok {
			n := must.Get(strconv.ParseFloat(strings.TrimSpace(rest), 64))(t)
			return n
		}
	}
	t.Fatalf("no line %q in\n%.2000s", prefix, text)
	return 0
}

// alive fails the test if the broker has ended.
func (b *broker) alive() {
	b.t.Helper()
	select {
	case <-b.Done():
		b.t.Fatalf("the broker has ended\n%s", b.Log())
	default:
	}
}

// mib formats bytes.
func mib(n int64) string { return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20)) }
