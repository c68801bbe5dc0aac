package failover

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/test/interop"
	"github.com/sebbroker/seb/test/testenv"
)

var (
	//go:embed testdata/librdkafka.py
	pythonText []byte
	//go:embed testdata/Client.java
	javaText []byte
)

// A client that is a program gets these arguments: produce or consume, a topic with one partition, and
// settings as name=value. It finds the API key in KEY. A producer reads the values of records from its
// standard input, a line each, and sends them without waiting. The program prints lines:
//
//	ack TIME NUMBER OFFSET    a record is stored
//	lost TIME NUMBER CLASS    the outcome of a record stays unknown
//	rec TIME OFFSET VALUE     a consumer has got a record
//	err TIME CLASS            an error that the client repeats
//
// TIME is in microseconds since 1970. A value begins with the NUMBER of its record. Each line of
// standard error counts as an error.

// Install installs what clients need, which takes a network.
func Install(ctx context.Context, clients []Client) error {
	var python, java error
	if slices.Contains(clients, Librdkafka) {
		_, _, python = interop.Confluent(ctx)
	}
	if slices.Contains(clients, Java) {
		_, java = interop.JavaClients(ctx, interop.JavaVersion)
	}
	return errors.Join(python, java)
}

// command returns the command of a program, its environment, and its settings besides those that all
// programs have.
func (c *campaign) command(ctx context.Context, kind Client) (command, env, settings []string, err error) {
	name, text := "librdkafka.py", pythonText
	if kind == Java {
		name, text = "Client.java", javaText
	}
	path := filepath.Join(c.o.Dir, name)
	if err := os.WriteFile(path, text, 0o600); err != nil {
		return nil, nil, nil, err
	}
	env = append(os.Environ(), "KEY="+apiKey)
	if kind == Java {
		lib, err := interop.JavaClients(ctx, interop.JavaVersion)
		command = append(append([]string{"java"}, interop.JavaFlags(lib)...), path)
		return command, env, []string{
			"request.timeout.ms=6000", "delivery.timeout.ms=60000", "metadata.max.age.ms=60000",
			`sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required username="failover" password="` + apiKey + `";`,
		}, err
	}
	python, packages, err := interop.Confluent(ctx)
	return []string{python, path}, append(env, "PYTHONPATH="+packages), []string{
		"socket.timeout.ms=6000", "topic.metadata.refresh.interval.ms=60000", "sasl.username=failover", "sasl.password=" + apiKey,
	}, err
}

// process is a running program.
type process struct {
	t    *track
	cmd  *exec.Cmd
	in   io.WriteCloser
	done chan struct{} // closed when the program has ended
}

// start starts a program, which ends with ctx. line gets the fields of each line of its output, from one
// goroutine, without the time.
func start(ctx context.Context, t *track, env, args []string, line func(kind string, at time.Duration, rest string)) (*process, error) {
	p := &process{t: t, cmd: exec.CommandContext(ctx, args[0], args[1:]...), done: make(chan struct{})}
	p.cmd.Env, p.cmd.SysProcAttr, p.cmd.WaitDelay = env, testenv.Attributes(), closeTime
	out, outErr := p.cmd.StdoutPipe()
	said, saidErr := p.cmd.StderrPipe()
	in, inErr := p.cmd.StdinPipe()
	p.in = in
	if err := errors.Join(outErr, saidErr, inErr); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	var read sync.WaitGroup
	read.Go(func() {
		for s := bufio.NewScanner(out); s.Scan(); {
			kind, rest, _ := strings.Cut(s.Text(), " ")
			time, rest, _ := strings.Cut(rest, " ")
			at, err := t.parseTime(time)
			if err != nil {
				t.failed("line: " + s.Text())
				continue
			}
			line(kind, at, rest)
		}
	})
	read.Go(func() {
		for s := bufio.NewScanner(said); s.Scan(); {
			t.failed("log: " + classOf(s.Text()))
		}
	})
	go func() {
		defer close(p.done)
		read.Wait()
		if err := p.cmd.Wait(); ctx.Err() == nil {
			t.failed(fmt.Sprintf("program ended: %v", err))
		}
	}()
	return p, nil
}

// parseTime converts a time of a program.
func (t *track) parseTime(text string) (time.Duration, error) {
	var us int64
	if _, err := fmt.Sscan(text, &us); err != nil {
		return 0, err
	}
	return time.UnixMicro(us).Sub(t.began), nil
}

var (
	upper  = regexp.MustCompile(`\b[A-Z]+(_[A-Z]+)+\b`)
	digits = regexp.MustCompile(`\[[^\]]*\]|\([^)]*\)|[0-9a-f:.-]*[0-9][0-9a-f:.-]*`)
)

// classOf is the error code in a line of a log, or the reason at its end without numbers.
func classOf(line string) string {
	if code := upper.FindString(line); code != "" {
		return code
	}
	const longest = 80
	line = line[strings.LastIndex(line, ": ")+1:]
	line = strings.Join(strings.Fields(digits.ReplaceAllString(line, "")), " ")
	return line[:min(len(line), longest)]
}

// producing starts the program of a producer.
func (c *campaign) producing(ctx context.Context, p *producer, env, args []string) error {
	open := map[int]bool{}
	var mu sync.Mutex // guards open, which has the records without an outcome
	close := func(n int) {
		mu.Lock()
		defer mu.Unlock()
		if open[n] {
			delete(open, n)
			p.open.Done()
		}
	}
	run, err := start(ctx, p.track, env, args, func(kind string, at time.Duration, rest string) {
		var n int
		var offset int64
		switch first, rest, _ := strings.Cut(rest, " "); kind {
		case "ack":
			if _, err := fmt.Sscan(first+" "+rest, &n, &offset); err == nil {
				p.acknowledged(n, offset, at)
				close(n)
			}
		case "lost":
			p.failed("record: " + rest)
			if _, err := fmt.Sscan(first, &n); err == nil {
				close(n)
			}
		case "err":
			p.failed(first)
		}
	})
	if err != nil {
		return err
	}
	p.send = func(_ context.Context, n int, value []byte) {
		mu.Lock()
		open[n] = true
		mu.Unlock()
		_, err := fmt.Fprintf(run.in, "%s\n", value)
		select {
		case <-run.done:
		default:
			if err == nil {
				return
			}
		}
		close(n)
	}
	go func() {
		<-run.done
		mu.Lock()
		defer mu.Unlock()
		for n := range open {
			delete(open, n)
			p.open.Done()
		}
	}()
	c.closers = append(c.closers, func() { <-run.done })
	return nil
}

// consumeProcess reads with a program until ctx ends.
func (c *consumer) consumeProcess(ctx context.Context, env, args []string) {
	run, err := start(ctx, c.track, env, args, func(kind string, at time.Duration, rest string) {
		first, rest, _ := strings.Cut(rest, " ")
		if kind != "rec" {
			if strings.Contains(strings.ToUpper(strings.ReplaceAll(first, "_", "")), "OFFSET") {
				c.reset()
			}
			c.failed(first)
			return
		}
		var offset int64
		if _, err := fmt.Sscan(first, &offset); err != nil {
			c.failed(err.Error())
			return
		}
		c.got(offset, []byte(rest), at)
	})
	if err != nil {
		c.failed(err.Error())
		return
	}
	<-run.done
}
