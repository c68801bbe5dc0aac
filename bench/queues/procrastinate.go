package queues

import (
	"bufio"
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"
)

//go:embed jobs.py
var procrastinateScript []byte

// Versions of the packages from PyPI.
const (
	procrastinateVersion = "3.10.0"
	psycopgVersion       = "3.3.9"
)

// procrastinate is a producer and a worker in Python.
type procrastinate struct {
	c              *Config
	python, script string
	address        string
	send           *exec.Cmd

	mu    sync.Mutex // guards the fields below
	pids  []int
	in    io.WriteCloser
	acks  [](chan error)
	ended error
}

func openProcrastinate(ctx context.Context, c *Config) (Client, error) {
	p := &procrastinate{c: c, address: c.target("postgres").Address}
	venv := filepath.Join(c.Cache, "procrastinate-"+procrastinateVersion)
	p.python, p.script = filepath.Join(venv, "bin", "python"), filepath.Join(c.Peer.Dir, "jobs.py")
	if _, err := os.Stat(filepath.Join(venv, "ready")); err != nil {
		for _, args := range [][]string{
			{"python3", "-m", "venv", venv},
			{filepath.Join(venv, "bin", "pip"), "install", "-q", "procrastinate==" + procrastinateVersion, "psycopg[binary,pool]==" + psycopgVersion},
			{"touch", filepath.Join(venv, "ready")},
		} {
			if out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput(); err != nil {
				return p, fmt.Errorf("install procrastinate: %w: %s", err, out)
			}
		}
	}
	if err := os.WriteFile(p.script, procrastinateScript, 0o600); err != nil {
		return p, err
	}
	if out, err := exec.CommandContext(ctx, p.python, p.script, p.address, c.Name, "schema", "1").CombinedOutput(); err != nil {
		return p, fmt.Errorf("schema of procrastinate: %w: %s", err, out)
	}
	return p, p.startSend()
}

// start starts the script in a role.
func (p *procrastinate) start(role string, parallel int) (c *exec.Cmd, in io.WriteCloser, out io.Reader, err error) {
	c = exec.Command(p.python, p.script, p.address, p.c.Name, role, strconv.Itoa(parallel))
	c.Stderr = os.Stderr
	if in, err = c.StdinPipe(); err != nil {
		return nil, nil, nil, err
	}
	if out, err = c.StdoutPipe(); err != nil {
		return nil, nil, nil, err
	}
	if err := c.Start(); err != nil {
		return nil, nil, nil, fmt.Errorf("start procrastinate: %w", err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pids = append(p.pids, c.Process.Pid)
	return c, in, out, nil
}

var errProcrastinate = errors.New("the process of procrastinate has ended")

func (p *procrastinate) startSend() error {
	var out io.Reader
	var err error
	if p.send, p.in, out, err = p.start("send", p.c.Senders); err != nil {
		return err
	}
	go func() {
		for lines := bufio.NewScanner(out); lines.Scan(); {
			n, err := strconv.Atoi(lines.Text())
			p.mu.Lock()
			if err == nil && n < len(p.acks) {
				p.acks[n] <- nil
			}
			p.mu.Unlock()
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ended = errProcrastinate
		for _, c := range p.acks {
			select {
			case c <- p.ended:
			default:
			}
		}
	}()
	return nil
}

func (p *procrastinate) Processes() []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pids
}

func (p *procrastinate) Close() error {
	if p.send == nil {
		return nil
	}
	return errors.Join(p.in.Close(), p.send.Wait())
}

type procrastinateSender struct {
	p      *procrastinate
	number int
	ack    chan error
}

func (p *procrastinate) Sender(context.Context) (Sender, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := procrastinateSender{p, len(p.acks), make(chan error, 1)}
	p.acks = append(p.acks, s.ack)
	return s, nil
}

func (s procrastinateSender) Send(_ context.Context, messages [][]byte) error {
	line := append(strconv.AppendInt(nil, int64(s.number), 10), ' ')
	line = append(append(line, bytes.Join(messages, []byte(" "))...), '\n')
	s.p.mu.Lock()
	err := s.p.ended
	s.p.mu.Unlock()
	if err == nil {
		_, err = s.p.in.Write(line) // a write to a pipe is whole, by the lock of its file
	}
	if err != nil {
		return err
	}
	return <-s.ack
}

func (p *procrastinate) Work(ctx context.Context, l Listener) error {
	c, in, out, err := p.start("work", p.c.Workers)
	if err != nil {
		return err
	}
	defer in.Close()
	stop := context.AfterFunc(ctx, func() {
		_ = c.Process.Signal(syscall.SIGTERM) // it finishes what runs
		time.AfterFunc(drainWait, func() { _ = c.Process.Kill() })
	})
	defer stop()
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		at, m, ok := bytes.Cut(lines.Bytes(), []byte(" "))
		t, err := strconv.ParseInt(string(at), 10, 64)
		if err != nil || !ok {
			return errors.Join(errProcrastinate, err, c.Process.Kill(), c.Wait())
		}
		l.Begin(m, t)
		l.Settled(1)
	}
	if err := c.Wait(); ctx.Err() == nil {
		return errors.Join(errProcrastinate, err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pids = p.pids[:1]
	return nil
}
