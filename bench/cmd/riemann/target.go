package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/riemanntest"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	// topic is the default of --riemann-topic.
	topic = "riemann"
	// The bare server prints these lines: when it accepts connections, and its number of messages at
	// the end.
	listeningLine = "listening"
	countLine     = "messages: "
)

// target is a running server.
type target struct {
	*testenv.Broker
	addr  string // of Riemann's protocol
	turns []turn
	all   int64 // acknowledged events, with those of the warm-up
	peak  int64 // memory in bytes

	url, data string // only of Seb
}

// startSeb starts a broker with an empty bucket on the measured disk.
func (p *place) startSeb(name string, args ...string) (*target, error) {
	addr, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	t := &target{addr: addr, data: filepath.Join(p.dir, name+"-data")}
	bucket := "file:" + filepath.Join(p.dir, name+"-bucket")
	args = append([]string{"--bucket", bucket, "--data-dir", t.data, "--http-port", "0", "--riemann-listen", addr}, args...)
	if t.Broker, err = testenv.Serve(p.seb, nil, args...); err != nil {
		return nil, err
	}
	if t.url, err = t.Address(t.data); err != nil {
		t.Kill()
		return nil, err
	}
	return t, nil
}

// startBare starts the bare server in a process.
func (p *place) startBare() (*target, error) {
	addr, err := testenv.FreeAddress()
	if err != nil {
		return nil, err
	}
	listening := make(chan struct{})
	note := func(line string) {
		if line == listeningLine {
			close(listening)
		}
	}
	run, err := testenv.StartProgram(p.self, nil, note, "-bare", addr)
	if err != nil {
		return nil, err
	}
	select {
	case <-listening:
		return &target{Broker: run, addr: addr}, nil
	case <-run.Done():
		return nil, fmt.Errorf("bare server ended: %s", run.Log())
	}
}

// stored returns the number of events in the broker's topic.
func (t *target) stored(ctx context.Context) (int64, error) {
	key, err := os.ReadFile(filepath.Join(t.data, "api-key"))
	if err != nil {
		return 0, err
	}
	c, err := client.New(t.url, client.Options{APIKey: strings.TrimSpace(string(key))})
	if err != nil {
		return 0, err
	}
	defer c.Close()
	found, err := c.Topic(ctx, topic)
	return found.NextOffset, err
}

// stop stops a broker gracefully.
func (t *target) stop() error {
	if code := t.Stop(); code != 0 {
		return fmt.Errorf("exit code %d of seb\n%s", code, t.Log())
	}
	return nil
}

// counted stops the bare server and compares its count with the answers.
func (t *target) counted() error {
	t.Stop()
	want := fmt.Sprint(countLine, t.all/riemanntest.PerMessage)
	if !strings.HasSuffix(t.Log(), want) {
		return fmt.Errorf("output of the bare server: %q, want %q at the end", t.Log(), want)
	}
	return nil
}
