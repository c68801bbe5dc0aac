// Command failover measures what clients see when the broker that leads dies, hangs or leaves: real
// brokers on one bucket, and producers and consumers with a schedule that does not wait for answers.
// Faults:
//
//	none     nothing, for comparison
//	kill     SIGKILL of the leader
//	stop     SIGSTOP of the leader for -stop
//	term     SIGTERM of the leader, and a new start
//	roll     all brokers restarted, one after the other; with -replace the new one starts first
//	standby  SIGKILL of a broker that does not lead
//
// With -namespaces each broker has a network namespace of its own on a bridge, and, with -store s3,
// a proxy of its own between it and the store. More faults are possible then:
//
//	stop-standby, term-standby        SIGSTOP, SIGTERM of a broker that does not lead
//	cut, cut-standby                  the link of the leader, or of another broker, is down
//	cut-pair, one-way                 two brokers do not hear each other; one does not hear the other
//	power, power-standby              link down, later SIGKILL
//	store-refused, -slow, -hung, -503 the store of one broker, mostly the leader's
//	store-cut                         packets of one broker to the store are dropped
//	slow-list                         each LIST takes 10 s; in half of the rounds the leader is killed
//	unregister                        a registration is deleted from the bucket
//	busy, full                        busy cores; a full disk of one broker
//	several                           two or three of these at once
//	flap                              no links between brokers for 10 s, then for 10 s all
//	roll-apart                        roll without links between brokers
//
// The namespaces end with the last process, also after a crash. A campaign prints each needless
// takeover, and each fault after which the brokers did not see each other within 10 s of its end.
//
// It prints tables of gaps, waits, takeovers, requests and errors, and checks at the end that each
// acknowledged record is in the log exactly once, in order, and that no offset was reset. A round
// takes 8 to 20 seconds. Arguments after -- go to seb serve. With -store s3 a proxy in front of a
// real S3 server delays requests.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/failover"
)

//go:embed main.go
var source string

// files are the outputs besides the tables.
type files struct {
	out, plot string
	keep      bool // the folder of brokers
	lines     bool // progress as lines
}

func main() {
	var o failover.Options
	var to files
	faults := flag.String("faults", "kill,stop,term,roll", "faults, separated by commas")
	clients := flag.String("clients", "http,sse,franz", "clients, separated by commas: http, sse, franz, librdkafka, java")
	store := flag.String("store", "file", "bucket: file or s3")
	disk := flag.String("disk", "bin", "folder on the measured disk")
	program := flag.String("program", "", "a built seb (empty: build it)")
	flag.IntVar(&o.Rounds, "rounds", 20, "rounds of each fault")
	flag.IntVar(&o.Brokers, "brokers", 3, "brokers, 2 to 9")
	flag.IntVar(&o.Rate, "rate", 100, "records per second of each producer")
	flag.DurationVar(&o.KafkaTimeout, "kafka-timeout", 3*time.Second, "time after which franz-go gives up a request")
	flag.DurationVar(&o.MetadataAge, "metadata-age", time.Second, "least time between two requests of franz-go for metadata (its own default is 5s)")
	flag.DurationVar(&o.StopTime, "stop", 10*time.Second, "duration of a stop")
	flag.BoolVar(&o.Namespaces, "namespaces", false, "a network namespace for each broker (root, or a user who may make namespaces)")
	flag.Uint64Var(&o.Seed, "seed", 1, "determines the order and the times of shuffled rounds")
	flag.BoolVar(&o.Shuffle, "shuffle", false, "all rounds in random order, stops and faults of namespaces for 0.1 to 60 s")
	flag.DurationVar(&o.Time, "time", 0, "no round begins after this time (0: no limit)")
	flag.DurationVar(&o.Hold, "hold", 0, "duration of none and of the faults of namespaces (0: 10s)")
	flag.BoolVar(&o.Idle, "idle", false, "no clients")
	flag.BoolVar(&o.Local, "local", false, "with namespaces: brokers with the default listeners")
	flag.BoolVar(&o.NAT, "nat", false, "with namespaces: the second broker is behind a relay that hides its address")
	flag.DurationVar(&o.Settle, "settle", 2*time.Second, "time without faults before each round")
	flag.BoolVar(&o.Replace, "replace", false, "in roll, start the new broker before the old one gets SIGTERM")
	flag.DurationVar(&o.Put, "put", 100*time.Millisecond, "delay of a PUT to s3")
	flag.DurationVar(&o.Get, "get", 60*time.Millisecond, "delay of a GET, HEAD or DELETE to s3")
	flag.DurationVar(&o.List, "list", 80*time.Millisecond, "delay of a LIST of s3")
	flag.BoolVar(&to.keep, "keep", false, "keep the folder with buckets and logs")
	flag.BoolVar(&to.lines, "v", false, "print each step with the time of the day")
	flag.StringVar(&to.out, "out", "", "file for the figures of all rounds, .json or .csv (empty: none)")
	flag.StringVar(&to.plot, "plot", "", "SVG file with the acknowledgements around the first takeover (empty: none)")
	campaign.Do(source, func(ctx context.Context) error {
		var err error
		if o.Faults, err = failover.ParseFaults(*faults); err != nil {
			return err
		}
		if o.Clients, err = failover.ParseClients(*clients); err != nil {
			return err
		}
		o.Store, o.Args, o.Program = failover.Store(*store), flag.Args(), *program
		if err := to.validate(); err != nil {
			return err
		}
		if o.Store == failover.S3 {
			if err := campaign.S3(ctx); err != nil {
				return err
			}
		}
		if o.Program == "" {
			if err := campaign.BuildSeb(ctx); err != nil {
				return err
			}
			o.Program = filepath.Join("bin", "seb")
		}
		if o.Namespaces && !failover.Isolated() {
			if err := failover.NamespacesMissing(ctx); err != nil {
				return err
			}
			if err := failover.Install(ctx, o.Clients); err != nil {
				return err
			}
			return failover.Isolate(ctx, append([]string{"-program", o.Program}, os.Args[1:]...))
		}
		return measure(ctx, &o, &to, *disk)
	})
}

