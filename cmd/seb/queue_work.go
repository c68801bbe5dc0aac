package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/progress"
)

const (
	// exitLater is the exit code of a program whose message comes again after --later: EX_TEMPFAIL.
	exitLater = 75
	// messagePrefix begins the names of the environment variables of a program.
	messagePrefix = "SEB_MESSAGE_"
	// variableMax and variablesMax bound a variable, and all of a message: the system has limits for programs.
	variableMax  = 32 << 10
	variablesMax = 128 << 10
	// streamWait is how long the output of a program is read after its end, if its children keep it open.
	streamWait = time.Second
	// linePart bounds the part of a line that is kept until its end comes.
	linePart  = 64 << 10
	reasonMax = 400
)

// queueWork is one `seb queue work`.
type queueWork struct {
	o     client.WorkOptions
	later time.Duration
	keep  bool

	queue  string
	path   string
	args   []string
	killed context.Context // ends with the second signal
	fail   context.CancelCauseFunc
	screen *screen

	done, failed, postponed atomic.Int64
}

func newQueueWork(r *remote) *cobra.Command {
	var w queueWork
	cmd := &cobra.Command{
		Use:   "work QUEUE -- PROGRAM [ARGUMENT ...]",
		Short: "Run a program for each message",
		Long: `Runs PROGRAM for each message of QUEUE until it is interrupted. Its standard input is the value of the message. Its output goes where
that of seb goes.

exit code 0   the message is done
75            it comes again after --later
other         it has failed: it comes again after the backoff of the queue, with the exit code and the last line of stderr as reason.
              The same holds for a program that a signal has ended

Each lease counts as a delivery, also after 75. After max-deliveries the message goes to the dead-letter queue. A message may be given
more than once, so PROGRAM must be repeatable.

The environment of PROGRAM has, besides that of seb:

SEB_MESSAGE_QUEUE, SEB_MESSAGE_ID   the queue, and the ID of the message
SEB_MESSAGE_DELIVERIES              its leases, this one included
SEB_MESSAGE_SENT                    when it was sent, such as 2026-03-01T12:00:00.25Z
SEB_MESSAGE_KEY                     its key, if it has one
SEB_MESSAGE_HEADER_NAME             each header, with A to Z, 0 to 9 and _ in its name. The last of several counts

A key or header with a NUL byte, of more than 32 KiB, or after 128 KiB of others, is left out.

PROGRAM and all processes of its group are killed shortly before the lease is over, unless --extend extends it. SIGTERM or SIGINT lets
the programs that run finish, and waits until their outcomes are stored. A second signal kills them, and their messages come again at
once; the same one within 200ms counts as the first. If seb itself is killed, the programs continue, and their messages come again when
the leases are over. Processes that PROGRAM leaves behind when it ends also continue.`,
		Example: `  seb queue work mails -j 4 -- ./send-mail
  seb queue work images --extend -- convert - -resize 50% png:/srv/small.png
  seb queue work reports --until-empty -- sh -c 'report "$SEB_MESSAGE_KEY"'`,
		Args:              cobra.MinimumNArgs(2),
		ValidArgsFunction: r.queueNames,
		RunE:              func(cmd *cobra.Command, args []string) error { return w.run(r, cmd, args) },
	}
	f := cmd.Flags()
	f.IntVarP(&w.o.Concurrency, "jobs", "j", 1, "number of programs that run at once")
	f.DurationVar(&w.o.Visibility, "visibility", 0, "time that a program has for a message, such as 10m (default: that of the queue)")
	f.BoolVar(&w.keep, "extend", false, "extend the leases of programs that run longer")
	f.DurationVar(&w.later, "later", time.Minute, "time after which a message comes again whose program ended with 75")
	f.BoolVar(&w.o.UntilEmpty, "until-empty", false, "end when no message is ready and all programs have ended")
	return cmd
}

