package campaign

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sebbroker/seb/bench/report"
	"github.com/sebbroker/seb/bench/result"
)

// Output names the files of a campaign's report.
type Output struct {
	Results  string // folder of all campaigns' results
	Document string // Markdown file; the text between marks is replaced
	Pictures string // folder of pictures
	Summary  string // JSON file with all figures; "": none
	Root     string // folder of the source, which is removed from paths
}

// The sections of the document.
const (
	sectionSetup    = "set-up"
	sectionSystems  = "systems"
	sectionRuns     = "runs"
	sectionWaits    = "batch wait"
	sectionFollower = "follower"
	sectionLoops    = "open and closed loop"
	sectionLong     = "long runs"
	sectionFlushed  = "flushed brokers"
)

// program is the one that writes the sections.
const program = "bench/cmd/peers"

// parts are the results of a plan, by part.
type parts map[string]*result.File

// errNothing means that no run exists.
var errNothing = errors.New("no runs were measured")

// Write writes the document's sections, the pictures and the summary of the plan's existing
// results. A long or flushed campaign has a separate section and keeps the others.
func (p *Plan) Write(o Output) error {
	s := store{filepath.Join(o.Results, p.Name())}
	steps := p.Steps()
	all, count := parts{}, 0
	for _, part := range allParts {
		f, err := s.all(steps, part)
		if err != nil {
			return err
		}
		all[part] = f
		count += len(f.Runs)
	}
	if count == 0 {
		return fmt.Errorf("%s: %w", s.dir, errNothing)
	}
	text, err := os.ReadFile(o.Document)
	if err != nil {
		return err
	}
	d := &document{plan: p, all: all, pictures: o.Pictures, link: linkTo(o.Document, o.Pictures), root: o.Root, missing: len(steps) - count}
	sections, err := d.sections()
	if err != nil {
		return err
	}
	for _, x := range sections {
		if text, err = report.Replace(text, program, x.name, x.text); err != nil {
			return fmt.Errorf("%s: %w", o.Document, err)
		}
	}
	if o.Summary != "" {
		if err := writeSummary(o.Summary, p, all); err != nil {
			return err
		}
	}
	return os.WriteFile(o.Document, text, 0o644)
}

// linkTo returns the path of a folder relative to a document.
func linkTo(document, folder string) string {
	path, err := filepath.Rel(filepath.Dir(document), folder)
	if err != nil {
		return folder
	}
	return filepath.ToSlash(path)
}

// section is a text with its name.
type section struct{ name, text string }

// document is the content of the report.
type document struct {
	plan     *Plan
	all      parts
	pictures string
	link     string // to the pictures, from the document
	root     string
	missing  int // missing runs of the plan
}

func (d *document) sections() ([]section, error) {
	if d.plan.Settings.Long {
		text, err := d.runs("long-")
		return []section{{sectionLong, d.setup() + "\n" + text}}, err
	}
	if d.plan.Settings.Flushed {
		text, err := d.flushed()
		return []section{{sectionFlushed, text}}, err
	}
	list := []section{{sectionSetup, d.setup()}, {sectionSystems, d.systems()}}
	for _, x := range []struct {
		name string
		make func() (string, error)
	}{
		{sectionRuns, func() (string, error) { return d.runs("") }},
		{sectionWaits, d.waits},
		{sectionFollower, d.follower},
		{sectionLoops, d.loops},
	} {
		text, err := x.make()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", x.name, err)
		}
		list = append(list, section{x.name, text})
	}
	return list, nil
}

// picture writes a chart and returns the link to it.
func (d *document) picture(name string, c *report.Chart) (string, error) {
	if len(c.Lines) == 0 {
		return "", nil
	}
	return d.draw(name, c.Title, c)
}

// draw writes a picture and returns the link to it.
func (d *document) draw(name, title string, c interface{ SVG(w io.Writer) error }) (string, error) {
	if err := os.MkdirAll(d.pictures, 0o755); err != nil {
		return "", err
	}
	var b bytes.Buffer
	if err := c.SVG(&b); err != nil {
		return "", err
	}
	if err := os.WriteFile(filepath.Join(d.pictures, name+".svg"), b.Bytes(), 0o644); err != nil {
		return "", err
	}
	return fmt.Sprintf("![%s](%s/%s.svg)\n\n", title, d.link, name), nil
}
