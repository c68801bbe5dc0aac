package load

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// MonotonicClock is the system's CLOCK_MONOTONIC, whose times are comparable between processes of
// one machine. It sleeps with kernel timers, because those of package time are late by up to a
// millisecond. A timer is a file that the Go runtime polls. A goroutine sleeping in a system call
// would keep its processor (P) from other goroutines for up to 10 ms, until the runtime takes it
// away, and this delay would show in the latencies of the goroutines that wait for messages.
type MonotonicClock struct {
	base time.Time // read together with raw; time.Since reads the clock without a system call
	raw  int64
	spin int64

	mu   sync.Mutex // guards idle
	idle []*timer   // unused timers
}

// timer is a kernel timer.
type timer struct {
	fd   int // of file; the Fd method of file would switch it to blocking mode
	file *os.File
}

// calibrations is how often the two clocks are read in sequence; the closest pair is used.
const calibrations = 64

// NewMonotonicClock returns the clock. It polls the time during the last spin of every sleep, which
// is exact but keeps a core busy. With 0 it sleeps until the end.
func NewMonotonicClock(spin time.Duration) *MonotonicClock {
	m := &MonotonicClock{spin: int64(spin)}
	best := int64(1) << 62
	for range calibrations {
		var ts unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			panic("read the monotonic clock: " + err.Error())
		}
		after := time.Now()
		if took := int64(after.Sub(before)); took < best {
			best, m.base, m.raw = took, before.Add(after.Sub(before)/2), ts.Nano()
		}
	}
	return m
}

// Now implements Clock.
func (m *MonotonicClock) Now() int64 { return m.raw + int64(time.Since(m.base)) }

// SleepUntil implements Clock.
func (m *MonotonicClock) SleepUntil(ctx context.Context, t int64) error {
	until := t - m.spin
	for {
		now := m.Now()
		if now >= until {
			break
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		m.sleep(min(until, now+int64(sleepMax)))
	}
	for m.Now() < t {
		runtime.Gosched()
	}
	return nil
}

// sleep sleeps until t.
func (m *MonotonicClock) sleep(t int64) {
	r := m.take()
	defer m.give(r)
	at := unix.ItimerSpec{Value: unix.NsecToTimespec(t)}
	if err := unix.TimerfdSettime(r.fd, unix.TFD_TIMER_ABSTIME, &at, nil); err != nil {
		panic("set a timer: " + err.Error())
	}
	var times [8]byte
	if _, err := r.file.Read(times[:]); err != nil {
		panic("read a timer: " + err.Error())
	}
}

func (m *MonotonicClock) take() *timer {
	m.mu.Lock()
	defer m.mu.Unlock()
	if last := len(m.idle) - 1; last >= 0 {
		r := m.idle[last]
		m.idle = m.idle[:last]
		return r
	}
	fd, err := unix.TimerfdCreate(unix.CLOCK_MONOTONIC, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil {
		panic(fmt.Sprintf("create a timer: %v", err))
	}
	return &timer{fd: fd, file: os.NewFile(uintptr(fd), "timer")}
}

func (m *MonotonicClock) give(r *timer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = append(m.idle, r)
}
