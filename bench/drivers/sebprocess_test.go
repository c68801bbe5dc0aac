package drivers

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/bench/sut"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestDurabilityOfBucket(t *testing.T) {
	for bucket, want := range map[string]sut.Durability{
		"mem:": sut.Memory, "s3://b/p?endpoint=http://127.0.0.1:1": sut.ObjectStore, "./folder": sut.Fsync, "file:/x": sut.Fsync,
		"file:/x?fsync=false": sut.PageCache,
	} {
		check.Equalf(t, durabilityOf(bucket), want, "%s", bucket)
	}
}

// TestBucketOfProcess starts a shell with a broker's flags.
func TestBucketOfProcess(t *testing.T) {
	c := exec.Command("sh", "-c", "echo; read line", "serve", "--bucket", "mem:", "--http-api-key=secret", "--read-only", "--batch-wait-time", "5ms")
	in := must.Get(c.StdinPipe())(t)
	out := must.Get(c.StdoutPipe())(t)
	must.NoError(t, c.Start())
	// The kernel shows its arguments slightly after its start.
	must.Get(out.Read(make([]byte, 1)))(t)
	defer func() {
		_ = in.Close()
		_ = c.Wait()
	}()
	settings := map[string]string{}
	bucket, err := bucketOf("", c.Process.Pid, settings)
	if err != nil || bucket != "mem:" {
		t.Errorf("bucket %q, %v", bucket, err)
	}
	check.Equalf(t, settings["broker batch-wait-time"], "5ms", "settings: %v", settings)
	for name, value := range settings {
		if strings.Contains(name+value, "secret") || strings.Contains(name, "api-key") {
			t.Errorf("a secret: %s=%s", name, value)
		}
	}
	if given, err := bucketOf("s3://x", c.Process.Pid, settings); err != nil || given != "s3://x" {
		t.Errorf("as given: %q, %v", given, err)
	}
}

func TestUnknownBucket(t *testing.T) {
	check.ErrorContains(t, check.Err(bucketOf("", 0, nil)), `option "bucket"`)
	const none = 1 << 30 // above the limit of Linux
	check.Error(t, check.Err(bucketOf("", none, map[string]string{})), "no error")
	if bucket, err := bucketOf("mem:", none, map[string]string{}); err != nil || bucket != "mem:" {
		t.Errorf("as given: %q, %v", bucket, err)
	}
}

func TestVersionOfProcess(t *testing.T) {
	check.Containsf(t, versionOf(os.Getpid()), "go1.", "version")
	check.Equalf(t, versionOf(1<<30), "", "of no process")
}

func TestEventsAreParsed(t *testing.T) {
	var e eventReader
	for data, want := range map[string]string{
		`{"offset":7,"value":"text"}`:            "text",
		`{"offset":7,"value_base64":"AAEC/w=="}`: "\x00\x01\x02\xff",
		" {\"offset\":7,\"timestamp\":1,\"key\":\",\\\"value_base64\\\":\\\"AA==\",\"value_base64\":\"AAEC/w==\"}\n": "\x00\x01\x02\xff",
		`{"offset":7,"value":"text","headers":[{"key":"k","value_base64":"AAEC/w=="}]}`:                              "text",
		`{"offset":7,"value_base64":"AAEC/w==","headers":[{"key":"k","value_base64":"/w=="}]}`:                       "\x00\x01\x02\xff",
		`{"offset":7,"value_base64":"AAEC\/w=="}`:                                                                    "\x00\x01\x02\xff",
	} {
		r, err := e.parse([]byte(data))
		if err != nil || r.Offset != 7 || string(r.Value) != want {
			t.Errorf("%s: %+v, %v", data, r, err)
		}
	}
	for _, data := range []string{`{"value":"no offset"}`, `{"offset":`, `[]`, `{"offset":7,"value_base64":"?"}`, `{"offset":x,"value_base64":"AA=="}`} {
		check.Error(t, check.Err(e.parse([]byte(data))), "%s: no error", data)
	}
}

func TestLinesOfAnyLength(t *testing.T) {
	want := []string{"\n", strings.Repeat("a", 20) + "\n", strings.Repeat("b", 100) + "\n", "c\n", strings.Repeat("d", 40) + "\n"}
	in := bufio.NewReaderSize(strings.NewReader(strings.Join(want, "")+"no end"), 16)
	var e eventReader
	for _, w := range want {
		if line, err := e.line(in); err != nil || string(line) != w {
			t.Errorf("%q, %v, want %q", line, err, w)
		}
	}
	if line, err := e.line(in); err != io.EOF {
		t.Errorf("%q, %v at the end", line, err)
	}
}

func TestSharing(t *testing.T) {
	var s sharing
	for i := range 2 {
		if n, err := s.join(&sut.Config{}); n != i || err != nil {
			t.Fatal(n, err)
		}
	}
	parts := []sebPart{{0, 0}, {1, 0}, {2, 0}}
	first, second := s.share(0, parts), s.share(1, parts)
	if len(first) != 2 || first[1].partition != 2 || len(second) != 1 || second[0].partition != 1 {
		t.Errorf("%v, %v", first, second)
	}
	check.Error(t, check.Err(s.join(&sut.Config{})), "late, and not refused")
}

func TestSharingAcrossProcesses(t *testing.T) {
	var s sharing
	c := sut.Config{Group: &sut.ProcessGroup{Subscribers: []int{1, 3}, SubscribersAll: 4}}
	var members []int
	for range c.Group.Subscribers {
		n := must.Get(s.join(&c))(t)
		members = append(members, n)
	}
	var own []int32
	for _, n := range members {
		for _, p := range s.share(n, []sebPart{{0, 0}, {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 0}}) {
			own = append(own, p.partition)
		}
	}
	check.EqualSlicesf(t, own, []int32{1, 5, 3}, "members %v have partitions, want 1 and 5, and 3", members)
}

func TestLocalBrokerIsFound(t *testing.T) {
	dir := t.TempDir()
	write := func(a announced) {
		b, err := json.Marshal(a)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, "broker.json"), b, 0o600)
		}
		must.NoError(t, err)
	}
	local := announced{Address: "http://127.0.0.1:1", Key: "k", Bucket: "file:/b", PID: os.Getpid()}
	write(local)
	for name, c := range map[string]struct{ given, want *sebHTTP }{
		"nothing given": {&sebHTTP{}, &sebHTTP{c: sut.Config{Address: local.Address}, key: "k", bucket: "file:/b"}},
		"another address": {
			&sebHTTP{c: sut.Config{Address: "http://other:1"}},
			&sebHTTP{c: sut.Config{Address: "http://other:1"}},
		},
		"the key given": {&sebHTTP{key: "x"}, &sebHTTP{c: sut.Config{Address: local.Address}, key: "x", bucket: "file:/b"}},
		"a process":     {&sebHTTP{c: sut.Config{PID: 7}}, &sebHTTP{c: sut.Config{Address: local.Address, PID: 7}, key: "k"}},
	} {
		s := &sebHTTP{c: c.given.c, key: c.given.key, bucket: c.given.bucket}
		s.useLocal(dir)
		if s.c.Address != c.want.c.Address || s.key != c.want.key || s.bucket != c.want.bucket {
			t.Errorf("%s: address %q key %q bucket %q", name, s.c.Address, s.key, s.bucket)
		}
	}
	local.PID = 1 << 30 // it was killed
	write(local)
	s := new(sebHTTP)
	if s.useLocal(dir); s.c.Address != "" {
		t.Errorf("a broker that has ended is used: %s", s.c.Address)
	}
}
