package connlimit

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/test/check"
)

// newListeners returns two listeners of a limiter for 20 connections. evict may be nil.
func newListeners(evict func(time.Time) bool) (l *Limiter, a, b *Listener) {
	if evict == nil {
		evict = func(time.Time) bool { return false }
	}
	l = New(Options{Bytes: 2000})
	listen := func(name string) *Listener {
		return l.Listen(ListenerOptions{Name: name, Bytes: 100, Evict: evict})
	}
	return l, listen("a"), listen("b")
}

func take(t *testing.T, p *Listener, n int) (all []*Slot) {
	t.Helper()
	for i := range n {
		s := p.Take()
		if s == nil {
			t.Fatalf("connection %d of %d does not fit", i, n)
		}
		all = append(all, s)
	}
	return all
}

func TestReadersLeaveATenth(t *testing.T) {
	_, a, b := newListeners(nil)
	all := take(t, a, 18)
	for i, s := range all {
		check.Equalf(t, s.Read(100), true, "reader %d", i)
	}
	more := take(t, b, 1)[0]
	check.Equalf(t, more.Read(100), false, "a reader in the reserve")
	check.Equalf(t, all[0].Read(100), true, "an earlier reader")
	all[1].Close()
	check.Equalf(t, more.Read(100), true, "a reader when another has left")
}

func TestOneListenerLeavesRoomForOthers(t *testing.T) {
	_, a, b := newListeners(nil)
	take(t, a, 19)
	check.Equalf(t, a.Take() == nil, true, "the last twentieth")
	take(t, b, 1)
	check.Equalf(t, b.Take() == nil, true, "beyond the limit")
}

// TestWritesTakeTheSlotOfAReader: beyond the limit a connection enters at once if a reader waits. A write
// then ends the reader that has waited longest, and a reader none.
func TestWritesTakeTheSlotOfAReader(t *testing.T) {
	_, a, b := newListeners(nil)
	var left []int
	for i, s := range take(t, a, 18) {
		s.Read(100)
		s.Wait(func() { left = append(left, i) })
	}
	take(t, b, 2)
	over := b.Enter(time.Now().Add(time.Hour), nil)
	check.Equalf(t, over.Over(), true, "beyond the limit")
	check.Equalf(t, over.Read(100), false, "a reader beyond the limit")
	check.Equalf(t, over.Promote(), true, "a write")
	check.Equalf(t, over.Promote(), true, "the next write")
	check.EqualSlicesf(t, left, []int{0}, "readers that left")
	// The reader has not closed its connection yet: another write needs another one.
	other := b.Enter(time.Now().Add(time.Hour), nil)
	check.Equalf(t, other.Over() && other.Promote(), true, "another write")
	check.EqualSlicesf(t, left, []int{0, 1}, "readers that left")
}

func TestOverWithoutReaders(t *testing.T) {
	stop := make(chan struct{})
	_, a, b := newListeners(nil)
	take(t, a, 19)
	take(t, b, 1)
	over := b.Enter(time.Now(), stop)
	check.Equalf(t, over.Over() && !over.Promote(), true, "there is no reader")
	over2 := b.Enter(time.Now(), stop)
	check.Equalf(t, over2.Over(), true, "there are two slots beyond the limit")
	check.Equalf(t, b.Enter(time.Now(), stop) == nil, true, "there is no third")
	close(stop)
	check.Equalf(t, b.Enter(time.Now().Add(time.Hour), stop) == nil, true, "the server stops")
}

// TestEvictionMakesRoom: a new connection waits for the slot of an evicted one, also of another
// listener. A reader never begins in the reserve.
func TestEvictionMakesRoom(t *testing.T) {
	var idle []*Slot
	_, a, b := newListeners(func(time.Time) bool {
		if len(idle) == 0 {
			return false
		}
		idle[0].Close()
		idle = idle[1:]
		return true
	})
	idle = take(t, a, 19)
	take(t, b, 1)
	s := b.Enter(time.Now().Add(time.Hour), nil)
	check.Equalf(t, s != nil && !s.Over(), true, "within the limit")
	check.Equalf(t, s.Read(100), false, "a reader in the reserve")
	check.Equalf(t, s.Read(100), true, "a reader after two more have been evicted")
	check.Equalf(t, len(idle), 16, "idle connections")
	s.Close()
	s.Close()
	check.Equalf(t, a.Open()+b.Open(), 17, "open connections")
}

func TestStatusNamesTheSetting(t *testing.T) {
	l := New(Options{Bytes: 2000, Files: 5})
	evict := func(time.Time) bool { return false }
	l.Listen(ListenerOptions{Name: "a", Bytes: 100, Max: 3, Flag: "--a", Evict: evict})
	l.Listen(ListenerOptions{Name: "b", Bytes: 100, Evict: evict})
	l.Listen(ListenerOptions{Name: "c", Bytes: 1000, Evict: evict})
	want := []string{"--a", FilesSetting, "--memory-limit"}
	for i, s := range l.Status().Listeners {
		check.Equalf(t, s.Setting, want[i], "%s", s.Name)
	}
}
