package keyindex

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
)

func TestNewestOfAKey(t *testing.T) {
	l := newLog()
	topic := l.create(2)
	l.append(topic, 0, rec("a", "1", 10), rec("b", "1", 11), rec("a", "2", 5), rec("", "empty", 1), record.Record{Value: []byte("no key")})
	l.append(topic, 0, rec("b", "", 12), rec("c", "1", 50))
	l.append(topic, 1, rec("c", "2", 40), rec("a", "3", 5))
	v := open(t, "", l)
	v.caughtUp(l)
	for _, c := range []struct {
		key  string
		part int
		want string
	}{
		{"a", 0, "a@0/2"},
		{"a", 1, "a@1/1"},
		{"a", -1, "a@1/1"}, // the timestamps are equal
		{"b", 0, "b@0/5-"},
		{"b", -1, "b@0/5-"},
		{"b", 1, "none"},
		{"c", -1, "c@0/6"}, // the higher timestamp
		{"", -1, "@0/3"},
		{"d", -1, "none"},
	} {
		if got := v.get(topic, c.key, c.part); got != c.want {
			t.Errorf("newest of %q in %d: %s, want %s", c.key, c.part, got, c.want)
		}
	}
	if e, _, _ := v.Get(t.Context(), topic, []byte("c"), 0); e.Timestamp != 50 {
		t.Errorf("timestamp %d", e.Timestamp)
	}
	if n := v.met.records.Get(); n != 8 {
		t.Errorf("%d records taken in", n)
	}
}