func (w *queueWork) run(r *remote, cmd *cobra.Command, args []string) (err error) {
	w.queue, w.args, w.o.NoExtend = args[0], args[2:], !w.keep
	switch {
	case w.o.Concurrency < 1 || w.o.Concurrency > 1000:
		return usageError{fmt.Errorf("--jobs: %d, want 1 to 1000", w.o.Concurrency)}
	case w.o.Visibility != 0 && (w.o.Visibility < time.Second || w.o.Visibility > 12*time.Hour):
		return usageError{fmt.Errorf("--visibility: %s, want 1s to 12h", w.o.Visibility)}
	case w.later < 0:
		return usageError{fmt.Errorf("--later: %s, want 0s or more", w.later)}
	}
	if w.path, err = exec.LookPath(args[1]); err != nil {
		return usageError{fmt.Errorf("program %w", err)}
	}
	ctx, fail := context.WithCancelCause(cmd.Context())
	defer fail(nil)
	killed, kill := context.WithCancel(context.WithoutCancel(ctx))
	defer kill()
	w.fail, w.killed, w.screen = fail, killed, newScreen(cmd)
	w.o.OnError = func(err error) { w.screen.say("%v", err) }
	defer onSecondSignal(func() {
		w.screen.say("killing the programs that run")
		kill()
	})()
	return r.with(cmd, func(c *client.Client) error {
		err := c.Work(ctx, w.queue, w.o, w.do)
		w.screen.sum("%s done, %d failed, %d later", counted(w.done.Load(), "message"), w.failed.Load(), w.postponed.Load())
		if cause := context.Cause(ctx); cmd.Context().Err() == nil && cause != nil {
			err = errors.Join(err, cause)
		}
		return err
	})
}

// sameSignal is how long the same signal counts as the first one: timeout(1) sends it to its program and then to the
// process group, and other parents pass on the SIGINT that a terminal sends to all of them.
const sameSignal = 200 * time.Millisecond

// onSecondSignal calls f at the second SIGINT or SIGTERM. A third one ends seb.
func onSecondSignal(f func()) (stop func()) {
	signals, ended := make(chan os.Signal, 2), make(chan struct{})
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		var first os.Signal
		var at time.Time
		for {
			select {
			case s := <-signals:
				switch {
				case first == nil:
					first, at = s, time.Now()
				case s != first || time.Since(at) >= sameSignal:
					signal.Stop(signals)
					f()
					return
				}
			case <-ended:
				return
			}
		}
	}()
	return func() {
		signal.Stop(signals)
		close(ended)
	}
}

// inputOf is a file without a name that contains a message. From a pipe a program would get a part of the message,
// and no error, if this process is killed.
func inputOf(m *client.LeasedMessage) (*os.File, error) {
	f, err := os.CreateTemp("", "seb-message-*")
	if err != nil {
		return nil, fmt.Errorf("file for a message: %w", err)
	}
	_, err = f.Write(m.Value)
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err = errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, fmt.Errorf("file for a message: %w", errors.Join(err, f.Close()))
	}
	return f, nil
}

// do runs the program for a message.
func (w *queueWork) do(ctx context.Context, m *client.LeasedMessage) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(w.killed, cancel)()
	in, err := inputOf(m)
	if err != nil {
		w.fail(err)
		return client.RetryAfter(0, err)
	}
	defer in.Close()
	c := exec.CommandContext(ctx, w.path, w.args...)
	c.Env = append(withoutMessage(os.Environ()), messageVariables(w.queue, m)...)
	c.Stdin = in
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // the terminal's SIGINT is for seb
	c.Cancel = func() error { return syscall.Kill(-c.Process.Pid, syscall.SIGKILL) }
	c.WaitDelay = streamWait
	errs := w.screen.lines(w.screen.err)
	if c.Stderr, c.Stdout = errs, w.screen.out; !w.screen.direct {
		out := w.screen.lines(w.screen.out)
		defer out.flush()
		c.Stdout = out
	}
	if err = c.Start(); err == nil {
		err = c.Wait()
	}
	errs.flush()
	defer w.screen.step()
	switch code := c.ProcessState.ExitCode(); {
	case c.ProcessState == nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, syscall.ENOEXEC)):
		w.fail(fmt.Errorf("start program: %w", err)) // so it is for the other messages
		return client.RetryAfter(0, err)
	case c.ProcessState == nil: // for want of memory or processes
	case code == 0:
		w.done.Add(1)
		return nil
	case w.killed.Err() != nil:
		return client.RetryAfter(0, errors.New("seb queue work was stopped"))
	case code == exitLater:
		w.postponed.Add(1)
		return client.RetryAfter(w.later, because(err, errs.last))
	case errors.Is(context.Cause(ctx), client.ErrLeaseOver):
		err = fmt.Errorf("killed: %w", client.ErrLeaseOver)
	}
	w.failed.Add(1)
	w.screen.say("message %s, delivery %d: %v", m.ID, m.Deliveries, err)
	return because(err, errs.last)
}

