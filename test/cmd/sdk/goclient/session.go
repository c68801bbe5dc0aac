package main

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
)

// session is the client of the calls, and the workers that run.
type session struct {
	mu     sync.Mutex // guards the fields below
	client *client.Client
	ends   []context.CancelFunc
}

func (s *session) current() *client.Client {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.client == nil {
		panic("no open before this call")
	}
	return s.client
}

// worker returns a context that stop ends.
func (s *session) worker(ctx context.Context) context.Context {
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	s.ends = append(s.ends, cancel)
	return ctx
}

// stop ends all workers.
func (s *session) stop() {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, end := range s.ends {
		end()
	}
	s.ends = nil
}

func (s *session) open(args json.RawMessage) error {
	var in struct {
		Addresses []string `json:"addresses"`
		Token     string   `json:"token"`
		RetryTime float64  `json:"retry_time"`
		CA        string   `json:"ca"`
	}
	decode(args, &in)
	o := client.Options{APIKey: in.Token, RetryTime: seconds(in.RetryTime)}
	if in.CA != "" {
		text, err := os.ReadFile(in.CA)
		if err != nil {
			return err
		}
		o.TLS = &tls.Config{RootCAs: x509.NewCertPool()}
		if !o.TLS.RootCAs.AppendCertsFromPEM(text) {
			return fmt.Errorf("%s: no certificate", in.CA)
		}
	}
	c, err := client.New(strings.Join(in.Addresses, ","), o)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.client = c
	return nil
}

func seconds(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// work runs a worker whose function does what a script says about the value of a message.
func (s *session) work(ctx context.Context, args json.RawMessage) (any, error) {
	var in struct {
		Queue       string            `json:"queue"`
		Concurrency int               `json:"concurrency"`
		Visibility  float64           `json:"visibility"`
		UntilEmpty  bool              `json:"until_empty"`
		Grace       float64           `json:"grace"`
		Log         string            `json:"log"`
		Script      map[string]string `json:"script"`
	}
	decode(args, &in)
	var log *os.File
	if in.Log != "" {
		f, err := os.OpenFile(in.Log, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		if err != nil {
			return nil, err
		}
		defer f.Close()
		log = f
	}
	var mu sync.Mutex // guards done
	done := 0
	o := client.WorkOptions{
		Concurrency: in.Concurrency, Visibility: seconds(in.Visibility), UntilEmpty: in.UntilEmpty, GracePeriod: seconds(in.Grace),
		OnError: func(err error) { fmt.Fprintln(os.Stderr, "work:", err) },
	}
	err := s.current().Work(s.worker(ctx), in.Queue, o, func(ctx context.Context, m *client.LeasedMessage) error {
		if log != nil {
			if _, err := fmt.Fprintf(log, "%s %d %s\n", m.ID, m.Deliveries, m.Value); err != nil {
				panic(err)
			}
		}
		if err := act(ctx, in.Script[string(m.Value)]); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		done++
		return nil
	})
	mu.Lock()
	defer mu.Unlock()
	return map[string]int{"done": done}, err
}

// act does what an action of a script says.
func act(ctx context.Context, action string) error {
	verb, rest, _ := strings.Cut(action, ":")
	switch verb {
	case "", "ok":
		return nil
	case "fail":
		return errors.New(rest)
	case "dead":
		return client.GiveUp(errors.New(rest))
	}
	d, err := time.ParseDuration(rest + "s")
	if err != nil {
		panic(err)
	}
	switch verb {
	case "retry":
		return client.RetryAfter(d, nil)
	case "sleep":
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	panic("unknown action " + action)
}
