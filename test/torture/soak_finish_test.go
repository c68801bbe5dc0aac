package torture

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/client"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// finish reads everything back from the bucket alone, lets the garbage collections run, and checks
// what is left.
func (s *soak) finish() {
	s.metrics()
	s.current.Kill()
	s.p.wipe()
	s.start()
	s.verify("after the load")
	left := s.p.names()
	garbage := s.rounds(left)
	s.metrics()
	s.verify("after the garbage rounds")
	if code := s.current.Stop(); code != 0 {
		s.t.Errorf("exit code %d after SIGTERM\n%s", code, s.current.Log())
	}
	o := s.p.objects()
	s.t.Logf("peak: %d slots, %d packs, %d snapshots, %d MiB of memory; in the end: %v, %d of other kinds", s.most.count["wal"], s.most.count["pack"],
		s.most.count["snap"], s.rssMax>>20, o, o.total()-o.count["wal"]-o.count["pack"]-o.count["snap"])
	for _, name := range []string{
		"seb_merge_packs_total", "seb_compactions_total", "seb_compaction_records_dropped_total", "seb_broker_retention_trims_total",
		"seb_log_objects_deleted_total",
	} {
		if s.totals[name] == 0 {
			s.t.Errorf("%s is 0 for all brokers: the load does not cover it", name)
		}
	}
	s.t.Logf("all brokers: %v; sizes of the PUTs: %+v", s.totals, s.p.proxy.Puts())
	if r := s.remaining(left, garbage); len(r) > 0 {
		s.t.Errorf("%d objects remain that were garbage or commit objects when the load ended: %q", len(r), r[:min(5, len(r))])
	}
	s.fsck()
}

