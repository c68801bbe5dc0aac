// Package answers records what a built seb answers to a list of calls over HTTP and Kafka and on the
// command line, and compares two recordings. `go run ./test/cmd/answers` proves with it that a
// refactoring changed no answer.
//
// A run has a fresh folder. Its broker "main" has the bucket seb-bucket and the data directory
// seb-data in it, so that commands find both without flags. What differs between two runs of one
// program is replaced by the rules of rules.go, or by the options of a call (calls.go).
package answers

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/sebbroker/seb/test/kafkatest"
	"github.com/sebbroker/seb/test/testenv"
)

// Answer is a call with what it returned.
type Answer struct {
	Kind string // http, kafka or cli
	Call string // unique in a recording
	Text string // the masked answer
}

//go:embed calls
var calls embed.FS

// Calls returns the whole list of calls, one file after the other.
func Calls() (string, error) {
	names, err := fs.Glob(calls, "calls/*.txt")
	if err != nil {
		return "", err
	}
	var b strings.Builder
	for _, name := range names {
		text, err := calls.ReadFile(name)
		if err != nil {
			return "", err
		}
		b.Write(text)
	}
	return b.String(), nil
}

// Run starts a broker of a program on a fresh bucket, makes the calls in their order and returns the
// answers. The list of calls is described in calls.go.
func Run(ctx context.Context, program, list string) (answers []Answer, err error) {
	parsed, err := parse(list)
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "seb-answers")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return nil, err
	}
	r, err := newRun(program, dir)
	if err != nil {
		return nil, err
	}
	defer r.close()
	if err := r.start("main", nil); err != nil {
		return nil, err
	}
	seen := map[string]int{}
	for _, c := range parsed {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		list, err := r.do(ctx, c)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s: %w", c.number, c.label, err)
		}
		for _, a := range list {
			if seen[a.Call]++; seen[a.Call] > 1 {
				a.Call = fmt.Sprintf("%s (%d)", a.Call, seen[a.Call])
			}
			answers = append(answers, a)
		}
	}
	return answers, nil
}

// rootKey is the API key of all brokers.
const rootKey = "root-key-of-the-comparison-0123456789"

// flags are those of every broker. Their figures depend on no machine.
var flags = []string{
	"--http-port", "0", "--kafka-listen", "127.0.0.1:0", "--http-api-key", rootKey, "--memory-limit", "256MiB",
	"--webhook-targets", "127.0.0.1", "--http-connections", "200", "--batch-wait-time", "0s",
}

// run is the state of one run. It is for one goroutine.
type run struct {
	program string
	dir     string
	brokers map[string]*broker
	hook    *hook
	vars    map[string]string // values for ${name}
	masks   []mask
	conns   map[string]*kafkatest.Conn // by broker and key
}

// broker is a running broker, or one that has been stopped, with its addresses.
type broker struct {
	*testenv.Broker
	http, kafka string
}

func newRun(program, dir string) (*run, error) {
	r := &run{
		program: program, dir: dir,
		brokers: map[string]*broker{}, vars: map[string]string{}, conns: map[string]*kafkatest.Conn{},
	}
	var err error
	if r.hook, err = newHook(); err != nil {
		return nil, err
	}
	r.vars["root"] = rootKey
	r.vars["dir"] = dir
	r.vars["wrong"] = "wrong-key"
	for name, value := range fixtures() {
		r.vars[name] = value
	}
	r.remember("hook", r.hook.URL)
	if err := r.maskMachine(); err != nil {
		r.close()
		return nil, err
	}
	// Commands get the program as seb.
	if err := os.MkdirAll(filepath.Join(dir, "bin"), 0o700); err != nil {
		return nil, err
	}
	return r, os.Symlink(program, filepath.Join(dir, "bin", "seb"))
}

// start starts a broker. All have one bucket.
func (r *run) start(name string, args []string) error {
	data := filepath.Join(r.dir, "seb-data")
	if name != "main" {
		data += "-" + name
	}
	kafka := make(chan string, 1)
	line := func(text string) {
		if a, ok := testenv.KafkaAddress(text); ok {
			select {
			case kafka <- a:
			default:
			}
		}
	}
	all := slices.Concat(flags, []string{"--bucket", filepath.Join(r.dir, "seb-bucket"), "--data-dir", data}, args)
	started, err := testenv.ServeLogged(r.program, nil, line, all...)
	if err != nil {
		return err
	}
	b := &broker{Broker: started}
	r.brokers[name] = b
	if b.http, err = started.Address(data); err != nil {
		return err
	}
	select {
	case b.kafka = <-kafka:
	case <-started.Done():
		return errors.New("broker ended: " + started.Log())
	}
	r.remember(name+"-http", b.http)
	r.remember(name+"-http-port", b.http[strings.LastIndexByte(b.http, ':')+1:])
	r.remember(name+"-kafka", b.kafka)
	r.remember(name+"-kafka-port", b.kafka[strings.LastIndexByte(b.kafka, ':')+1:])
	return r.rememberNode(name)
}

// rememberNode masks the node ID of a broker, which depends on its Kafka address.
func (r *run) rememberNode(name string) error {
	text, err := r.request(context.Background(), &call{verb: "GET", what: "/cluster", at: name, as: "root"})
	if err != nil {
		return err
	}
	for _, member := range strings.Split(text, "{")[1:] {
		id := nodeID.FindStringSubmatch(member)
		if id != nil && strings.Contains(member, `"self": true`) {
			r.remember(name+"-node", id[1])
		}
	}
	return nil
}

var nodeID = regexp.MustCompile(`"kafka_id": (\d+)`)

func (r *run) close() {
	for _, c := range r.conns {
		_ = c.Close()
	}
	for _, b := range r.brokers {
		b.Kill()
	}
	r.hook.Close()
}

// do makes one call.
func (r *run) do(ctx context.Context, c *call) ([]Answer, error) {
	c = c.expand(r.vars)
	name, rest, _ := strings.Cut(c.what, " ")
	switch c.verb {
	case "START":
		return nil, r.start(name, strings.Fields(rest))
	case "STOP":
		b := r.brokers[name]
		if b == nil {
			return nil, errors.New("no such broker")
		}
		code := b.Stop()
		return []Answer{{Kind: "cli", Call: c.label, Text: fmt.Sprintf("exit code %d\n", code)}}, nil
	case "HOOK":
		return r.received(ctx, c)
	case "KAFKA":
		return r.kafka(ctx, c)
	case "HELP":
		return r.help(ctx, c, "seb")
	case "$":
		return r.one(ctx, c, "cli", r.shell)
	case "RAW":
		return r.one(ctx, c, "http", r.raw)
	}
	return r.one(ctx, c, "http", r.request)
}

// one makes a call with one answer, repeatedly if it has the option until.
func (r *run) one(ctx context.Context, c *call, kind string, ask func(context.Context, *call) (string, error)) ([]Answer, error) {
	text, err := c.repeat(ctx, func() (string, error) { return ask(ctx, c) })
	if err != nil {
		return nil, err
	}
	for name, pattern := range c.saves {
		found := pattern.FindStringSubmatch(text)
		if found == nil {
			text += fmt.Sprintf("\nNOT FOUND: %s\n", pattern)
			continue
		}
		r.remember(name, found[1])
	}
	return []Answer{{Kind: kind, Call: c.label, Text: r.mask(c, text)}}, nil
}
