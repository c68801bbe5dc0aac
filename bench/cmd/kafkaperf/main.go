package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/sebbroker/seb/internal/machine"
	"github.com/sebbroker/seb/test/interop/java"
)

// options are the flags.
type options struct {
	Seb        string        `json:"-"`
	Bench      string        `json:"-"`
	Dir        string        `json:"-"`
	JSON       string        `json:"-"`
	Pom        string        `json:"-"`
	Version    string        `json:"version"`
	Systems    []string      `json:"systems"`
	Rounds     int           `json:"rounds"`
	Records    int           `json:"records"`
	Warmup     int           `json:"warm_up_records"`
	Size       int           `json:"record_bytes"`
	Partitions int           `json:"partitions"`
	Properties string        `json:"producer_properties"`
	Consumer   string        `json:"consumer_properties"`
	SebFlags   string        `json:"seb_flags"`
	Settle     time.Duration `json:"settle_ns"`
}

func parse() (*options, error) {
	var o options
	flag.StringVar(&o.Seb, "seb", "bin/seb", "the built seb")
	flag.StringVar(&o.Bench, "bench", "bin/seb-bench", "the built seb-bench, which starts Kafka")
	flag.StringVar(&o.Dir, "dir", ".cache/interop/speed", "a folder on the disk that is measured; each turn has one below it")
	flag.StringVar(&o.JSON, "json", "bin/kafkaperf.json", "file for all samples")
	flag.StringVar(&o.Pom, "pom", "test/interop/java/pom.xml", "what names the tools")
	flag.StringVar(&o.Version, "version", "unknown", "what is measured: the commit")
	systems := flag.String("systems", strings.Join(names(), ","), "which brokers, in this order in each round")
	flag.IntVar(&o.Rounds, "rounds", 3, "turns of each broker")
	flag.IntVar(&o.Records, "records", 1_000_000, "records that a turn writes and reads")
	flag.IntVar(&o.Warmup, "warmup", 300_000, "records that a turn writes and reads before")
	flag.IntVar(&o.Size, "size", 1024, "bytes of a record's value")
	flag.IntVar(&o.Partitions, "partitions", 6, "partitions of the topic")
	flag.StringVar(&o.Properties, "producer", "acks=all batch.size=131072 linger.ms=10 buffer.memory=67108864", "settings of the producer")
	flag.StringVar(&o.Consumer, "consumer", "fetch.min.bytes=1", "settings of the consumer")
	flag.StringVar(&o.SebFlags, "seb-flags", "", "further flags of seb serve")
	flag.DurationVar(&o.Settle, "settle", 0, "how long to look at a broker after each turn: 70s sees Seb put objects together")
	flag.Parse()
	o.Systems = strings.Split(*systems, ",")
	for _, dir := range []*string{&o.Seb, &o.Bench, &o.Dir} {
		path, err := filepath.Abs(*dir)
		if err != nil {
			return nil, err
		}
		*dir = path
	}
	if o.Rounds < 1 || o.Records < 1 || o.Warmup < 1 {
		return nil, errors.New("rounds, records and warmup are at least 1")
	}
	return &o, nil
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kafkaperf:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	o, err := parse()
	if err != nil {
		return err
	}
	pom, err := os.ReadFile(o.Pom)
	if err != nil {
		return err
	}
	tools, err := java.Tools(ctx, pom)
	if err != nil {
		return err
	}
	r := report{Started: time.Now(), Machine: machine.Here(), Options: o, Load: load()}
	if err := r.turns(ctx, tools); err != nil {
		return err
	}
	text, err := json.MarshalIndent(&r, "", "  ")
	if err != nil {
		return err
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(o.JSON), 0o750), os.WriteFile(o.JSON, append(text, '\n'), 0o600)); err != nil {
		return err
	}
	return r.write(os.Stdout)
}

// turns measures each broker in each round. What they have stored stays until the end: ext4 looks at each file that was deleted in the
// last minutes before it makes another one, and the next turn would pay for that.
func (r *report) turns(ctx context.Context, tools string) (err error) {
	o := r.Options
	if err := os.MkdirAll(o.Dir, 0o750); err != nil {
		return err
	}
	dir, err := os.MkdirTemp(o.Dir, "turns-")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	for round := range o.Rounds {
		for _, name := range o.Systems {
			s, err := find(name)
			if err != nil {
				return err
			}
			began := time.Now()
			sample, err := turn(ctx, o, tools, dir, s)
			if err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			r.add(name, sample)
			fmt.Fprintf(os.Stderr, "round %d, %s: %.0f s; wrote %.0f/s at %.2f µs, read %.0f/s at %.2f µs, %d MiB\n", round+1, name,
				time.Since(began).Seconds(), sample.Produce.Rate, sample.Produce.CPU, sample.Consume.Rate, sample.Consume.CPU, sample.RSS>>20)
		}
	}
	return nil
}
