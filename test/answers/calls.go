package answers

import (
	"bufio"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// call is an entry of the list of calls. A line that is not indented begins one:
//
//	GET,HEAD /topics       requests over HTTP with these methods and Accept: application/json
//	RAW                    the bytes of a connection; lines end in CR LF, Content-Length: auto is replaced
//	KAFKA Metadata 0 13    a request of the Kafka protocol in these versions; its members are JSON
//	KAFKA *                each API key of the protocol with an empty request
//	$ seb topic list       a command line of sh in the folder of the run
//	HELP                   the help of each command
//	START standby --flag   starts another broker on the bucket
//	STOP standby           ends a broker with SIGTERM
//	HOOK 2                 waits for webhooks and prints them, sorted
//
// Indented lines are options:
//
//	at standby             the broker; default main
//	as reader,none         the key, a variable, or none; default root; for each key a call
//	Name: value            a header; an empty value removes the default
//	> text                 a line of the body
//	base64 ${batch}        the body
//	save id "id":"(\w+)"   keeps the first group of a match in the answer as ${id}
//	until REGEXP           repeats the call until the answer matches, or with !REGEXP does not
//	shape                  keeps only names and types of the members of JSON, and names of metrics
//	sort                   sorts the lines of the answer
//	hide REGEXP            replaces matches, or their first group, by <hidden>
type call struct {
	number  int // of the line
	verb    string
	what    string
	at, as  string
	headers []string
	body    []string
	base64  string
	saves   map[string]*regexp.Regexp
	until   func(text string) bool // nil: the first answer
	hides   []*regexp.Regexp
	shape   bool
	sort    bool
	label   string // names the call in a recording: the line, headers, and the beginning of the body
}

func parse(list string) ([]*call, error) {
	var calls []*call
	var c *call
	lines := bufio.NewScanner(strings.NewReader(list))
	lines.Buffer(nil, 1<<20)
	for number := 1; lines.Scan(); number++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		if line[0] != ' ' {
			verb, what, _ := strings.Cut(line, " ")
			c = &call{number: number, verb: verb, what: what, at: "main", as: "root", saves: map[string]*regexp.Regexp{}, label: line}
			calls = append(calls, c)
			continue
		}
		if c == nil {
			return nil, fmt.Errorf("line %d: an option before the first call", number)
		}
		if err := c.option(strings.TrimLeft(line, " ")); err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
	}
	return spread(calls), lines.Err()
}

// spread returns a call for each method and each key of a list with commas.
func spread(calls []*call) []*call {
	var all []*call
	for _, c := range calls {
		for method := range strings.SplitSeq(c.verb, ",") {
			for key := range strings.SplitSeq(c.as, ",") {
				n := *c
				n.verb, n.as = method, key
				n.label = strings.Replace(c.label, c.verb, method, 1)
				if key != "root" {
					n.label += ", as " + key
				}
				all = append(all, &n)
			}
		}
	}
	return all
}

func (c *call) option(line string) (err error) {
	word, rest, _ := strings.Cut(line, " ")
	switch word {
	case "at":
		c.at = rest
		c.label += ", at " + rest
	case "as":
		c.as = rest
	case ">":
		if len(c.body) == 0 && (c.verb == "RAW" || c.verb == "KAFKA") {
			c.label += " " + rest[:min(len(rest), 80)]
		}
		c.body = append(c.body, rest)
	case "base64":
		c.base64 = rest
	case "save":
		name, pattern, _ := strings.Cut(rest, " ")
		c.saves[name], err = regexp.Compile(pattern)
	case "until":
		pattern, not := strings.CutPrefix(rest, "!")
		var re *regexp.Regexp
		re, err = regexp.Compile(pattern)
		c.until = func(text string) bool { return re.MatchString(text) != not }
	case "hide":
		var re *regexp.Regexp
		re, err = regexp.Compile(rest)
		c.hides = append(c.hides, re)
	case "shape":
		c.shape = true
	case "sort":
		c.sort = true
	default:
		if !strings.HasSuffix(word, ":") {
			return fmt.Errorf("unknown option %q", word)
		}
		c.headers = append(c.headers, line)
		c.label += ", " + line
	}
	return err
}

// expand returns a copy in which ${name} is the value of a variable.
func (c *call) expand(vars map[string]string) *call {
	pairs := make([]string, 0, 2*len(vars))
	for name, value := range vars {
		pairs = append(pairs, "${"+name+"}", value)
	}
	r := strings.NewReplacer(pairs...)
	all := func(list []string) []string {
		list = slices.Clone(list)
		for i := range list {
			list[i] = r.Replace(list[i])
		}
		return list
	}
	n := *c
	n.what, n.base64 = r.Replace(c.what), r.Replace(c.base64)
	n.headers, n.body = all(c.headers), all(c.body)
	return &n
}

// untilTime bounds the wait for an answer. Answers come much earlier.
const untilTime = 30 * time.Second

// repeat calls ask until the answer matches, and returns the last answer.
func (c *call) repeat(ctx context.Context, ask func() (string, error)) (string, error) {
	end := time.Now().Add(untilTime)
	for {
		text, err := ask()
		if err != nil || c.until == nil || c.until(text) {
			return text, err
		}
		if time.Now().After(end) {
			return text + "\nNEVER\n", nil
		}
		select {
		case <-ctx.Done():
			return "", ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
