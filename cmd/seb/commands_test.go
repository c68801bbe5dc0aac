package main_test

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/internal/engine/cluster"
	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/operate/v1"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

func TestHelpAndUsage(t *testing.T) {
	p := newWorkDir(t)
	r := p.run()
	if r.code != 0 || r.err != "" || !strings.Contains(r.out, "seb serve") {
		t.Errorf("bare seb: %d, %q, %q", r.code, r.out, r.err)
	}
	if r := p.run("version"); r.code != 0 || r.err != "" || !strings.HasPrefix(r.out, "seb ") {
		t.Errorf("version: %+v", r)
	}
	check.Containsf(t, p.must("exit-codes"), "3  serve: another broker", "exit-codes")
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := p.must("completion", shell); len(got) < 1000 {
			t.Errorf("completion %s: %d bytes", shell, len(got))
		}
	}
	for _, args := range [][]string{
		{"bogus"},
		{"produce"},
		{"consume", "a", "b"},
		{"serve", "--http-port", "x"},
		{"serve", "--bogus"},
		{"consume", "t", "--offset", "soon"},
		{"consume", "t", "--format", "xml"},
		{"consume", "t", "--since", "soon"},
		{"consume", "t", "--since", "1h", "--offset", "3"},
		{"consume", "t", "--since", "1h", "--group", "g"},
		{"consume", "t", "--where", "amount >"},
		{"consume", "t", "--where", ""},
		{"consume", "t", "--contains", ""},
		{"consume", "t", "--contains", "a", "--group", "g"},
		{"topic", "create", "t", "-s", "novalue"},
		{"serve", "--bucket", "./b", "--s3-bucket", "b"},
		{"benchmark", "-w", "0", "--format", "x"},
		{"benchmark", "--local-broker=false"},
		{"produce", "t", "--count", "5"},
		{"check-store", "nonsense"},
		{"produce", "t", "--address", "ftp://h"},
	} {
		p.refused(2, "", args...)
	}
	p.refused(1, "start one with `seb serve`", "consume", "t", "--address", "http://127.0.0.1:1")
}

func TestProduceAndConsume(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.refused(1, "unknown topic", "consume", "none")

	p.mustWith("b\na\n\nc", "produce", "lines")
	check.Equalf(t, p.must("consume", "lines"), "b\na\n\nc\n", "lines")
	check.Equalf(t, p.must("consume", "lines", "--offset", "1", "-n", "1"), "a\n", "one from offset 1")
	check.Equalf(t, p.must("consume", "lines", "--offset", "latest"), "", "from the end")
	for since, want := range map[string]string{"1h": "b\na\n\nc\n", "1970-01-01T00:00:00Z": "b\na\n\nc\n", "2100-01-01T00:00:00Z": ""} {
		check.Equalf(t, p.must("consume", "lines", "--since", since), want, "since %s", since)
	}
	check.Equalf(t, p.must("consume", "lines", "--format", "raw"), "bac", "raw")

	must.NoError(t, os.WriteFile(filepath.Join(p.dir, "f"), []byte("k1=v1\nk2=v2=x\nnokey\n"), 0o600))
	p.must("topic", "create", "keyed", "--partitions", "4")
	p.must("produce", "keyed", "f", "--key-separator", "=")
	got := strings.Split(strings.TrimRight(p.must("consume", "keyed", "--format", "key-value"), "\n"), "\n")
	slices.Sort(got)
	check.EqualSlicesf(t, got, []string{"\tnokey", "k1\tv1", "k2\tv2=x"}, "keyed")

	p.must("produce", "made", "--record-size", "1000", "--count", "12000")
	var info struct {
		Partitions []struct {
			Next int64 `json:"next_offset"`
		}
	}
	if err := json.Unmarshal([]byte(p.must("topic", "describe", "made", "--json")), &info); err != nil || info.Partitions[0].Next != 12000 {
		t.Errorf("made up: %+v, %v", info, err)
	}
}

func TestConsumeJSON(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.mustWith("k:text\nk:\xff\xfe\n", "produce", "t", "--key-separator", ":")
	lines := strings.Split(strings.TrimSpace(p.must("consume", "t", "--format", "json")), "\n")
	must.Equalf(t, len(lines), 2, "lines")
	for i, want := range []string{`"value":"text"`, `"value_base64":"//4="`} {
		var r struct {
			Offset, Timestamp int64
			Key               string
		}
		if err := json.Unmarshal([]byte(lines[i]), &r); err != nil || r.Offset != int64(i) || r.Key != "k" || r.Timestamp == 0 {
			t.Errorf("line %d: %+v, %v", i, r, err)
		}
		check.Containsf(t, lines[i], want, "line %d", i)
	}
}

