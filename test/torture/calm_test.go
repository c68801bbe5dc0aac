package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/operate/fsck"
	"github.com/sebbroker/seb/test/testenv"
)

// execute executes the plan. ctx ends everything.
func (r *run) execute(ctx context.Context, enough func() bool) {
	r.began = time.Now()
	chaos, end := context.WithCancel(ctx)
	defer end()
	r.end = end
	alive, kill := context.WithCancel(ctx)
	defer kill()
	var brokers, working sync.WaitGroup
	brokers.Go(func() { r.slots[0].live(alive) })
	if !r.createTopics(ctx) {
		kill()
		brokers.Wait()
		return
	}
	for _, s := range r.slots[1:] {
		brokers.Go(func() { s.live(alive) })
	}
	r.setFaults(true)
	work, stopWork := context.WithCancel(ctx)
	defer stopWork()
	r.work(work, &working)
	brokers.Go(func() { r.nemesis(chaos) })
	r.watch(chaos, enough)
	end()

	r.calm.Store(true)
	r.setFaults(false)
	kill()
	brokers.Wait()
	for _, s := range r.slots {
		s.timers.Wait()
		if s.store != nil {
			s.store.Settle()
		}
	}
	r.rec.Note("all", "calm")
	if ctx.Err() != nil {
		stopWork()
		working.Wait()
		return
	}
	r.finish(ctx, stopWork, &working)
}

func (r *run) setFaults(on bool) {
	for _, s := range r.slots {
		s.disturb(on)
	}
}

// watch waits until the chaos has lasted long enough, or a fault was found.
func (r *run) watch(ctx context.Context, enough func() bool) {
	over := time.After(r.p.length)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-over:
			return
		case <-ctx.Done():
			return
		case <-r.rec.Bad():
			r.failed.Store(true)
			return
		case <-tick.C:
			if enough() {
				return
			}
		}
	}
}

// createTopics creates the topics while only one broker exists, so that every leader knows them.
func (r *run) createTopics(ctx context.Context) bool {
	u := r.newUser(client.Options{RetryTime: -1})
	defer u.transport.CloseIdleConnections()
	until := time.Now().Add(calmTime)
	for ctx.Err() == nil && !r.failed.Load() && time.Now().Before(until) {
		call, cancel := context.WithTimeout(ctx, 10*time.Second)
		created := u.make(call, r.topics())
		cancel()
		if created {
			return true
		}
		sleep(ctx, 5*time.Millisecond)
	}
	r.fault("topics were not created within %v", calmTime)
	return false
}

// work starts the clients.
func (r *run) work(ctx context.Context, wg *sync.WaitGroup) {
	rng := stream(r.p.seed, streamClient)
	for _, k := range r.p.clients {
		o := client.Options{RetryTime: span(rng, 100*time.Millisecond, 2*time.Second), NotIdempotent: k == plainProducer}
		if k == register && r.p.exact {
			o.RetryTime = -1 // a commit that may take effect twice has no linear order
		}
		u := r.newUser(o)
		r.users = append(r.users, u)
		start := func(f func()) { wg.Go(f) }
		switch k {
		case goProducer:
			start(func() { u.produceGo(ctx, true, false) })
		case sharedProducer:
			for n := range 3 {
				v := u
				if n > 0 {
					v = r.newUser(o)
					v.api = u.api
				}
				start(func() { v.produceGo(ctx, false, false) })
			}
		case plainProducer:
			start(func() { u.produceGo(ctx, false, false) })
		case rawProducer:
			start(func() { u.produceRaw(ctx, false) })
		case windowProducer:
			start(func() { u.produceWindow(ctx) })
		case conditional:
			v := r.newUser(o)
			start(func() { u.produceGo(ctx, true, true) })
			start(func() { v.produceRaw(ctx, true) })
		case reader:
			start(func() { u.read(ctx) })
		case follower:
			start(func() { u.follow(ctx) })
		case grouped:
			start(func() { u.consume(ctx) })
		case register:
			start(func() { u.registers(ctx) })
		case trimmer:
			start(func() { u.trim(ctx) })
		case compactedWriter:
			start(func() { u.keep(ctx, &r.kept) })
		case rights:
			r.workRights(ctx, start)
		default:
			r.workKafka(ctx, k, u, start)
		}
	}
}

// finish is the calm: one broker, with only the bucket, and everything must finish.
func (r *run) finish(ctx context.Context, stopWork func(), working *sync.WaitGroup) {
	s := r.slots[0]
	if err := os.RemoveAll(s.dataDir()); err != nil {
		r.fault("%v", err)
		return
	}
	last, endLast := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { s.live(last) })
	defer wg.Wait()
	defer endLast()
	before := r.acks.Load()
	r.until(ctx, "a broker leads", func() bool { return !s.leads().IsZero() })
	r.until(ctx, "clients are acknowledged records again", func() bool { return r.acks.Load() >= before+20 })
	stopWork()
	done := make(chan struct{})
	go func() {
		working.Wait()
		close(done)
	}()
	r.until(ctx, "every operation has ended", func() bool {
		select {
		case <-done:
			return true
		default:
			return false
		}
	})
	if r.failed.Load() || ctx.Err() != nil {
		<-done // each has its own limit
		return
	}
	r.groupsReachTheEnd(ctx)
	r.kafkaGroupsReachTheEnd(ctx)
	r.readAll(ctx, "from the last broker")
	r.readKept(ctx, "from the last broker")
	r.rightsHold(ctx)
	if ctx.Err() != nil {
		return
	}
	r.stopLast(s)
	endLast()
	wg.Wait()
	r.readByFollower(ctx)
	r.fsck(ctx)
}

