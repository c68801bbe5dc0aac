package keyindex

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// model is a log with the expected content of the view, and a view.
type model struct {
	t      *testing.T
	rand   *rand.Rand
	log    *fakeLog
	view   *testView
	topics []record.ID
	clock  int64
	few    int  // number of keys that a check looks at
	cut    bool // a compaction was not finished: records may be missing without a report
	// lost is set for partitions whose log was cut below the end of a compaction. Records below
	// that end may be missing in favor of newer ones that are missing too, and a view that had not
	// come so far has never seen those.
	lost map[partitionID]int64
}

func newModel(t *testing.T, seed uint64) *model {
	m := &model{t: t, rand: seeded(t, seed), log: newLog(), few: 100, lost: map[partitionID]int64{}}
	m.topics = append(m.topics, m.log.create(1+m.rand.IntN(3)))
	m.view = openSized(t, "", m.log, &small)
	until(t, func() bool { return m.view.knows(m.topics[0]) }) // a file that is not complete is rebuilt
	return m
}

// key draws from few keys, from many, and from some unusual ones.
func (m *model) key() string {
	switch m.rand.IntN(10) {
	case 0, 1, 2:
		return fmt.Sprintf("few%d", m.rand.IntN(5))
	case 3:
		return []string{"", "\x00", "\xff\xff", strings.Repeat("long", 1500), strings.Repeat("long", 1500) + "er"}[m.rand.IntN(5)]
	case 4:
		return strings.Repeat("p", 30) + fmt.Sprint(m.rand.IntN(1000))
	}
	return fmt.Sprintf("k%d", m.rand.IntN(3000))
}

func (m *model) append(topic record.ID, part int) {
	recs := make([]record.Record, 1+m.rand.IntN(120))
	for i := range recs {
		m.clock++
		recs[i] = rec(m.key(), "v", m.clock-int64(m.rand.IntN(3))*int64(m.rand.IntN(50)))
		switch m.rand.IntN(8) {
		case 0:
			recs[i].Value = nil
		case 1:
			if recs[i].Key = nil; m.rand.IntN(2) == 0 {
				recs[i].Value = nil
			}
		}
	}
	m.log.append(topic, part, recs...)
}

// step changes the log or the view.
func (m *model) step() {
	topic := m.topics[m.rand.IntN(len(m.topics))]
	part := m.rand.IntN(len(m.log.topicLocked(topic).parts))
	p := m.log.topicLocked(topic).parts[part]
	switch n := m.rand.IntN(100); {
	case n < 2 && len(m.topics) < 4:
		m.topics = append(m.topics, m.log.create(1+m.rand.IntN(3)))
	case n < 3 && len(m.topics) > 1:
		m.log.delete(topic)
		m.topics = slices.DeleteFunc(m.topics, func(id record.ID) bool { return id == topic })
	case n < 5:
		m.log.index(topic, false)
		if m.rand.IntN(2) == 0 {
			until(m.t, func() bool { return !m.view.knows(topic) })
		}
		m.log.index(topic, true)
	case n < 10:
		m.log.trim(topic, part, p.start+m.rand.Int64N(p.next-p.start+1))
	case n < 15:
		to := p.clean + m.rand.Int64N(p.next-p.clean+1)
		if m.rand.IntN(4) == 0 { // not finished: it has not removed tombstones yet
			m.log.compact(topic, part, to, p.swept, false)
			m.cut = true
		} else {
			m.log.compact(topic, part, to, m.rand.Int64N(to+1), true)
		}
	case n < 20:
		m.reopen()
	case n < 22:
		m.view.Close()
		clean := p.clean
		to := p.next - m.rand.Int64N(min(p.next, 300)+1)
		if to < clean {
			at := partitionID{topic, uint32(part)}
			m.lost[at] = max(m.lost[at], clean)
		}
		if m.log.rewind(topic, part, to) < p.next && m.rand.IntN(2) == 0 {
			m.append(topic, part) // the log has the same length again, but other records
		}
		m.reopen()
	case n < 25:
		m.view.caughtUp(m.log)
		there := m.records(topic)
		m.forget(topic, there, m.some(there))
	default:
		m.append(topic, part)
	}
}

