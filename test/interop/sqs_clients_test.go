package interop

import (
	"bufio"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// sqsNumbers is the number of messages of a client in TestSQSClients.
const sqsNumbers = 300

//go:embed testdata/sqs/java/pom.xml
var sqsPom []byte

//go:embed testdata/sqs/spring/pom.xml
var springPom []byte

// sqsClient is a program of testdata/sqs.
type sqsClient struct {
	name    string
	install func(ctx context.Context) (args, env []string, err error)
	more    []string // of its environment
	worker  []string // arguments of a second process, which receives
}

// python3 is a program in Python with packages of PyPI.
func python3(name string, args []string, packages ...string) func(ctx context.Context) (command, env []string, err error) {
	return func(ctx context.Context) (command, env []string, err error) {
		python, err := needs("python3", name+" runs in")
		if err != nil {
			return nil, nil, err
		}
		dir, err := testenv.Pip(ctx, python, "sqs-"+name+"-1-"+runtime.GOARCH, name, packages...)
		return append([]string{python}, args...), []string{"PYTHONPATH=" + dir}, err
	}
}

// celery is Python with Celery.
var celery = python3("celery-5.5.3", nil, "celery==5.5.3",
	"kombu==5.5.4", "vine==5.1.0", "amqp==5.4.2", "billiard==4.3.2", "click==8.5.1", "click-didyoumean==0.3.1", "click-plugins==1.1.1.2",
	"click-repl==0.4.1", "prompt_toolkit==3.0.53", "wcwidth==0.9.4", "tzdata==2026.6", "pycurl==7.49.0", "boto3==1.44.8", "botocore==1.44.8",
	"jmespath==1.1.0", "python-dateutil==2.9.0.post0", "s3transfer==0.19.3", "six==1.17.0", "typing_extensions==4.16.0", "urllib3==2.8.0",
	"packaging==26.0")

// nodeSQS is a program with the SDK for JavaScript.
func nodeSQS(ctx context.Context) (command, env []string, err error) {
	node, err := needs("node", "@aws-sdk/client-sqs runs in")
	if err != nil {
		return nil, nil, err
	}
	dir, err := testenv.Install("interop/sqs-javascript-2", "@aws-sdk/client-sqs and sqs-consumer from npm", func(dir string) error {
		if err := os.WriteFile(filepath.Join(dir, "package.json"), []byte("{}"), 0o600); err != nil {
			return err
		}
		_, err := testenv.Command(ctx, dir, "npm", "install", "--no-audit", "--no-fund", "--ignore-scripts", "@aws-sdk/client-sqs@3.1169.0", "sqs-consumer@15.0.3")
		return err
	})
	return []string{node, "testdata/sqs/javascript/client.js"}, []string{"NODE_PATH=" + filepath.Join(dir, "node_modules")}, err
}

func javaSQS(ctx context.Context) (command, env []string, err error) {
	path, err := fetch(ctx, "sqs-java", "2.35.0", sqsPom)
	return append(append([]string{"java"}, JavaFlags(path)...), "testdata/sqs/java/Sqs.java"), nil, err
}

func springSQS(ctx context.Context) (command, env []string, err error) {
	path, err := fetch(ctx, "sqs-spring", "3.4.1", springPom)
	return append(append([]string{"java"}, JavaFlags(path)...), "testdata/sqs/spring/Jobs.java"), nil, err
}

func goSQS(ctx context.Context) (command, env []string, err error) {
	dir, err := os.MkdirTemp("", "seb-sqs")
	if err != nil {
		return nil, nil, err
	}
	out := filepath.Join(dir, "sqs")
	_, err = testenv.Command(ctx, "testdata/sqs/go", "go", "build", "-buildvcs=false", "-o", out, ".")
	return []string{out}, nil, err
}

// sqsClients are the clients of TestSQSClients.
var sqsClients = []sqsClient{
	{name: "boto3", install: python3("boto3", []string{"testdata/sqs/python/client.py"}, boto3Packages["json"]...)},
	{name: "boto3 of 2023", install: python3("boto3-query", []string{"testdata/sqs/python/client.py"}, boto3Packages["query"]...)},
	{name: "aioboto3", install: python3("aioboto3-15.5.0", []string{"testdata/sqs/python/aio.py"}, "aioboto3==15.5.0", "aiofiles==25.1.0",
		"aiohttp==3.14.5", "aioitertools==0.13.0", "boto3==1.40.61", "botocore==1.40.61", "jmespath==1.1.0", "multidict==6.9.1",
		"python-dateutil==2.9.0.post0", "wrapt==1.17.3", "aiobotocore==2.25.1", "aiohappyeyeballs==2.7.1", "aiosignal==1.4.0", "attrs==26.1.0",
		"frozenlist==1.8.0", "propcache==0.5.4", "s3transfer==0.14.0", "six==1.17.0", "typing_extensions==4.16.0", "urllib3==2.8.0",
		"yarl==1.25.1", "idna==3.20")},
	{name: "@aws-sdk/client-sqs", install: nodeSQS},
	{name: "sqs-consumer", install: nodeSQS, more: []string{"CONSUMER=1"}},
	{name: "aws-sdk-go-v2", install: goSQS},
	{name: "AWS SDK for Java 2", install: javaSQS},
	{name: "Spring Cloud AWS", install: springSQS},
	{name: "Celery", worker: []string{"worker"}, install: func(ctx context.Context) (command, env []string, err error) {
		command, env, err = celery(ctx)
		return append(command, "testdata/sqs/python/celeryapp.py"), env, err
	}},
}

// TestSQSClients runs programs of clients of SQS beside a broker that is killed twice, and beside two brokers
// of which the leader is killed twice. Each message that was acknowledged is received, and none comes again
// after its deletion was answered.
func TestSQSClients(t *testing.T) {
	testenv.InteropWanted(t)
	for _, c := range sqsClients {
		t.Run(c.name, func(t *testing.T) {
			command, env, err := c.install(t.Context())
			must.NoError(t, err)
			env = c.env(env)
			t.Run("one broker", func(t *testing.T) {
				b := serveSQS(t)
				c.run(t, b, command, env, "the broker killed twice")
			})
			t.Run("two brokers", func(t *testing.T) {
				f := serveSQSFleet(t, func(addresses []string) string { return balance(t, addresses) }, nil)
				c.run(t, f.sqsBroker, command, env, "the leader killed twice")
				f.checkForwards()
			})
		})
	}
}

// env is the environment of the program, with that of its installation.
func (c *sqsClient) env(installed []string) []string {
	return slices.Concat(os.Environ(), installed, c.more, []string{"QUEUE=jobs", "NUMBERS=" + strconv.Itoa(sqsNumbers)})
}

// run runs the program of a client, and judges it.
func (c *sqsClient) run(t *testing.T, b *sqsBroker, command, env []string, what string) {
	begin := time.Now()
	env = append(env, b.env()...)
	l := &sqsLedger{t: t, said: make(chan string), deleted: map[string]int{}, asked: map[string]int{}, sent: map[string]bool{}, got: map[string]int{}}
	var worker <-chan error
	if c.worker != nil {
		worker = l.start(slices.Concat(command, c.worker), env)
	}
	l.follow(b.fail, l.start(command, env), worker)
	doubles := 0
	for n := range sqsNumbers {
		text := strconv.Itoa(n)
		if l.sent[text] && l.got[text] == 0 {
			t.Errorf("message %s was acknowledged, but is not received", text)
		}
		doubles += max(l.got[text]-1, 0)
	}
	if len(l.sent) != sqsNumbers {
		t.Errorf("%d messages are acknowledged, want %d", len(l.sent), sqsNumbers)
	}
	report(t, c.name, "sends and receives over SQS, "+what, time.Since(begin), fmt.Sprintf("%d messages, %d received twice", sqsNumbers, doubles))
}

// sqsLedger is what programs said: "sent", "got" and "done" with the number and the ID of a message. A worker
// that says "ask" before it receives adds its name to "ask" and "got".
type sqsLedger struct {
	t       *testing.T
	said    chan string
	lines   int
	sent    map[string]bool
	got     map[string]int
	deleted map[string]int // the line of each ID
	asked   map[string]int // the line of each worker
}

// start starts a program, which is killed at the end of the test. The channel gets its error.
func (l *sqsLedger) start(command, env []string) (ended <-chan error) {
	ctx, cancel := context.WithCancel(context.Background())
	c := exec.CommandContext(ctx, command[0], command[1:]...)
	c.Env = env
	var faults strings.Builder
	c.Stderr = &faults
	out := must.Get(c.StdoutPipe())(l.t)
	must.NoError(l.t, c.Start())
	result := make(chan error, 1)
	read := make(chan struct{})
	go func() {
		defer close(read)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			select {
			case l.said <- lines.Text():
			case <-ctx.Done():
			}
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		<-read
		err := c.Wait()
		if err != nil && ctx.Err() == nil {
			err = fmt.Errorf("%w: %s", err, faults.String()[max(0, faults.Len()-saidMax):])
		}
		result <- err
	}()
	l.t.Cleanup(func() {
		cancel()
		<-done
	})
	return result
}

// follow calls fail, which kills a broker, after a third of the messages, and again after two thirds, until all
// are received and the program has ended. The worker does not end.
func (l *sqsLedger) follow(fail func(), ended, worker <-chan error) {
	kills := 0
	for ended != nil || len(l.got) < sqsNumbers {
		select {
		case <-l.t.Context().Done():
			l.t.Fatal("the test is interrupted")
		case err := <-ended:
			must.NoError(l.t, err)
			ended = nil
		case err := <-worker:
			l.t.Fatalf("the worker has ended: %v", err)
		case line := <-l.said:
			l.note(line)
			if len(l.got) > (kills+1)*sqsNumbers/3 && kills < 2 {
				kills++
				fail()
			}
		}
	}
	if kills != 2 {
		l.t.Errorf("a broker was killed %d times, want 2", kills)
	}
}

func (l *sqsLedger) note(line string) {
	l.lines++
	words := append(strings.Fields(line), "", "", "", "")
	switch number, id, worker := words[1], words[2], words[3]; words[0] {
	case "ask":
		l.asked[number] = l.lines
	case "sent":
		l.sent[number] = true
	case "got":
		if deleted := l.deleted[id]; deleted > 0 && deleted < l.asked[worker] {
			l.t.Errorf("message %s, number %s, comes again after its deletion was answered", id, number)
		}
		l.got[number]++
	case "done":
		l.deleted[id] = l.lines
	}
}
