package agent_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/agent"
	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// serveHere runs an agent in this process.
func serveHere(t *testing.T, tok agent.Token) (address string) {
	t.Helper()
	a, err := agent.New(agent.Options{Token: tok, Say: func(line string) {
		if strings.Contains(line, secret) {
			t.Errorf("output contains the token: %s", line)
		}
	}})
	must.NoError(t, err)
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- a.Serve(ctx, l) }()
	t.Cleanup(func() {
		cancel()
		check.NoError(t, <-served)
	})
	return l.Addr().String()
}

// nothing is a run that ends immediately.
func nothing() agent.Run {
	w := shortWorkload()
	w.Warmup, w.Duration = 0, workload.Duration(50*time.Millisecond)
	return agent.Run{Workload: w, Target: workload.Target{Driver: "noop"}}
}

func try(t *testing.T, tok agent.Token, address string) error {
	t.Helper()
	team, err := agent.NewTeam(agent.TeamOptions{Agents: []string{address}, Token: tok})
	must.NoError(t, err)
	defer team.Close()
	_, err = team.Do(t.Context(), nothing())
	return err
}

func wantError(t *testing.T, err error, words ...string) {
	t.Helper()
	for _, word := range words {
		if err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("error %v, want one about %q", err, word)
		}
	}
	if err != nil && strings.Contains(err.Error(), secret) {
		t.Error("the error has the token")
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	good := token(t, secret)
	address := serveHere(t, good)
	t.Run("with the token", func(t *testing.T) { check.NoError(t, try(t, good, address)) })
	t.Run("with another token", func(t *testing.T) {
		wantError(t, try(t, token(t, secret+"?"), address), "agent "+address, "wrong token")
	})
	t.Run("another version", func(t *testing.T) {
		wantError(t, agent.SpeakVersion(t.Context(), good, address, 7), "protocol version 7", "uses version 1")
	})
	t.Run("a frame too large, before it has come", func(t *testing.T) {
		wantError(t, agent.Shout(t.Context(), good, address, 1<<31), "closed")
	})
	t.Run("busy", func(t *testing.T) {
		hangUp := must.Get(agent.Mute(t.Context(), good, address, agent.Run{Workload: endless(), Target: workload.Target{Driver: "noop"}}))(t)
		wantError(t, try(t, good, address), "agent "+address, "busy with 127.0.0.1:", "since 20")
		hangUp()
		check.NoErrorf(t, try(t, good, address), "after it")
	})
	t.Run("no agent", func(t *testing.T) {
		wantError(t, try(t, good, "127.0.0.1:1"), "agent 127.0.0.1:1", "refused")
	})
	t.Run("fewer publishers than agents", func(t *testing.T) {
		team, err := agent.NewTeam(agent.TeamOptions{Agents: []string{address, "127.0.0.1:1"}, Token: good})
		must.NoError(t, err)
		r := nothing()
		r.Workload.Publishers = 1
		_, err = team.Do(t.Context(), r)
		wantError(t, err, "1 publishers, 2 processes")
	})
}

// TestUnprovenConnections sends other data than a coordinator's to an agent.
func TestUnprovenConnections(t *testing.T) {
	t.Parallel()
	good := token(t, secret)
	address := serveHere(t, good)
	dial := func(t *testing.T) net.Conn {
		c := must.Get(tls.Dial("tcp", address, &tls.Config{InsecureSkipVerify: true}))(t)
		t.Cleanup(func() { _ = c.Close() })
		return c
	}
	for name, text := range map[string]string{
		"a hello beyond its limit": "\x00\x01\x00\x00" + strings.Repeat("x", 100),
		"no JSON":                  "\x00\x00\x00\x02no",
		"an order before a hello":  "\x00\x00\x00\x0e{\"kind\":\"run\"}",
		"a hello without anything": "\x00\x00\x00\x10{\"kind\":\"hello\"}",
		"a hello without a proof":  "\x00\x00\x00\x24{\"kind\":\"hello\",\"hello\":{\"version\":1}",
	} {
		t.Run(name, func(t *testing.T) {
			c := dial(t)
			must.Get(c.Write([]byte(text)))(t)
			answer := make([]byte, 4096)
			n := 0
			for {
				more, err := c.Read(answer[n:])
				n += more
				if err != nil {
					break // closed by the agent
				}
			}
			if got := string(answer[:n]); n > 0 && !strings.Contains(got, `"refused"`) {
				t.Errorf("it answers %q", got)
			}
		})
	}
	t.Run("the agent still serves", func(t *testing.T) { check.NoError(t, try(t, good, address)) })
}

