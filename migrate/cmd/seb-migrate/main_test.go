package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/sebbroker/seb/migrate/compare"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// recordCases are topics in two clusters, and the lines of the report about them.
var recordCases = []struct {
	name     string
	policy   string
	from, to string
	want     string // the line of the topic without its name, and that of the partition
}{
	{"equal", "delete", "a=1 b=2+h c", "a=1 b=2+h c", "3 records at --from, 3 at --to: equal"},
	{"empty", "delete", "", "", "0 records at --from, 0 at --to: equal"},
	{
		"missing", "delete", "a=1 b=2 c=3", "a=1 c=3",
		"3 records at --from, 2 at --to: DIFFERENT|1 missing, 0 doubled, 0 extra, 0 changed; first: missing at offset 1 of --from, offset 1 of --to",
	},
	{
		"missing-at-the-end", "delete", "a=1 b=2", "a=1",
		"2 records at --from, 1 at --to: DIFFERENT|1 missing, 0 doubled, 0 extra, 0 changed; first: missing at offset 1 of --from, no offset of --to",
	},
	{
		"all-missing", "delete", "a=1 b=2", "",
		"2 records at --from, 0 at --to: DIFFERENT|2 missing, 0 doubled, 0 extra, 0 changed; first: missing at offset 0 of --from, no offset of --to",
	},
	{
		"doubled", "delete", "a=1 b=2 c=3 d=4", "a=1 b=2 c=3 b=2 c=3 d=4",
		"4 records at --from, 6 at --to: DIFFERENT|0 missing, 2 doubled, 0 extra, 0 changed; first: doubled at offset 3 of --from, offset 3 of --to",
	},
	{
		"doubled-at-the-end", "delete", "a=1", "a=1 a=1",
		"1 records at --from, 2 at --to: DIFFERENT|0 missing, 1 doubled, 0 extra, 0 changed; first: doubled at no offset of --from, offset 1 of --to",
	},
	{
		"extra", "delete", "a=1 c=3", "a=1 b=2 c=3",
		"2 records at --from, 3 at --to: DIFFERENT|0 missing, 0 doubled, 1 extra, 0 changed; first: extra at offset 1 of --from, offset 1 of --to",
	},
	{
		"changed-value", "delete", "a=1 b=2 c=3", "a=1 b=x c=3",
		"3 records at --from, 3 at --to: DIFFERENT|0 missing, 0 doubled, 0 extra, 1 changed; first: changed (value) at offset 1 of --from, offset 1 of --to",
	},
	{
		"changed-all", "delete", "a=1+h@2", "b=2+i@3",
		"1 records at --from, 1 at --to: DIFFERENT|0 missing, 0 doubled, 0 extra, 1 changed; first: changed (key, value, headers, timestamp) at offset 0 of --from, offset 0 of --to",
	},
	{
		"empty-is-not-a-tombstone", "delete", "a=", "a",
		"1 records at --from, 1 at --to: DIFFERENT|0 missing, 0 doubled, 0 extra, 1 changed; first: changed (value) at offset 0 of --from, offset 0 of --to",
	},
	{
		"order", "delete", "a=1 b=2 c=3", "b=2 a=1 c=3",
		"3 records at --from, 3 at --to: DIFFERENT|1 missing, 0 doubled, 1 extra, 0 changed; first: missing at offset 0 of --from, offset 0 of --to",
	},
	{
		"several", "delete", "a=1 b=2 c=3 d=4 e=5 f=6", "a=1 c=3 d=4 d=4 e=5 f=x",
		"6 records at --from, 6 at --to: DIFFERENT|1 missing, 1 doubled, 0 extra, 1 changed; first: missing at offset 1 of --from, offset 1 of --to",
	},
	{"compacted-equal", "compact", "a=1 b=2 a=3 c=4 c", "b=2 a=3", "compacted, 2 keys at --from, 2 at --to: equal"},
	{
		"compacted-missing", "compact", "a=1 b=2", "a=1",
		"compacted, 2 keys at --from, 1 at --to: DIFFERENT|1 missing, 0 doubled, 0 extra, 0 changed; first: missing at offset 1 of --from, no offset of --to",
	},
	{
		"compacted-changed", "compact", "a=1 b=2 a=3", "b=2 a=4",
		"compacted, 2 keys at --from, 2 at --to: DIFFERENT|0 missing, 0 doubled, 0 extra, 1 changed; first: changed (value) at offset 2 of --from, offset 1 of --to",
	},
	{
		"compacted-not-deleted", "compact", "a=1 b=2 a", "a=1 b=2",
		"compacted, 1 keys at --from, 2 at --to: DIFFERENT|0 missing, 0 doubled, 1 extra, 0 changed; first: extra at no offset of --from, offset 0 of --to",
	},
}

