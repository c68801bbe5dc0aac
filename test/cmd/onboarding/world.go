package main

import (
	"context"
	"crypto/rand"
	"fmt"
	mathrand "math/rand/v2"
	"net"
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

// world is the broker and the receiver, as processes that are killed, and the folder that they live in.
type world struct {
	dir        string
	seb, taker string // the programs
	bucket     string
	port       string
	hook       string // address of the receiver
	env        []string
	secret     webhook.Secret
	key        string
	s3         *testenv.S3Server // nil: a bucket on disk
	broker     *testenv.Broker
	receiver   *testenv.Broker
	kills      map[string]int
	outages    []outage
	mu         sync.Mutex     // guards again
	again      map[string]int // messages that came again, by id
}

// outage is when broker or receiver were away.
type outage struct{ from, to time.Time }

func newWorld(ctx context.Context, o *options) (w *world, err error) {
	w = &world{
		dir: o.dir, seb: o.seb, bucket: filepath.Join(o.dir, "bucket"), secret: webhook.NewSecret(), key: rand.Text(),
		kills: map[string]int{}, again: map[string]int{},
	}
	if w.seb == "" {
		if w.seb, err = testenv.Build(w.dir); err != nil {
			return nil, err
		}
	}
	if w.taker, err = testenv.BuildPackage(w.dir, "github.com/sebbroker/seb/test/cmd/onboarding/receiver"); err != nil {
		return nil, err
	}
	if _, w.port, err = freePort(); err != nil {
		return nil, err
	}
	if w.hook, _, err = freePort(); err != nil {
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

// freePort finds a port that a process can have, and have again when it is started anew: one that the system gives to nobody
// who asks for any.
func freePort() (address, port string, err error) {
	const first, many, tries = 20_000, 10_000, 20
	for range tries {
		port = strconv.Itoa(first + mathrand.IntN(many))
		address = net.JoinHostPort("127.0.0.1", port)
		l, e := net.Listen("tcp", address)
		if e == nil {
			return address, port, l.Close()
		}
		err = e
	}
	return "", "", err
}

func (w *world) data() string    { return filepath.Join(w.dir, "data") }
func (w *world) mailbox() string { return filepath.Join(w.dir, "mails.ndjson") }
func (w *world) address() string { return "http://127.0.0.1:" + w.port }

func (w *world) startBroker() (err error) {
	// What the operator has to allow: webhooks to this machine.
	w.broker, err = testenv.ServeLogged(w.seb, w.env, nil, "--bucket", w.bucket, "--data-dir", w.data(), "--http-port", w.port,
		"--webhook-targets", "127.0.0.1")
	if err == nil {
		_, err = w.broker.Address(w.data())
	}
	return err
}

func (w *world) startReceiver() (err error) {
	note := func(line string) {
		if _, id, ok := strings.Cut(line, "again: "); ok {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.again[id]++
		}
	}
	w.receiver, err = testenv.StartProgram(w.taker, w.env, note, "-listen", w.hook, "-mailbox", w.mailbox())
	return err
}

// stop ends what runs. It may be called when not all was started.
func (w *world) stop() error {
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

// apply makes the triggers of a folder, as a person would.
func (w *world) apply(ctx context.Context, folder string) error {
	cmd := exec.CommandContext(ctx, w.seb, "trigger", "apply", "-f", folder, "--yes", "--address", w.address())
	cmd.Env = append(os.Environ(), w.env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("seb trigger apply: %w\n%s", err, out)
	}
	return nil
}

// client waits for the broker as long as anything here takes.
func (w *world) client() (*client.Client, error) {
	return client.New(w.address(), client.Options{APIKey: w.key, RetryTime: testenv.ReadyTime})
}

// blow is a kill -9 at a day, of those who are back some days later.
type blow struct {
	day, away        float64
	broker, receiver bool
	lose             bool // the broker's data folder
}

// blows are what happens in the month.
var blows = []blow{
	{day: 4, away: 1, receiver: true},
	{day: 7, away: 0.2, broker: true},
	{day: 10, away: 1.5, broker: true, receiver: true},
	{day: 13, away: 0.5, broker: true, lose: true},
	{day: 16, away: 2, receiver: true},
	{day: 19, away: 2, broker: true},
	{day: 22, away: 0.1, receiver: true},
	{day: 24, away: 0.1, broker: true},
}

func (w *world) suffer(ctx context.Context, start time.Time, day time.Duration) error {
	days := func(n float64) time.Duration { return time.Duration(n * float64(day)) }
	for _, b := range blows {
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
