package examples

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// block is a marked block of a document. Its info string is the language and a mark:
//
//	run        it runs
//	run=serve  it starts a broker and does not end
//	run=kcat   it runs if the program kcat is installed
//	run=deb… or run=compose…  test/cmd/release runs it
type block struct {
	language, mark, text string
	output               string // the next block of the document, if only white space is between
	statement            string // the sentence before the block
}

// released are the marks of blocks for an installed release.
var released = regexp.MustCompile(`^run=(deb|compose)`)

// blocksOf returns the marked blocks of a document.
func blocksOf(text string) (blocks []block) {
	fence := regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")
	all := fence.FindAllStringSubmatchIndex(text, -1)
	for i, m := range all {
		language, mark, _ := strings.Cut(text[m[2]:m[3]], " ")
		if mark != "run" && !strings.HasPrefix(mark, "run=") {
			continue
		}
		b := block{language: language, mark: mark, text: text[m[4]:m[5]], statement: statementBefore(text[:m[0]])}
		if i+1 < len(all) {
			next := all[i+1]
			info := text[next[2]:next[3]]
			if (info == "" || info == "json") && strings.TrimSpace(text[m[1]:next[0]]) == "" {
				b.output = text[next[4]:next[5]]
			}
		}
		blocks = append(blocks, b)
	}
	return blocks
}

// interpreters run the blocks of each language.
var interpreters = map[string]struct{ program, file string }{
	"sh": {"sh", "guide.sh"}, "python": {"python3", "guide.py"}, "js": {"node", "guide.mjs"},
}

// prints is what programs without an output block must print.
var prints = map[string][]string{
	"README.md sh":              {"1 record (5 bytes) stored in demo", `"value":"hello"`, "signed up", "no-project"},
	"docs/guide/http.md sh":     {`"4711"`, `"value":"paid"`, `"next_offset":2`, `"group":"billing"`},
	"docs/guide/queues.md sh":   {"mails.dead", "message 0-0: {\"to\":\"ada\"}\n", `"deliveries":1`, `"value":"{\"to\":\"bob\"}"`, `{"messages":[{}]}`, `{"id":"0-3"}`, "0 messages would be moved", "queue mails is empty: 4 messages ended"},
	"docs/guide/sqs.md sh":      {"token mailer"},
	"docs/guide/jobs.md sh":     {"mail to ada, delivery 1", "mail to mallory, delivery 2", "no such mailbox: mallory", "mail to mallory, delivery 1"},
	"docs/guide/jobs.md python": {"mail to ada", "mail to grace"},
	"docs/guide/jobs.md js":     {"mail to ada", "mail to grace"},
	"docs/guide/http.md python": {"orders 2", "0 4711 placed", "1 4711 paid", "billing paid"},
	"docs/guide/http.md js":     {"orders 2", "0 4711 placed", "1 4711 paid", "billing paid"},
}

// documents are the documents whose marked blocks run.
func documents(t *testing.T) []string {
	return append([]string{"../README.md", "../SECURITY.md"}, must.Get(filepath.Glob("../docs/guide/*.md"))(t)...)
}

// nameOf returns the path of a document in the repository.
func nameOf(path string) string { return strings.TrimPrefix(path, "../") }

// TestDocuments runs the marked blocks of README.md, SECURITY.md and docs/guide: those of one document and
// language in order, as one program in a temporary folder, with a broker in that folder. After each
// block of README.md it runs all examples.
func TestDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: builds a broker")
	}
	ran := 0
	for _, path := range documents(t) {
		text := must.Get(os.ReadFile(path))(t)
		programs := map[string][]block{}
		for _, b := range blocksOf(string(text)) {
			if !released.MatchString(b.mark) {
				programs[b.language] = append(programs[b.language], b)
			}
		}
		for language, blocks := range programs {
			ran++
			t.Run(nameOf(path)+" "+language, func(t *testing.T) {
				t.Parallel()
				d := document{t: t, name: nameOf(path) + " " + language, language: language, blocks: blocks}
				d.run()
			})
		}
	}
	if ran < len(prints) {
		t.Errorf("%d programs in the documents, want at least %d", ran, len(prints))
	}
}

// TestGuideHasTheS3Server: the guide installs the version with which Seb is tested.
func TestGuideHasTheS3Server(t *testing.T) {
	guide := string(must.Get(os.ReadFile("../docs/guide/configure.md"))(t))
	check.Containsf(t, guide, "go install github.com/versity/versitygw/cmd/versitygw@"+testenv.S3Version+" ", "the guide")
}

