// Command growth measures how the costs of a broker grow with topics, partitions, groups, producers,
// connections and triggers, and where it stops. It runs two programs in turns, before and after, on
// the S3 server or a folder:
//
//	go run ./test/cmd/growth -base HEAD~3                        a commit, and the working tree
//	go run ./test/cmd/growth -base bin/old -seb bin/new          two programs
//	go run ./test/cmd/growth -seb bin/new -run '^sse/64MiB'      some rows of one program
//
// Rows, with the numbers that flags select:
//
//	topics/N                  create N topics, write a record to each, restart
//	partitions/N, plain/N     one franz-go client, idempotent or not, writes each of N partitions
//	                          once a second
//	groups/N                  N groups commit an offset
//	producers/LIMIT/N         a first batch, N other idempotent producers, the first batch again
//	sse/LIMIT/N, poll/LIMIT/N N readers at the end of a topic, and 5 records: event streams, long polls
//	kafka/LIMIT/N             the same with N franz-go consumers, which take 3 connections each
//	readers/LIMIT/N           N event streams, and a producer for -time (not without -run)
//	keys/N                    N keys of a topic with a key index, in a folder: lookups, restart
//
// Rows of triggers, in a folder or on S3:
//
//	triggers/MofTxE           an event of each of E entities, which M of T triggers mention
//	deadlines/N, deadlines/s3/N
//	                          N firings whose deadlines are at the same time
//	deliveries/TxDELAY        deliveries of T triggers to a receiver that takes DELAY
//	deliveries/TxDELAY/C      the same with a concurrency of C
//
// On S3:
//
//	merging/N, merging/tls/N  N objects of 100 records of 256 B become packs, over http or https
//	history/N, slots/N        N objects of 100 records of 256 B, or of half a megabyte: starts with the
//	                          data folder, without it, and after a kill; fsck and backup
//	requests/N                requests of N records per second, with the default budget
//
// In a folder:
//
//	compaction/N              N keys, and half as many records with random ones
//
// LIMIT is the --memory-limit; rows without one have 256 MiB. Each row starts a new broker on a new
// bucket. CPU, memory and state are those of the broker, and independent of other work on the
// machine; times of acknowledgements are not. All rows of two programs take about an hour and a half,
// those of triggers as long again, and those of history, slots, compaction and requests an hour. A
// refused reader tries again after a second. Arguments after -- go to seb serve.
package main

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/testenv"
)

//go:embed main.go
var source string

// options are the settings of all rows.
type options struct {
	idle, steady, settle, life, bound, deliver, count time.Duration
}

// row is one measurement.
type row struct {
	section, size string   // the name is section/size
	limit         string   // --memory-limit
	folder        bool     // the bucket is a folder, not on S3
	counted       bool     // the requests to S3 are counted
	tls           bool     // the requests to S3 go through a proxy with TLS
	afterOnly     bool     // the program before cannot do it, or takes too long
	args          []string // of seb serve
	run           func(ctx context.Context, b *broker, to *result) error
}

func (r *row) name() string { return r.section + "/" + r.size }

// program is a seb to measure.
type program struct{ label, path string }

func main() {
	var o options
	base := flag.String("base", "", "commit or program to compare with (empty: none)")
	head := flag.String("seb", "", "commit or program (empty: the working tree)")
	run := flag.String("run", "", "regular expression of the rows to run (empty: all but readers)")
	asJSON := flag.Bool("json", false, "print JSON instead of tables")
	topics := flag.String("topics", "10,100,1000,10000", "numbers of topics")
	partitions := flag.String("partitions", "100,1000,3000,8000,10000", "numbers of partitions")
	groups := flag.String("groups", "1,100,1000,10000", "numbers of groups")
	limits := flag.String("limits", "64MiB,256MiB,1GiB", "memory limits of the rows with LIMIT")
	producers := flag.String("producers", "9000,90000", "numbers of idempotent producers")
	readers := flag.String("readers", "100,1000,5000", "numbers of readers over HTTP")
	consumers := flag.String("consumers", "50,150,400", "numbers of Kafka consumers")
	keys := flag.String("keys", "100000,1000000,5000000", "numbers of keys")
	flag.DurationVar(&o.life, "time", 10*time.Minute, "duration of readers")
	flag.DurationVar(&o.steady, "steady", 45*time.Second, "duration of partitions and plain")
	flag.DurationVar(&o.idle, "idle", 10*time.Second, "time to measure the CPU of an idle broker")
	flag.DurationVar(&o.settle, "settle", 10*time.Second, "time for clients to connect")
	flag.DurationVar(&o.bound, "bound", 5*time.Minute, "time after which a row of triggers gives up")
	flag.DurationVar(&o.deliver, "deliver", 20*time.Second, "duration of deliveries")
	flag.DurationVar(&o.count, "count", 4*time.Minute, "duration of requests")
	campaign.Do(source, func(ctx context.Context) error {
		all := slices.Concat(o.triggerRows(), o.deliveryRows(), o.mergeRows(), o.historyRows())
		for _, f := range []struct {
			sizes  string
			limits string
			rows   func(n int, limit string) []row
		}{
			{*topics, "", o.topicRows},
			{*partitions, "", o.partitionRows},
			{*groups, "", o.groupRows},
			{*keys, "", o.keyRows},
			{*producers, *limits, o.producerRows},
			{*readers, *limits, o.readerRows},
			{*consumers, *limits, o.consumerRows},
		} {
			for limit := range strings.SplitSeq(f.limits, ",") {
				for size := range strings.SplitSeq(f.sizes, ",") {
					n, err := strconv.Atoi(size)
					if err != nil || n < 1 {
						return fmt.Errorf("%q is not a number above 0", size)
					}
					all = append(all, f.rows(n, cmp.Or(limit, "256MiB"))...)
				}
			}
		}
		rows, err := choose(all, *run)
		if err != nil {
			return err
		}
		return measure(ctx, rows, *base, *head, &printer{json: *asJSON})
	})
}

