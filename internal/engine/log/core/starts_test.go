package core_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/test/must"
)

// succession is a sequence of leaders, each a process of its own.
type succession struct {
	*bench
	reads    int // of the latest start
	snapshot int // bytes of the newest snapshot
}

func (s *succession) rest() {
	s.t.Helper()
	for len(s.open) > 0 {
		e := s.next()
		switch e.Kind {
		case core.EffGetSlot, core.EffGetSnapshot, core.EffList:
			s.reads++
		case core.EffPutSnapshot:
			s.snapshot = len(state.EncodeSnapshot(e.View))
		}
		s.answer(e)
	}
}

func (s *succession) start() {
	s.t.Helper()
	next := &bench{t: s.t, core: core.New(core.Config{}), now: s.now, objects: s.objects, nonces: s.nonces}
	s.bench, s.reads = next, 0
	s.step(&core.Event{Kind: core.EvStart})
	s.rest()
	must.Equalf(s.t, s.core.Role(), core.RoleLeader, "role: %v", s.core.Err())
}

// forget removes from the store everything below an epoch and all but the newest snapshot, because
// no start may read those.
func (s *succession) forget(below uint32) {
	newest := ""
	for k := range s.objects {
		if strings.HasPrefix(k, core.SnapPrefix(0)) && (newest == "" || k < newest) {
			newest = k
		}
	}
	maps.DeleteFunc(s.objects, func(k string, _ []byte) bool {
		if strings.HasPrefix(k, core.WALPrefix(0)) {
			return k < fmt.Sprintf("%s%010d", core.WALPrefix(0), below)
		}
		return strings.HasPrefix(k, core.SnapPrefix(0)) && k != newest
	})
}

// TestManyStarts runs ten thousand leaders in sequence. Each appends a record and trims an older
// one. The reads of a start and the size of a snapshot do not grow with their number.
func TestManyStarts(t *testing.T) {
	starts := 10_000
	if testing.Short() {
		starts = 500
	}
	s := &succession{bench: leader(t, core.Config{})}
	began, size, reads := time.Now(), 0, 0
	for i := range starts {
		s.start()
		s.freeze(nil, one(int64(i)))
		s.rest()
		s.freeze([]core.Op{{Record: state.Record{Kind: state.TopicTrim, Topic: topicID, Offset: max(0, int64(i)-9)}}})
		s.rest()
		st := s.core.State()
		p := st.Topic(topicID).Partitions.At(0)
		for j := range p.Ranges {
			if s.objects[st.RangeKey(&p.Ranges[j])] == nil {
				t.Fatalf("start %d: range %+v refers to no object", i, p.Ranges[j])
			}
		}
		if i < 100 { // five snapshots
			size, reads = max(size, s.snapshot), max(reads, s.reads)
		} else if s.snapshot > size+100 || s.reads > reads {
			t.Fatalf("start %d: a snapshot of %d bytes and %d reads, among the first hundred at most %d and %d", i, s.snapshot, s.reads, size, reads)
		}
		if i%100 == 99 {
			s.forget(st.Pos.Epoch - 40)
		}
	}
	t.Logf("%d starts in %v: snapshots of %d bytes, %d reads at most", starts, time.Since(began).Round(time.Millisecond), s.snapshot, reads)
}
