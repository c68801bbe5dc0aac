package log_test

import (
	"bytes"
	"context"
	"io"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/test/check"
)

// flips is a store whose first reads of meta/cluster have a flipped digit in the ID.
type flips struct {
	objstore.Store
	left atomic.Int32
}

func (f *flips) Get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	o, err := f.Store.Get(ctx, key, r)
	if err != nil || key != core.MetaKey || f.left.Add(-1) < 0 {
		return o, err
	}
	b, err := io.ReadAll(o.Body)
	_ = o.Body.Close()
	digit := bytes.LastIndex(b, []byte(`"cluster":"`)) + len(`"cluster":"`) + 5
	if b[digit]++; b[digit] == 'g' || b[digit] == ':' {
		b[digit] = '0'
	}
	o.Body = io.NopCloser(bytes.NewReader(b))
	return o, err
}

// TestDamagedClusterIDStartsNoOtherLog checks that a cluster ID damaged in transit is not believed,
// with and without a checksum. A broker that believed it would start an empty log, and acknowledge
// records there that no other broker finds.
func TestDamagedClusterIDStartsNoOtherLog(t *testing.T) {
	for _, c := range []struct {
		old    bool
		damage int32 // reads in a row
		opens  bool
	}{{false, 0, true}, {false, 1, true}, {false, 2, true}, {false, 1 << 30, false}, {true, 0, true}, {true, 1, true}} {
		s := objstore.NewMemory()
		l := open(t, options(s))
		id := topic(t, l, "t", 1)
		wait(t, l.Submit([]log.Append{batch(t, id, 0, "a", "b")}))
		l.Kill()
		if c.old {
			b := regexp.MustCompile(`,"crc32c":"[0-9a-f]{8}"`).ReplaceAll(whole(t, s, core.MetaKey), nil)
			if _, checked, err := core.DecodeMeta(b); checked || err != nil {
				t.Fatalf("%q: %v", b, err)
			}
			replace(t, s, core.MetaKey, b)
		}
		f := &flips{Store: s}
		f.left.Store(c.damage)
		again, err := log.Open(t.Context(), options(f))
		check.Equalf(t, err == nil, c.opens, "%+v: %v", c, err)
		if err == nil {
			if got := contents(t, again, s, id, 0); strings.Join(got, "") != "ab" {
				t.Errorf("%+v: %q", c, got)
			}
			again.Kill()
		}
		first := map[string]bool{}
		for _, name := range names(t, s, core.WALPrefix(0)) {
			if epoch, _, _ := strings.Cut(strings.TrimPrefix(name, core.WALPrefix(0)), "/"); strings.HasPrefix(epoch, "0000000000-") {
				first[epoch] = true
			}
		}
		check.Equalf(t, len(first), 1, "%+v: logs start at %v", c, first)
	}
}
