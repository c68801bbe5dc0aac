package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/testenv"
)

// place contains the program and the folders of the measurements.
type place struct {
	program string // the built seb
	tmpfs   string // a folder in memory
	disk    string // a folder on a disk
}

// within calls f with temporary folders and removes them after f returns.
func (p *place) within(f func(tmpfs, disk string) error) (err error) {
	var dirs [2]string
	for i, parent := range []string{p.tmpfs, p.disk} {
		if dirs[i], err = os.MkdirTemp(parent, "seb-perf-"); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, os.RemoveAll(dirs[i])) }()
	}
	return f(dirs[0], dirs[1])
}

// measure runs the program once. It replaces {tmpfs} and {disk} in args by temporary folders.
func (p *place) measure(ctx context.Context, args ...string) (s Sample, err error) {
	err = p.within(func(tmpfs, disk string) error {
		in := strings.NewReplacer("{tmpfs}", tmpfs, "{disk}", disk)
		full := []string{}
		for _, a := range args {
			full = append(full, in.Replace(a))
		}
		cmd := exec.CommandContext(ctx, p.program, append(full, "--json")...)
		cmd.Env = append(os.Environ(), "TMPDIR="+disk)
		var errs bytes.Buffer
		cmd.Stderr = &errs
		out, err := cmd.Output()
		if err != nil {
			return fmt.Errorf("%s %s: %w\n%.2000s", filepath.Base(p.program), strings.Join(full, " "), err, errs.String())
		}
		s, err = parse(out)
		return err
	})
	return s, err
}

// broker is a broker in a separate process.
type broker struct {
	*testenv.Broker
	url, key string
	client   *client.Client
	started  time.Duration // from start until it accepts requests
}

// serve starts a broker with a bucket and a data folder.
func (p *place) serve(bucket, data string, args ...string) (*broker, error) {
	began := time.Now()
	run, err := testenv.Serve(p.program, nil, append([]string{"--bucket", bucket, "--data-dir", data, "--http-port", "0"}, args...)...)
	if err != nil {
		return nil, err
	}
	b := &broker{Broker: run}
	if b.url, err = run.Address(data); err == nil {
		b.started = time.Since(began)
		var key []byte
		key, err = os.ReadFile(filepath.Join(data, "api-key"))
		b.key = strings.TrimSpace(string(key))
	}
	if err == nil {
		b.client, err = client.New(b.url, client.Options{APIKey: b.key})
	}
	if err != nil {
		run.Kill()
		return nil, err
	}
	return b, nil
}

// get sends a request that the Go client does not support. The caller closes the body.
func (b *broker) get(ctx context.Context, path, accept string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, b.url+path, nil)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", accept)
	req.Header.Set("Authorization", "Bearer "+b.key)
	resp, err := http.DefaultClient.Do(req)
	if err == nil && resp.StatusCode != http.StatusOK {
		err = errors.Join(fmt.Errorf("GET %s: %s", path, resp.Status), resp.Body.Close())
	}
	return resp, err
}

// stop stops the broker gracefully. It returns an error if the exit code is not 0.
func (b *broker) stop() error {
	b.client.Close()
	if code := b.Stop(); code != 0 {
		return fmt.Errorf("exit code %d\n%s", code, b.Log())
	}
	return nil
}
