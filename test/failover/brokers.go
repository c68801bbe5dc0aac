package failover

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/test/faultproxy"
	"github.com/sebbroker/seb/test/testenv"
)

const (
	apiKey = "failover-campaign-key"
	// poll is the interval at which conditions are tested.
	poll = 20 * time.Millisecond
	// askTime bounds the wait for the answer of a broker, which may be stopped.
	askTime = 300 * time.Millisecond
	// recoverMax bounds the wait for a leader and for clients.
	recoverMax = 2 * time.Minute
	exitFenced = 3
)

// slot runs consecutive broker processes with the same data directory and addresses.
type slot struct {
	n           int
	http, kafka string // host:port
	data        string
	status      *client.Client
	log         *os.File
	store       *faultproxy.Store // with namespaces and S3: between this broker and its bucket
	proxy       *testenv.S3Proxy  // behind store; counts and delays

	broker  *testenv.Broker // nil: none runs
	stopped bool            // by SIGSTOP
}

func (s *slot) String() string { return fmt.Sprintf("broker %d", s.n) }
func (s *slot) url() string    { return "http://" + s.http }

// fleet has the brokers of one bucket. Its methods are for one goroutine at a time.
type fleet struct {
	o      *Options
	bucket string // --bucket
	server *testenv.S3Server
	proxy  *testenv.S3Proxy // without namespaces
	net    *network         // nil: without namespaces
	slots  []*slot
	// standbys: a broker that starts follows the leader. Otherwise it deposes the leader.
	standbys bool
	problem  func(format string, args ...any)
}

// newFleet creates the store and the slots: one more than brokers, so that a broker can be replaced.
func newFleet(ctx context.Context, o *Options, problem func(string, ...any)) (*fleet, error) {
	f := &fleet{o: o, bucket: "file:" + filepath.Join(o.Dir, "bucket"), problem: problem}
	if o.Namespaces {
		var err error
		if f.net, err = newNetwork(ctx, o.Brokers+1, o.behind()); err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	if o.Store == S3 {
		dir := filepath.Join(o.Dir, "s3")
		if err := os.MkdirAll(dir, 0o750); err != nil {
			return nil, err
		}
		var err error
		if f.server, err = testenv.StartS3(ctx, dir); err != nil {
			return nil, errors.Join(err, f.close())
		}
		if !o.Namespaces { // otherwise each slot has a proxy
			if f.proxy, err = f.newProxy(); err != nil {
				return nil, errors.Join(err, f.close())
			}
			f.bucket = f.proxy.Spec(prefix)
		}
	}
	for n := range o.Brokers + 1 {
		s, err := f.newSlot(n)
		f.slots = append(f.slots, s)
		if err != nil {
			return nil, errors.Join(err, f.close())
		}
	}
	return f, nil
}

// prefix is that of the brokers in the S3 server's bucket.
const prefix = "failover"

// newProxy starts a proxy in front of the S3 server.
func (f *fleet) newProxy() (*testenv.S3Proxy, error) {
	p, err := testenv.NewS3Proxy(f.server.Endpoint)
	if err == nil {
		p.SetDelay(f.o.Get)
		p.SetDelayOf(testenv.Put, f.o.Put)
		p.SetDelayOf(testenv.List, f.o.List)
	}
	return p, err
}

func (f *fleet) newSlot(n int) (*slot, error) {
	s := &slot{n: n, data: filepath.Join(f.o.Dir, fmt.Sprintf("data-%d", n))}
	var faults [6]error
	if f.net == nil {
		s.http, faults[0] = testenv.FreeAddress()
		s.kafka, faults[1] = testenv.FreeAddress()
	} else {
		s.http, s.kafka = net.JoinHostPort(address(n), httpPort), net.JoinHostPort(address(n), kafkaPort)
		if f.server != nil {
			faults[0] = f.gate(s)
		}
		if f.o.Local {
			faults[1] = f.net.expose(n)
		}
		if slices.Contains(f.o.Faults, Full) {
			faults[4] = errors.Join(os.Mkdir(s.data, 0o700), smallDisk(s.data, dataSize))
		}
	}
	s.status, faults[2] = client.New(s.url(), client.Options{APIKey: apiKey, RetryTime: -1})
	s.log, faults[3] = os.Create(filepath.Join(f.o.Dir, fmt.Sprintf("broker-%d.log", n)))
	return s, errors.Join(faults[:]...)
}

// gate puts proxies between a broker and the S3 server.
func (f *fleet) gate(s *slot) error {
	l, err := net.Listen("tcp", net.JoinHostPort(storeAddress, "0")) //nolint:gosec // of this process's own network
	if err != nil {
		return err
	}
	if s.proxy, err = f.newProxy(); err == nil {
		s.store, err = faultproxy.NewStoreAt(l, s.proxy.Endpoint(), f.o.Seed+uint64(s.n))
	}
	if err == nil && s.n == f.o.behind() {
		err = f.net.relay(nat, l.Addr().String(), "", l.Addr().String())
	}
	return err
}

// close kills all brokers and ends the store.
func (f *fleet) close() error {
	var faults []error
	for _, s := range f.slots {
		if s.broker != nil {
			s.broker.Kill()
		}
		if s.status != nil {
			s.status.Close()
		}
		if s.store != nil {
			s.store.Close()
			s.proxy.Close()
		}
		faults = append(faults, s.log.Close())
	}
	if f.net != nil {
		f.net.close()
	}
	if f.proxy != nil {
		f.proxy.Close()
	}
	if f.server != nil {
		faults = append(faults, f.server.Stop())
	}
	return errors.Join(faults...)
}

// start starts a broker and returns at once.
func (f *fleet) start(s *slot) error {
	bucket := f.bucket
	if s.store != nil {
		bucket = s.store.Spec(prefix)
	}
	args := []string{"serve", "--bucket", bucket, "--data-dir", s.data, "--kafka-advertise", s.kafka, "--auto-create-topics=false"}
	switch {
	case f.o.Local: // the default listeners
	case s.n == f.o.behind():
		args = append(args, "--http-address", "0.0.0.0", "--kafka-listen", ":"+kafkaPort)
	default:
		host, port := split(s.http)
		args = append(args, "--http-address", host, "--http-port", port, "--advertise", s.url(), "--kafka-listen", s.kafka)
	}
	if f.o.Store == S3 {
		args = append(args, "--put-budget", "off", "--batch-wait-time", "20ms")
	}
	env := append([]string{"SEB_API_KEY=" + apiKey}, testenv.S3Keys...)
	var mu sync.Mutex // lines of both outputs
	program, args := f.o.Program, append(args, f.o.Args...)
	if f.net != nil {
		program, args = "ip", append([]string{"netns", "exec", netns(s.n), program}, args...)
	}
	b, err := testenv.StartProgram(program, env, func(line string) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = fmt.Fprintln(s.log, line)
	}, args...)
	s.broker, s.stopped = b, false
	return err
}