// TestImpostor tests a man in the middle with connections to both sides that forwards their
// messages.
func TestImpostor(t *testing.T) {
	good := token(t, secret)
	real := serveHere(t, good)
	l := must.Get(tls.Listen("tcp", "127.0.0.1:0", impostorTLS(t)))(t)
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				to, err := tls.Dial("tcp", real, &tls.Config{InsecureSkipVerify: true})
				if err != nil {
					return
				}
				defer to.Close()
				go func() { _, _ = io.Copy(to, c) }()
				_, _ = io.Copy(c, to)
			}()
		}
	}()
	wantError(t, try(t, good, l.Addr().String()), "wrong token")
}

// TestAgentWithoutToken connects a coordinator to an agent with another token that accepts
// everything.
func TestAgentWithoutToken(t *testing.T) {
	l := must.Get(tls.Listen("tcp", "127.0.0.1:0", impostorTLS(t)))(t)
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		body := `{"kind":"welcome","hello":{"version":1,"proof":"AAAA"}}`
		_, _ = fmt.Fprintf(c, "\x00\x00\x00%c%s", len(body), body)
		_, _ = c.Read(make([]byte, 4096)) // its hello
	}()
	wantError(t, try(t, token(t, secret), l.Addr().String()), "did not prove", "agent "+l.Addr().String())
}

func impostorTLS(t *testing.T) *tls.Config {
	t.Helper()
	c := must.Get(agent.ServerTLS())(t)
	return c
}

func TestToken(t *testing.T) {
	dir := t.TempDir()
	file := func(text string) string {
		path := filepath.Join(dir, "token")
		must.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		return path
	}
	t.Setenv(agent.TokenVariable, "")
	for name, c := range map[string]struct{ path, word string }{
		"none":    {"", "no token"},
		"empty":   {file("\n"), "no token"},
		"no file": {filepath.Join(dir, "absent"), "absent"},
	} {
		t.Run(name, func(t *testing.T) {
			if name == "empty" {
				c.path = file("\n")
			}
			_, err := agent.ReadToken(c.path)
			wantError(t, err, c.word)
		})
	}
	_, err := agent.ReadToken(file("short"))
	wantError(t, err, "at least 16 bytes")
	_, err = agent.ReadToken(file(strings.Repeat("x", 5000)))
	wantError(t, err, "limit 4096")
	t.Setenv(agent.TokenVariable, secret)
	fromEnv := must.Get(agent.ReadToken(""))(t)
	fromFile, err := agent.ReadToken(file(secret + "\n"))
	if err != nil || fromFile != fromEnv {
		t.Errorf("the file has another token; error %v", err)
	}
	if text := fmt.Sprintf("%v %+v %#v %s", fromEnv, fromEnv, fromEnv, fromEnv); strings.Contains(text, secret) {
		t.Errorf("it prints: %s", text)
	}
}

func TestTeamOptions(t *testing.T) {
	good := token(t, secret)
	for word, list := range map[string][]string{"want 1 to": nil, "host:port": {"localhost"}, "twice": {"a:1", "b:1", "a:1"}} {
		_, err := agent.NewTeam(agent.TeamOptions{Agents: list, Token: good})
		wantError(t, err, word)
	}
	_, err := agent.NewTeam(agent.TeamOptions{Agents: []string{"a:1"}})
	wantError(t, err, "no token")
	if _, err := agent.New(agent.Options{}); err != agent.ErrNoToken {
		t.Errorf("an agent without a token: %v", err)
	}
}
