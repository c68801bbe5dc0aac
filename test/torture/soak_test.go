package torture

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/base/machine"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
	"github.com/sebbroker/seb/test/testenv"
)

// size sets the parameters of a soak. An hour at the default batch wait of 250 ms is 14,400 slots;
// at 100 ms that takes 24 minutes. The rest is compressed more: in an hour a broker with default
// settings makes 6 merges and 14 snapshots.
type size struct {
	topics, hot, warm int
	life, sample      time.Duration
	kills             int

	wait, mergeEvery, packAge, retainEvery time.Duration
	packBytes, slots                       int // slots between two snapshots
	retentionTime                          time.Duration
	pause                                  time.Duration // of the writers of the many topics
}

func sizes() size {
	if *long {
		life := cmp.Or(*lifeFlag, 25*time.Minute)
		return size{
			topics: 1000, hot: 10, warm: 90, life: life, sample: time.Minute, kills: max(12, int(life/(2*time.Minute))),
			wait: 100 * time.Millisecond, mergeEvery: 2 * time.Second, packAge: 5 * time.Second, retainEvery: 2 * time.Second,
			packBytes: 1 << 20, slots: 100, retentionTime: 40 * time.Second,
		}
	}
	return size{
		topics: 50, hot: 10, warm: 20, life: 8 * time.Second, sample: 2 * time.Second, kills: 3,
		wait: 20 * time.Millisecond, mergeEvery: 200 * time.Millisecond, packAge: 300 * time.Millisecond, retainEvery: 200 * time.Millisecond,
		packBytes: 64 << 10, slots: 30, retentionTime: 3 * time.Second, pause: 10 * time.Millisecond,
	}
}

// makeTopics returns topics of every kind.
func makeTopics(z *size) (all []*ledger) {
	for i := range z.topics {
		p := &ledger{name: topicName(i), unknown: map[int]bool{}, settings: map[string]string{}}
		switch i % 10 {
		case 0, 1:
			p.settings["retention-time"] = z.retentionTime.String()
			p.partial = true
		case 2:
			p.settings["retention-bytes"] = "20000"
			p.partial = true
		case 3:
			p.settings["cleanup-policy"] = "compact"
			p.settings["delete-retention-time"] = (z.retentionTime / 4).String()
			p.keyed = true
		case 4:
			p.settings["cleanup-policy"] = "compact,delete"
			p.settings["retention-time"] = z.retentionTime.String()
			p.settings["delete-retention-time"] = (z.retentionTime / 4).String()
			p.keyed, p.partial = true, true
		case 5:
			p.partial = true // trimmed by requests
		case 6:
			p.renewed = i >= z.hot+z.warm
		}
		all = append(all, p)
	}
	return all
}

// soak is a run.
type soak struct {
	t       *testing.T
	z       size
	p       *fixture
	l       *load
	port    int
	rng     *rand.Rand
	current *process
	began   time.Time
	starts  int // also the number of epochs
	early   int // kills of brokers that were not ready yet
	rssMax  int64
	counts  testenv.S3Counts   // at the last sample
	most    objects            // peak of each part
	totals  map[string]float64 // sums of all brokers' metrics, without their last moments
}

func (s *soak) args() []string {
	z := &s.z
	return []string{
		"--http-port", strconv.Itoa(s.port), "--http-connections", "256", "--auto-create-topics=false", "--cache-size", "64MiB",
		"--batch-wait-time", z.wait.String(), "--pack-bytes", strconv.Itoa(z.packBytes), "--pack-age", z.packAge.String(),
		"--merge-interval", z.mergeEvery.String(), "--snapshot-slots", strconv.Itoa(z.slots), "--retention-interval", z.retainEvery.String(),
	}
}

func (s *soak) start() {
	s.current = s.p.serve(s.args()...)
	s.starts++
}

// TestSoak runs a broker's life; see the package comment.
func TestSoak(t *testing.T) {
	z := sizes()
	seed := cmp.Or(*seedFlag, uint64(time.Now().UnixNano()))
	t.Logf("-seed %d, %d topics, %v, %d kills, on %v", seed, z.topics, z.life, z.kills, machine.Here())
	s := &soak{t: t, z: z, p: newFixture(t), rng: rand.New(rand.NewPCG(seed, 1)), port: testenv.PortForTest(t), most: noObjects(), totals: map[string]float64{}}
	s.start()
	topics := makeTopics(&z)
	var err error
	if s.l, err = newLoad(fmt.Sprintf("http://127.0.0.1:%d", s.port), topics); err != nil {
		t.Fatal(err)
	}
	s.create()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.begin(ctx)
	s.live()
	s.l.stop.Store(true)
	s.l.writers.Wait()
	s.settleGroups(cancel)
	s.finish()
}

