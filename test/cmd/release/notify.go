package main

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"
)

// notify checks the reports to systemd: READY=1 only when the store answers and the broker serves,
// WATCHDOG=1 until the broker hangs, and STOPPING=1. A broker that hangs is aborted and started
// again, whatever its exit code is.
func (c *checks) notify() error {
	m, err := c.machine()
	if err != nil {
		return err
	}
	if err := m.runAll("dpkg -i " + c.debName()); err != nil {
		return err
	}
	s3, err := c.s3()
	if err != nil {
		return err
	}
	defer s3.Stop()
	port, err := freePort()
	if err != nil {
		return err
	}
	if err := syscall.Kill(s3.Pid(), syscall.SIGSTOP); err != nil {
		return err
	}
	s, err := m.start(append(s3Environment(s3, "notify"), "SEB_HTTP_PORT="+port, "SEB_KAFKA_LISTEN=127.0.0.1:0", "WATCHDOG_USEC=4000000")...)
	if err != nil {
		return err
	}
	defer s.close()
	time.Sleep(3 * time.Second) // several times a start with a store that answers
	if h := s.history(); len(h.states) > 0 || h.running == nil {
		return fmt.Errorf("reports while the store does not answer: %+v", h)
	}
	if err := errors.Join(syscall.Kill(s3.Pid(), syscall.SIGCONT), s.ready()); err != nil {
		return err
	}
	if _, err := c.epoch("http://127.0.0.1:" + port); err != nil {
		return fmt.Errorf("READY=1 before the broker serves: %w", err)
	}
	fed := func(h history) bool { return slices.Contains(h.states, "WATCHDOG=1") }
	if err := s.wait("WATCHDOG=1", time.Minute, fed); err != nil {
		return err
	}
	if err := s.history().running.Signal(syscall.SIGSTOP); err != nil {
		return err
	}
	if err := s.wait("restart of a broker that hangs", time.Minute, func(h history) bool { return h.starts == 2 && fed(h) }); err != nil {
		return err
	}
	code, err := s.stop()
	if err != nil || code != 0 {
		return fmt.Errorf("stop: exit code %d, %w", code, err)
	}
	if h := s.history(); !slices.Contains(h.states, "STOPPING=1") {
		return fmt.Errorf("no STOPPING=1: %+v", h)
	}
	return nil
}
