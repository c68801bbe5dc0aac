package queues

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/interop"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/testenv"
)

// reportTo is the variable with the address at which a program of `seb queue work` asks what to do.
const reportTo = "QUEUES_TEST_REPORT_TO"

// later is the delay of messages that say when they come again.
const later = 100 * time.Millisecond

// verdict is what a worker decides about a message.
type verdict struct {
	Do   string // done, retry, later or dead
	Long bool   // the function runs longer than the visibility
}

// judged takes a message that a worker of the client has, and decides what becomes of it.
func (l *ledger) judged(queue string, value []byte, key *string, deliveries int, calm bool) (j *job, v verdict) {
	text, now := string(value), time.Now()
	// The lease began before the function. Its end is not known, because the worker extends it.
	m := &api.QueueMessage{Value: &text, Key: key, Deliveries: deliveries, Until: now.Add(visibility / 2)}
	if j = l.leased(queue, m, now.Add(-visibility)); j == nil {
		return nil, verdict{Do: "done"}
	}
	switch n := rand.IntN(20); {
	case calm || n < 13:
		v.Do, v.Long = "done", !calm && n == 0
	case n < 16:
		v.Do = "retry"
	case n < 19:
		v.Do = "later"
	default:
		v.Do = "dead"
	}
	return j, v
}

// end notes what a worker says.
func (l *ledger) end(j *job, do string) {
	if do == "later" {
		do = "retry"
	}
	if j != nil {
		l.says(j, do)
	}
}

// goWork runs a worker of package client until ctx ends. Some of its functions are longer than their first lease.
func (l *ledger) goWork(ctx context.Context, b *broker, queue string) {
	c := must.Get(client.New(b.url, client.Options{APIKey: key}))(l.t)
	defer c.Close()
	err := c.Work(ctx, queue, client.WorkOptions{Concurrency: 3}, func(ctx context.Context, m *client.LeasedMessage) error {
		var key *string
		if m.Key != nil {
			key = new(string(m.Key))
		}
		j, v := l.judged(queue, m.Value, key, m.Deliveries, l.calm.Load())
		if v.Long {
			select {
			case <-time.After(visibility + visibility/4):
			case <-ctx.Done():
				return context.Cause(ctx) // nothing is said
			}
		}
		l.end(j, v.Do)
		l.count(&l.ran)
		switch v.Do {
		case "later":
			return client.RetryAfter(later, errors.New("a test"))
		case "retry":
			return errors.New("a test")
		case "dead":
			return client.GiveUp(errors.New("a test"))
		}
		return nil
	})
	if err != nil {
		l.t.Errorf("Work of %s: %v", queue, err)
	}
}

// programWork runs `seb queue work` until ctx ends. It is killed from time to time, unless it is calm.
func (l *ledger) programWork(ctx context.Context, b *broker, queue string) {
	at := must.Get(net.Listen("tcp", "127.0.0.1:0"))(l.t)
	defer at.Close()
	go func() {
		for {
			c, err := at.Accept()
			if err != nil {
				return
			}
			go l.reply(c, queue, &l.started)
		}
	}()
	env := []string{"SEB_API_KEY=" + key, reportTo + "=" + at.Addr().String()}
	for ctx.Err() == nil {
		w := must.Get(testenv.StartProgram(b.program, env, func(string) {}, "queue", "work", queue, "-j", "2", "--later", later.String(), "--address", b.url, "--", os.Args[0]))(l.t)
		var kill <-chan time.Time
		if !l.calm.Load() {
			kill = time.After(rand.N(2 * *every))
		}
		select {
		case <-kill:
			w.Signal(syscall.SIGKILL)
		case <-ctx.Done():
			w.Signal(syscall.SIGTERM)
		case <-w.Done(): // the broker was not there
		}
		<-w.Done()
		if code, by := w.Exit(); ctx.Err() != nil && code != 0 && by != syscall.SIGKILL {
			l.t.Errorf("seb queue work: exit code %d, %v\n%s", code, by, w.Log())
		}
	}
}

// report is what a program tells of its message.
type report struct {
	Value      []byte
	Key        *string
	Deliveries int
}

// boto3Pair installs boto3 and makes a token with all rights, while the broker is not killed.
func boto3Pair(t *testing.T, b *broker) client.SigningPair {
	must.Get2(interop.Boto3(t.Context()))(t)
	c := must.Get(client.New(b.url, client.Options{APIKey: key}))(t)
	defer c.Close()
	all := []string{"*"}
	must.Get(c.CreateToken(t.Context(), client.TokenSpec{ID: "boto3", Scopes: client.Scopes{Read: all, Write: all, Groups: all}}))(t)
	return must.Get(c.SigningPair(t.Context(), "boto3"))(t)
}

// boto3Work runs a worker in Python, over SQS, until ctx ends.
func (l *ledger) boto3Work(ctx context.Context, b *broker, queue string, pair client.SigningPair) {
	python, packages := must.Get2(interop.Boto3(ctx))(l.t)
	at := must.Get(net.Listen("tcp", "127.0.0.1:0"))(l.t)
	defer at.Close()
	go func() {
		for {
			c, err := at.Accept()
			if err != nil {
				return
			}
			go l.reply(c, queue, &l.scripted)
		}
	}()
	w := exec.CommandContext(ctx, python, "testdata/boto3_worker.py", queue)
	w.Env = append(os.Environ(), "PYTHONPATH="+packages, "PYTHONDONTWRITEBYTECODE=1", "ENDPOINT="+b.url, "AWS_DEFAULT_REGION=us-east-1",
		"AWS_ACCESS_KEY_ID="+pair.AccessKeyID, "AWS_SECRET_ACCESS_KEY="+pair.SecretAccessKey, reportTo+"="+at.Addr().String())
	if out, err := w.CombinedOutput(); ctx.Err() == nil {
		l.t.Errorf("the worker with boto3 has ended: %v\n%s", err, out)
	}
}

// reply tells a program of `seb queue work` how to end, or a worker with boto3 what to do.
func (l *ledger) reply(c net.Conn, queue string, n *int) {
	defer c.Close()
	var r report
	if json.NewDecoder(c).Decode(&r) != nil {
		return
	}
	j, v := l.judged(queue, r.Value, r.Key, r.Deliveries, l.calm.Load())
	if v.Do == "dead" {
		v.Do = "retry"
	}
	l.end(j, v.Do)
	l.count(n)
	_, _ = io.WriteString(c, strconv.Itoa(map[string]int{"done": 0, "retry": 1, "later": 75}[v.Do])) // it may be killed
}

// program is the program of `seb queue work`: it asks for its exit code.
func program(address string) int {
	fail := func(err error) int {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	var r report
	var err error
	if r.Value, err = io.ReadAll(os.Stdin); err != nil {
		return fail(err)
	}
	if r.Deliveries, err = strconv.Atoi(os.Getenv("SEB_MESSAGE_DELIVERIES")); err != nil {
		return fail(err)
	}
	c, err := net.Dial("tcp", address)
	if err != nil {
		return fail(err)
	}
	defer c.Close()
	if err := json.NewEncoder(c).Encode(r); err != nil {
		return fail(err)
	}
	code, err := io.ReadAll(c)
	if err != nil {
		return fail(err)
	}
	n, err := strconv.Atoi(string(code))
	if err != nil {
		return fail(err)
	}
	return n
}