// TestRecords: a check finds each kind of difference, and says where the first one is.
func TestRecords(t *testing.T) {
	from, to := newCluster(t), newCluster(t)
	for _, c := range recordCases {
		t.Run(c.name, func(t *testing.T) {
			for side, text := range map[*cluster]string{from: c.from, to: c.to} {
				side.topic(t, c.name, 1, c.policy)
				side.produce(t, c.name, 0, records(text)...)
			}
			verdict, code := "The clusters are equal.\n", exitEqual
			line, partition, different := strings.Cut(c.want, "|")
			want := "topic " + c.name + ": " + line + "\n"
			if different {
				want += "  partition 0: " + partition + "\n"
				verdict, code = "The clusters differ.\n", exitDifferent
			}
			got := runCheck(t, from, to, "--topics", c.name)
			check.Equal(t, got, checked{want + verdict, "", code})
		})
	}
}

// TestOffsetsAndNamesMayDiffer: content counts. The copies have other names, and other offsets because
// the first records of the source are deleted.
func TestOffsetsAndNamesMayDiffer(t *testing.T) {
	from, to := newCluster(t), newCluster(t)
	from.topic(t, "orders", 2, "delete")
	to.topic(t, "seb.orders", 2, "delete")
	from.produce(t, "orders", 1, records("x=1 y=2 a=3@4 b=4")...)
	to.produce(t, "seb.orders", 1, records("a=3@5 b=4")...)
	var deleted kadm.Offsets
	deleted.AddOffset("orders", 1, 2, -1)
	must.Get(from.admin.DeleteRecords(t.Context(), deleted))(t)

	got := runCheck(t, from, to, "--rename", "^=seb.", "--ignore-timestamps")
	check.Equal(t, got, checked{"topic orders (seb.orders at --to): 2 records at --from, 2 at --to: equal\nThe clusters are equal.\n", "", exitEqual})
	got = runCheck(t, from, to, "--rename", "^=seb.")
	check.Containsf(t, got.out, "changed (timestamp) at offset 2 of --from, offset 0 of --to", "with timestamps: %s", got.err)
	got = runCheck(t, from, to)
	check.Equal(t, got, checked{"topic orders: DIFFERENT: --to does not have topic orders\nThe clusters differ.\n", "", exitDifferent})
	to.topic(t, "orders", 3, "delete")
	got = runCheck(t, from, to)
	check.Equal(t, got, checked{"topic orders: DIFFERENT: 2 partitions at --from, 3 at --to\nThe clusters differ.\n", "", exitDifferent})
}

// TestManyRecords: a partition needs many fetches, and a difference far behind is found.
func TestManyRecords(t *testing.T) {
	const n = 30_000
	from, to := newCluster(t), newCluster(t)
	list := func() (list []*kgo.Record) {
		for k := range n {
			list = append(list, &kgo.Record{Key: fmt.Append(nil, k), Value: make([]byte, 100), Timestamp: time.UnixMilli(int64(k))})
		}
		return list
	}
	for _, c := range []*cluster{from, to} {
		c.topic(t, "many", 1, "delete")
		c.topic(t, "keys", 1, "compact")
	}
	from.produce(t, "many", 0, list()...)
	from.produce(t, "keys", 0, list()...)
	to.produce(t, "keys", 0, list()...)
	copies := list()
	copies[n-2].Value = []byte("other")
	to.produce(t, "many", 0, append(copies[:10_000], copies[15_000:]...)...)
	got := runCheck(t, from, to, "--json")
	var result compare.Result
	must.NoError(t, json.Unmarshal([]byte(got.out), &result))
	check.Equalf(t, got.code, exitDifferent, "exit code: %s", got.err)
	check.Equal(t, result.Topics[0].Partitions[0].From.Keys, n)
	check.Equal(t, result.Topics[0].Partitions[0].First, nil)
	many := result.Topics[1].Partitions[0]
	check.Equalf(t, [4]int64{many.Missing, many.Doubled, many.Extra, many.Changed}, [4]int64{5000, 0, 0, 1}, "%+v", many)
	check.Equal(t, *many.First.From, 10_000)
}