func TestInvalidQueries(t *testing.T) {
	l := newLog()
	topic := l.create(2)
	v := open(t, "", l)
	ctx := t.Context()
	get := func(topic record.ID, part int) error {
		_, _, err := v.Get(ctx, topic, []byte("a"), part)
		return err
	}
	list := func(limit int) error {
		_, err := v.List(ctx, topic, ListQuery{Limit: limit})
		return err
	}
	history := func(part, limit int) error {
		_, err := v.History(ctx, topic, []byte("a"), HistoryQuery{Partition: part, Limit: limit})
		return err
	}
	for name, c := range map[string]struct{ err, want error }{
		"an unknown topic":            {get(record.NewID(), 0), ErrNotIndexed},
		"an unknown partition":        {get(topic, 2), ErrInvalid},
		"partition -2":                {get(topic, -2), ErrInvalid},
		"a key that is not":           {get(topic, 1), nil},
		"no limit":                    {list(0), ErrInvalid},
		"too high a limit":            {list(LimitMax + 1), ErrInvalid},
		"the highest limit":           {list(LimitMax), nil},
		"history without a limit":     {history(-1, -1), ErrInvalid},
		"history of no partition":     {history(2, 1), ErrInvalid},
		"history of nothing":          {history(-1, 1), nil},
		"waiting for no partition":    {v.WaitFor(ctx, topic, 2, 0), ErrInvalid},
		"waiting for a negative":      {v.WaitFor(ctx, topic, 1, -1), ErrInvalid},
		"waiting in no topic":         {v.WaitFor(ctx, record.NewID(), 1, 0), ErrNotIndexed},
		"forgetting too much":         {v.Forget(ctx, topic, make([]Entry, LimitMax+1)), ErrInvalid},
		"forgetting an unknown entry": {v.Forget(ctx, topic, []Entry{{Key: []byte("a")}}), nil},
	} {
		if !errors.Is(c.err, c.want) {
			t.Errorf("%s: %v, want %v", name, c.err, c.want)
		}
	}
	if l.asked == 0 {
		t.Error("Queried was not called")
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if err := v.Close(); err != nil {
		t.Error(err)
	}
	if err := get(topic, 0); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if err := v.WaitFor(ctx, topic, 0, 1); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := Open(ctx, Options{Path: "x"}); err == nil {
		t.Error("opened without a log")
	}
}

// TestFileIsCreatedOnDemand: a broker without key indexes has no file.
func TestFileIsCreatedOnDemand(t *testing.T) {
	l := newLog()
	topic := l.create(1)
	l.index(topic, false)
	l.append(topic, 0, rec("a", "1", 1))
	path := filepath.Join(t.TempDir(), "view", "keys.db")
	v := open(t, path, l)
	if _, _, err := v.Get(t.Context(), topic, []byte("a"), 0); !errors.Is(err, ErrNotIndexed) {
		t.Error(err)
	}
	if files, _ := filepath.Glob(filepath.Dir(path)); len(files) > 0 {
		t.Errorf("created %s", files)
	}
	l.index(topic, true)
	if err := v.WaitFor(t.Context(), topic, 0, 0); err != nil {
		t.Error(err)
	}
	if got := v.get(topic, "a", 0); got != "a@0/0" {
		t.Error(got)
	}
	l.index(topic, false)
	if n := v.Lag(topic); n != 0 {
		t.Errorf("lags by %d", n)
	}
	until(t, func() bool { // it leaves the file as well
		v.mu.Lock()
		defer v.mu.Unlock()
		return len(v.positions) == 0
	})
	l.index(topic, true)
	if err := v.WaitFor(t.Context(), topic, 0, 0); err != nil {
		t.Error(err)
	}
	if got := v.get(topic, "a", 0); got != "a@0/0" {
		t.Errorf("switched on again: %s", got)
	}
}

// TestReadYourWrite checks that WaitFor returns when the record can be found, and not earlier.
func TestReadYourWrite(t *testing.T) {
	l := newLog()
	topic := l.create(1)
	v := open(t, "", l)
	for i := range 200 {
		key := fmt.Sprint("k", i%7)
		offset := l.append(topic, 0, rec(key, "v", int64(i)))
		must.NoError(t, v.WaitFor(t.Context(), topic, 0, offset))
		if got, want := v.get(topic, key, -1), fmt.Sprintf("%s@0/%d", key, offset); got != want {
			t.Fatalf("%s after writing %s", got, want)
		}
	}
	early := make(chan error)
	go func() { early <- v.WaitFor(t.Context(), topic, 0, 200) }()
	l.append(topic, 0, rec("last", "v", 1))
	if err := <-early; err != nil {
		t.Error(err)
	}
	l.trim(topic, 0, 201)
	if err := v.WaitFor(t.Context(), topic, 0, 100); err != nil {
		t.Errorf("a record that was trimmed: %v", err)
	}
}

func TestPagesOfKeys(t *testing.T) {
	l := newLog()
	topic := l.create(2)
	for i := range 1000 {
		l.append(topic, i%2, rec(fmt.Sprintf("k%03d", i), "1", 1))
	}
	for i := 0; i < 1000; i += 3 {
		l.append(topic, i%2, rec(fmt.Sprintf("k%03d", i), "", 2))
	}
	l.append(topic, 0, rec("", "1", 1), rec("zz", "1", 1), rec("k\xff", "1", 1), rec("k", "1", 1))
	v := open(t, "", l)
	v.caughtUp(l)
	page := func(prefix string, after []byte, limit int) []string {
		list := must.Get(v.List(t.Context(), topic, ListQuery{Prefix: []byte(prefix), After: after, Limit: limit}))(t)
		out := []string{}
		for _, e := range list {
			out = append(out, string(e.Key))
		}
		return out
	}
	if got := page("", nil, 4); !slices.Equal(got, []string{"", "k", "k001", "k002"}) {
		t.Errorf("the first keys are %q", got)
	}
	if got := page("", []byte{}, 2); !slices.Equal(got, []string{"k", "k001"}) {
		t.Errorf("behind the empty key are %q", got)
	}
	if got := page("k99", nil, 10); !slices.Equal(got, []string{"k991", "k992", "k994", "k995", "k997", "k998"}) {
		t.Errorf("with prefix: %q", got)
	}
	if got := page("k99", []byte("a"), 1); !slices.Equal(got, []string{"k991"}) {
		t.Errorf("after what is before the prefix: %q", got)
	}
	if got := page("k99", []byte("k995"), 10); !slices.Equal(got, []string{"k997", "k998"}) {
		t.Errorf("the next page: %q", got)
	}
	if got := page("k99", []byte("l"), 10); len(got) > 0 {
		t.Errorf("after what is behind the prefix: %q", got)
	}
	if got := page("k998", []byte("k998"), 3); len(got) > 0 {
		t.Errorf("after the last: %q", got)
	}
	var all []string
	for got := page("", nil, 7); len(got) > 0; got = page("", []byte(all[len(all)-1]), 7) {
		all = append(all, got...)
	}
	if len(all) != 1000-334+4 || !slices.IsSorted(all) || len(slices.Compact(slices.Clone(all))) != len(all) {
		t.Errorf("%d keys in pages", len(all))
	}
}

func TestPagesOfAHistory(t *testing.T) {
	l := newLog()
	topic := l.create(3)
	for i := range 100 {
		l.append(topic, 0, rec("a", "1", int64(i)), rec("b", "1", int64(i)))
	}
	l.append(topic, 0, rec("a", "", 3))
	// c is in three partitions; in the first one the time goes back.
	l.append(topic, 0, rec("c", "1", 10), rec("c", "2", 50), rec("c", "3", 20))
	l.append(topic, 1, rec("c", "4", 30), rec("c", "", 60))
	l.append(topic, 2, rec("c", "6", 10), rec("c", "7", 50), rec("c", "8", 70))
	v := open(t, "", l)
	v.caughtUp(l)
	all := func(key string, part int, newest bool, limit int) (out []string) {
		q := HistoryQuery{Partition: part, NewestFirst: newest, Limit: limit}
		for {
			list := must.Get(v.History(t.Context(), topic, []byte(key), q))(t)
			out = append(out, showAll(list)...)
			if len(list) < limit {
				return out
			}
			last := list[len(list)-1]
			q.After = &RecordID{last.Partition, last.Offset}
		}
	}
	want := []string{}
	for i := range 100 {
		want = append(want, fmt.Sprintf("a@0/%d", 2*i))
	}
	want = append(want, "a@0/200-")
	many := []string{"c@0/201", "c@2/0", "c@1/0", "c@0/202", "c@0/203", "c@2/1", "c@1/1-", "c@2/2"}
	for _, limit := range []int{1, 2, 3, 7, 101, 1000} {
		for _, part := range []int{0, -1} {
			if got := all("a", part, false, limit); !slices.Equal(got, want) {
				t.Errorf("by %d: %s", limit, got)
			}
		}
		if got := all("c", -1, false, limit); !slices.Equal(got, many) {
			t.Errorf("by %d: %s", limit, got)
		}
		if got := all("c", 0, true, limit); !slices.Equal(got, []string{"c@0/203", "c@0/202", "c@0/201"}) {
			t.Errorf("newest first by %d: %s", limit, got)
		}
	}
	slices.Reverse(want)
	slices.Reverse(many)
	for _, limit := range []int{1, 2, 3, 7, 101, 1000} {
		if got := all("a", -1, true, limit); !slices.Equal(got, want) {
			t.Errorf("newest first by %d: %s", limit, got)
		}
		if got := all("c", -1, true, limit); !slices.Equal(got, many) {
			t.Errorf("newest first by %d: %s", limit, got)
		}
	}
}
