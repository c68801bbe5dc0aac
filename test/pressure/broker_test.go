package pressure

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/test/testenv"
)

const key = "pressure-key"

// broker is a `seb serve` with 64 MiB, on a real S3 server behind a proxy that can delay answers.
type broker struct {
	*testenv.Broker
	t     *testing.T
	url   string
	addr  string
	debug string // address of pprof
	store *testenv.S3Proxy
	cell  *cell
	again func() error // starts another process on the same bucket and data directory

	fresh   held          // before any load
	stop    chan struct{} // ends the sampling
	sampled sync.WaitGroup
	// program is the page cache of the process after its start: mostly the program itself.
	program int64
	most    int64 // peak of memory that the kernel could not reclaim; valid after sampled
}

func start(t *testing.T, args ...string) *broker {
	t.Helper()
	server := testenv.S3ForTest(t)
	proxy, err := testenv.NewS3Proxy(server.Endpoint)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(proxy.Close)
	b := &broker{t: t, store: proxy, cell: newCell(t, limit), debug: freeAddress(t), stop: make(chan struct{})}
	_, debugPort, err := net.SplitHostPort(b.debug)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	env := []string{
		"AWS_ACCESS_KEY_ID=" + testenv.AccessKey, "AWS_SECRET_ACCESS_KEY=" + testenv.SecretKey, "SEB_API_KEY=" + key,
	}
	args = append([]string{
		"--bucket", proxy.Spec("pressure"), "--data-dir", dir, "--http-port", "0", "--memory-limit", strconv.Itoa(limit),
		"--http-connections", "100000", "--http-debug-enable", "--http-debug-port", debugPort,
	}, args...)
	b.again = func() (err error) {
		if b.Broker, err = testenv.Serve(b.cell.wrap(seb), env, args...); err != nil {
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
	if err := b.again(); err != nil {
		t.Fatal(err)
	}
	b.produce("first", 0)
	b.fresh = b.held()
	return b
}

func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// status returns a number of bytes in /proc/PID/status.
func (b *broker) status(field string) int64 {
	b.t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", b.Pid()))
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.Log())
	}
	n, ok := statusField(string(text), field)
	if !ok {
		b.t.Fatalf("process status has no %s", field)
	}
	return n
}

func statusField(text, field string) (bytes int64, ok bool) {
	for line := range strings.Lines(text) {
		if rest, found := strings.CutPrefix(line, field+":"); found {
			kib, err := strconv.ParseInt(strings.Fields(rest)[0], 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// get returns the body of an answer with status 200.
func (b *broker) get(url string) string {
	b.t.Helper()
	req, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Accept", "*/*")
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatalf("%v\n%s", err, b.Log())
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		b.t.Fatalf("%s: %d %.300s %v", url, resp.StatusCode, body, err)
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
			n, err := strconv.ParseFloat(strings.TrimSpace(rest), 64)
			if err != nil {
				t.Fatal(err)
			}
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
