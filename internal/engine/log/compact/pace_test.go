package compact

import (
	"context"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestPace checks how long paced work rests.
func TestPace(t *testing.T) {
	for _, c := range []struct {
		on         bool
		work, rest time.Duration
	}{
		{true, paceStep, paceRest * paceStep},
		{true, 9 * paceStep, paceRest * 9 * paceStep},
		{true, time.Second, localRest}, // for example of a slow disk
		{false, time.Second, 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			var p pace
			p.start(c.on)
			for range 2 {
				begin := time.Now()
				time.Sleep(paceStep - 1)
				p.rest(localRest)
				check.Equalf(t, time.Since(begin), paceStep-1, "%+v: time of less than a step", c)
				time.Sleep(c.work - (paceStep - 1))
				p.rest(localRest)
				check.Equalf(t, time.Since(begin), c.work+c.rest, "%+v: time of a step", c)
			}
		})
	}
}

// TestMergingRests checks that a merge rests until so many ranges wait that it must catch up.
func TestMergingRests(t *testing.T) {
	for ranges, rests := range map[int]bool{0: true, 19: true, 20: false} {
		synctest.Test(t, func(t *testing.T) {
			m := Open(Options{
				Log: &viewLog{s: state.Genesis(record.ID{1}, 0)}, Every: time.Second / 2,
				Ranges: func() int { return ranges }, Policy: Policy{Backlog: 10},
			})
			time.Sleep(m.opt.Every + m.opt.Every/2) // one check
			m.Close()
			check.Equalf(t, m.pace.on, rests, "%d ranges: rests", ranges)
		})
	}
}

// slowStore is a store whose answers take a millisecond of work for each read of their bodies.
type slowStore struct {
	objstore.Store
	worked time.Duration
}

func (s *slowStore) work() {
	time.Sleep(time.Millisecond)
	s.worked += time.Millisecond
}

// Get implements objstore.Store.
func (s *slowStore) Get(context.Context, string, objstore.Range) (objstore.Object, error) {
	return objstore.Object{Body: io.NopCloser(slowBody{s})}, nil
}

// Put implements objstore.Store.
func (s *slowStore) Put(context.Context, string, objstore.Body) error {
	s.work()
	return nil
}

type slowBody struct{ s *slowStore }

func (b slowBody) Read(p []byte) (int, error) {
	b.s.work()
	return len(p), nil
}

// TestMergingTakesAQuarterOfACore checks that reading ranges, small and large, and storing a pack rest
// three times as long as they work.
func TestMergingTakesAQuarterOfACore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &slowStore{}
		m := &Merger{opt: Options{Store: s}, small: make([]byte, joinedMax), bad: map[state.Source]struct{}{}}
		f := must.Get(m.scratch(0, 1<<20))(t)
		defer f.close()
		var pieces []piece
		for i, n := range []uint32{1000, smallMax, smallMax + 1, 200_000, 1, 2} {
			pieces = append(pieces, piece{r: &state.Range{Len: n}, key: string(rune('a' + i))})
		}
		begin := time.Now()
		m.pace.start(true)
		must.NoError(t, m.copyPieces(t.Context(), f.file, pieces))
		must.NoError(t, m.store(t.Context(), "pack", f))
		if took := time.Since(begin); s.worked == 0 || took < (1+paceRest)*s.worked {
			t.Errorf("%v of work took %v", s.worked, took)
		}
	})
}