// choose returns the rows whose names match, sorted by section.
func choose(all []row, pattern string) ([]row, error) {
	match, err := regexp.Compile(pattern)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, section := range []string{"topics", "partitions", "plain", "groups", "producers", "sse", "poll", "kafka", "readers", "keys", "triggers", "deadlines", "deliveries", "merging", "history", "slots", "compaction", "requests"} {
		for _, r := range all {
			if r.section == section && match.MatchString(r.name()) && (pattern != "" || section != "readers") {
				rows = append(rows, r)
			}
		}
	}
	if len(rows) == 0 {
		return nil, fmt.Errorf("no row matches %q", pattern)
	}
	return rows, nil
}

// measure runs all rows with both programs, in turns, and prints a table after each section.
func measure(ctx context.Context, rows []row, base, head string, out *printer) error {
	if err := campaign.S3(ctx); err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "seb-growth-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	var programs []program
	if base != "" {
		programs = append(programs, program{label: "before"})
	}
	programs = append(programs, program{label: "after"})
	versions := []string{base, head}[2-len(programs):]
	for i := range programs {
		p := &programs[i]
		if p.path, err = campaign.Program(ctx, filepath.Join(dir, p.label), versions[i]); err != nil {
			return err
		}
	}
	out.header(fmt.Sprintf("before: %s, after: %s, of %s; %s; %s", cmp.Or(base, "none"), cmp.Or(head, "the working tree"),
		campaign.Version(ctx), machine.Here(), time.Now().UTC().Format(time.DateTime+" MST")))
	s3, err := testenv.StartS3(ctx, filepath.Join(dir, "s3"))
	if err != nil {
		return err
	}
	defer func() { _ = s3.Stop() }()
	bar := progress.New(os.Stderr, "rows", int64(len(rows)*len(programs)), nil)
	defer bar.Clear()
	var faults []error
	for i := range rows {
		r := &rows[i]
		for j := range programs {
			p := &programs[(i+j)%len(programs)] // each is the first in half of the rows
			bar.Set(int64(i*len(programs) + j))
			if r.afterOnly && p.label == "before" {
				continue
			}
			res := result{Section: r.section, Row: r.size, Program: p.label}
			if err := one(ctx, r, p, s3, &res); err != nil {
				res.text("error", "%v", err)
				faults = append(faults, fmt.Errorf("%s, %s: %w", r.name(), p.label, err))
			}
			if ctx.Err() != nil {
				return errors.Join(out.flush(), ctx.Err())
			}
			bar.Clear()
			if err := out.add(res); err != nil {
				return err
			}
		}
	}
	return errors.Join(append(faults, out.flush())...)
}

// one runs a row with a program.
func one(ctx context.Context, r *row, p *program, s3 *testenv.S3Server, to *result) error {
	dir, err := os.MkdirTemp("", "seb-growth-row-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &broker{path: p.path, dir: dir, bucket: filepath.Join(dir, "bucket"), args: append([]string{"--memory-limit", r.limit}, r.args...)}
	if !r.folder {
		b.bucket = s3.Spec(filepath.Base(dir))
	}
	if r.counted || r.tls {
		start := testenv.NewS3Proxy
		if r.tls {
			start = testenv.NewS3ProxyTLS
		}
		if b.proxy, err = start(s3.Endpoint); err != nil {
			return err
		}
		defer b.proxy.Close()
		b.bucket = b.proxy.Spec(filepath.Base(dir))
	}
	if r.tls {
		certificate := filepath.Join(dir, "ca.pem")
		if err := os.WriteFile(certificate, b.proxy.Certificate(), 0o600); err != nil {
			return err
		}
		b.env = []string{"SSL_CERT_FILE=" + certificate}
	}
	if err := b.start(); err != nil {
		return err
	}
	defer b.end()
	return r.run(ctx, b, to)
}
