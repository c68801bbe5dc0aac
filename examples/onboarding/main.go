// Command onboarding runs the example of docs/reports/onboarding.md: a month of made-up users, a real
// broker and a real receiver that are killed in between, and a comparison of the mails with the
// definitions of the triggers. 10,000 users take two minutes. It prints the mails of each trigger and
// the kills.
//
//	go run ./examples/onboarding -users 500 -day 500ms    # twenty seconds
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/sebbroker/seb/test/campaign"
)

//go:embed main.go
var source string

type options struct {
	users    int
	seed     uint64
	day      time.Duration
	dir      string
	triggers string
	seb      string
	s3       bool
}

func main() {
	o := options{}
	flag.IntVar(&o.users, "users", 10_000, "number of users who sign up")
	flag.Uint64Var(&o.seed, "seed", 1, "seed of the users' actions")
	flag.DurationVar(&o.day, "day", 2500*time.Millisecond, "duration of a simulated day")
	flag.StringVar(&o.dir, "dir", "", "empty working folder, which is kept (default: a temporary folder, kept after an error)")
	flag.StringVar(&o.triggers, "triggers", "examples/onboarding/triggers", "folder of the triggers")
	flag.StringVar(&o.seb, "seb", "", "path of the seb program (default: built from source)")
	flag.BoolVar(&o.s3, "s3", false, "use the S3 server of the tests instead of a bucket on disk")
	campaign.Do(source, func(ctx context.Context) error {
		if o.s3 {
			if err := campaign.S3(ctx); err != nil {
				return err
			}
		}
		return onboard(ctx, &o)
	})
}

// onboard runs the month and prints the report. It returns an error if a mail is missing, unexpected or early.
func onboard(ctx context.Context, o *options) error {
	if o.users < 1 || o.day < 100*time.Millisecond {
		return fmt.Errorf("-users: %d, want 1 or more; -day: %v, want 100ms or more", o.users, o.day)
	}
	temporary := o.dir == ""
	if temporary {
		dir, err := os.MkdirTemp("", "onboarding-*")
		if err != nil {
			return err
		}
		o.dir = dir
	} else if there, err := os.ReadDir(o.dir); err == nil && len(there) > 0 {
		return fmt.Errorf("-dir: %s is not empty", o.dir)
	}
	rep, err := run(ctx, o, os.Stdout)
	if err != nil {
		return fmt.Errorf("%w (see %s)", err, o.dir)
	}
	rep.print(os.Stdout)
	if !rep.ok() {
		return fmt.Errorf("mails differ from the definitions of the triggers (see %s)", o.dir)
	}
	if temporary {
		return os.RemoveAll(o.dir)
	}
	return nil
}

// run sends the events of a month and compares the mails with the definitions.
func run(ctx context.Context, o *options, out io.Writer) (rep *report, err error) {
	compressed := filepath.Join(o.dir, "triggers")
	if err := os.MkdirAll(compressed, 0o750); err != nil {
		return nil, err
	}
	rules, err := compress(o.triggers, compressed, o.day)
	if err != nil {
		return nil, err
	}
	w, err := newProcesses(ctx, o)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, w.stop()) }()
	if err := errors.Join(w.startReceiver(), w.startBroker()); err != nil {
		return nil, err
	}
	l := monthRun{processes: w, o: o, rules: rules, out: out}
	if l.client, err = w.client(); err != nil {
		return nil, err
	}
	defer l.client.Close()
	if err := l.begin(ctx, compressed); err != nil {
		return nil, err
	}
	if err := l.month(ctx); err != nil {
		return nil, err
	}
	return l.end(ctx)
}
