package interop

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/kafkatest"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// toxiproxyVersion is the version that sarama uses for its suite.
const toxiproxyVersion = "2.12.0"

// saramaPort is the first of the five fixed ports of the suite.
const saramaPort = 29091

// saramaKafka is the version of Kafka that the suite assumes, that of package differential.
const saramaKafka = "4.3.1"

// saramaSuite builds the functional tests of the sarama that testdata/sarama uses, and toxiproxy.
// The folder dir has the suite and the names of its tests.
func saramaSuite(ctx context.Context) (dir, toxiproxy string, err error) {
	version, err := testenv.Command(ctx, "testdata/sarama", "go", "list", "-m", "-f", "{{.Version}}", "github.com/IBM/sarama")
	if err != nil {
		return "", "", err
	}
	version = strings.TrimSpace(version)
	dir, err = testenv.Install("interop/sarama-suite-"+version, "the functional tests of sarama "+version, func(dir string) error {
		text, err := testenv.Command(ctx, "testdata/sarama", "go", "mod", "download", "-json", "github.com/IBM/sarama")
		if err != nil {
			return err
		}
		var module struct{ Dir string }
		if err := json.Unmarshal([]byte(text), &module); err != nil {
			return err
		}
		source := filepath.Join(dir, "source") // Go does not build in the module cache
		if err := os.CopyFS(source, os.DirFS(module.Dir)); err != nil {
			return err
		}
		names, err := functionalTests(source)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(dir, "names"), []byte(strings.Join(names, "\n")+"\n"), 0o600); err != nil {
			return err
		}
		_, err = testenv.Command(ctx, source, "go", "test", "-c", "-tags", "functional", "-o", filepath.Join(dir, "suite"), ".")
		return errors.Join(err, os.RemoveAll(source))
	})
	if err != nil {
		return "", "", err
	}
	proxy, err := testenv.Install("interop/toxiproxy-"+toxiproxyVersion, "toxiproxy "+toxiproxyVersion, func(dir string) error {
		c := exec.CommandContext(ctx, "go", "install", "github.com/Shopify/toxiproxy/v2/cmd/server@v"+toxiproxyVersion)
		c.Env = append(os.Environ(), "GOBIN="+dir)
		out, err := c.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, out)
		}
		return err
	})
	return dir, filepath.Join(proxy, "server"), err
}

var testFunction = regexp.MustCompile(`(?m)^func (Test\w+)\(\w+ \*testing\.T\)`)

// functionalTests returns the names of the tests that only a build with the tag functional has.
func functionalTests(source string) ([]string, error) {
	files, err := filepath.Glob(filepath.Join(source, "*_test.go"))
	if err != nil {
		return nil, err
	}
	var names []string
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if !bytes.HasPrefix(text, []byte("//go:build functional\n")) {
			continue
		}
		for _, m := range testFunction.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names, nil
}

// authenticator returns an address for clients without a key: it forwards their connections and
// authenticates them.
func authenticator(t *testing.T, broker string) (address string) {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx := t.Context()
	var all sync.WaitGroup
	t.Cleanup(func() {
		_ = l.Close()
		all.Wait()
	})
	all.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			all.Go(func() {
				defer client.Close()
				server, err := new(net.Dialer).DialContext(ctx, "tcp", broker)
				if err != nil {
					return
				}
				defer server.Close()
				if err := (&kafkatest.Conn{Conn: server}).Login(ctx, testenv.InteropKey); err != nil {
					t.Error(err)
					return
				}
				done := make(chan struct{}, 2)
				for _, to := range [][2]net.Conn{{client, server}, {server, client}} {
					all.Go(func() {
						_, _ = io.Copy(to[0], to[1])
						done <- struct{}{}
					})
				}
				<-done // if either side ends, the connection ends
			})
		}
	})
	return l.Addr().String()
}

// proxies starts a toxiproxy with proxies kafka1 to kafka5 in front of an address, at the ports of
// the suite. It returns the URL of its API.
func proxies(t *testing.T, path, upstream string) string {
	t.Helper()
	type proxy struct {
		Name     string `json:"name"`
		Listen   string `json:"listen"`
		Upstream string `json:"upstream"`
		Enabled  bool   `json:"enabled"`
	}
	var list []proxy
	for i := range 5 {
		list = append(list, proxy{fmt.Sprintf("kafka%d", i+1), fmt.Sprintf("127.0.0.1:%d", saramaPort+i), upstream, true})
	}
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	address := l.Addr().String()
	_ = l.Close()
	host, port, _ := net.SplitHostPort(address)
	p := must.Get(testenv.StartProgram(path, []string{"LOG_LEVEL=error"}, nil, "-host", host, "-port", port))(t)
	t.Cleanup(p.Kill)
	text, err := json.Marshal(list)
	must.NoError(t, err)
	for range 100 {
		var resp *http.Response
		if resp, err = http.Post("http://"+address+"/populate", "application/json", bytes.NewReader(text)); err == nil {
			said, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			must.Equalf(t, resp.StatusCode, http.StatusCreated, "toxiproxy on the ports from %d: %s", saramaPort, said)
			return "http://" + address
		}
		time.Sleep(50 * time.Millisecond)
	}
	t.Fatal(err, p.Log())
	return ""
}