func TestConsumeWithAFilter(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("topic", "create", "t", "--partitions", "2")
	for partition := range 2 {
		var in strings.Builder
		for i := range 3000 {
			fmt.Fprintf(&in, "k%d:{\"event\":\"e\",\"entity_id\":\"u%d\",\"data\":{\"n\":%d}}\n", i, partition, i)
		}
		p.mustWith(in.String(), "produce", "t", "-p", fmt.Sprint(partition), "--key-separator", ":")
	}
	for want, args := range map[string][]string{
		"k700 k700":   {"--where", "n = 700"},
		"k2999":       {"--where", `n >= 2999 AND entity_id = "u1"`},
		"k2998 k2999": {"--contains", ":299", "-w", `event = "e" AND n > 2997`, "-p", "0"},
		"k1234":       {"--contains", "k1234", "-n", "1"},
		"":            {"--contains", "nothing"},
	} {
		args = append([]string{"consume", "t", "--format", "key-value"}, args...)
		var keys []string
		for line := range strings.Lines(p.must(args...)) {
			key, _, _ := strings.Cut(line, "\t")
			keys = append(keys, key)
		}
		check.Equalf(t, strings.Join(keys, " "), want, "%v", args)
	}
	p.refused(2, `--where: 1:5: expected a number, "string", true, false or null, found 'x'`, "consume", "t", "--where", "a = x")
}

func TestConsumeIntoAPipe(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("produce", "t", "--record-size", "100", "--count", "50000")
	c := p.command("consume", "t")
	out := must.Get(c.StdoutPipe())(t)
	must.NoError(t, c.Start())
	must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	_ = out.Close() // like head -1
	check.Error(t, c.Wait(), "wrote 5 MB into a closed pipe")
}