// because adds the last line of stderr to an error.
func because(err error, last string) error {
	if last == "" {
		return err
	}
	return fmt.Errorf("%w: %s", err, last)
}

// withoutMessage returns an environment without the variables of another message: a program may be seb.
func withoutMessage(environ []string) (out []string) {
	for _, v := range environ {
		if !strings.HasPrefix(v, messagePrefix) {
			out = append(out, v)
		}
	}
	return out
}

// messageVariables returns the environment variables of a message.
func messageVariables(queue string, m *client.LeasedMessage) (list []string) {
	left := variablesMax
	add := func(name string, value []byte) {
		if len(value) > variableMax || len(name)+len(value) > left || bytes.IndexByte(value, 0) >= 0 {
			return
		}
		left -= len(name) + len(value)
		list = append(list, messagePrefix+name+"="+string(value)) // exec takes the last of several
	}
	add("QUEUE", []byte(queue))
	add("ID", []byte(m.ID))
	add("DELIVERIES", []byte(strconv.Itoa(m.Deliveries)))
	add("SENT", []byte(m.Sent.UTC().Format(time.RFC3339Nano)))
	if m.Key != nil {
		add("KEY", m.Key)
	}
	for _, h := range m.Headers {
		add("HEADER_"+strings.Map(variableRune, h.Key), h.Value)
	}
	return list
}

// variableRune returns the character of a name of a variable.
func variableRune(r rune) rune {
	switch {
	case r >= 'a' && r <= 'z':
		return r - 'a' + 'A'
	case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		return r
	}
	return '_'
}

// screen is where programs and the command write. At a terminal it has a line with the progress.
type screen struct {
	name     string
	out, err io.Writer
	direct   bool          // out is a file, so programs write to it themselves
	mu       sync.Mutex    // orders lines, and the progress
	bar      *progress.Bar // nil: no terminal
}

func newScreen(cmd *cobra.Command) *screen {
	s := &screen{name: cmd.CommandPath(), out: cmd.OutOrStdout(), err: cmd.ErrOrStderr(), bar: progress.New(cmd.ErrOrStderr(), "messages", -1, nil)}
	if v, ok := s.out.(*visible); ok { // programs may use colors
		s.out = v.w
	}
	_, file := s.out.(*os.File)
	s.direct = file && s.bar == nil
	return s
}

// say writes a line of the command.
func (s *screen) say(format string, args ...any) {
	text := strings.TrimRight(fmt.Sprintf(format, args...), "\n")
	s.write(harmless(s.err), []byte(s.name+": "+text+"\n"))
}

// sum writes the last line, at a terminal.
func (s *screen) sum(format string, args ...any) {
	if s.bar != nil {
		s.write(s.err, fmt.Appendf(nil, format+"\n", args...))
	}
}

func (s *screen) write(w io.Writer, b []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bar.Clear()
	_, _ = w.Write(b) // a reader that has left does not end the work
}

// step counts a message.
func (s *screen) step() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bar.Add(1)
}

// lines returns a writer that writes whole lines to w.
func (s *screen) lines(w io.Writer) *lineWriter { return &lineWriter{s: s, w: w} }

// lineWriter writes the lines of a program, between those of others.
type lineWriter struct {
	s    *screen
	w    io.Writer
	rest []byte
	last string // the newest line that is not blank
}

func (l *lineWriter) Write(b []byte) (int, error) {
	l.rest = append(l.rest, b...)
	if end := bytes.LastIndexByte(l.rest, '\n') + 1; end > 0 {
		l.pass(end)
	}
	if len(l.rest) > linePart {
		l.pass(len(l.rest))
	}
	return len(b), nil
}

// flush writes what has no newline.
func (l *lineWriter) flush() {
	if len(l.rest) > 0 {
		l.pass(len(l.rest))
	}
}

// pass writes the first n bytes.
func (l *lineWriter) pass(n int) {
	l.s.write(l.w, l.rest[:n])
	if text := bytes.TrimSpace(l.rest[:n]); len(text) > 0 {
		text = bytes.TrimSpace(text[bytes.LastIndexByte(text, '\n')+1:])
		l.last = string(text[:min(len(text), reasonMax)])
	}
	l.rest = append(l.rest[:0], l.rest[n:]...)
}
