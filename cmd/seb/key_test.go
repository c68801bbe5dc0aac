package main_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// keyLine is a line of --json.
type keyLine struct {
	Key       *string
	KeyBase64 *string `json:"key_base64"`
	Value     *string
	Partition int
	Offset    int64
	Timestamp int64
}

func keyLines(t *testing.T, out string) (list []keyLine) {
	t.Helper()
	for line := range strings.Lines(out) {
		var l keyLine
		if err := json.Unmarshal([]byte(line), &l); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, l)
	}
	return list
}

// keyedWorkDir has a broker with a compacted topic users: u000 to u249, of which u007 was deleted
// and u008 was written twice, an empty key, one with a long value, and a binary one.
func keyedWorkDir(t *testing.T) *workDir {
	p := newWorkDir(t)
	b := p.serve()
	p.must("topic", "create", "users", "--partitions", "3", "-s", "cleanup-policy=compact")
	var in strings.Builder
	for i := range 250 {
		fmt.Fprintf(&in, "{\"key\":\"u%03d\",\"value\":\"first\"}\n", i)
	}
	in.WriteString(`{"key":"","value":"of the empty key"}` + "\n" + `{"key":"a b","value":"` + strings.Repeat("long ", 30) + `"}` + "\n" +
		`{"key_base64":"//4=","value":"two\nlines"}` + "\n" + `{"key":"u007","value":null}` + "\n" + `{"key":"u008","value":"second"}` + "\n")
	p.call(b, "POST", "/records?topic-name=users", "application/x-ndjson", in.String())
	waitFor(t, func() bool { // the index follows with a short delay
		return p.run("key", "get", "users", "u008").out == "second\n" && strings.Count(p.must("key", "list", "users", "-n", "0"), "\n") == 253
	})
	return p
}

func TestKeyGet(t *testing.T) {
	p := keyedWorkDir(t)

	get := func(args ...string) string {
		t.Helper()
		return p.must(append([]string{"key", "get", "users"}, args...)...)
	}
	check.Equal(t, get("u001"), "first\n")
	check.Equal(t, get(""), "of the empty key\n")
	check.Equal(t, get("--base64", "//4="), "two\nlines\n")
	if l := keyLines(t, get("u008", "--json")); len(l) != 1 || *l[0].Key != "u008" || *l[0].Value != "second" || l[0].Timestamp == 0 {
		t.Errorf("%+v", l)
	}
	p.refused(1, "tombstone", "key", "get", "users", "u007")
	p.refused(1, "seb key list", "key", "get", "users", "unknown")
	p.refused(1, "--wait", "key", "get", "users", "u001", "-p", "0", "--min-offset", "100000", "--wait", "10ms")
	p.refused(2, "base64", "key", "get", "users", "--base64", "*")
	p.must("topic", "create", "plain")
	p.refused(1, "seb topic update plain -s key-index=true", "key", "get", "plain", "k")
}

func TestKeyListAndHistory(t *testing.T) {
	p := keyedWorkDir(t)

	out := p.run("key", "list", "users")
	if strings.Count(out.out, "\n") != 101 || !strings.HasPrefix(out.out, "KEY ") || !strings.Contains(out.err, `continue with --after "u098"`) {
		t.Errorf("%s\n%s", out.out, out.err)
	}
	if lines := strings.Split(out.out, "\n"); !strings.HasPrefix(lines[1], `""  `) || !strings.HasPrefix(lines[2], "a b ") {
		t.Errorf("%s", out.out)
	}
	all := keyLines(t, p.must("key", "list", "users", "--limit", "0", "--json"))
	if len(all) != 252 || *all[0].Key != "" || *all[251].KeyBase64 != "//4=" {
		t.Errorf("%d keys, %+v", len(all), all)
	}
	if got := keyLines(t, p.must("key", "list", "users", "--prefix", "u1", "--after", "u197", "--json", "-n", "5")); len(got) != 2 || *got[0].Key != "u198" {
		t.Errorf("%+v", got)
	}
	if got := p.run("key", "list", "users", "--prefix", "u1", "-n", "100"); strings.Count(got.out, "\n") != 101 || got.err != "" {
		t.Errorf("%s\n%s", got.out, got.err)
	}

	h := p.must("key", "history", "users", "u007")
	if lines := strings.Split(h, "\n"); len(lines) != 4 || !strings.HasSuffix(lines[1], "  (deleted)") || !strings.HasSuffix(lines[2], "  first") {
		t.Errorf("%s", h)
	}
	if l := keyLines(t, p.must("key", "history", "users", "u008", "--order", "oldest", "--json")); len(l) != 2 || *l[0].Value != "first" || *l[1].Value != "second" {
		t.Errorf("%+v", l)
	}
	if got := p.run("key", "history", "users", "u008", "-n", "1"); !strings.Contains(got.out, "second") || strings.Contains(got.out, "first") || !strings.Contains(got.err, "more entries exist") {
		t.Errorf("%s\n%s", got.out, got.err)
	}
	if got := p.must("key", "history", "users", "a b"); !strings.Contains(got, "long long") || !strings.Contains(got, "(150 bytes)") {
		t.Errorf("%s", got)
	}
	p.refused(2, "--order", "key", "history", "users", "u008", "--order", "up")
	p.refused(2, "--limit", "key", "list", "users", "-n", "-1")

	p.refused(1, "unknown topic", "key", "list", "none")
}

// call sends a request to a broker and returns the answer.
func (p *workDir) call(b *running, method, path, kind, body string) string {
	p.t.Helper()
	key := must.Get(os.ReadFile(filepath.Join(p.dir, "seb-data", "api-key")))(p.t)
	req := must.Get(http.NewRequest(method, b.address()+path, strings.NewReader(body)))(p.t)
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(key)))
	req.Header.Set("Content-Type", kind)
	req.Header.Set("Accept", "*/*")
	resp := must.Get(http.DefaultClient.Do(req))(p.t)
	defer resp.Body.Close()
	out, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode/100 != 2 {
		p.t.Fatalf("%s %s: %s %s %v", method, path, resp.Status, out, err)
	}
	return string(out)
}

func TestKeyCommandIsInterrupted(t *testing.T) {
	p := newWorkDir(t)
	b := p.serve()
	p.must("topic", "create", "t", "-s", "key-index=true")
	connections := func(n string) bool { // p.call has one of them
		return strings.Contains(p.call(b, "GET", "/metrics", "", ""), "seb_http_connections "+n+"\n")
	}
	waitFor(t, func() bool { return connections("1") }) // that of topic create has ended
	c := p.command("key", "list", "t", "--min-offset", "5", "--wait", "5m")
	var out, fault sebtest.Log
	c.Stdout, c.Stderr = &out, &fault
	must.NoError(t, c.Start())
	done := make(chan struct{})
	go func() {
		_ = c.Wait()
		close(done)
	}()
	waitFor(t, func() bool { // it waits on its own connection
		select {
		case <-done:
			t.Fatalf("ended too early: %s%s", out.String(), fault.String())
		default:
		}
		return connections("2")
	})
	_ = c.Process.Signal(syscall.SIGINT)
	<-done
	if code := c.ProcessState.ExitCode(); code != 130 || strings.Count(fault.String(), "\n") != 1 {
		t.Errorf("exit code %d: %s", code, fault.String())
	}
}
