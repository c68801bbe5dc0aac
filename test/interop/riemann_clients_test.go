package interop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// Versions of the clients that do not come from Debian. riemann-go-client has its version in
// testdata/riemann/go/go.mod.
const (
	riemannPythonVersion = "7.0.0"
	bernhardVersion      = "0.2.6"
	riemannNpmVersion    = "2.2.0"
)

// riemannClients are the clients in docs/guide/riemann.md.
var riemannClients = []riemannClient{
	{name: "riemann-c-client", adapt: cRiemannEvent, start: cRiemann},
	{name: "riemann-c-client UDP", adapt: cRiemannEvent, start: func(t *testing.T, b *riemannBroker) riemannCalls {
		b.options = []string{"--udp"}
		calls := cRiemann(t, b)
		b.options = []string{"--tcp"} // of the query: datagrams have no answer
		return riemannCalls{send: calls.send}
	}},
	{name: "riemann-c-client TLS", serve: serveRiemannTLS, adapt: cRiemannEvent, start: cRiemann},
	{name: "riemann-client (Python)", start: func(t *testing.T, b *riemannBroker) riemannCalls { return pythonRiemann(t, b, "riemann") }},
	{name: "bernhard", start: func(t *testing.T, b *riemannBroker) riemannCalls { return pythonRiemann(t, b, "bernhard") }},
	{name: "ruby-riemann-client", start: rubyRiemann},
	{name: "riemann-go-client", adapt: func(_ int, e *riemannEvent) { e.TTL = math.Floor(e.TTL) }, answer: floatMetric, start: goRiemann},
	{name: "riemann (npm)", start: nodeRiemann},
	{name: "collectd", adapt: collectdEvent, start: func(t *testing.T, b *riemannBroker) riemannCalls { return collectdRiemann(t, b, false) }},
	{name: "collectd in batches", adapt: collectdEvent, start: func(t *testing.T, b *riemannBroker) riemannCalls { return collectdRiemann(t, b, true) }},
	{name: "syslog-ng", start: syslogRiemann},
}

// floatMetric: of an answer, riemann-go-client shows only the float of the metric, to which a broker
// rounds it.
func floatMetric(e *riemannEvent) {
	f, _ := strconv.ParseFloat(e.Metric, 32) // the metric is a number
	e.Kind, e.Metric = "f", strconv.FormatFloat(f, 'g', -1, 32)
}

// cRiemannEvent: the command has no option for a time.
func cRiemannEvent(_ int, e *riemannEvent) {
	e.Time = 0
	e.Attributes["x-client"] = "riemann-c-client"
}

// cRiemann returns the calls of the command of riemann-c-client.
func cRiemann(t *testing.T, b *riemannBroker) riemannCalls {
	t.Helper()
	options := slices.Clone(b.options)
	dir := must.Get(testenv.Debian(t.Context(), "riemann-c-client"))(t)
	run := func(args ...string) []byte {
		c := exec.CommandContext(t.Context(), filepath.Join(dir, "usr/bin/riemann-client"), args...)
		c.Env = []string{testenv.Libraries(dir), "LC_ALL=C.UTF-8"}
		var said strings.Builder
		c.Stderr = &said
		out, err := c.Output()
		if err != nil {
			t.Fatalf("riemann-client %s: %v: %s", strings.Join(args, " "), err, said.String())
		}
		return out
	}
	return riemannCalls{
		send: func(events []riemannEvent) {
			for _, e := range events {
				args := append([]string{"send"}, options...)
				args = append(args, "--host", e.Host, "--service", e.Service, "--state", e.State, "--description", e.Description,
					"--ttl", fmt.Sprint(e.TTL), "--metric-"+e.Kind+"="+e.Metric)
				for _, tag := range e.Tags {
					args = append(args, "--tag", tag)
				}
				for key, value := range e.Attributes {
					args = append(args, "--attribute", key+"="+value)
				}
				run(append(args, "127.0.0.1", b.port)...)
			}
		},
		query: func(text string) []byte {
			var list []map[string]any
			from := json.NewDecoder(bytes.NewReader(run(append(append([]string{"query", text, "--json"}, options...), "127.0.0.1", b.port)...)))
			from.UseNumber()
			must.NoError(t, from.Decode(&list))
			var out bytes.Buffer
			for _, e := range list {
				for _, kind := range []string{"sint64", "d", "f"} {
					if m, ok := e["metric_"+kind].(json.Number); ok {
						e["metric"] = m.String()
						break
					}
				}
				must.NoError(t, json.NewEncoder(&out).Encode(e))
			}
			return out.Bytes()
		},
	}
}