func (f *files) validate() error {
	if ext := filepath.Ext(f.out); f.out != "" && ext != ".json" && ext != ".csv" {
		return fmt.Errorf("-out %s: want a name that ends in .json or .csv", f.out)
	}
	return nil
}

// measure runs the campaign and writes its results. The folder of a campaign with a problem stays.
func measure(ctx context.Context, o *failover.Options, to *files, disk string) error {
	err := os.MkdirAll(disk, 0o750)
	if err == nil {
		o.Dir, err = os.MkdirTemp(disk, "failover-*")
	}
	if err == nil {
		o.Dir, err = filepath.Abs(o.Dir)
	}
	if err != nil {
		return err
	}
	clear := func() {}
	if to.lines {
		o.Progress = func(line string) { fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.TimeOnly), line) }
	} else if term.IsTerminal(int(os.Stderr.Fd())) {
		o.Progress = func(line string) { fmt.Fprintf(os.Stderr, "\r\033[K%s", line) }
		clear = func() { fmt.Fprint(os.Stderr, "\r\033[K") }
	}
	about := describe(ctx, o)
	r, err := failover.Run(ctx, *o)
	clear()
	if r == nil {
		return err
	}
	fmt.Println(about + "\n")
	err = errors.Join(err, r.Write(os.Stdout), to.write(r, about))
	if len(r.Problems) > 0 {
		err = errors.Join(err, fmt.Errorf("%d problems", len(r.Problems)))
	}
	if len(r.Violations) > 0 {
		err = errors.Join(err, fmt.Errorf("%d violations", len(r.Violations)))
	}
	if err != nil {
		return fmt.Errorf("%w\nbuckets and logs: %s", err, o.Dir)
	}
	if to.keep {
		fmt.Println("buckets and logs:", o.Dir)
		return nil
	}
	return os.RemoveAll(o.Dir)
}

// describe returns the program, the machine and the parameters.
func describe(ctx context.Context, o *failover.Options) string {
	store := string(o.Store)
	if o.Store == failover.S3 {
		store = fmt.Sprintf("s3 with %v more for a PUT, %v for a GET and %v for a LIST", o.Put, o.Get, o.List)
	}
	return fmt.Sprintf("seb %s; %v; %s\nbrokers: %d; store: %s; rate: %d/s of each producer; timeout of franz-go: %v, least age of its metadata: %v; stop: %v; replace: %v; serve: %s",
		campaign.Version(ctx), machine.Here(), time.Now().UTC().Format(time.DateTime+" MST"),
		o.Brokers, store, o.Rate, o.KafkaTimeout, o.MetadataAge, o.StopTime, o.Replace, cmp.Or(strings.Join(o.Args, " "), "no further arguments"))
}

// write writes the files.
func (f *files) write(r *failover.Result, about string) error {
	figures := r.WriteCSV
	if filepath.Ext(f.out) == ".json" {
		figures = func(w io.Writer) error {
			e := json.NewEncoder(w)
			e.SetIndent("", "  ")
			return e.Encode(struct {
				About string `json:"about"`
				*failover.Result
			}{about, r})
		}
	}
	return errors.Join(create(f.out, figures), create(f.plot, r.Plot))
}

// create writes a file, unless it has no name.
func create(name string, write func(io.Writer) error) error {
	if name == "" {
		return nil
	}
	out, err := os.Create(name)
	if err != nil {
		return err
	}
	return errors.Join(write(out), out.Close())
}
