// Command migrate moves from Seb to Kafka by the runbook of docs/guide/grow.md, and back, with the properties
// of MirrorMaker 2 and the commands of the guide. Three fifths of the records are at Seb when the copy
// begins, in a topic that deletes and one that compacts, with keys, headers and tombstones. A producer and a
// consumer group run meanwhile, and MirrorMaker and Seb are killed in turns. The group moves while the producer
// runs, then the producer. Then the other records are written to Kafka, and all of it moves to a Seb with an
// empty bucket in the same way.
//
// It prints what each copy has, as `seb migrate check` and a reader of its own see it: records that are lost,
// out of order or doubled, and where a copy begins again; and what the group reads twice. The exit code is 1
// if a record is lost or out of order, or if the settings of the guide doubled one.
//
// With -settings it uses other settings of MirrorMaker for the way out, to see what a kill costs:
//
//	guide      those of the guide: transactions
//	flush      without transactions; source offsets are stored each second
//	top-level  the same, but offset.flush.interval.ms without the name of the cluster
//	default    neither
//
// A million records take about 15 minutes. It downloads Kafka into .cache, and needs java 17 and mvn.
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/term"

	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/interop"
)

//go:embed main.go
var source string

type options struct {
	records  int64
	rate     int64
	kills    int
	settings string
	back     bool
	keep     bool
	verbose  bool
	disk     string
}

func main() {
	var o options
	flag.Int64Var(&o.records, "records", 1_000_000, "records, without those that are written during the copies")
	flag.Int64Var(&o.rate, "rate", 1000, "records per second during the copies")
	flag.IntVar(&o.kills, "kills", 2, "kills of MirrorMaker, and of Seb, in each direction")
	flag.StringVar(&o.settings, "settings", "guide", "settings of MirrorMaker on the way out: guide, flush, top-level, default")
	flag.BoolVar(&o.back, "back", true, "also move back to Seb")
	flag.BoolVar(&o.keep, "keep", false, "keep the folder with data and logs")
	flag.BoolVar(&o.verbose, "v", false, "print each step with the time of the day")
	flag.StringVar(&o.disk, "disk", "bin", "folder for data")
	campaign.Do(source, func(ctx context.Context) error { return do(ctx, o) })
}

// variants are the changes of -settings.
var variants = map[string]map[string]string{
	"guide":     {},
	"flush":     {"kafka.exactly.once.source.support": ""},
	"top-level": {"kafka.exactly.once.source.support": "", "kafka.offset.flush.interval.ms": "", "offset.flush.interval.ms": "1000"},
	"default":   {"kafka.exactly.once.source.support": "", "kafka.offset.flush.interval.ms": ""},
}

func (o *options) changes() map[string]string { return variants[o.settings] }

// progress shows a step: as a line that the next one replaces, as lines with -v, or not at all in a pipe.
func (o *options) progress(format string, args ...any) {
	text, _, _ := strings.Cut(fmt.Sprintf(format, args...), "\n")
	switch {
	case o.verbose:
		fmt.Fprintln(os.Stderr, time.Now().UTC().Format(time.TimeOnly), text)
	case term.IsTerminal(int(os.Stderr.Fd())):
		fmt.Fprintf(os.Stderr, "\r\033[K%s", text)
	}
}

func do(ctx context.Context, o options) (err error) {
	if _, ok := variants[o.settings]; !ok {
		return fmt.Errorf("-settings %q: want guide, flush, top-level or default", o.settings)
	}
	m := &move{options: o}
	if m.guide, err = readGuide(); err != nil {
		return err
	}
	if err = os.MkdirAll(o.disk, 0o750); err == nil {
		m.dir, err = os.MkdirTemp(o.disk, "migrate-*")
	}
	if err == nil {
		m.dir, err = filepath.Abs(m.dir)
	}
	if err == nil {
		err = m.install(ctx)
	}
	if err != nil {
		return err
	}
	fmt.Printf("seb %s; Kafka and MirrorMaker %s; %v; %s\nrecords: %d; rate: %d/s; kills: %d; settings: %s\n\n", campaign.Version(ctx), interop.JavaVersion,
		machine.Here(), time.Now().UTC().Format(time.DateTime+" MST"), o.records, o.rate, o.kills, o.settings)
	begin := time.Now()
	err = m.run(ctx)
	m.progress("")
	fmt.Println(strings.Join(m.lines, "\n"))
	fmt.Println("took", time.Since(begin).Round(time.Second))
	if len(m.faults) > 0 {
		err = errors.Join(err, fmt.Errorf("%d faults", len(m.faults)))
	}
	if err != nil {
		return fmt.Errorf("%w\ndata and logs: %s", err, m.dir)
	}
	if o.keep {
		fmt.Println("data and logs:", m.dir)
		return nil
	}
	return os.RemoveAll(m.dir)
}