// reopen closes the view, sometimes by copying its file while it is in use, and opens it again.
func (m *model) reopen() {
	path := m.view.path
	if m.rand.IntN(2) == 0 {
		path = m.view.copy()
	}
	m.view.Close()
	m.view = openSized(m.t, path, m.log, &small)
}

// copy copies the files of an open view at one moment, as after a crash.
func (v *testView) copy() string {
	to := filepath.Join(v.t.TempDir(), "keys.db")
	var files [2][]byte
	until(v.t, func() bool {
		same := true
		for i, suffix := range []string{"", "-wal"} {
			b, err := os.ReadFile(v.path + suffix)
			if err != nil && !os.IsNotExist(err) {
				v.t.Fatal(err)
			}
			same = same && bytes.Equal(files[i], b)
			files[i] = b
		}
		return same
	})
	for i, suffix := range []string{"", "-wal"} {
		if files[i] == nil {
			continue
		}
		must.NoError(v.t, os.WriteFile(to+suffix, files[i], 0o600))
	}
	return to
}

// knows reports whether the view has a number for a topic.
func (v *testView) knows(topic record.ID) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.snap == nil {
		return false
	}
	_, ok := v.snap.topics[topic]
	return ok
}

// forget calls Forget for the missing records of some keys, as their readers would.
func (m *model) forget(topic record.ID, there map[string][]Entry, keys []string) {
	var gone []Entry
	for _, key := range keys {
		list := must.Get(m.view.History(m.t.Context(), topic, []byte(key), HistoryQuery{Partition: -1, Limit: LimitMax}))(m.t)
		for _, e := range list {
			if !slices.ContainsFunc(there[key], func(x Entry) bool { return x.Partition == e.Partition && x.Offset == e.Offset }) {
				gone = append(gone, e)
			}
		}
	}
	must.NoError(m.t, m.view.Forget(m.t.Context(), topic, gone[:min(len(gone), LimitMax)]))
}

// some draws a few of the keys and adds unknown ones.
func (m *model) some(there map[string][]Entry) []string {
	keys := slices.Sorted(maps.Keys(there))
	m.rand.Shuffle(len(keys), func(i, j int) { keys[i], keys[j] = keys[j], keys[i] })
	return append(keys[:min(len(keys), m.few)], "no such key", "k", m.key())
}

// records returns all records of a topic in the log, by key, partition by partition.
func (m *model) records(topic record.ID) map[string][]Entry {
	m.log.mu.Lock()
	defer m.log.mu.Unlock()
	there := map[string][]Entry{}
	for i, p := range m.log.topicLocked(topic).parts {
		p.each(func(r *record.Record) {
			if r.Key != nil {
				key := string(r.Key)
				there[key] = append(there[key], Entry{
					Key: bytes.Clone(r.Key), Partition: uint32(i), Offset: r.Offset, Timestamp: r.Timestamp, Deleted: r.Value == nil,
				})
			}
		})
	}
	return there
}

// newestOf is the expected result of Get.
func newestOf(list []Entry, part int) (best Entry, ok bool) {
	for i, e := range list {
		if i+1 < len(list) && list[i+1].Partition == e.Partition || part >= 0 && int(e.Partition) != part {
			continue
		}
		if !ok || cmp.Compare(e.Timestamp, best.Timestamp) >= 0 {
			best, ok = e, true
		}
	}
	return best, ok
}