// document is the marked blocks of one language in a document.
type document struct {
	t              *testing.T
	name, language string
	blocks         []block
}

// separator is printed before each block of a shell program.
const separator = "@@@ block "

// prelude defines broker, which starts a command in the background and returns when another broker
// than the last one serves, and examples, which runs all examples at the same time.
const prelude = `set -e
broker() {
	sh -e "$1" >>broker.log 2>&1 &
	until [ -s seb-data/broker.json ] && [ "$(cat seb-data/broker.json)" != "$last" ] && seb health >/dev/null 2>&1; do sleep 0.1; done
	last=$(cat seb-data/broker.json)
}
examples() {
	started=
	for name in $(ls examples); do
		(
			KEY=$(cat seb-data/api-key); export KEY SEB_API_KEY=$KEY; cd examples/$name
			"$PROGRAMS/$name" >out 2>&1 || { echo "example $name: exit code $?"; cat out; exit 1; }
		) & started="$started $!"
	done
	for id in $started; do wait $id; done
}
`

// serving precedes the blocks that start a broker. On a loaded machine a killed broker holds its
// port for a while, so kill waits until it has closed its files.
const serving = `kill() {
	command kill "$@"
	while [ -n "$(ls /proc/$2/fd 2>/dev/null)" ]; do sleep 0.02; done
}
`

func (d *document) run() {
	t := d.t
	in, ok := interpreters[d.language]
	if !ok {
		t.Fatalf("no program runs blocks of %q", d.language)
	}
	if _, err := exec.LookPath(in.program); err != nil {
		t.Skipf("%s is not installed", in.program)
	}
	dir := t.TempDir()
	must.NoError(t, os.Mkdir(filepath.Join(dir, "bin"), 0o700))
	root := must.Get(filepath.Abs(".."))(t)
	for name, target := range map[string]string{"bin/seb": testenv.Program(t), "Makefile": filepath.Join(root, "Makefile")} {
		must.NoError(t, os.Symlink(target, filepath.Join(dir, name)))
	}
	env := d.prepare(dir)
	http, kafka := strconv.Itoa(testenv.PortForTest(t)), strconv.Itoa(testenv.PortForTest(t))
	ports := strings.NewReplacer("51313", http, "9092", kafka, "127.0.0.1:8080", "127.0.0.1:"+strconv.Itoa(testenv.PortForTest(t)),
		"127.0.0.1:7070", "127.0.0.1:"+strconv.Itoa(testenv.PortForTest(t)))
	write := func(name, text string) {
		must.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte(ports.Replace(text)), 0o600))
	}
	var script, program strings.Builder
	script.WriteString(prelude)
	if !slices.ContainsFunc(d.blocks, func(b block) bool { return b.mark == "run=serve" }) {
		write("start.sh", "exec seb serve\n")
		script.WriteString("broker start.sh\n")
	}
	for i, b := range d.blocks {
		fmt.Fprintf(&script, "echo '%s%d'\n", separator, i)
		switch {
		case d.language != "sh":
			program.WriteString(b.text)
		case b.mark == "run=serve":
			write(fmt.Sprintf("block%d.sh", i), serving+b.text)
			fmt.Fprintf(&script, "broker block%d.sh\n", i)
		case b.mark == "run=kcat" && !has("kcat"):
		default:
			script.WriteString(b.text)
		}
		if d.withExamples() {
			script.WriteString("examples\n")
		}
	}
	if d.language != "sh" {
		write(in.file, program.String())
		script.WriteString(in.program + " " + in.file + "\n")
	}
	write("guide.sh", script.String())
	env = append(env, "SEB_HTTP_PORT="+http, "SEB_KAFKA_LISTEN=127.0.0.1:"+kafka)
	d.check(execute(t, dir, append(env, "BROKER=127.0.0.1:"+kafka, "SEB_ADDRESS=http://127.0.0.1:"+http)...))
}

// withExamples reports whether all examples run after each block.
func (d *document) withExamples() bool { return d.name == "README.md sh" }

// gorun takes the place of the go command in blocks that run a program.
const gorun = `#!/bin/sh
shift; name=$(basename "$1"); shift
exec "$PROGRAMS/$name" "$@"
`

