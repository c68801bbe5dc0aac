package torture

import (
	"flag"
	"fmt"
	"io"
	"io/fs"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var long = flag.Bool("long", false, "the long versions, as go run ./test/cmd/soak runs them")

const prefix = "soak"

// fixture is a bucket on a real S3 server behind a proxy, and a data directory for one broker at a
// time.
type fixture struct {
	t     *testing.T
	seb   string // the program
	dir   string
	proxy *testenv.S3Proxy
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	if !*long {
		t.Parallel()
	}
	proxy := testenv.CountedS3(t) // first, because it skips with -short
	return &fixture{t: t, seb: testenv.Program(t), dir: t.TempDir(), proxy: proxy}
}

func (p *fixture) dataDir() string { return filepath.Join(p.dir, "data") }

func (p *fixture) wipe() {
	must.NoError(p.t, os.RemoveAll(p.dataDir()))
}

// process is a broker that accepts requests.
type process struct {
	*testenv.Broker
	address string
	took    time.Duration // start time
}

// launch starts a broker.
func (p *fixture) launch(args ...string) *testenv.Broker {
	p.t.Helper()
	b := must.Get(testenv.Serve(p.seb, environment(apiKey), append([]string{
		"--bucket", p.proxy.Spec(prefix), "--data-dir", p.dataDir(), "--http-port", "0",
	}, args...)...))(p.t)
	p.t.Cleanup(b.Kill)
	return b
}

// serve starts a broker and waits until it accepts requests.
func (p *fixture) serve(args ...string) *process {
	p.t.Helper()
	begin := time.Now()
	b := p.launch(args...)
	address := must.Get(b.Address(p.dataDir()))(p.t)
	return &process{b, address, time.Since(begin)}
}

// objects are counts and bytes of the objects in the bucket, by part of the log.
type objects struct {
	count map[string]int
	bytes map[string]int64
}

func noObjects() objects { return objects{map[string]int{}, map[string]int64{}} }

// raise keeps the maximum of each number.
func (o objects) raise(p objects) {
	for part, n := range p.count {
		o.count[part] = max(o.count[part], n)
		o.bytes[part] = max(o.bytes[part], p.bytes[part])
	}
}

func (o objects) total() (n int) {
	for _, c := range o.count {
		n += c
	}
	return n
}

func (o objects) String() string {
	return fmt.Sprintf("%d objects: %d slots, %d packs, %d snapshots; %.1f MiB", o.total(), o.count["wal"], o.count["pack"],
		o.count["snap"], float64(o.bytes["wal"]+o.bytes["pack"]+o.bytes["snap"])/(1<<20))
}

// objects reads the server's folder, without requests. Objects that appear or disappear meanwhile
// may be counted.
func (p *fixture) objects() objects {
	o := noObjects()
	root := p.proxy.Folder(prefix)
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil // deleted meanwhile
		}
		info, err := d.Info()
		if err != nil {
			return nil
		}
		part := "other"
		for _, known := range []string{"wal", "pack", "snap", "probe"} {
			if strings.Contains(path, "/"+known+"/") {
				part = known
			}
		}
		o.count[part]++
		o.bytes[part] += info.Size()
		return nil
	})
	return o
}

// newestSnapshot returns the position of the newest snapshot in the bucket; zeros if there is none.
func (p *fixture) newestSnapshot() (epoch uint32, slot uint64) {
	all, _ := os.ReadDir(filepath.Join(p.proxy.Folder(prefix), "s0000", "snap"))
	if len(all) == 0 {
		return 0, 0
	}
	// Names count down from the largest number, so that the newest sorts first.
	must.NoErrorf(p.t, check.Err(fmt.Sscanf(all[0].Name(), "%d-%d-", &epoch, &slot)), "snapshot %s", all[0].Name())
	return math.MaxUint32 - epoch, math.MaxUint64 - slot
}

// metrics returns a broker's metrics as text.
func (p *fixture) metrics(b *process) (string, error) {
	r, err := http.NewRequestWithContext(p.t.Context(), http.MethodGet, b.address+"/metrics", http.NoBody)
	if err != nil {
		return "", err
	}
	r.Header.Set("Authorization", "Bearer "+apiKey)
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	return string(text), err
}

// value returns the value of a metric, 0 if it is missing.
func value(metrics, name string) (v float64) {
	for line := range strings.Lines(metrics) {
		if n, number, ok := strings.Cut(strings.TrimSpace(line), " "); ok && n == name {
			v, _ = strconv.ParseFloat(number, 64)
		}
	}
	return v
}
