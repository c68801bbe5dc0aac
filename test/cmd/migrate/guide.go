package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/sebbroker/seb/test/testenv"
)

// guideFile has the runbook. Its properties and commands are those that a move uses.
const guideFile = "docs/guide/grow.md"

// The first words of commands of the guide.
const (
	commandGroups    = "kafka-consumer-groups.sh "
	commandCheckOut  = "seb migrate check --from localhost:9092 "
	commandCheckBack = "seb migrate check --from kafka:9092 "
)

// block matches a code block of the guide.
var block = regexp.MustCompile("(?ms)^ *```(\\w+)\n(.*?)^ *```$")

// guide is what a move takes from the guide.
type guide struct {
	files    map[string]string // properties of MirrorMaker, by file name
	commands []string          // lines of blocks of sh
}

func readGuide() (*guide, error) {
	text, err := os.ReadFile(guideFile)
	if err != nil {
		return nil, err
	}
	g := &guide{files: map[string]string{}}
	for _, b := range block.FindAllStringSubmatch(string(text), -1) {
		switch b[1] {
		case "properties":
			first, _, _ := strings.Cut(b[2], "\n")
			g.files[strings.TrimPrefix(first, "# ")] = b[2]
		case "sh":
			for line := range strings.Lines(b[2]) {
				g.commands = append(g.commands, strings.TrimSpace(line))
			}
		}
	}
	return g, nil
}

var factors = regexp.MustCompile(`(?m)^(.*replication\.factor) = .*$`)

// here replaces addresses, key and files of the guide by those of the move. Kafka has one broker here, so no
// topic has more than one replica.
func (m *move) here(text string) (string, error) {
	rest, err := testenv.FreeAddress() // of MirrorMaker
	if err != nil {
		return "", err
	}
	text = strings.NewReplacer("http://localhost:8083", "http://"+rest, "localhost:9092", m.seb.address, "kafka:9092", m.kafka.address,
		"API-KEY", apiKey, "-password-file api-key", "-password-file "+filepath.Join(m.dir, "api-key")).Replace(text)
	return factors.ReplaceAllString(text, "$1 = 1"), nil
}

// set replaces or adds properties. A value of "" removes one.
func set(properties string, changes map[string]string) string {
	var b strings.Builder
	for line := range strings.Lines(properties) {
		name, _, _ := strings.Cut(line, " = ")
		if _, changed := changes[name]; !changed {
			b.WriteString(line)
		}
	}
	for name, value := range changes { //tidy:unordered the order of properties does not matter
		if value != "" {
			b.WriteString(name + " = " + value + "\n")
		}
	}
	return b.String()
}

// command runs the command of the guide that begins with a text, with more arguments, and returns its
// output and exit code, which may be 1.
func (m *move) command(ctx context.Context, begin, more string) (out string, code int, err error) {
	var text string
	for _, c := range m.guide.commands {
		if strings.HasPrefix(c, begin) {
			text = c
		}
	}
	if text == "" {
		return "", 0, fmt.Errorf("%s: no command %q", guideFile, begin)
	}
	if text, err = m.here(text); err != nil {
		return "", 0, err
	}
	c := exec.CommandContext(ctx, "sh", "-c", text+more)
	c.Env = m.environment()
	var output, faults strings.Builder
	c.Stdout, c.Stderr = &output, &faults
	err = c.Run()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 1 {
		return output.String(), 1, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("%s: %w: %s", text, err, faults.String())
	}
	return output.String(), 0, nil
}

// checked is the part of the result of a check that counts here.
type checked struct {
	Topics []struct {
		Topic, Difference string
		Partitions        []checkedPartition
	}
}

type checkedPartition struct {
	Partition                        int
	From, To                         struct{ Records int64 }
	Missing, Doubled, Extra, Changed int64
}

// check runs `seb migrate check` of the guide.
func (m *move) check(ctx context.Context, begin string) (*checked, error) {
	out, _, err := m.command(ctx, begin, " --json")
	if err != nil {
		return nil, err
	}
	r := &checked{}
	if err := json.Unmarshal([]byte(out), r); err != nil {
		return nil, err
	}
	for _, t := range r.Topics {
		if t.Difference != "" {
			return nil, fmt.Errorf("topic %s: %s", t.Topic, t.Difference)
		}
	}
	return r, nil
}

// sum adds a figure of all partitions.
func (c *checked) sum(figure func(p *checkedPartition) int64) (n int64) {
	for _, t := range c.Topics {
		for i := range t.Partitions {
			n += figure(&t.Partitions[i])
		}
	}
	return n
}
