package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
)

// result is what running a target gave.
type result struct {
	target
	inputs, interesting, corpus int64
	fuzzed                      time.Duration // as the engine counts it, without building
	cpu                         time.Duration // building included
	failed                      bool
	output                      []string // if it failed
}

func (r *result) perSecond() int64 {
	if r.fuzzed <= 0 {
		return 0
	}
	return int64(float64(r.inputs) / r.fuzzed.Seconds())
}

var progress = regexp.MustCompile(`^fuzz: elapsed: (\S+), execs: (\d+) \(\d+/sec\), new interesting: (\d+) \(total: (\d+)\)`)

// line takes a line of the engine's output.
func (r *result) line(s string) {
	m := progress.FindStringSubmatch(s)
	if m == nil {
		if !strings.HasPrefix(s, "fuzz: ") {
			r.output = append(r.output, s)
		}
		return
	}
	if d, err := time.ParseDuration(m[1]); err == nil {
		r.fuzzed = d
	}
	for i, n := range []*int64{&r.inputs, &r.interesting, &r.corpus} {
		*n, _ = strconv.ParseInt(m[i+2], 10, 64) // digits
	}
}

// ended judges the end. The engine now and then reports the end of its time as a failure: without a failing input it is
// none.
func (r *result) ended(err error) {
	text := strings.Join(r.output, "\n")
	r.failed = err != nil && (r.inputs == 0 || !strings.Contains(text, "context deadline exceeded") || strings.Contains(text, "Failing input"))
	if !r.failed {
		r.output = nil
	}
}

func runAll(ctx context.Context, targets []target, o *options) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	var all []result
	failed := 0
	for i, t := range targets {
		if ctx.Err() != nil {
			break
		}
		r, err := runOne(ctx, t, self, o)
		if err != nil {
			return err
		}
		all = append(all, r)
		fmt.Printf("%2d/%d %-44s %11d inputs %7d/s %5d new\n", i+1, len(targets), t, r.inputs, r.perSecond(), r.interesting)
		if r.failed {
			failed++
			fmt.Println(strings.Join(r.output, "\n"))
		}
	}
	printTable(os.Stdout, all)
	if failed > 0 {
		return fmt.Errorf("%d of %d targets failed", failed, len(targets))
	}
	return ctx.Err()
}

// runOne fuzzes one target. The error is only of running at all.
func runOne(ctx context.Context, t target, self string, o *options) (r result, err error) {
	r.target = t
	cmd := exec.CommandContext(ctx, "go", "test", "-toolexec", fmt.Sprintf("'%s' %s", self, toolArg), "-run", "^$", "-fuzz", "^"+t.name+"$",
		"-fuzztime", o.each.String(), "-fuzzminimizetime", "50ms", "-parallel", strconv.Itoa(o.workers), "./"+filepath.FromSlash(t.dir))
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 10 * time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return r, err
	}
	cmd.Stderr = cmd.Stdout
	if err := cmd.Start(); err != nil {
		return r, err
	}
	lines := bufio.NewReader(out)
	for {
		s, err := lines.ReadString('\n')
		if s = strings.TrimRight(s, "\n"); s != "" {
			r.line(s)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, os.ErrClosed) {
			break
		}
		if err != nil {
			return r, err
		}
	}
	r.ended(cmd.Wait())
	r.cpu = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return r, nil
}

func printTable(out io.Writer, all []result) {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\ntarget\tinputs\tnew interesting\tcorpus\tinputs/s\tCPU\t")
	var sum result
	for i := range all {
		r := &all[i]
		verdict := ""
		if r.failed {
			verdict = " FAILED"
		}
		fmt.Fprintf(w, "%s%s\t%d\t%d\t%d\t%d\t%s\t\n", r.target, verdict, r.inputs, r.interesting, r.corpus, r.perSecond(), r.cpu.Round(time.Second))
		sum.inputs += r.inputs
		sum.interesting += r.interesting
		sum.corpus += r.corpus
		sum.fuzzed += r.fuzzed
		sum.cpu += r.cpu
	}
	fmt.Fprintf(w, "%d targets\t%d\t%d\t%d\t%d\t%s\t\n", len(all), sum.inputs, sum.interesting, sum.corpus, sum.perSecond(), sum.cpu.Round(time.Second))
	_ = w.Flush() // to a terminal
}