// TestCopyBeginsAgain: a copy that begins again, even further back than the check looks ahead, is one
// sentence, and its records are doubled. All other differences are still found.
func TestCopyBeginsAgain(t *testing.T) {
	const n = 100_000
	from, to := newCluster(t), newCluster(t)
	part := func(first, end int) (list []*kgo.Record) {
		for k := first; k < end; k++ {
			list = append(list, &kgo.Record{Key: fmt.Append(nil, k), Timestamp: time.UnixMilli(int64(k))})
		}
		return list
	}
	from.topic(t, "many", 1, "delete")
	from.produce(t, "many", 0, part(0, n)...)
	type counts struct{ missing, doubled, extra, changed int64 }
	for name, c := range map[string]struct {
		to   [][2]int // parts of the source
		want counts
		said []string
	}{
		"first":        {[][2]int{{0, 90_000}, {0, n}}, counts{doubled: 90_000}, []string{"the first record, at offset 90000 of --to: it has 90000 records again"}},
		"first-nearby": {[][2]int{{0, 500}, {0, n}}, counts{doubled: 500}, []string{"the first record, at offset 500 of --to: it has 500 records again"}},
		"complete":     {[][2]int{{0, n}, {0, n}}, counts{doubled: n}, []string{"the first record, at offset 100000 of --to: it has 100000 records again"}},
		"incomplete": {
			[][2]int{{0, 90_000}, {0, 80_000}},
			counts{missing: 10_000, doubled: 80_000},
			[]string{"the first record, at offset 90000 of --to: it has 80000 records again"},
		},
		"later": {[][2]int{{0, 90_000}, {7777, n}}, counts{doubled: 82_223}, []string{"offset 7777 of --from, at offset 90000 of --to: it has 82223 records again"}},
		"twice": {[][2]int{{0, 70_000}, {0, 80_000}, {5000, n}}, counts{doubled: 70_000 + 75_000}, []string{
			"the first record, at offset 70000 of --to: it has 70000 records again", "offset 5000 of --from, at offset 150000 of --to: it has 75000 records again",
		}},
		"again-while-again": {[][2]int{{0, 90_000}, {0, 80_000}, {0, n}}, counts{doubled: 170_000}, []string{
			"the first record, at offset 90000 of --to: it has 80000 records again", "the first record, at offset 170000 of --to: it has 90000 records again",
		}},
		"with-differences": {
			[][2]int{{0, 50_000}, {50_001, 90_000}, {0, 40_000}, {40_002, 50_000}, {50_001, n}},
			counts{missing: 1, doubled: 89_997},
			[]string{"the first record, at offset 89999 of --to: it has 89997 records again"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			to.topic(t, name, 1, "delete")
			for _, p := range c.to {
				to.produce(t, name, 0, part(p[0], p[1])...)
			}
			got := runCheck(t, from, to, "--rename", "many="+name)
			w := c.want
			want := fmt.Sprintf("partition 0: %d missing, %d doubled, %d extra, %d changed; first: ", w.missing, w.doubled, w.extra, w.changed)
			check.Containsf(t, got.out, want, "exit code %d, stderr %q", got.code, got.err)
			for _, said := range c.said {
				check.Containsf(t, got.out, "  partition 0: --to begins again at "+said+"\n", "the report")
			}
			check.Equal(t, strings.Count(got.out, "begins again"), len(c.said))
		})
	}
}

