package conformance

import (
	"crypto/tls"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/sebbroker/seb/internal/operate/progress"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	full   = flag.Bool("full", false, "run all calls with all faults")
	only   = flag.String("only", "", "regular expression of the cells to run, as call / fault")
	speak  = flag.String("languages", "", "languages, separated by commas (empty: all)")
	lanes  = flag.Int("lanes", 2, "cells of one language at once")
	report = flag.String("report", "", "Markdown file for the table")
)

func TestMain(m *testing.M) { os.Exit(testenv.Main(m)) }

// TestMatrix gives each language each call with each fault. The broker must have what a client was told, and
// all languages must be told the same. Without -full it runs a part of the cells.
func TestMatrix(t *testing.T) {
	skipShort(t)
	t.Parallel()
	cells := selected(t)
	spoken := started(t)
	bar := progress.New(os.Stderr, "cells", int64(len(cells)*len(spoken)), nil)
	table := make(table, len(cells))
	for i := range cells {
		table[i] = row{call: cells[i].call.name, fault: cells[i].fault.name, outcomes: make([]outcome, len(spoken))}
	}
	var all sync.WaitGroup
	for l, s := range spoken {
		queue := make(chan int, len(cells))
		for i := range cells {
			queue <- i
		}
		close(queue)
		for _, n := range s.lanes {
			all.Go(func() {
				for i := range queue {
					c := &cell{lane: n, call: cells[i].call, fault: cells[i].fault, name: fmt.Sprint("c", i)}
					table[i].outcomes[l] = c.run(t.Context())
					bar.Add(1)
				}
			})
		}
	}
	all.Wait()
	bar.Clear()
	var names []string
	for _, s := range spoken {
		names = append(names, s.name)
		for _, n := range s.lanes {
			if err := n.close(); err != nil {
				t.Errorf("%s: %v", s.name, err)
			}
		}
	}
	for _, fault := range table.judge(names) {
		t.Error(fault)
	}
	t.Logf("\n%s\nslow calls:\n%s", table.markdown(names), strings.Join(table.slow(names), "\n"))
	if *report != "" {
		must.NoError(t, os.WriteFile(*report, []byte(table.document(names, len(cells))), 0o600))
	}
}

func skipShort(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts many processes")
	}
}

// small are the cells without -full.
var small = regexp.MustCompile(`^(.* / none|produce / .*(after|cut|503|HTML|key).*|(send|settle|read|work, settle) / .*(killed after|cut in its body|HTML 200).*)$`)

// selected returns the cells to run.
func selected(t *testing.T) (list []cell) {
	wanted := must.Get(regexp.Compile(*only))(t)
	for _, c := range calls {
		for _, f := range faults {
			name := c.name + " / " + f.name
			if c.input && f.name != "none" || f.only != nil && !f.only(c) || c.worker && f.lasts && f.temporary || !wanted.MatchString(name) || !*full && *only == "" && !small.MatchString(name) {
				continue
			}
			list = append(list, cell{call: c, fault: f})
		}
	}
	if len(list) == 0 {
		t.Fatal("no cell is selected")
	}
	return list
}

// speaker is a language with its command, and its lanes.
type speaker struct {
	name         string
	command, env []string
	lanes        []*lane
}

// commands returns the languages, without lanes.
func commands(t *testing.T) (list []speaker) {
	root := must.Get(testenv.Root())(t)
	for _, g := range languages {
		if *speak != "" && !slices.Contains(strings.Split(strings.ToLower(*speak), ","), strings.ToLower(strings.ReplaceAll(g.name, ", ", "-"))) {
			continue
		}
		if _, err := exec.LookPath(g.needs); err != nil && g.needs != "" && os.Getenv("CI") != "true" {
			t.Logf("%s is left out: %v", g.name, err)
			continue
		}
		s := speaker{name: g.name}
		s.command, s.env = must.Get2(g.start(t.Context(), root, t.TempDir()))(t)
		list = append(list, s)
	}
	return list
}

// started starts the lanes of all languages.
func started(t *testing.T) []speaker {
	own, others := testenv.NewAuthority(t), testenv.NewAuthority(t)
	l := &lab{program: testenv.Program(t), ca: own.File(t, t.TempDir()), own: certificate(t, own), others: certificate(t, others)}
	list := commands(t)
	for i := range list {
		s := &list[i]
		for range *lanes {
			s.lanes = append(s.lanes, must.Get(newLane(l, t.TempDir(), s.command, s.env))(t))
		}
	}
	return list
}

func certificate(t *testing.T, a *testenv.Authority) *tls.Config {
	f := a.Files(t, t.TempDir(), testenv.Leaf{})
	return &tls.Config{Certificates: []tls.Certificate{must.Get(tls.LoadX509KeyPair(f.Cert, f.Key))(t)}}
}