// create creates the topics, several at a time, because each waits for a slot.
func (s *soak) create() {
	jobs := make(chan *ledger, len(s.l.topics))
	for _, p := range s.l.topics {
		jobs <- p
	}
	close(jobs)
	for range 50 {
		s.l.writers.Go(func() {
			for p := range jobs {
				if err := s.l.create(p); err != nil {
					s.l.fail(fmt.Errorf("create %s: %w", p.name, err))
				}
			}
		})
	}
	s.l.writers.Wait()
}

// groups are the consumers that keep up: each follows a busy topic.
func (s *soak) groups() map[string]*ledger {
	all := map[string]*ledger{}
	for i, p := range s.l.topics[:s.z.hot] {
		if i >= 2 {
			all["follow-"+strconv.Itoa(i)] = p
		}
	}
	return all
}

// begin starts the load.
func (s *soak) begin(ctx context.Context) {
	z, l := &s.z, s.l
	s.began = time.Now()
	s.counts = s.p.proxy.Counts()
	hot, warm, cold := l.topics[:z.hot], l.topics[z.hot:z.hot+z.warm], []*ledger(nil)
	var cut, renewed []*ledger
	for i, p := range l.topics {
		switch {
		case p.renewed:
			renewed = append(renewed, p)
		case i >= z.hot+z.warm:
			cold = append(cold, p)
		}
		if i%10 == 5 {
			cut = append(cut, p)
		}
	}
	for i, p := range hot {
		l.every([]*ledger{p}, []*client.Client{l.safe, l.plain}[i%2], 30, 0)
	}
	for i := range 4 {
		part := func(all []*ledger) []*ledger { return all[i*len(all)/4 : (i+1)*len(all)/4] }
		l.every(part(warm), []*client.Client{l.safe, l.plain}[i%2], 5, z.pause)
		l.every(part(cold), []*client.Client{l.safe, l.plain}[i%2], 3, z.pause)
	}
	l.renew(renewed, 5*z.wait)
	l.trim(cut, 5*z.wait)
	for group, p := range s.groups() {
		l.follow(ctx, p, group, z.life/8)
	}
	l.read(ctx, 1, z.wait)
	l.read(ctx, 2, z.wait)
}

// live runs the load with kills and samples.
func (s *soak) live() {
	end := time.After(s.z.life)
	every := s.z.life / time.Duration(s.z.kills+1)
	kill := time.NewTimer(every)
	sample := time.NewTicker(s.z.sample)
	defer sample.Stop()
	kills := 0
	for {
		select {
		case err := <-s.l.failed:
			s.t.Fatalf("%v\n%s", err, s.current.Log())
		case <-s.current.Done():
			s.t.Fatalf("broker ended by itself\n%s", s.current.Log())
		case <-sample.C:
			s.sample()
		case <-kill.C:
			if kills++; kills <= s.z.kills {
				s.kill(kills)
				kill.Reset(every*4/5 + time.Duration(s.rng.Int64N(int64(every*2/5))))
			}
		case <-end:
			s.sample()
			for ; kills < s.z.kills; kills++ {
				s.kill(kills + 1)
			}
			return
		}
	}
}

// kill sends SIGKILL at a random moment. Every second time the data directory is lost as well.
// Sometimes the next broker is killed before it is ready.
func (s *soak) kill(n int) {
	s.metrics()
	s.current.Kill()
	if n%2 == 0 {
		s.p.wipe()
	}
	for s.rng.IntN(4) == 0 {
		b := s.p.launch(s.args()...)
		<-time.After(time.Duration(s.rng.IntN(500)) * time.Millisecond)
		b.Kill()
		s.early++
		s.starts++ // it may have sealed an epoch
	}
	s.start()
	s.t.Logf("%v: kill %d, ready again after %v", time.Since(s.began).Round(time.Second), n, s.current.took.Round(time.Millisecond))
}

// sample prints a line and checks the bounds of the bucket.
func (s *soak) sample() {
	o, rss := s.p.objects(), s.current.Status("VmRSS")
	s.rssMax = max(s.rssMax, rss)
	counts := s.p.proxy.Counts()
	s.t.Logf("%v: %v; %d MiB of memory; %d records acknowledged, %d consumed, %d read again, %d unknown, %d trims, %d topics renewed; since the last line: %v",
		time.Since(s.began).Round(time.Second), o, rss>>20, s.l.records.Load(), s.l.consumed.Load(), s.l.history.Load(), s.l.unknowns.Load(),
		s.l.trims.Load(), s.l.recreated.Load(), counts.Sub(s.counts).Without("probe"))
	s.counts = counts
	s.bound(o)
}