// TestGroups: a group continues at the same record, though its offsets differ.
func TestGroups(t *testing.T) {
	from, to := newCluster(t), newCluster(t)
	for _, c := range []*cluster{from, to} {
		c.topic(t, "orders", 1, "delete")
		c.topic(t, "stock", 1, "compact")
	}
	from.produce(t, "orders", 0, records("x=0 y=0 a=1 b=2 c=3 d=4")...)
	to.produce(t, "orders", 0, records("a=1 b=2 c=3 d=4")...)
	from.produce(t, "stock", 0, records("a=1 b=2 a=3")...)
	to.produce(t, "stock", 0, records("b=2 a=3")...)
	var deleted kadm.Offsets
	deleted.AddOffset("orders", 0, 2, -1)
	must.Get(from.admin.DeleteRecords(t.Context(), deleted))(t)
	for group, offsets := range map[string][2]int64{"again": {4, 1}, "end": {6, 4}, "same": {3, 1}, "skips": {3, 3}} {
		from.commit(t, group, "orders", offsets[0])
		to.commit(t, group, "orders", offsets[1])
	}
	from.commit(t, "absent", "orders", 4)
	from.commit(t, "same", "stock", 1)
	to.commit(t, "same", "stock", 0)
	from.commit(t, "skips", "stock", 1)
	to.commit(t, "skips", "stock", 1)

	topics := "topic orders: 4 records at --from, 4 at --to: equal\ntopic stock: compacted, 2 keys at --from, 2 at --to: equal\n"
	want := topics + `group absent, orders partition 0: 2 left at --from, none at --to: DIFFERENT: --to has no offset
group again, orders partition 0: 2 left at --from, 3 at --to: DIFFERENT: reads 1 records again
group end, orders partition 0: 0 left at --from, 0 at --to: equal
group same, orders partition 0: 3 left at --from, 3 at --to: equal
group same, stock partition 0: 2 left at --from, 2 at --to: equal
group skips, orders partition 0: 3 left at --from, 1 at --to: DIFFERENT: skips 2 records
group skips, stock partition 0: 2 left at --from, 1 at --to: DIFFERENT: the next record differs
The clusters differ.
`
	check.Equal(t, runCheck(t, from, to), checked{want, "", exitDifferent})
	want = topics + `group again, orders partition 0: 2 left at --from, 3 at --to: equal
The clusters are equal.
`
	check.Equal(t, runCheck(t, from, to, "--groups", "again", "--again", "1"), checked{want, "", exitEqual})
}

// TestFailures: what cannot be compared has exit code 2 and one line on stderr.
func TestFailures(t *testing.T) {
	c := newCluster(t)
	c.topic(t, "orders", 1, "delete")
	for _, f := range []struct {
		args []string
		want string
	}{
		{[]string{"--topics", "other"}, "--from: no topic matches"},
		{[]string{"--topics", "("}, "--topics: error parsing regexp"},
		{[]string{"--groups", "("}, "--groups: error parsing regexp"},
		{[]string{"--exclude", "("}, "--exclude: error parsing regexp"},
		{[]string{"--rename", "a"}, `--rename "a": want a regular expression, = and its replacement`},
		{[]string{"--rename", "(=a"}, "--rename: error parsing regexp"},
		{[]string{"--from-sasl", "gssapi"}, `--from: SASL mechanism "gssapi"`},
		{[]string{"--from-user", ""}, "--from-user and --from-password-file are needed together"},
		{[]string{"--to-cert-file", "x"}, "--to-cert-file and --to-key-file are needed together"},
		{[]string{"--to-ca-file", "no-such-file"}, "--to-ca-file: open no-such-file"},
		{[]string{"--to-password-file", "main_test.go"}, "--to: topics: "}, // not the password
		{[]string{"orders"}, `unknown command "orders"`},
	} {
		got := runCheck(t, c, c, f.args...)
		if got.code != exitError || got.out != "" || !strings.Contains(got.err, f.want) || strings.Count(got.err, "\n") != 1 {
			t.Errorf("%q: exit code %d, stdout %q, stderr %q, want %q", f.args, got.code, got.out, got.err, f.want)
		}
	}
}
