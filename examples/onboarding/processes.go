package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/testenv"

	"github.com/sebbroker/seb/webhook"
)

// processes are the broker and the receiver, their files, and the record of their kills.
type processes struct {
	dir          string
	sebPath      string
	receiverPath string
	bucket       string
	port         string
	hook         string // host:port of the receiver
	env          []string
	secret       webhook.Secret
	key          string
	s3           *testenv.S3Server // nil: a bucket on disk
	broker       *testenv.Broker
	receiver     *testenv.Broker
	kills        map[string]int
	outages      []outage
	mu           sync.Mutex     // guards again
	again        map[string]int // repeated messages by ID
}

// outage is a time without broker or receiver.
type outage struct{ from, to time.Time }

func newProcesses(ctx context.Context, o *options) (w *processes, err error) {
	w = &processes{
		dir: o.dir, sebPath: o.seb, bucket: filepath.Join(o.dir, "bucket"), secret: webhook.NewSecret(), key: rand.Text(),
		kills: map[string]int{}, again: map[string]int{},
	}
	if w.sebPath == "" {
		if w.sebPath, err = testenv.Build(w.dir); err != nil {
			return nil, err
		}
	}
	if w.receiverPath, err = testenv.BuildPackage(w.dir, "github.com/sebbroker/seb/examples/onboarding/receiver"); err != nil {
		return nil, err
	}
	port, err := testenv.FreePort()
	if err != nil {
		return nil, err
	}
	w.port = strconv.Itoa(port)
	if w.hook, err = testenv.FreeAddress(); err != nil {
		return nil, err
	}
	w.env = []string{
		"SEB_API_KEY=" + w.key, "WEBHOOK_SECRET=" + w.secret.Reveal(),
		"MAIL_SECRET=" + w.secret.Reveal(), "MAIL_URL=http://" + w.hook + "/hook",
	}
	if o.s3 {
		if w.s3, err = testenv.StartS3(ctx, filepath.Join(w.dir, "s3")); err != nil {
			return nil, err
		}
		w.bucket = w.s3.Spec("onboarding")
		w.env = append(w.env, "AWS_ACCESS_KEY_ID="+testenv.AccessKey, "AWS_SECRET_ACCESS_KEY="+testenv.SecretKey)
	}
	return w, nil
}

func (w *processes) data() string    { return filepath.Join(w.dir, "data") }
func (w *processes) mailbox() string { return filepath.Join(w.dir, "mails.ndjson") }
func (w *processes) address() string { return "http://127.0.0.1:" + w.port }

func (w *processes) startBroker() (err error) {
	// By default the broker refuses webhooks to local addresses.
	w.broker, err = testenv.ServeLogged(w.sebPath, w.env, nil, "--bucket", w.bucket, "--data-dir", w.data(), "--http-port", w.port,
		"--webhook-targets", "127.0.0.1")
	if err == nil {
		_, err = w.broker.Address(w.data())
	}
	return err
}

func (w *processes) startReceiver() (err error) {
	note := func(line string) {
		if _, id, ok := strings.Cut(line, "again: "); ok {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.again[id]++
		}
	}
	w.receiver, err = testenv.StartProgram(w.receiverPath, w.env, note, "-listen", w.hook, "-mailbox", w.mailbox())
	return err
}

// stop kills the running processes. Processes that were not started are skipped.
func (w *processes) stop() error {
	for _, b := range []*testenv.Broker{w.broker, w.receiver} {
		if b != nil {
			b.Kill()
		}
	}
	if w.s3 != nil {
		return w.s3.Stop()
	}
	return nil
}

// apply runs seb trigger apply on a folder.
func (w *processes) apply(ctx context.Context, folder string) error {
	cmd := exec.CommandContext(ctx, w.sebPath, "trigger", "apply", "-f", folder, "--yes", "--address", w.address())
	cmd.Env = append(os.Environ(), w.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("seb trigger apply: %w\n%s", err, out)
	}
	return nil
}

// client returns a client that retries for the start time of a broker.
func (w *processes) client() (*client.Client, error) {
	return client.New(w.address(), client.Options{APIKey: w.key, RetryTime: testenv.ReadyTime})
}

// plannedKill is a kill -9 of broker or receiver, and its restart.
type plannedKill struct {
	day, away        float64 // when it is killed and for how long, in days
	broker, receiver bool
	lose             bool // deletes the broker's data directory too
}

// plannedKills are the kills of the month.
var plannedKills = []plannedKill{
	{day: 4, away: 1, receiver: true},
	{day: 7, away: 0.2, broker: true},
	{day: 10, away: 1.5, broker: true, receiver: true},
	{day: 13, away: 0.5, broker: true, lose: true},
	{day: 16, away: 2, receiver: true},
	{day: 19, away: 2, broker: true},
	{day: 22, away: 0.1, receiver: true},
	{day: 24, away: 0.1, broker: true},
}

func (w *processes) killProcesses(ctx context.Context, start time.Time, day time.Duration) error {
	days := func(n float64) time.Duration { return time.Duration(n * float64(day)) }
	for _, b := range plannedKills {
		if err := sleepUntil(ctx, start.Add(days(b.day))); err != nil {
			return err
		}
		from := time.Now()
		if b.broker {
			w.broker.Kill()
			w.kills["broker"]++
		}
		if b.receiver {
			w.receiver.Kill()
			w.kills["receiver"]++
		}
		if b.lose {
			w.kills["data folder"]++
			if err := os.RemoveAll(w.data()); err != nil {
				return err
			}
		}
		if err := sleepUntil(ctx, start.Add(days(b.day+b.away))); err != nil {
			return err
		}
		if b.receiver {
			if err := w.startReceiver(); err != nil {
				return err
			}
		}
		if b.broker {
			if err := w.startBroker(); err != nil {
				return err
			}
		}
		w.outages = append(w.outages, outage{from, time.Now()})
	}
	return nil
}
