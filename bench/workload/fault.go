package workload

import (
	"fmt"
	"strings"
	"time"
)

// The kinds of faults.
const (
	Pause   = "pause"   // the broker's process is stopped for a while (SIGSTOP, SIGCONT)
	Slow    = "slow"    // every subscriber takes so long for each message, for a while
	Hold    = "hold"    // every subscriber takes nothing for a while, then what has piled up
	Command = "command" // a command of the shell, such as one that cuts the network
	Restart = "restart" // the broker's process is killed (SIGKILL), then a command starts it again
)

// Fault is what goes wrong at some time of a run. It is written as "KIND at=10s", with for=1s (pause, slow, hold),
// delay=1ms (slow), and at the end run=COMMAND (command, restart). A command gets the broker's process id as $PID; the last
// line it prints, if it is a number, is the id from then on.
type Fault struct {
	Kind  string
	At    time.Duration // after measuring has begun
	For   time.Duration
	Delay time.Duration
	Run   string
}

// ParseFault reads a fault as it is written.
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

// NeedsPID says whether the fault is done to the broker's process.
func (f *Fault) NeedsPID() bool { return f.Kind == Pause || f.Kind == Restart }

// String is the fault as ParseFault reads it.
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

// UnmarshalText implements encoding.TextUnmarshaler, as ParseFault.
func (f *Fault) UnmarshalText(text []byte) error {
	fault, err := ParseFault(string(text))
	if err == nil {
		*f = fault
	}
	return err
}
