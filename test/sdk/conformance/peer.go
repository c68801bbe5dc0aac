package conformance

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/test/testenv"
)

// callTime bounds a call. Each ends by itself much earlier.
const callTime = 2 * time.Minute

// quiet is for servers whose clients break connections.
var quiet = log.New(io.Discard, "", 0)

// args are the arguments of a call, by name.
type args map[string]any

// answer is what a conformance command answers.
type answer struct {
	ID     int             `json:"id"`
	Result json.RawMessage `json:"result"`
	Error  *failure        `json:"error"`
	Crash  string          `json:"crash"`
}

// failure is an error of a call.
type failure struct {
	Outcome string          `json:"outcome"` // rejected, unknown or none
	Code    string          `json:"code"`
	Status  int             `json:"status"`
	Detail  string          `json:"detail"`
	Results json.RawMessage `json:"results"`
}

// peer is a process of a conformance command. Its methods may be called concurrently.
type peer struct {
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{} // closed after the end
	err  error         // of the process, after done

	mu      sync.Mutex // guards the fields below
	last    int
	waiting map[int]chan answer
	output  bytes.Buffer // of both outputs, for people and for the search for secrets
}

// startPeer starts a command. On Linux it ends with this process.
func startPeer(command, env []string) (*peer, error) {
	p := &peer{cmd: exec.Command(command[0], command[1:]...), done: make(chan struct{}), waiting: map[int]chan answer{}}
	p.cmd.Env = append(os.Environ(), env...)
	p.cmd.SysProcAttr = testenv.Attributes()
	p.cmd.Stderr = &noted{p}
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		p.read(out)
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	return p, nil
}

// noted keeps what a process writes.
type noted struct{ p *peer }

func (n *noted) Write(b []byte) (int, error) {
	n.p.mu.Lock()
	defer n.p.mu.Unlock()
	return n.p.output.Write(b)
}

// read hands out the answers.
func (p *peer) read(out io.Reader) {
	lines := bufio.NewReader(out)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			return
		}
		var a answer
		bad := json.Unmarshal(line, &a)
		p.mu.Lock()
		p.output.Write(line)
		to := p.waiting[a.ID]
		delete(p.waiting, a.ID)
		p.mu.Unlock()
		if bad != nil || to == nil {
			a.Crash = fmt.Sprintf("unexpected line: %q", line)
		}
		if to != nil {
			to <- a
		}
	}
}

// call carries out a call.
func (p *peer) call(ctx context.Context, name string, a args) (answer, error) {
	return p.callFor(ctx, callTime, name, a)
}

// callFor carries out a call that takes at most d.
func (p *peer) callFor(ctx context.Context, d time.Duration, name string, a args) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	to := make(chan answer, 1)
	p.mu.Lock()
	p.last++
	line, err := json.Marshal(map[string]any{"id": p.last, "call": name, "args": a})
	p.waiting[p.last] = to
	if err == nil {
		_, err = p.in.Write(append(line, '\n'))
	}
	p.mu.Unlock()
	if err != nil {
		return answer{}, err
	}
	select {
	case got := <-to:
		return got, nil
	case <-p.done:
		return answer{}, fmt.Errorf("the process has ended: %v\n%s", p.err, p.tail())
	case <-ctx.Done():
		return answer{}, fmt.Errorf("%s: no answer: %w\n%s", name, ctx.Err(), p.tail())
	}
}

// tail returns the end of the output.
func (p *peer) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	text := p.output.String()
	return text[max(0, len(text)-4<<10):]
}

// secrets returns the texts that the process has written and must not write.
func (p *peer) secrets(texts ...string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var found []error
	for _, text := range texts {
		if i := strings.Index(p.output.String(), text); i >= 0 {
			found = append(found, fmt.Errorf("a secret is in the output: %q", p.output.String()[max(0, i-200):i+len(text)]))
		}
	}
	return errors.Join(found...)
}

// kill sends SIGKILL and waits.
func (p *peer) kill() {
	_ = p.cmd.Process.Kill()
	<-p.done
}

// stop ends the input: the process must end by itself.
func (p *peer) stop() error {
	if err := p.in.Close(); err != nil {
		return err
	}
	select {
	case <-p.done:
	case <-time.After(30 * time.Second):
		p.kill()
		return errors.New("the process does not end with its input")
	}
	if p.err != nil {
		return fmt.Errorf("the process has ended: %w\n%s", p.err, p.tail())
	}
	return nil
}