// prepare builds the programs that a document needs, and returns their environment. With the examples
// the broker allows the receiver of a webhook on the same machine, as the comment of that example says.
func (d *document) prepare(dir string) (env []string) {
	t := d.t
	if slices.ContainsFunc(d.blocks, func(b block) bool { return strings.Contains(b.text, "go run ") }) {
		programs, _ := buildPrograms(t)
		must.NoError(t, os.WriteFile(filepath.Join(dir, "bin/go"), []byte(gorun), 0o700))
		must.NoError(t, os.Symlink(must.Get(filepath.Abs("../test"))(t), filepath.Join(dir, "test")))
		if !d.withExamples() {
			must.NoError(t, os.Symlink(must.Get(filepath.Abs("."))(t), filepath.Join(dir, "examples")))
		}
		env = append(env, "PROGRAMS="+programs)
	}
	if slices.ContainsFunc(d.blocks, func(b block) bool { return strings.Contains(b.text, "versitygw ") }) {
		must.NoError(t, os.Symlink(must.Get(testenv.S3Binary(t.Context()))(t), filepath.Join(dir, "bin/versitygw")))
	}
	if slices.ContainsFunc(d.blocks, func(b block) bool { return strings.Contains(b.text, "sebbroker") }) {
		env = append(env, d.clients(dir)...)
	}
	if d.withExamples() {
		programs, names := buildPrograms(t)
		for _, name := range names {
			must.NoError(t, os.MkdirAll(filepath.Join(dir, "examples", name), 0o700))
		}
		env = append(env, "PROGRAMS="+programs, "SEB_WEBHOOK_TARGETS=127.0.0.1")
	}
	return env
}

// clients lets the programs in a folder import the clients of the repository.
func (d *document) clients(dir string) (env []string) {
	if d.language == "python" {
		_, path, err := testenv.PythonClient(d.t.Context())
		must.NoError(d.t, err)
		return []string{"PYTHONPATH=" + path}
	}
	must.NoError(d.t, os.Mkdir(filepath.Join(dir, "node_modules"), 0o700))
	must.NoError(d.t, os.Symlink(must.Get(filepath.Abs("../sdk/js"))(d.t), filepath.Join(dir, "node_modules/sebbroker")))
	return nil
}

// check compares the output of the program with the documents.
func (d *document) check(out string) {
	for _, want := range prints[d.name] {
		if !strings.Contains(out, want) {
			d.t.Errorf("the blocks do not print %q:\n%s", want, out)
		}
	}
	if d.language != "sh" {
		return
	}
	parts := strings.Split(out, separator)[1:]
	for i, b := range d.blocks {
		_, got, _ := strings.Cut(parts[i], "\n")
		if b.output != "" && constant(got) != constant(b.output) {
			d.t.Errorf("block\n%sprints\n%s\nthe document has\n%s", b.text, got, b.output)
		}
	}
}

// constant replaces times, IDs, durations and ports.
func constant(text string) string {
	text = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`).ReplaceAllString(text, "TIME")
	text = regexp.MustCompile(`\b[0-9a-f]{32}\b`).ReplaceAllString(text, "ID")
	text = regexp.MustCompile(`\b[\d.]+(ms|s)\b`).ReplaceAllString(text, "DURATION")
	text = regexp.MustCompile(`127\.0\.0\.1:\d+`).ReplaceAllString(text, "ADDRESS")
	return strings.TrimSpace(regexp.MustCompile(`[ \t]+`).ReplaceAllString(text, " "))
}

// execute runs guide.sh in a folder and returns its output. All its processes end with the test.
func execute(t *testing.T, dir string, env ...string) string {
	t.Helper()
	c := exec.CommandContext(t.Context(), "sh", "guide.sh")
	c.Dir = dir
	// With GO=true `make run` does not build.
	c.Env = append(os.Environ(), append(env, "GO=true", "PATH="+filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))...)
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out bytes.Buffer
	c.Stdout, c.Stderr = &out, &out
	c.WaitDelay = time.Second
	must.NoError(t, c.Start())
	defer func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }()
	timer := time.AfterFunc(5*testenv.ReadyTime, func() { _ = syscall.Kill(-c.Process.Pid, syscall.SIGKILL) })
	defer timer.Stop()
	if err := c.Wait(); err != nil && !errors.Is(err, exec.ErrWaitDelay) {
		log, _ := os.ReadFile(filepath.Join(dir, "broker.log"))
		t.Fatalf("%v:\n%s\nbroker:\n%s", err, &out, log)
	}
	return out.String()
}

func has(program string) bool {
	_, err := exec.LookPath(program)
	return err == nil
}
