package main

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"
)

// notifier reports the broker's state to a service manager, by datagrams to $NOTIFY_SOCKET
// (sd_notify(3)). A nil notifier does nothing.
type notifier struct {
	conn *net.UnixConn
	log  *slog.Logger
	end  context.CancelFunc
	done sync.WaitGroup
}

// startNotifier reports that the broker serves. If the unit has a watchdog ($WATCHDOG_USEC), it
// reports twice per interval that the broker is alive, while alive returns nil in time. The manager
// therefore restarts a broker whose log is stuck. When ctx ends, the notifier reports that the
// broker stops. It returns nil if no service manager requests reports.
func startNotifier(ctx context.Context, log *slog.Logger, alive func(context.Context) error) *notifier {
	path := os.Getenv("NOTIFY_SOCKET")
	if path == "" {
		return nil
	}
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		log.Warn("service manager not notified", "socket", path, "err", err)
		return nil
	}
	n := &notifier{conn: conn, log: log}
	n.send("READY=1")
	ctx, n.end = context.WithCancel(ctx)
	n.done.Go(func() {
		n.run(ctx, watchdogEvery(), alive)
		n.send("STOPPING=1")
	})
	return n
}

// watchdogEvery returns the interval of reports, 0 if the unit has no watchdog for this process.
func watchdogEvery() time.Duration {
	if pid := os.Getenv("WATCHDOG_PID"); pid != "" && pid != strconv.Itoa(os.Getpid()) {
		return 0
	}
	micros, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64)
	if err != nil || micros <= 0 {
		return 0
	}
	return max(time.Duration(micros)*time.Microsecond/2, time.Millisecond)
}

func (n *notifier) run(ctx context.Context, every time.Duration, alive func(context.Context) error) {
	if every == 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		within, cancel := context.WithTimeoutCause(ctx, every, errors.New("no answer"))
		err := alive(within)
		cancel()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			n.log.Error("watchdog report skipped: the log's owner does not answer", "err", err, "within", every)
		default:
			n.send("WATCHDOG=1")
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (n *notifier) send(state string) {
	if _, err := n.conn.Write([]byte(state)); err != nil {
		n.log.Warn("service manager not notified", "state", state, "err", err)
	}
}

// close stops the reports and waits for the last one.
func (n *notifier) close() {
	if n == nil {
		return
	}
	n.end()
	n.done.Wait()
	_ = n.conn.Close()
}
