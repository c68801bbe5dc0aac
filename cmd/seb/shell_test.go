package main_test

import (
	"bytes"
	"encoding/gob"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	seb "github.com/sebbroker/seb/cmd/seb"
	"github.com/sebbroker/seb/test/must"
)

// shellCommand is the only argument of a shell.
const shellCommand = "shell-of-tests"

// shell is a process that runs commands one after another, so that short tests start few processes. Full
// tests start a process for each command. It ends with the process of the tests.
type shell struct {
	cmd     *exec.Cmd
	asks    *gob.Encoder
	replies *gob.Decoder
	err     bytes.Buffer // of the process, not of its commands
}

// shells are those that run no command.
var shells struct {
	sync.Mutex
	idle []*shell
}

type shellAsk struct {
	Dir  string
	Env  []string // in addition to that of the shell
	Args []string
	In   []byte
}

type shellReply struct {
	Out, Err string
	Code     int
}

// runShell is the process of a shell.
func runShell() error {
	asks, replies, env := gob.NewDecoder(os.Stdin), gob.NewEncoder(os.Stdout), os.Environ()
	for {
		var a shellAsk
		if err := asks.Decode(&a); err != nil {
			return nil // the tests have ended
		}
		if err := os.Chdir(a.Dir); err != nil {
			return err
		}
		os.Clearenv()
		for _, v := range slices.Concat(env, a.Env) {
			name, value, _ := strings.Cut(v, "=")
			if err := os.Setenv(name, value); err != nil {
				return err
			}
		}
		var out, errs bytes.Buffer
		code := seb.Run(a.Args, a.In, &out, &errs)
		if err := replies.Encode(shellReply{out.String(), errs.String(), code}); err != nil {
			return err
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

// takeShell returns a shell that runs no command.
func takeShell(t *testing.T) *shell {
	t.Helper()
	shells.Lock()
	defer shells.Unlock()
	if n := len(shells.idle); n > 0 {
		s := shells.idle[n-1]
		shells.idle = shells.idle[:n-1]
		return s
	}
	p := &workDir{t: t} // without a folder of its own, and without variables
	s := &shell{cmd: p.command(shellCommand)}
	s.cmd.Stderr = &s.err
	in, out := must.Get(s.cmd.StdinPipe())(t), must.Get(s.cmd.StdoutPipe())(t)
	must.NoError(t, s.cmd.Start())
	s.asks, s.replies = gob.NewEncoder(in), gob.NewDecoder(out)
	return s
}

func (p *workDir) runInShell(in io.Reader, args []string) result {
	p.t.Helper()
	s, a := takeShell(p.t), shellAsk{Dir: p.dir, Env: p.env, Args: args}
	if in != nil {
		a.In = must.Get(io.ReadAll(in))(p.t)
	}
	var r shellReply
	must.NoError(p.t, s.asks.Encode(a))
	if err := s.replies.Decode(&r); err != nil {
		_ = s.cmd.Process.Kill()
		_ = s.cmd.Wait() // then s.err is complete
		p.t.Fatalf("seb %s: %v\n%s", strings.Join(args, " "), err, s.err.String())
	}
	shells.Lock()
	defer shells.Unlock()
	shells.idle = append(shells.idle, s)
	return result{r.Out, r.Err, r.Code}
}