func TestFollowPrintsNewRecords(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("topic", "create", "t", "--partitions", "2")
	c := p.command("consume", "t", "--follow", "--count", "3")
	var out sebtest.Log
	c.Stdout = &out
	must.NoError(t, c.Start())
	p.mustWith("a\n", "produce", "t", "-p", "0")
	waitFor(t, func() bool { return out.String() == "a\n" })
	p.mustWith("b\nc\nd\n", "produce", "t", "-p", "1")
	if err := c.Wait(); err != nil || out.String() != "a\nb\nc\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}

func TestTopicCommands(t *testing.T) {
	p := newWorkDir(t)
	p.serve()
	p.must("topic", "create", "orders", "--partitions", "2", "--setting", "retention-time=7d")
	p.refused(1, "topic exists", "topic", "create", "orders")
	p.refused(1, "unknown topic", "topic", "update", "none", "--partitions", "2")
	p.refused(1, "partitions", "topic", "update", "orders", "--partitions", "1")
	p.refused(1, "settings", "topic", "create", "other", "-s", "no-such-setting=1")
	p.refused(1, "topic-name", "topic", "create", "../../evil")
	p.must("topic", "update", "orders", "--partitions", "3", "-s", "retention-time=")
	if got := p.must("topic", "describe", "orders"); strings.Contains(got, "retention-time") || strings.Count(got, "never") != 3 {
		t.Errorf("describe: %s", got)
	}
	p.mustWith("x\n", "produce", "orders")
	check.Containsf(t, p.must("topic", "list"), "orders  3           1 ", "list")
	p.refused(2, "--yes", "topic", "delete", "orders")
	p.mustWith("{id: late, expr: a, topic: late-events}", "trigger", "apply", "-f", "-", "--yes")
	p.refused(1, "late; use force to delete it anyway", "topic", "delete", "late-events")
	p.must("topic", "delete", "late-events", "--force")
	sebtest.Eventually(t, "the list shows that the topic is missing", func() bool { return strings.Contains(p.must("trigger", "list"), "topic missing") })
	p.must("trigger", "delete", "late")
	p.must("topic", "delete", "triggers", "--yes")
	p.must("topic", "delete", "firings", "--yes")
	p.must("topic", "delete", "orders", "--yes")
	p.refused(1, "unknown topic", "topic", "delete", "orders")
	if got := p.must("topic", "list", "--json"); strings.TrimSpace(got) != "[]" {
		t.Errorf("list: %s", got)
	}
}

func TestInspect(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve()
	p.mustWith("k:hello\n", "produce", "t", "--key-separator", ":")
	p.must("topic", "trim", "t", "--before", "1", "--yes")
	b.term()
	bucket := filepath.Join(p.dir, "seb-bucket")
	all, bodies := walObjects(t, bucket)
	if len(all) < 3 {
		t.Fatalf("%d objects", len(all))
	}
	var shown string
	for i, key := range all {
		shown += p.must("inspect", key, "--records")
		check.Equalf(t, p.must("inspect", key), p.must("inspect", key, "--bucket", "file:"+bucket), "the default bucket is another")
		file := filepath.Join(p.dir, fmt.Sprint("object-", i))
		must.NoError(t, os.WriteFile(file, bodies[key], 0o600))
		check.Equalf(t, p.must("inspect", file), p.must("inspect", key), "%s is another object as a file", key)
	}
	for _, want := range []string{"seal", "next epoch 1", "topic create: t", "starts at offset 1", `key "k" value "hello"`, "all checksums are correct"} {
		if !strings.Contains(shown, want) {
			t.Errorf("no %q in: %s", want, shown)
		}
	}
	check.Containsf(t, p.must("inspect", "meta/cluster"), "cluster", "cluster")
	p.refused(1, "not found", "inspect", "s0000/wal/none")
	p.inspectRegistration()

	f := must.Get(os.Create(filepath.Join(p.dir, "000000000000.record_batch")))(t)
	must.NoError(t, v1.Encode(f, 1, [][]byte{[]byte("old"), []byte("records")}, true))
	must.NoError(t, f.Close())
	if got := p.must("inspect", "000000000000.record_batch", "-a", "-b", "4"); !strings.Contains(got, "2 records") || !strings.Contains(got, `"reco" [+3 bytes]`) {
		t.Errorf("version 1: %s", got)
	}
	damage(t, f.Name(), 20)
	p.refused(5, "corrupt", "inspect", f.Name())
}

func (p *workDir) inspectRegistration() {
	r := cluster.Registration{
		Run: cluster.Run{Node: record.ID{1}, ID: record.ID{2}}, Name: "host-1", Addresses: []string{"10.0.0.1:9093"}, URL: "http://10.0.0.1:9093",
		KafkaID: 77, KeyHash: [32]byte{3}, Version: "0.1.0", LevelMax: 6,
	}
	b, err := link.Encode(&r)
	file := filepath.Join(p.dir, "registration")
	if err = errors.Join(err, os.WriteFile(file, b, 0o600)); err != nil {
		p.t.Fatal(err)
	}
	shown := p.must("inspect", file)
	for _, want := range []string{"broker host-1", r.Run.ID.String(), "10.0.0.1:9093 (TLS: false)", "Kafka: none, node 77", "levels up to 6", "all checksums are correct"} {
		if !strings.Contains(shown, want) {
			p.t.Errorf("no %q in: %s", want, shown)
		}
	}
	damage(p.t, file, 30)
	p.refused(5, "not a valid registration", "inspect", file)
}

// TestBenchmarks covers the commands; benchmark_test.go tests the measurements.
func TestBenchmarks(t *testing.T) {
	p := newWorkDir(t)
	small := []string{"-r", "2", "-w", "3", "--batches", "12", "--record-size", "100", "--records-per-batch", "50", "--json"}
	for _, command := range [][]string{
		{"benchmark"},
		{"benchmark-read", "--requests", "20", "--records-per-request", "70", "--skew", "recent", "--bucket", "mem:", "--format", "recordbatch"},
	} {
		var r struct {
			Version    struct{ Go string }
			Runs       []struct{ Records int64 }
			Parameters map[string]any
		}
		out := p.must(append(command, small...)...)
		must.NoErrorf(t, json.Unmarshal([]byte(out), &r), "%v", command)
		if len(r.Runs) != 2 || r.Runs[1].Records < 12*50 || r.Version.Go == "" || r.Parameters["batcher_block_time_ns"] != 5e6 {
			t.Errorf("%v: %s", command, out)
		}
	}
	b := p.serve()
	remote := []string{"benchmark", "--remote-broker-address", b.address(), "--batches", "2", "--record-size", "10", "-b", "2"}
	p.refused(1, "unauthorized", append(remote, "--remote-broker-api-key", "wrong")...)
	key := must.Get(os.ReadFile(filepath.Join(p.dir, "seb-data", "api-key")))(t)
	p.env = append(p.env, "SEB_API_KEY="+strings.TrimSpace(string(key)))
	check.Containsf(t, p.must(remote...), "run 1", "remote")
}

func TestBenchmarkOfABareServerWithProfiles(t *testing.T) {
	p := newWorkDir(t)
	cpu, memory := filepath.Join(p.dir, "cpu"), filepath.Join(p.dir, "memory")
	got := p.must("benchmark", "--bare", "file", "--batches", "20", "--cpuprofile", cpu, "--memprofile", memory)
	check.Contains(t, got, "a bare server, file")
	for _, file := range []string{cpu, memory} {
		if b, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(b), "\x1f\x8b") {
			t.Errorf("%s: not a profile: %.20q, %v", file, b, err)
		}
	}
	p.refused(2, "--cpuprofile", "benchmark", "--cpuprofile", filepath.Join(p.dir, "no", "folder"))
}

func TestFailedRequestFailsTheBenchmark(t *testing.T) {
	sebtest.Long(t, "TestFailedRequestFailsTheRun remains")
	p := newWorkDir(t)
	r := p.run("benchmark", "--batches", "3", "--record-size", fmt.Sprint(40<<20), "-b", "1")
	if r.code != 1 || !strings.Contains(r.err, "413") {
		t.Errorf("exit code %d: %s", r.code, r.err)
	}
}
