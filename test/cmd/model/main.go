// Command model runs the model of brokers that take over from each other (test/model) and checks its
// invariants. For each violation it prints the first seed; -seed repeats it with a trace. Modes:
//
//	calm      the times of the design, one fault at a time: safety, a leader, no needless takeover
//	sleepy    candidates that sleep, PUTs that are late: safety
//	chaos     times over three orders of magnitude, many faults at once: safety
//	loopback  brokers that no other machine reaches
//	all       all of these, 10,000 runs of each in about eight minutes of processor time
//	rules     leaves out one rule after the other, and prints the invariant that breaks
package main

import (
	"context"
	_ "embed"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/sebbroker/seb/test/campaign"
	"github.com/sebbroker/seb/test/model"
)

//go:embed main.go
var source string

func main() {
	mode := flag.String("mode", "calm", "mode: calm, sleepy, chaos, loopback, all or rules")
	seeds := flag.Int("seeds", 1000, "runs of a mode; at most, of a rule")
	from := flag.Uint64("from", 1, "first seed")
	seed := flag.Uint64("seed", 0, "seed to repeat with a trace (0: many seeds)")
	without := flag.String("without", "", "rules to leave out, separated by commas")
	faults := flag.String("faults", "", "kinds of faults, separated by commas (default all of the mode)")
	only := flag.String("rule", "", "with -mode rules: this rule and those after it")
	schedule := flag.String("schedule", "", "directed schedule instead of random faults")
	campaign.Do(source, func(ctx context.Context) error {
		cfg := model.Config{Mode: model.Mode(*mode), Faults: *faults, Schedule: *schedule}
		for name := range strings.FieldsFuncSeq(*without, func(r rune) bool { return r == ',' }) {
			i, err := model.Named(name)
			if err != nil {
				return err
			}
			cfg.Without |= model.Without(i.Rule)
		}
		switch {
		case *seed != 0:
			cfg.Seed, cfg.Trace = *seed, os.Stdout
			r := model.Run(cfg)
			fmt.Println(r.Stat)
			return failed(r.Violation)
		case *mode == "rules":
			return rules(ctx, *seeds, *only)
		case *mode == "all":
			for _, m := range model.Modes {
				cfg.Mode = m
				if err := runs(ctx, cfg, *from, *seeds); err != nil {
					return err
				}
			}
			return nil
		default:
			return runs(ctx, cfg, *from, *seeds)
		}
	})
}

func failed(violation string) error {
	if violation == "" {
		return nil
	}
	return errors.New(violation)
}

// runs executes runs of one mode and prints their totals.
func runs(ctx context.Context, cfg model.Config, from uint64, seeds int) error {
	var total model.Stat
	first := map[string]uint64{}
	count := map[string]int{}
	tty := term.IsTerminal(int(os.Stderr.Fd()))
	for i := range seeds {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if tty && i%20 == 0 {
			fmt.Fprintf(os.Stderr, "\r%s: %d of %d runs", cfg.Mode, i, seeds)
		}
		cfg.Seed = from + uint64(i)
		r := model.Run(cfg)
		total.Add(r.Stat)
		if v := r.Violation; v != "" {
			if count[v]++; count[v] == 1 {
				first[v] = cfg.Seed
			}
		}
	}
	if tty {
		fmt.Fprint(os.Stderr, "\r\033[K")
	}
	fmt.Printf("%s: %v\n", cfg.Mode, total)
	for v, n := range count {
		fmt.Printf("  %d runs, first seed %d: %s\n", n, first[v], v)
	}
	if len(count) > 0 {
		return fmt.Errorf("%s: an invariant is broken", cfg.Mode)
	}
	return nil
}

// rules prints the table of rules.
func rules(ctx context.Context, seeds int, first string) error {
	fmt.Println("| of | rule | text | breaks without it | in | seed |\n|---|---|---|---|---|---|")
	at := max(0, slices.IndexFunc(model.All, func(i model.Info) bool { return i.Name == first }))
	for _, i := range model.All[at:] {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		fmt.Println(i.Row(seeds))
	}
	return nil
}