// check compares all query results with the log.
func (m *model) check() {
	m.t.Helper()
	m.view.caughtUp(m.log)
	for _, topic := range m.topics {
		there := m.records(topic)
		keys := m.some(there)
		if m.cut {
			m.forget(topic, there, keys)
		}
		m.forget(topic, there, m.listedOfLost(topic))
		for _, key := range keys {
			for part := -1; part < len(m.log.Topic(topic)); part++ {
				want := "none"
				if e, ok := newestOf(there[key], part); ok {
					want = show(e)
				}
				if got := m.view.get(topic, key, part); got != want {
					m.t.Fatalf("newest of %.20q in %d is %.60s, want %.60s", key, part, got, want)
				}
			}
			m.checkHistory(topic, key, there[key])
		}
		var live []string
		for _, key := range slices.Sorted(maps.Keys(there)) {
			if e, ok := newestOf(there[key], -1); ok && !e.Deleted {
				live = append(live, show(e))
			}
		}
		m.checkList(topic, live)
	}
}

// partitionID identifies a partition.
type partitionID struct {
	topic record.ID
	part  uint32
}

// listedOfLost returns the keys that the view lists with a record that may be lost; there are fewer
// than LimitMax keys.
func (m *model) listedOfLost(topic record.ID) (keys []string) {
	list := must.Get(m.view.List(m.t.Context(), topic, ListQuery{Limit: LimitMax}))(m.t)
	for _, e := range list {
		if e.Offset < m.lost[partitionID{topic, e.Partition}] {
			keys = append(keys, string(e.Key))
		}
	}
	return keys
}

func (m *model) checkList(topic record.ID, live []string) {
	m.t.Helper()
	q := ListQuery{Limit: 1 + m.rand.IntN(500)}
	var got []string
	for {
		list := must.Get(m.view.List(m.t.Context(), topic, q))(m.t)
		if len(list) == 0 {
			break
		}
		got = append(got, showAll(list)...)
		q.After = list[len(list)-1].Key
	}
	if !slices.Equal(got, live) {
		for i := range min(len(got), len(live)) {
			if got[i] != live[i] {
				m.t.Fatalf("key %d is %.60s, want %.60s", i, got[i], live[i])
			}
		}
		m.t.Fatalf("%d keys, want %d", len(got), len(live))
	}
}

func (m *model) checkHistory(topic record.ID, key string, want []Entry) {
	m.t.Helper()
	newest := m.rand.IntN(2) == 0
	q := HistoryQuery{Partition: -1, NewestFirst: newest, Limit: 1 + m.rand.IntN(50)}
	var got []Entry
	for {
		list := must.Get(m.view.History(m.t.Context(), topic, []byte(key), q))(m.t)
		got = append(got, list...)
		if len(list) < q.Limit {
			break
		}
		last := list[len(list)-1]
		q.After = &RecordID{last.Partition, last.Offset}
	}
	if newest {
		slices.Reverse(got)
	}
	if parts := map[uint32]int64{}; len(got) == len(want) {
		for _, e := range got { // within a partition the order is that of the offsets
			if at, ok := parts[e.Partition]; ok && at >= e.Offset {
				m.t.Fatalf("history of %.20q is out of order: %s", key, showAll(got))
			}
			parts[e.Partition] = e.Offset
		}
	}
	slices.SortStableFunc(got, func(a, b Entry) int { return cmp.Compare(a.Partition, b.Partition) })
	if !slices.EqualFunc(got, want, func(a, b Entry) bool { return show(a) == show(b) && a.Timestamp == b.Timestamp }) {
		m.t.Fatalf("history of %.20q is %.1000s, want %.1000s", key, showAll(got), showAll(want))
	}
}

// TestViewMatchesTheLog compares a view with a simple model under random changes of the log,
// restarts and copies.
func TestViewMatchesTheLog(t *testing.T) {
	t.Parallel()
	m := newModel(t, 0)
	for range sebtest.Runs(5, 1) {
		for range 60 {
			m.step()
		}
		m.check()
	}
	if strings.Contains(m.view.log.String(), "rebuilding the key index") {
		t.Errorf("a file was rebuilt: %s", m.view.log.String())
	}
}
