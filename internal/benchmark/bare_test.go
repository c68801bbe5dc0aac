package benchmark_test

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/benchmark"
	"github.com/sebbroker/seb/test/must"
)

// TestBareServer: the bare server moves the requested data, its report says that it is not a
// broker, and it leaves no files.
func TestBareServer(t *testing.T) {
	dir := t.TempDir()
	for _, kind := range []string{benchmark.BareNone, benchmark.BareFile, benchmark.BareSync, ""} {
		p := small(benchmark.Multipart)
		p.Bare, p.BareDir, p.RecordSize = kind, dir, 20<<10 // fills a file of 10 MiB
		if kind == "" {
			p.Bare, p.Read = benchmark.BareFile, &benchmark.ReadParams{Requests: 20, RecordsPerRequest: 70, Skew: benchmark.Uniform}
		}
		out, closed, err := measure(t, p, benchmark.Options{JSON: true})
		if err != nil || closed != 0 {
			t.Fatalf("%q: %d brokers closed, %v", kind, closed, err)
		}
		var r struct {
			Of   string `json:"cpu_and_rss_of"`
			Runs []struct{ Records, Bytes int64 }
		}
		must.NoError(t, json.Unmarshal([]byte(out), &r))
		records := int64(12 * 50)
		if p.Read != nil {
			records = 20 * 70
		}
		if len(r.Runs) != 2 || r.Runs[0].Records != records || r.Runs[1].Bytes != records*20<<10 || r.Of != "bare server and load generator" {
			t.Errorf("%q: %s", kind, out)
		}
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 0 {
		t.Errorf("left %v, %v", left, err)
	}
}

func TestFaultsOfABareServerAreNamed(t *testing.T) {
	for want, change := range map[string]func(*benchmark.Params){
		"none, file, sync": func(p *benchmark.Params) { p.Bare = "disk" },
		`"none", want file`: func(p *benchmark.Params) {
			p.Bare, p.Read = benchmark.BareNone, &benchmark.ReadParams{Requests: 1, RecordsPerRequest: 1, Skew: benchmark.Recent}
		},
		"--bucket":                func(p *benchmark.Params) { p.Bare, p.Bucket = benchmark.BareFile, "mem:" },
		"--remote-broker-address": nil,
	} {
		p := small(benchmark.Multipart)
		if change == nil {
			p.Bare, p.RemoteAddress = benchmark.BareNone, "http://localhost:1"
		} else {
			change(&p)
		}
		if _, _, err := measure(t, p, benchmark.Options{}); err == nil || !strings.Contains(err.Error(), "--bare: ") || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q: %v", want, err)
		}
	}
}