// bound checks that the bucket's size depends on its live data and not on the broker's age.
//
// Slots: a collection keeps slots above the older of two snapshots, and slots below it whose data
// is in no pack. The next collection comes a snapshot later. The successor of a killed broker needs
// two snapshots of its own before it may delete (rule R7). That is at most six times the slots
// between two snapshots. Unmerged slots are those of the least age of a merge, its interval and its
// duration, allowed twice, at one slot per batch wait. Each start leaves a SEAL permanently, and
// each kill temporarily leaves at most a window of four slots after it.
//
// Packs: of large packs at least three eighths are live, because they are at least three quarters
// full when made and rewritten when half is dead. Of smaller packs fewer than eight are left.
// Replaced packs wait for a collection, over at most six snapshots. Each merge interval merges
// commit objects, rewrites packs and compacts topics, which leaves at most eight, eight and two
// packs, and half of that on average.
func (s *soak) bound(o objects) {
	z := &s.z
	s.most.raise(o)
	waiting := int(2 * (z.packAge + z.mergeEvery) / z.wait)
	if most := 6*z.slots + waiting + 5*s.starts; o.count["wal"] > most {
		s.t.Errorf("%d slots in the bucket, limit %d", o.count["wal"], most)
	}
	if most := s.packsAllowed(); o.count["pack"] > most {
		s.t.Errorf("%d packs in the bucket, limit %d", o.count["pack"], most)
	}
	if most := 3 + 3*2; o.count["snap"] > most {
		s.t.Errorf("%d snapshots in the bucket, limit %d", o.count["snap"], most)
	}
}

func (s *soak) packsAllowed() int {
	z := &s.z
	rounds := int(time.Duration(6*z.slots) * z.wait / z.mergeEvery)
	return 8*int(s.liveBytes())/(3*z.packBytes) + 8 + 9*rounds
}

// liveBytes returns the bytes of all readable records.
func (s *soak) liveBytes() (n int64) {
	all := must.Get(s.l.reader.Topics(context.Background()))(s.t)
	for _, t := range all {
		n += t.Partitions[0].Bytes
	}
	return n
}

// settleGroups waits until the consumers have read everything, and ends them.
func (s *soak) settleGroups(cancel context.CancelFunc) {
	for group, p := range s.groups() {
		sebtest.Eventually(s.t, fmt.Sprintf("group %s has reached offset %d", group, p.end()), func() bool {
			g, err := s.l.reader.Group(s.t.Context(), group)
			return err == nil && len(g.Offsets) == 1 && g.Offsets[0].Offset >= p.end()
		})
	}
	cancel()
	s.l.others.Wait()
	select {
	case err := <-s.l.failed:
		s.t.Fatalf("%v\n%s", err, s.current.Log())
	default:
	}
	s.t.Logf("load ended: %d requests, %d records acknowledged, %d unknown outcomes; %d records consumed by %d groups in %d sessions",
		s.l.requests.Load(), s.l.records.Load(), s.l.unknowns.Load(), s.l.consumed.Load(), len(s.groups()), s.l.resumed.Load())
}

// metrics checks that no alarm was counted, and prints the metrics of merging.
func (s *soak) metrics() {
	text := must.Get(s.p.metrics(s.current))(s.t)
	var parts []string
	for _, name := range []string{
		"seb_log_alarms_total", "seb_merge_packs_total", "seb_merge_bytes_total", "seb_merge_failures_total", "seb_compactions_total",
		"seb_compaction_records_dropped_total", "seb_broker_retention_trims_total", "seb_log_objects_deleted_total",
		"seb_cache_hits_total", "seb_cache_misses_total", "seb_cache_damaged_total",
	} {
		v := value(text, name)
		s.totals[name] += v
		parts = append(parts, fmt.Sprintf("%s %.0f", strings.TrimPrefix(name, "seb_"), v))
		if v > 0 && (strings.Contains(name, "alarms") || strings.Contains(name, "failures") || strings.Contains(name, "damaged")) {
			s.t.Errorf("%s is %v\n%s", name, v, s.current.Log())
		}
	}
	s.t.Logf("epoch %.0f: %s", value(text, "seb_log_epoch"), strings.Join(parts, ", "))
}