// startReady starts a broker and waits until it is ready.
func (f *fleet) startReady(ctx context.Context, s *slot) error {
	if err := f.start(s); err != nil {
		return err
	}
	return f.ready(ctx, s)
}

// ready waits until a broker is ready.
func (f *fleet) ready(ctx context.Context, s *slot) error {
	return await(ctx, s.String()+" is ready", func() (bool, error) {
		select {
		case <-s.broker.Done():
			code, by := s.broker.Exit()
			return false, fmt.Errorf("%v ended at its start: code %d %v\n%s", s, code, by, s.broker.Log())
		default:
		}
		ask, cancel := context.WithTimeout(ctx, askTime)
		defer cancel()
		req, err := http.NewRequestWithContext(ask, http.MethodGet, s.url()+"/readyz", http.NoBody)
		if err != nil {
			return false, err
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return false, nil
		}
		return resp.StatusCode == http.StatusOK, resp.Body.Close()
	})
}

// reap notes brokers that have ended by themselves. Only a deposed broker may do so.
func (f *fleet) reap() {
	for _, s := range f.slots {
		if s.broker == nil {
			continue
		}
		select {
		case <-s.broker.Done():
		default:
			continue
		}
		if code, by := s.broker.Exit(); f.standbys || code != exitFenced {
			f.problem("%v ended by itself: code %d %v\n%s", s, code, by, s.broker.Log())
		}
		s.broker = nil
	}
}

// leader returns the slot of the broker that leads the newest epoch; nil: none says so.
func (f *fleet) leader(ctx context.Context) (leader *slot, epoch uint32) {
	var mu sync.Mutex // guards the results
	var wg sync.WaitGroup
	for _, s := range f.slots {
		if s.broker == nil || s.stopped {
			continue
		}
		wg.Go(func() {
			ask, cancel := context.WithTimeout(ctx, askTime)
			defer cancel()
			status, err := s.status.Status(ask)
			if err != nil || status.Role != "leader" {
				return
			}
			mu.Lock()
			defer mu.Unlock()
			if status.Epoch > epoch {
				leader, epoch = s, status.Epoch
			}
		})
	}
	wg.Wait()
	return leader, epoch
}

// awaitLeader waits until a broker leads an epoch or a later one.
func (f *fleet) awaitLeader(ctx context.Context, from uint32) (leader *slot, epoch uint32, err error) {
	err = await(ctx, "a broker leads", func() (bool, error) {
		leader, epoch = f.leader(ctx)
		return epoch >= from, nil
	})
	return leader, epoch, err
}

// running returns the slots whose broker runs, without one.
func (f *fleet) running(without *slot) (list []*slot) {
	for _, s := range f.slots {
		if s.broker != nil && s != without {
			list = append(list, s)
		}
	}
	return list
}

// idle returns the first slot without a broker after a slot.
func (f *fleet) idle(after *slot) *slot {
	for i := range f.slots {
		if s := f.slots[(after.n+1+i)%len(f.slots)]; s.broker == nil {
			return s
		}
	}
	return nil
}

// kill ends a broker by SIGKILL.
func (s *slot) kill() {
	s.broker.Kill()
	s.broker = nil
}

// ended waits for the end of a broker that got SIGTERM or was deposed.
func (f *fleet) ended(ctx context.Context, s *slot) error {
	err := await(ctx, s.String()+" ends", func() (bool, error) {
		select {
		case <-s.broker.Done():
			return true, nil
		default:
			return false, nil
		}
	})
	if err != nil {
		return fmt.Errorf("%w\n%s", err, s.broker.Log())
	}
	// A deposed broker may end before the signal arrives.
	if code, by := s.broker.Exit(); code != 0 && (f.standbys || code != exitFenced) {
		f.problem("%v ended with code %d %v\n%s", s, code, by, s.broker.Log())
	}
	s.broker = nil
	return nil
}

// await polls until done returns true. An error of done ends the wait.
func await(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeoutCause(ctx, recoverMax, fmt.Errorf("waited %v until %s", recoverMax, what))
	defer cancel()
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if !sleep(ctx, poll) {
			return context.Cause(ctx)
		}
	}
}

// sleep waits, and reports whether ctx lives.
func sleep(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
