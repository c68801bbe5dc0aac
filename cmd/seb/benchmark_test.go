package main_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/benchmark"
	"github.com/sebbroker/seb/internal/operate/config"
	"github.com/sebbroker/seb/internal/operate/server"
	"github.com/sebbroker/seb/internal/triggers/secrets"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// named is the version in the results.
type named struct {
	Name string `json:"name"`
}

func (n named) String() string { return n.Name }

// inMemory starts a real broker in memory.
func inMemory(ctx context.Context, dir string) (*server.Server, error) {
	cfg := config.Default()
	cfg.DataDir, cfg.Bucket, cfg.HTTP.Port, cfg.MemoryLimit = dir, "mem:", 0, 64<<20
	return server.Start(ctx, cfg, slog.New(slog.DiscardHandler))
}

// measure calls package benchmark: it runs p on new brokers, and returns the report and the number of closed brokers.
func measure(t *testing.T, p benchmark.Params, o benchmark.Options) (out string, closed int, err error) {
	t.Helper()
	var b bytes.Buffer
	o.Out, o.Version = &b, named{"seb of this test"}
	o.Start = func(ctx context.Context, p *benchmark.Params) (benchmark.Broker, error) {
		srv, err := inMemory(ctx, t.TempDir())
		if err != nil {
			return benchmark.Broker{}, err
		}
		return benchmark.Broker{URL: srv.URL(), Key: srv.APIKey(), Close: func() error { closed++; return srv.Close(ctx) }}, nil
	}
	err = benchmark.Run(t.Context(), p, o)
	return b.String(), closed, err
}

func small(format string) benchmark.Params {
	return benchmark.Params{
		Runs: 2, Workers: 3, LocalBroker: true, Batches: 12, RecordSize: 100, RecordsPerBatch: 50, Format: format,
		BatcherBlockTime: time.Millisecond, BatcherMaxBytes: 1 << 20, MemoryLimit: 64 << 20,
	}
}

func TestMovedRecordsAreCounted(t *testing.T) {
	for _, format := range []string{benchmark.Multipart, benchmark.RecordBatch}[:sebtest.Runs(2, 1)] {
		for _, read := range []*benchmark.ReadParams{
			nil,
			{Requests: 20, RecordsPerRequest: 70, Skew: benchmark.Uniform},
			{Requests: 20, RecordsPerRequest: 70, Skew: benchmark.Recent},
		} {
			p := small(format)
			p.Read = read
			out, closed, err := measure(t, p, benchmark.Options{JSON: true})
			if err != nil || closed != 2 {
				t.Fatalf("%s %+v: %d brokers closed, %v", format, read, closed, err)
			}
			var r struct {
				Benchmark        string
				Version          named
				RecordsPerSecond float64 `json:"records_per_second"`
				CPU              float64 `json:"cpu_us_per_record"`
				RSS              int64   `json:"rss_max_bytes"`
				Of               string  `json:"cpu_and_rss_of"`
				Runs             []struct{ Records, Requests, Bytes int64 }
				Parameters       map[string]any
				Machine          struct{ Cores int }
			}
			must.NoErrorf(t, json.Unmarshal([]byte(out), &r), "%s", out)
			kind, requests, records := "write", int64(12), int64(12*50)
			if read != nil {
				kind, requests, records = "read", 20, 20*70
			}
			if r.Benchmark != kind || len(r.Runs) != 2 || r.Runs[1].Requests != requests || r.Runs[1].Records != records || r.Runs[1].Bytes != records*100 {
				t.Errorf("%s %+v: %s", format, read, out)
			}
			if r.RecordsPerSecond <= 0 || r.CPU <= 0 || r.RSS < 1<<20 || r.Machine.Cores < 1 || r.Version.Name != "seb of this test" ||
				r.Parameters["format"] != format || r.Parameters["bucket"] != "temporary folder" || r.Of != "broker and load generator" {
				t.Errorf("%s %+v: %s", format, read, out)
			}
		}
	}
}

func TestRemoteBrokerIsUnchanged(t *testing.T) {
	srv := must.Get(inMemory(t.Context(), t.TempDir()))(t)
	defer srv.Close(context.Background())
	p := small(benchmark.Multipart)
	p.RemoteAddress, p.RemoteKey = srv.URL(), "wrong"
	if _, _, err := measure(t, p, benchmark.Options{}); !errors.Is(err, client.ErrUnauthorized) {
		t.Errorf("wrong key: %v", err)
	}
	p.RemoteKey = secrets.Text(srv.APIKey())
	out, started, err := measure(t, p, benchmark.Options{})
	if err != nil || started != 0 {
		t.Fatalf("%d local brokers, %v", started, err)
	}
	for _, want := range []string{"benchmark   write, ", "version     seb of this test", "against     broker " + srv.URL() + ", multipart", "run 2 ", "total ", "(load generator)"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is missing in:\n%s", want, out)
		}
	}
	c := must.Get(client.New(srv.URL(), client.Options{APIKey: srv.APIKey()}))(t)
	defer c.Close()
	if topics, err := c.Topics(t.Context()); err != nil || len(topics) != 0 {
		t.Errorf("left %v, %v", topics, err)
	}
}

func TestFailedRequestFailsTheRun(t *testing.T) {
	p := small(benchmark.Multipart)
	p.RecordSize, p.RecordsPerBatch, p.Batches = 10<<20, 1, 3 // over the limit of one request
	if out, closed, err := measure(t, p, benchmark.Options{}); err == nil || !strings.Contains(err.Error(), "run 1 failed: request ") || !strings.Contains(err.Error(), "413") || closed != 1 {
		t.Errorf("%d brokers closed, %v\n%s", closed, err, out)
	}
}

func TestAllParamErrorsAreReported(t *testing.T) {
	p := benchmark.Params{Workers: -1, Format: "x", Read: &benchmark.ReadParams{RecordsPerRequest: 5, Skew: "y"}}
	out, _, err := measure(t, p, benchmark.Options{})
	if err == nil || out != "" {
		t.Fatalf("%v, %s", err, out)
	}
	for _, flag := range []string{"runs", "workers", "batches", "record-size", "records-per-batch", "format", "remote-broker-address", "requests", "skew", "records-per-request"} {
		check.Containsf(t, err.Error(), "--"+flag+": ", "--%s is missing in the error: %v", flag, err)
	}
}

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
