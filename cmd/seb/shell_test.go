package main_test

import (
	"bytes"
	"encoding/gob"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	seb "github.com/sebbroker/seb/cmd/seb"
	"github.com/sebbroker/seb/test/must"
)

// shellCommand is the only argument of a shell.
const shellCommand = "shell-of-tests"

// shell is a process that runs commands one after another, so that short tests start few processes. Full
// tests start a process for each command. It ends when its stdin ends.
type shell struct {
	cmd     *exec.Cmd
	env     []string // of the workDir
	in      io.WriteCloser
	asks    *gob.Encoder
	replies *gob.Decoder
	err     bytes.Buffer // of the process, not of its commands
}

type shellAsk struct {
	Args []string
	In   []byte
}

type shellReply struct {
	Out, Err string
	Code     int
}

// runShell is the process of a shell.
func runShell() {
	asks, replies := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout)
	for {
		var a shellAsk
		if asks.Decode(&a) != nil {
			return
		}
		var out, errs bytes.Buffer
		code := seb.Run(a.Args, a.In, &out, &errs)
		if replies.Encode(shellReply{out.String(), errs.String(), code}) != nil {
			return
		}
	}
}

// inShell reports whether a shell runs a command: in short tests all but serve and the benchmarks, which
// change settings of their process.
func inShell(args []string) bool {
	return testing.Short() && !slices.ContainsFunc(args[:min(1, len(args))], func(name string) bool {
		return name == "serve" || strings.HasPrefix(name, "bench")
	})
}

// takeShell returns a shell that runs no command and has the environment of p.
func (p *workDir) takeShell() *shell {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, s := range p.shells {
		if slices.Equal(s.env, p.env) {
			p.shells = slices.Delete(p.shells, i, i+1)
			return s
		}
	}
	s := &shell{cmd: p.command(shellCommand), env: slices.Clone(p.env)}
	s.cmd.Stderr = &s.err
	s.in = must.Get(s.cmd.StdinPipe())(p.t)
	out := must.Get(s.cmd.StdoutPipe())(p.t)
	must.NoError(p.t, s.cmd.Start())
	s.asks, s.replies = gob.NewEncoder(s.in), gob.NewDecoder(out)
	p.t.Cleanup(func() {
		_ = s.in.Close()
		_ = s.cmd.Wait()
	})
	return s
}

func (p *workDir) runInShell(in io.Reader, args []string) result {
	p.t.Helper()
	s := p.takeShell()
	a := shellAsk{Args: args}
	if in != nil {
		a.In = must.Get(io.ReadAll(in))(p.t)
	}
	var r shellReply
	must.NoError(p.t, s.asks.Encode(a))
	if err := s.replies.Decode(&r); err != nil {
		_ = s.cmd.Process.Kill()
		p.t.Fatalf("seb %s: %v\n%s", strings.Join(args, " "), err, s.err.String())
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.shells = append(p.shells, s)
	return result{r.Out, r.Err, r.Code}
}
