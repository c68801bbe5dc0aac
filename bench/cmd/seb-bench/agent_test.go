package main

import (
	"bufio"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sebbroker/seb/bench/agent"
	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// asProgram is the environment variable that makes this program seb-bench instead of a test.
const asProgram = "SEB_BENCH_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// startAgents runs the program as an agent, once for each token file.
func startAgents(t *testing.T, tokenFiles ...string) (addresses []string) {
	t.Helper()
	for _, file := range tokenFiles {
		cmd := exec.Command(os.Args[0], "agent", "--listen", "127.0.0.1:0", "--token-file", file)
		cmd.Env = append(os.Environ(), asProgram+"=1")
		out := must.Get(cmd.StdoutPipe())(t)
		must.NoError(t, cmd.Start())
		in := bufio.NewReader(out)
		line, err := in.ReadString('\n')
		address, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
		if !ok {
			t.Errorf("it says %q, error %v", line, err)
		}
		addresses = append(addresses, address)
		drained := make(chan struct{})
		go func() {
			defer close(drained)
			_, _ = in.WriteTo(t.Output()) // until it ends
		}()
		t.Cleanup(func() {
			check.NoError(t, cmd.Process.Signal(os.Interrupt))
			<-drained
			check.NoErrorf(t, cmd.Wait(), "interrupted agent")
		})
	}
	return addresses
}

func TestAgents(t *testing.T) {
	dir := t.TempDir()
	token, other := filepath.Join(dir, "token"), filepath.Join(dir, "other")
	for path, text := range map[string]string{token: "a token of sixteen bytes\n", other: "another token of so many\n"} {
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	addresses := startAgents(t, token, token, other)
	out := filepath.Join(dir, "r.json")
	base := []string{
		"--size", "64B", "--publishers", "3", "--subscribers", "2", "--warmup", "0s", "--timeout", "1m", "--floor", "50ms", "-t", "noop", "-o", out,
		"--token-file", token,
	}
	t.Run("sweep with the histograms of seconds", func(t *testing.T) {
		args := append([]string{"sweep", "--rates", "300,600", "--duration", "1s", "--hdr", filepath.Join(dir, "hdr")}, base...)
		said, err := call(t, append(args, "--agents", strings.Join(addresses[:2], ","))...)
		if err != nil {
			t.Fatal(err, said)
		}
		f := must.Get(result.Read(out))(t)
		if len(f.Runs) != 2 || f.Runs[1].Counts.Sent != 600 || len(f.Runs[1].Agents) != 2 || f.Runs[0].Agents[1].Address != addresses[1] {
			t.Errorf("%d runs:\n%s", len(f.Runs), said)
		}
		if text, err := os.ReadFile(filepath.Join(dir, "hdr", "002-noop.hlog")); err != nil || !strings.Contains(string(text), "Tag=e2e") {
			t.Errorf("%q, error %v", text, err)
		}
	})
	t.Run("one has another token", func(t *testing.T) {
		args := append([]string{"run", "--duration", "1s", "--agents", strings.Join(addresses, ",")}, base...)
		said, err := call(t, args...)
		if err == nil || !strings.Contains(err.Error(), "agent "+addresses[2]+": refused: wrong token") || !strings.Contains(said, "NOT MEASURED") {
			t.Errorf("error %v, it says:\n%s", err, said)
		}
	})
}

func TestAgentRefusals(t *testing.T) {
	t.Setenv(agent.TokenVariable, "")
	short := filepath.Join(t.TempDir(), "short")
	must.NoError(t, os.WriteFile(short, []byte("short"), 0o600))
	for word, args := range map[string][]string{
		"no token":          {"agent"},
		"16 bytes":          {"agent", "--token-file", short},
		"no such file":      {"agent", "--token-file", short + "er"},
		"agents need one":   {"run", "-t", "noop", "--agents", "127.0.0.1:1"},
		"requires --agents": {"run", "-t", "noop", "--token-file", short},
		"unknown command":   {"agent", "smith"},
	} {
		if _, err := call(t, args...); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%v: error %v, want one about %q", args, err, word)
		}
	}
	t.Setenv(agent.TokenVariable, "a token of sixteen bytes")
	for word, agents := range map[string]string{"host:port": "somewhere", "twice": "127.0.0.1:1,127.0.0.1:1"} {
		if _, err := call(t, "run", "-t", "noop", "--publishers", "2", "--agents", agents); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: error %v, want one about %q", agents, err, word)
		}
	}
}