// until waits for a condition that must become true.
func (r *run) until(ctx context.Context, what string, holds func() bool) {
	limit := time.Now().Add(calmTime)
	for !holds() {
		if r.failed.Load() || ctx.Err() != nil {
			return
		}
		if time.Now().After(limit) {
			r.fault("in the calm, not within %v: %s\n%s", calmTime, what, r.slots[0].current().Log())
			return
		}
		<-time.After(5 * time.Millisecond)
	}
}

// groupsReachTheEnd lets the group consumers read and commit the rest.
func (r *run) groupsReachTheEnd(ctx context.Context) {
	for i, k := range r.p.clients {
		if k != grouped {
			continue
		}
		u := r.users[i]
		group := fmt.Sprintf("group-%d", u.id)
		life, cancel := context.WithTimeout(ctx, calmTime)
		ended := u.session(life, group, group+"-last", client.ConsumerOptions{Partitions: r.untrimmed()})
		list, err := u.api.Offsets(life, group, topic)
		cancel()
		at := map[int32]int64{}
		for _, o := range list {
			at[o.Partition] = o.Offset
		}
		for _, part := range r.untrimmed() {
			if _, end := r.rec.Ends(part); err != nil || at[part] < end {
				r.fault("%s has read partition %d up to %d of %d, and ended: %v; its offsets: %v", group, part, at[part], end, ended, err)
			}
		}
	}
}

// readAll reads every partition from its start to its end, in two encodings.
func (r *run) readAll(ctx context.Context, how string) {
	u := r.newUser(client.Options{RetryTime: 10 * time.Second})
	defer u.transport.CloseIdleConnections()
	for part := range int32(r.p.parts) {
		if u.describe(ctx, part) {
			r.fault("cannot describe partition %d %s", part, how)
			return
		}
		start, end := r.rec.Ends(part)
		for _, json := range []bool{false, true} {
			for from := start; from < end && !r.failed.Load(); {
				before := r.rec.Stats().Read
				if json {
					u.readJSON(ctx, part, from)
				} else {
					u.fetch(ctx, part, from, 0)
				}
				n := r.rec.Stats().Read - before // no other client reads
				if from += n; n == 0 {
					r.fault("cannot read partition %d from %d to %d %s", part, from, end, how)
				}
			}
		}
	}
}

// stopLast stops the last broker with SIGTERM.
func (r *run) stopLast(s *slot) {
	b := s.current()
	s.do(b, actTerm, 0)
	<-b.Done()
	if code, by := b.Exit(); code != 0 {
		r.fault("after SIGTERM in the calm the exit code is %d %v\n%s", code, by, b.Log())
	}
}

// readByFollower reads everything through a follower with an empty data directory.
func (r *run) readByFollower(ctx context.Context) {
	s := r.slots[0]
	dir := filepath.Join(r.dir, "data-follower")
	b, err := testenv.ServeLogged(r.shared.plain, environment(r.key()), s.line, "--bucket", r.spec(), "--data-dir", dir, "--http-port", "0", "--kafka-listen", "127.0.0.1:0", "--read-only")
	if err != nil {
		r.fault("%v", err)
		return
	}
	defer b.Kill()
	address, err := b.Address(dir)
	if err != nil {
		r.fault("a follower: %v", err)
		return
	}
	s.wire.SetTarget(strings.TrimPrefix(address, "http://"))
	s.mu.Lock()
	s.ready = time.Now()
	s.mu.Unlock()
	r.readAll(ctx, "from a follower")
	r.readKept(ctx, "from a follower")
}

// fsck verifies the bucket with the program.
func (r *run) fsck(ctx context.Context) {
	sum, kinds, err := fsckBucket(ctx, r.shared.plain, r.spec(), environment(r.key()))
	if err != nil {
		r.fault("%v", err)
		return
	}
	for kind, n := range kinds {
		r.counts.add("fsck "+kind, n)
	}
	if sum.Damages > 0 || sum.Topics != len(r.topics()) {
		r.fault("fsck: %+v", sum)
	}
}

// fsckBucket runs seb fsck. It returns its summary, and the findings by severity and kind.
func fsckBucket(ctx context.Context, seb, bucket string, env []string) (sum fsck.Report, kinds map[string]int64, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, seb, "fsck", "--json", "--bucket", bucket)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		return sum, nil, fmt.Errorf("fsck: %w\n%.4000s%s", err, out.String(), errs.String())
	}
	var last struct{ Summary fsck.Report }
	kinds = map[string]int64{}
	for lines := bufio.NewScanner(&out); lines.Scan(); {
		var found fsck.Finding
		if json.Unmarshal(lines.Bytes(), &found) == nil && found.Kind != "" {
			kinds[string(found.Severity)+" "+found.Kind]++
		} else if err := json.Unmarshal(lines.Bytes(), &last); err != nil {
			return sum, nil, fmt.Errorf("fsck prints %q: %w", lines.Text(), err)
		}
	}
	return last.Summary, kinds, nil
}