// verify compares all topics with their writers' acknowledgements.
func (s *soak) verify(when string) {
	begin := time.Now()
	jobs := make(chan *ledger, len(s.l.topics))
	for _, p := range s.l.topics {
		jobs <- p
	}
	close(jobs)
	var wg sync.WaitGroup
	var mu sync.Mutex // guards the variables below
	faults, records, acks, unknowns := map[string][]string{}, 0, 0, 0
	for range 4 {
		wg.Go(func() {
			for p := range jobs {
				j, err := s.judge(p)
				mu.Lock()
				if err != nil {
					faults["not readable"] = append(faults["not readable"], err.Error())
				} else {
					records += j.count
					unknowns += len(j.found)
					for kind, list := range j.faults {
						faults[kind] = append(faults[kind], list...)
					}
				}
				for _, a := range p.acked {
					acks += a.count
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	for kind, examples := range faults {
		s.t.Errorf("%s: %s: %d times, such as %v", when, kind, len(examples), examples[:min(5, len(examples))])
	}
	s.t.Logf("%s: %d records read back in %v, %d acknowledged in existing topics, %d of unknown outcome among them", when, records,
		time.Since(begin).Round(time.Millisecond), acks, unknowns)
}

// judge reads a topic. Retention may trim the topic meanwhile; then it reads again.
func (s *soak) judge(p *ledger) (*judge, error) {
	for {
		t, err := s.l.reader.Topic(s.t.Context(), p.name)
		if err != nil {
			return nil, err
		}
		start := t.Partitions[0].Start
		settings := state.Resolve(t.Settings)
		kept := time.Now().Add(-settings.RetentionTime)
		if settings.RetentionTime == state.Unlimited {
			kept = time.Time{}
		}
		j := newJudge(p, start)
		switch {
		case settings.RetentionBytes == state.Unlimited:
		case start > 0 && t.Partitions[0].Bytes < settings.RetentionBytes:
			j.fault(faultTooEarly, "%s: %d bytes are left", p.name, t.Partitions[0].Bytes)
		default:
			kept = time.Now().Add(time.Hour) // retention by size
		}
		err = nil
		for r, fault := range s.l.reader.Records(s.t.Context(), p.name, client.ReadOptions{Offset: start}) {
			if err = fault; err == nil {
				j.see(r)
			}
		}
		if errors.Is(err, client.ErrBelowStart) {
			continue
		}
		j.end(start, kept)
		return j, err
	}
}

// rounds writes a little until all of the load is in packs, replaced objects are collected, and two
// more snapshots were written. It also waits for the retention of the topics. It returns which of
// the names were garbage when it began.
func (s *soak) rounds(names []string) (garbage []string) {
	begin := time.Now()
	write := func() { must.NoError(s.t, s.l.send(s.l.topics[6], s.l.safe, 1)) }
	write() // a broker that has lost its data directory answers before it leads
	text := must.Get(s.p.metrics(s.current))(s.t)
	current := uint32(value(text, "seb_log_epoch"))
	epoch, from := s.p.newestSnapshot()
	for epoch != current { // the broker may have just begun its epoch
		write()
		epoch, from = s.p.newestSnapshot()
	}
	garbage = s.garbage(names)
	newest := func() uint64 { _, slot := s.p.newestSnapshot(); return slot }
	for newest() < from+uint64(4*s.z.slots) || time.Since(begin) < s.z.retentionTime+3*s.z.retainEvery {
		write()
	}
	// Collection lags on a busy machine.
	for len(s.remaining(names, garbage)) > 0 && time.Since(begin) < time.Minute {
		write()
	}
	for _, p := range s.l.topics {
		if _, timed := p.settings["retention-time"]; !timed {
			continue
		}
		t, err := s.l.reader.Topic(s.t.Context(), p.name)
		if err != nil || t.Partitions[0].Start != t.Partitions[0].Next {
			s.t.Errorf("%s has records older than its retention: %+v %v", p.name, t.Partitions, err)
		}
	}
	s.t.Logf("garbage rounds: %v", time.Since(begin).Round(time.Millisecond))
	return garbage
}

// garbage returns the objects that the newest snapshot does not need: neither seals of the log nor
// objects with readable records.
func (s *soak) garbage(names []string) (garbage []string) {
	name, st := s.p.snapshot()
	needed := map[string]bool{"meta/cluster": true, name: true}
	ranges := 0
	for _, t := range st.Topics() {
		for _, p := range t.Partitions.All() {
			ranges += len(p.Ranges)
			for i := range p.Ranges {
				needed[st.RangeKey(&p.Ranges[i])] = true
			}
		}
	}
	for _, name := range names {
		// A pack of the running epoch may have been installed after the snapshot.
		epoch, _, _, pack := state.ParsePackKey(0, name)
		own := pack && epoch == st.Pos.Epoch
		if !needed[name] && !own && !strings.HasPrefix(name, "probe/") && !strings.HasPrefix(name, "peer/") && !s.p.isSeal(name) {
			garbage = append(garbage, name)
		}
	}
	s.t.Logf("snapshot %s has %d epochs, %d topics, %d ranges, %d packs; of %d objects it does not need %d", name, len(st.Epochs), len(st.Topics()),
		ranges, len(st.Packs()), len(names), len(garbage))
	return garbage
}

// names lists the bucket.
func (p *fixture) names() (all []string) {
	root := p.proxy.Folder(prefix)
	_ = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			name, err := filepath.Rel(root, path)
			if err != nil {
				return err
			}
			all = append(all, filepath.ToSlash(name))
		}
		return nil
	})
	return all
}

// remaining returns the objects still in the bucket of those that were garbage when the load ended,
// and of its commit objects, which packs have replaced. SEALs stay.
func (s *soak) remaining(before, garbage []string) (left []string) {
	there := map[string]bool{}
	for _, name := range s.p.names() {
		there[name] = true
	}
	for _, name := range garbage {
		if there[name] {
			left = append(left, name)
		}
	}
	for _, name := range before {
		if there[name] && strings.Contains(name, "/wal/") && !s.p.isSeal(name) {
			left = append(left, name)
		}
	}
	return left
}

// isSeal reads an object's head. A missing object or one that is not a slot is no SEAL.
func (p *fixture) isSeal(name string) bool {
	if !strings.Contains(name, "/wal/") {
		return false
	}
	f, err := os.Open(filepath.Join(p.proxy.Folder(prefix), filepath.FromSlash(name)))
	if err != nil {
		return false
	}
	defer f.Close()
	head := make([]byte, record.HeadSize)
	if _, err := io.ReadFull(f, head); err != nil {
		return false
	}
	h, err := record.DecodeHead(head)
	return err == nil && h.Kind == record.KindSeal
}

// snapshot decodes the newest snapshot.
func (p *fixture) snapshot() (name string, st *state.State) {
	dir := filepath.Join(p.proxy.Folder(prefix), "s0000", "snap")
	all, err := os.ReadDir(dir)
	if err != nil || len(all) == 0 {
		p.t.Fatalf("no snapshot: %v", err)
	}
	b, err := os.ReadFile(filepath.Join(dir, all[0].Name()))
	if err == nil {
		st, err = state.DecodeSnapshot(b)
	}
	must.NoError(p.t, err)
	return "s0000/snap/" + all[0].Name(), st
}

// fsck verifies the bucket with the program.
func (s *soak) fsck() {
	begin := time.Now()
	r, kinds, err := fsckBucket(s.t.Context(), s.p.seb, s.p.proxy.Spec(prefix), nil)
	check.NoError(s.t, err)
	s.t.Logf("fsck, %v: %+v; findings: %v", time.Since(begin).Round(time.Millisecond), r, kinds)
	// Allowed orphans are probes of killed store checks, and packs that became garbage after the
	// load: replaced ones of earlier epochs, and one that was stored but not installed (rule R7).
	probes := s.p.objects().count["probe"]
	if r.Damages > 0 || r.Orphans.Objects != int64(probes)+kinds["orphan pack"] {
		s.t.Errorf("fsck found %d damaged objects and %d orphans, %d of them probes", r.Damages, r.Orphans.Objects, probes)
	}
	if r.Topics != s.z.topics || int(r.Epoch) > s.starts {
		s.t.Errorf("fsck found %d topics and epoch %d after %d starts", r.Topics, r.Epoch, s.starts)
	}
}
