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

// MonotonicClock is the system's CLOCK_MONOTONIC: its times can be compared between the processes of one machine. It sleeps by the
// kernel's timers, because those of package time are late by up to a millisecond. A timer is a file that the runtime polls: a goroutine
// that slept in a system call would keep its processor (P) from all others for up to 10 ms, until the runtime takes it away, and
// whoever waits for a message measures that.
type MonotonicClock struct {
	base time.Time // read together with raw; time.Since reads the clock without a system call
	raw  int64
	spin int64

	mu   sync.Mutex // guards idle
	idle []*timer   // that nobody sleeps by
}

// timer is a timer of the kernel.
type timer struct {
	fd   int // of file, whose own method would make it block
	file *os.File
}

// calibrations is how often the two clocks are read one after the other; the closest pair counts.
const calibrations = 64

// NewMonotonicClock returns the clock. The last spin of every sleep is spent polling the time, which is exact and takes a core
// from whoever else runs here; 0 sleeps to the end.
func NewMonotonicClock(spin time.Duration) *MonotonicClock {
	exactSleeps()
	m := &MonotonicClock{spin: int64(spin)}
	best := int64(1) << 62
	for range calibrations {
		var ts unix.Timespec
		before := time.Now()
		if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
			panic("the system has no monotonic clock: " + err.Error())
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
		panic("a timer is not set: " + err.Error())
	}
	var times [8]byte
	if _, err := r.file.Read(times[:]); err != nil {
		panic("a timer is not heard: " + err.Error())
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
		panic(fmt.Sprintf("the system has no more timers: %v", err))
	}
	return &timer{fd: fd, file: os.NewFile(uintptr(fd), "timer")}
}

func (m *MonotonicClock) give(r *timer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.idle = append(m.idle, r)
}

// exactSleeps has the kernel no longer put the timers of this process's threads off (50 µs by default) to wake up for several
// at once. Threads that start later have it from those that start them. Where it can not be had, sleeps are a little longer, and
// the schedule's lag says so.
func exactSleeps() {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return
	}
	for _, t := range threads {
		_ = os.WriteFile("/proc/"+t.Name()+"/timerslack_ns", []byte("1"), 0)
	}
}
