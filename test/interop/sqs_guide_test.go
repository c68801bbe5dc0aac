package interop

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// sqsGuide is the block of a section of docs/guide/sqs.md.
func sqsGuide(t *testing.T, section, language string) string {
	text := must.Get(os.ReadFile("../../docs/guide/sqs.md"))(t)
	_, text2, _ := strings.Cut(string(text), "\n## "+section+"\n")
	text2, _, _ = strings.Cut(text2, "\n## ")
	m := regexp.MustCompile("(?ms)^```" + language + "\n(.*?)^```$").FindStringSubmatch(text2)
	if m == nil {
		t.Fatalf("docs/guide/sqs.md has no block of %s in section %s", language, section)
	}
	return m[1]
}

// guideProgram is a block of docs/guide/sqs.md, which prints what it receives.
type guideProgram struct {
	section, language, file string
	inside                  string // the program; BLOCK is the block
	install                 func(ctx context.Context) (command, env []string, err error)
	args                    []string // instead of the file
	send                    []string // arguments that send a message
}

var guidePrograms = []guideProgram{
	{section: "boto3", language: "python", file: "mails.py", install: python3("boto3", nil, boto3Packages["json"]...)},
	{
		section: "Celery", language: "python", file: "tasks.py", install: celery,
		args: []string{"-m", "celery", "-A", "tasks", "worker", "--pool=solo"}, send: []string{"-c", "import tasks; tasks.mail.delay('ada')"},
	},
	{section: "JavaScript", language: "js", file: "mails.mjs", install: func(ctx context.Context) (command, env []string, err error) {
		if command, env, err = nodeSQS(ctx); err != nil {
			return nil, nil, err
		}
		return command[:1], env, nil
	}},
	{section: "Spring", language: "java", file: "Mails.java", inside: springProgram, install: func(ctx context.Context) (command, env []string, err error) {
		command, env, err = springSQS(ctx)
		return command[:len(command)-1], env, err
	}},
}

// springProgram is a program of Spring around the block.
const springProgram = `package mails;

import io.awspring.cloud.sqs.annotation.SqsListener;
import io.awspring.cloud.sqs.operations.SqsTemplate;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.EnableAutoConfiguration;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

@Configuration(proxyBeanMethods = false)
@EnableAutoConfiguration
public class Mails {
    public static void main(String[] args) {
        SpringApplication.run(Mails.class, args);
    }
BLOCK}
`

// TestSQSGuide runs the programs of docs/guide/sqs.md with the rights that it gives them. That of boto3 also runs in
// make test, if there are Python and PyPI.
func TestSQSGuide(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: it installs clients")
	}
	for _, p := range guidePrograms {
		t.Run(p.section, func(t *testing.T) {
			if p.section != "boto3" {
				testenv.InteropWanted(t)
			}
			command, env, err := p.install(t.Context())
			if err != nil && os.Getenv(testenv.InteropVariable) == "" {
				t.Skipf("%s cannot be installed: %v", p.section, err)
			}
			must.NoError(t, err)
			b := startSQS(t, secretsKey(t))
			c := sqsAdmin(t, b, nil)
			must.Get(c.CreateQueue(t.Context(), "mails", client.QueueSpec{}))(t)
			mails := []string{"mails"}
			must.Get(c.CreateToken(t.Context(), client.TokenSpec{ID: "mailer", Scopes: client.Scopes{Read: mails, Write: mails, Groups: mails}}))(t)
			s := &sqsBroker{url: b.HTTP(), pair: must.Get(c.SigningPair(t.Context(), "mailer"))(t)}
			p.run(t, command, slices.Concat(os.Environ(), env, s.env(), []string{"AWS_ENDPOINT_URL_SQS=" + s.url, "PYTHONUNBUFFERED=1"}))
		})
	}
}

// run runs the program until it has received a message.
func (p *guideProgram) run(t *testing.T, command, env []string) {
	dir, text := t.TempDir(), sqsGuide(t, p.section, p.language)
	if p.inside != "" {
		text = strings.ReplaceAll(p.inside, "BLOCK", text)
	}
	must.NoError(t, os.WriteFile(filepath.Join(dir, p.file), []byte(text), 0o600))
	for _, v := range env { // modules of JavaScript are not found by the environment
		if folder, ok := strings.CutPrefix(v, "NODE_PATH="); ok {
			must.NoError(t, os.Symlink(folder, filepath.Join(dir, "node_modules")))
		}
	}
	start := func(args []string, line func(string)) *testenv.Broker {
		path := must.Get(exec.LookPath(command[0]))(t)
		// The folder is that of the program.
		shell := append([]string{"-c", `cd "$0" && exec "$@"`, dir, path}, slices.Concat(command[1:], args)...)
		r := must.Get(testenv.StartProgram("/bin/sh", env, line, shell...))(t)
		t.Cleanup(r.Kill)
		return r
	}
	args := p.args
	if args == nil {
		args = []string{p.file}
	}
	var got atomic.Bool
	worker := start(args, func(line string) {
		if strings.Contains(line, "mail to ada") {
			got.Store(true)
		}
	})
	if p.send != nil {
		sender := start(p.send, nil)
		<-sender.Done()
		if code, _ := sender.Exit(); code != 0 {
			t.Fatalf("the sender ends with code %d:\n%s", code, sender.Log())
		}
	}
	defer func() {
		if t.Failed() {
			t.Logf("end of the worker's output:\n%s", worker.Log())
		}
	}()
	sebtest.Eventually(t, "the worker has received the message", func() bool {
		select {
		case <-worker.Done():
			t.Fatal("the worker has ended")
		default:
		}
		return got.Load()
	})
}