// serveRiemannTLS starts a broker that requires certificates of Riemann clients, and permits one.
// riemann-c-client 1.10 does not send its certificate with TLS 1.3.
func serveRiemannTLS(t *testing.T) *riemannBroker {
	t.Helper()
	dir, authority := t.TempDir(), testenv.NewAuthority(t)
	own := authority.File(t, dir)
	server := authority.Files(t, dir, testenv.Leaf{})
	user := testenv.WriteClient(t, dir, authority.Client(t, testenv.Client{Name: "sender"}))
	address := must.Get(testenv.FreeAddress())(t)
	_, port, _ := net.SplitHostPort(address)
	b := testenv.ServeInterop(t, "--riemann-listen", address, "--tls-cert", server.Cert, "--tls-key", server.Key, "--tls-listeners", "riemann",
		"--tls-client-ca", own, "--tls-client-auth", "require", "--tls-principal-mapping", "RULE:^CN=(.*?),OU=services,O=Test$/$1/")
	c := must.Get(client.New(b.HTTP(), client.Options{APIKey: testenv.InteropKey}))(t)
	defer c.Close()
	must.NoError(t, c.AddRules(t.Context(), []client.Rule{{Principal: "sender", Resource: "topic", Pattern: "riemann", Operation: "all"}}))
	return &riemannBroker{InteropBroker: b, port: port, options: []string{
		"--tls", "-o", "cafile=" + own, "-o", "certfile=" + user.Cert, "-o", "keyfile=" + user.Key, "-o", "priorities=NORMAL:-VERS-TLS1.3",
	}}
}

// pythonRiemann installs riemann-client and bernhard. Both need protobuf before version 4, and
// bernhard needs pkg_resources.
func pythonRiemann(t *testing.T, b *riemannBroker, client string) riemannCalls {
	t.Helper()
	path := must.Get(needs("python3", "runs riemann-client and bernhard"))(t)
	packages := must.Get(testenv.Pip(t.Context(), path, "riemann-python-"+riemannPythonVersion+"-"+bernhardVersion, "riemann-client and bernhard",
		"--no-binary", "bernhard", "riemann-client=="+riemannPythonVersion, "bernhard=="+bernhardVersion, "protobuf==3.20.3", "setuptools==80.9.0"))(t)
	env := []string{"PYTHONPATH=" + packages, "PYTHONDONTWRITEBYTECODE=1", "PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION=python"}
	return riemannProgram(t, b, env, path, "testdata/riemann/client.py", client)
}

func rubyRiemann(t *testing.T, b *riemannBroker) riemannCalls {
	t.Helper()
	dir := must.Get(testenv.Debian(t.Context(), "ruby-riemann-client"))(t)
	programs, err1 := filepath.Glob(filepath.Join(dir, "usr/bin/ruby[0-9]*"))
	folders, err2 := filepath.Glob(filepath.Join(dir, "usr/lib/ruby/[0-9]*"))
	native, err3 := filepath.Glob(filepath.Join(dir, "usr/lib/*/ruby/[0-9]*"))
	if err1 != nil || err2 != nil || err3 != nil || len(programs) == 0 {
		t.Fatalf("no ruby in %s: %v, %v, %v", dir, err1, err2, err3)
	}
	folders = append(append(folders, native...), filepath.Join(dir, "usr/lib/ruby/vendor_ruby"))
	env := []string{testenv.Libraries(dir), "RUBYLIB=" + strings.Join(folders, ":"), "LC_ALL=C.UTF-8"}
	return riemannProgram(t, b, env, programs[0], "--disable-gems", "testdata/riemann/client.rb")
}

func goRiemann(t *testing.T, b *riemannBroker) riemannCalls {
	t.Helper()
	program := filepath.Join(t.TempDir(), "riemann")
	c := exec.CommandContext(t.Context(), "go", "build", "-o", program, ".")
	c.Dir, c.Env = "testdata/riemann/go", append(os.Environ(), "GOWORK=off")
	if out, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return riemannProgram(t, b, nil, program)
}

func nodeRiemann(t *testing.T, b *riemannBroker) riemannCalls {
	t.Helper()
	node := must.Get(needs("node", "runs the npm package riemann"))(t)
	modules := must.Get(npmPackage(t.Context(), "riemann", riemannNpmVersion))(t)
	return riemannProgram(t, b, []string{"NODE_PATH=" + modules}, node, "testdata/riemann/client.js")
}