// suiteLine matches a line of the suite that names the test of the next lines, or gives a test's
// result. Subtests are ignored.
var suiteLine = regexp.MustCompile(`^\x16(?:=== [A-Z]+ +([^/\s]*)\S*|--- (PASS|FAIL|SKIP): ([^/\s]+) \(.*)$`)

// outcome is the result of a test of the suite, and the end of its output.
type outcome struct{ end, said string }

// runSuite runs tests of the suite.
func runSuite(t *testing.T, suite, dir, url string, names []string) map[string]*outcome {
	t.Helper()
	c := exec.CommandContext(t.Context(), suite, "-test.v=test2json", "-test.timeout="+suiteMax.String(),
		"-test.run=^("+strings.Join(names, "|")+")$")
	c.Dir = dir
	// Without a PATH there is no docker, which some of the tests use to stop a broker.
	c.Env = []string{"TOXIPROXY_ADDR=" + url, "KAFKA_VERSION=" + saramaKafka}
	out, err := c.CombinedOutput()
	all, now := map[string]*outcome{}, ""
	for line := range strings.Lines(string(out)) {
		m := suiteLine.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if m != nil && m[2] == "" {
			now = m[1]
			continue
		}
		if m != nil {
			now = m[3]
		}
		if all[now] == nil {
			all[now] = &outcome{}
		}
		if m != nil {
			all[now].end = m[2]
		}
		all[now].said += line
	}
	if exit := (*exec.ExitError)(nil); err != nil && (!errors.As(err, &exit) || exit.ExitCode() != 1) {
		t.Errorf("the suite: %v\n%s", err, out[max(0, len(out)-saidMax):])
	}
	return all
}

const (
	// suiteMax bounds a run of the suite, which needs five minutes.
	suiteMax = 15 * time.Minute
	// saidMax bounds the output of a test in the log.
	saidMax = 3000
)

// TestSaramaSuite runs sarama's own functional tests against one broker, unmodified. They expect
// five Kafkas behind toxiproxy, without a password; the proxies lead to an authenticator. saramaNot
// lists those that cannot pass.
func TestSaramaSuite(t *testing.T) {
	testenv.InteropWanted(t)
	dir, toxiproxy := must.Get2(saramaSuite(t.Context()))(t)
	text := must.Get(os.ReadFile(filepath.Join(dir, "names")))(t)
	all := strings.Fields(string(text))
	if len(all) != saramaTests {
		t.Errorf("the suite has %d tests, want %d: check the new ones, and update saramaTests", len(all), saramaTests)
	}
	for name, x := range saramaNot {
		if !slices.Contains(all, name) {
			t.Errorf("%s is listed (%s), but the suite has no such test", name, x.reason)
		}
	}

	// As in Kafka's settings for the suite, requests do not create topics.
	b := testenv.ServeInterop(t, "--kafka-advertise", fmt.Sprintf("127.0.0.1:%d", saramaPort), "--auto-create-topics=false")
	url := proxies(t, toxiproxy, authenticator(t, b.Address))
	begin := time.Now()
	suite := filepath.Join(dir, "suite")
	ends := runSuite(t, suite, b.Dir, url, all)
	// A test that fails for lack of time is repeated, as in sarama's own Makefile.
	var again []string
	for _, name := range all {
		if x := ends[name]; x != nil && x.end == "FAIL" && saramaNot[name].end == "" {
			t.Logf("%s failed and is run again:\n%s", name, x.said[max(0, len(x.said)-saidMax):])
			again = append(again, name)
		}
	}
	if len(again) > 0 {
		maps.Copy(ends, runSuite(t, suite, b.Dir, url, again))
	}

	counts := map[string]int{}
	for _, name := range all {
		x, listed := ends[name], saramaNot[name]
		if x == nil || x.end == "" {
			t.Errorf("%s has no result", name)
			continue
		}
		counts[x.end]++
		want := cmp.Or(listed.end, "PASS")
		if x.end == want {
			continue
		}
		t.Errorf("%s: %s, want %s %s\n%s", name, x.end, want, listed.reason, x.said[max(0, len(x.said)-saidMax):])
	}
	report(t, "sarama", "its functional tests, toxiproxy between", time.Since(begin), fmt.Sprintf(
		"%d run, %d passed, %d failed as listed, %d skipped themselves", len(all), counts["PASS"], counts["FAIL"], counts["SKIP"]))
}
