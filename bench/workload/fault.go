package workload

import (
	"fmt"
	"strings"
	"time"
)

// The kinds of faults.
const (
	Pause   = "pause"   // the broker's process is stopped for a while (SIGSTOP, SIGCONT)
	Slow    = "slow"    // every subscriber delays each message, for a while
	Hold    = "hold"    // every subscriber receives nothing for a while, then the backlog
	Command = "command" // a shell command, for example one that disconnects the network
	Restart = "restart" // the broker's process is killed (SIGKILL), then a command starts it again
)

// Fault is a fault to inject during a run. Its text form is "KIND at=10s", with for=1s (pause,
// slow, hold), delay=1ms (slow), and at the end run=COMMAND (command, restart). A command gets the
// broker's process ID as $PID. If the last line of its output is a number, that is the new process
// ID.
type Fault struct {
	Kind  string
	At    time.Duration // after the start of the measured time
	For   time.Duration
	Delay time.Duration
	Run   string
}

// ParseFault parses the text form of a fault.
func ParseFault(s string) (Fault, error) {
	text, run, _ := strings.Cut(s, " run=")
	words := strings.Fields(text)
	if len(words) == 0 {
		return Fault{}, fmt.Errorf("fault %q: want as in %q", s, "pause at=10s for=1s")
	}
	f := Fault{Kind: words[0], Run: strings.TrimSpace(run)}
	for _, word := range words[1:] {
		name, value, _ := strings.Cut(word, "=")
		into, ok := map[string]*time.Duration{"at": &f.At, "for": &f.For, "delay": &f.Delay}[name]
		if !ok {
			return Fault{}, fmt.Errorf("fault %q: %q: there are at, for, delay, and run as the last", s, name)
		}
		d, err := time.ParseDuration(value)
		if err != nil || d < 0 {
			return Fault{}, fmt.Errorf("fault %q: %s: want a duration, such as 500ms, have %q", s, name, value)
		}
		*into = d
	}
	return f, f.validate()
}

func (f *Fault) validate() error {
	var needFor, needDelay, needRun bool
	switch f.Kind {
	case Pause, Hold:
		needFor = true
	case Slow:
		needFor, needDelay = true, true
	case Command, Restart:
		needRun = true
	default:
		return fmt.Errorf("faults: no kind %q; there are %s, %s, %s, %s, %s", f.Kind, Pause, Slow, Hold, Command, Restart)
	}
	for _, field := range []struct {
		name      string
		has, need bool
	}{{"for", f.For > 0, needFor}, {"delay", f.Delay > 0, needDelay}, {"run", f.Run != "", needRun}} {
		if field.has != field.need {
			verb := "has no"
			if field.need {
				verb = "needs"
			}
			return fmt.Errorf("faults: %s %s %s=", f.Kind, verb, field.name)
		}
	}
	return nil
}

// NeedsPID reports whether the fault acts on the broker's process.
func (f *Fault) NeedsPID() bool { return f.Kind == Pause || f.Kind == Restart }

// String returns the fault in the form of ParseFault.
func (f Fault) String() string {
	s := fmt.Sprintf("%s at=%v", f.Kind, f.At)
	if f.For > 0 {
		s += fmt.Sprintf(" for=%v", f.For)
	}
	if f.Delay > 0 {
		s += fmt.Sprintf(" delay=%v", f.Delay)
	}
	if f.Run != "" {
		s += " run=" + f.Run
	}
	return s
}

// MarshalText implements encoding.TextMarshaler.
func (f Fault) MarshalText() ([]byte, error) { return []byte(f.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler with ParseFault.
func (f *Fault) UnmarshalText(text []byte) error {
	fault, err := ParseFault(string(text))
	if err == nil {
		*f = fault
	}
	return err
}
