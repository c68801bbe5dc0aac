package store

import (
	"cmp"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/triggers/rules/rule"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestFiringsAreSelected compares every query with a filter over all firings.
func TestFiringsAreSelected(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "triggers.db"))
	var all []Firing
	update(t, f, func(tx *Tx) error {
		for i := range 60 {
			x := Firing{Trigger: fmt.Sprint("t", i%7), Entity: fmt.Sprint("e", i%4), Version: 1, State: rule.Delivered}
			x.ID = rule.MakeID(x.Trigger, 1, x.Entity, fmt.Sprint(i))
			if _, err := tx.AddFiring(&x); err != nil {
				return err
			}
			all = append(all, x)
		}
		return nil
	})
	for _, w := range []FiringQuery{
		{Limit: 100},
		{Limit: 7, After: 3, Before: 50},
		{Limit: 7, Newest: true},
		{Limit: 7, After: 3, Before: 9, Newest: true},
		{Limit: 3, Trigger: "t3"},
		{Limit: 3, Trigger: "t3", After: 10, Before: 30, Newest: true},
		{Limit: 5, Entity: "e1"},
		{Limit: 5, Entity: "e1", Newest: true},
		{Limit: 100, Entity: "e1", After: 5, Before: 41},
		{Limit: 3, Entity: "e1", After: 5, Before: 41, Newest: true},
		{Limit: 100, Entity: "e2", Trigger: "t2"},
		{Limit: 1, Entity: "e2", Trigger: "t2", Newest: true},
		{Limit: 5, Entity: "e9"},
	} {
		var want []int64
		for i := range all {
			x := &all[i]
			if (w.Trigger == "" || w.Trigger == x.Trigger) && (w.Entity == "" || w.Entity == x.Entity) && x.Seq > w.After && (w.Before == 0 || x.Seq < w.Before) {
				want = append(want, x.Seq)
			}
		}
		if w.Newest {
			slices.Reverse(want)
		}
		want = want[:min(len(want), w.Limit)]
		list, err := f.Firings(t.Context(), w)
		var got []int64
		for i := range list {
			got = append(got, list[i].Seq)
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%+v: got %v, want %v: %v", w, got, want, err)
		}
	}
}

// TestFiringsFollowAnIndex: no statement of a query sorts or reads firings that it does not return.
func TestFiringsFollowAnIndex(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "triggers.db"))
	update(t, f, func(tx *Tx) error {
		_, err := tx.AddFiring(&Firing{ID: rule.MakeID("t", 1, "e", "c"), Trigger: "t", Entity: "e", Version: 1, State: rule.Delivered})
		return err
	})
	for _, newest := range []bool{false, true} {
		for _, entity := range []string{"", "e"} {
			for _, trigger := range []string{"", "t"} {
				must.Get(f.Firings(t.Context(), FiringQuery{Trigger: trigger, Entity: entity, Newest: newest, Limit: 1}))(t)
			}
		}
	}
	must.Get(f.Counts(t.Context(), "t", time.Now(), 1))(t)
	must.NoError(t, f.EntityInsts(t.Context(), "e", []int64{1}, func(InstKey, Inst) error { return nil }))
	if id, err := f.NextFired(t.Context(), "e", ""); err != nil || id != "t" {
		t.Fatal(id, err)
	}
	if n, _, err := f.Fired(t.Context(), "e", "t"); err != nil || n != 1 {
		t.Fatal(n, err)
	}
	texts := f.conn.Texts()
	n := 0
	for _, text := range texts {
		args := make([]any, strings.Count(text, "?"))
		err := f.Query(t.Context(), func(scan func(...any) error) error {
			var id, parent, unused int
			var step string
			if err := scan(&id, &parent, &unused, &step); err != nil {
				return err
			}
			if n++; strings.Contains(step, "SCAN fire") || strings.Contains(step, "SCAN inst") || strings.Contains(text, "due") && strings.Contains(step, "fire_trig") || strings.Contains(step, "TEMP") {
				t.Errorf("%s: %s", text, step)
			}
			return nil
		}, "EXPLAIN QUERY PLAN "+text, args...)
		check.NoError(t, err)
	}
	if n < 10 {
		t.Errorf("%d steps were examined: %q", n, texts)
	}
}

// TestTriggersOfAnEntity: triggers know an entity by its rows and its firings.
func TestTriggersOfAnEntity(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "triggers.db"))
	update(t, f, func(tx *Tx) error {
		for i := range int64(3 * FiredMax) {
			x := Firing{Trigger: []string{"a", "a", "c"}[i%3], Entity: "e", Version: 1, At: i + 1, State: rule.Historic, ID: rule.MakeID("t", 1, "e", fmt.Sprint(i))}
			if _, err := tx.AddFiring(&x); err != nil {
				return err
			}
		}
		return tx.PutInsts([]InstKey{{1, "e", 0}, {1, "e", 3}, {2, "other", 0}, {5, "e", 1}}, make([]Inst, 4))
	})
	for want, groups := range map[string][]int64{"[{1 e 0} {1 e 3} {5 e 1}]": {5, 2, 3, 1}, "[]": nil} {
		if got, err := f.keys(t, "e", groups...); err != nil || fmt.Sprint(got) != want {
			t.Errorf("%v, %v, want %s", got, err, want)
		}
	}
	for after, want := range map[string]string{"": "a", "a": "c", "b": "c", "c": ""} {
		if got, err := f.NextFired(t.Context(), "e", after); err != nil || got != want {
			t.Errorf("after %q: %q, %v", after, got, err)
		}
	}
	for trigger, want := range map[string]string{"a": "1000 2999", "c": "1000 3000", "none": "0 0"} {
		n, last, err := f.Fired(t.Context(), "e", trigger)
		if got := fmt.Sprint(n, last); err != nil || got != want {
			t.Errorf("%s: %s, %v, want %s", trigger, got, err, want)
		}
	}
}

// TestFiringsAreCounted: the newest firings are counted, and the pending ones of any age.
func TestFiringsAreCounted(t *testing.T) {
	f := open(t, filepath.Join(t.TempDir(), "triggers.db"))
	now := time.UnixMilli(1_700_000_000_000)
	ago := func(d time.Duration) int64 { return now.Add(-d).UnixMilli() }
	const day = 24 * time.Hour
	update(t, f, func(tx *Tx) error {
		for i, x := range []Firing{
			{At: ago(30 * day), State: rule.Pending, NextTry: 1},
			{At: ago(20 * day), State: rule.Dead},
			{At: ago(7 * day), State: rule.Dead},
			{At: ago(2 * day), State: rule.Delivered},
			{At: ago(time.Hour), State: rule.Pending, NextTry: 2},
		} {
			x.Trigger, x.Entity, x.Version, x.ID = "t", "e", 1, rule.MakeID("t", 1, "e", fmt.Sprint(i))
			if _, err := tx.AddFiring(&x); err != nil {
				return err
			}
		}
		_, err := tx.AddFiring(&Firing{ID: rule.MakeID("u", 1, "e", "c"), Trigger: "u", Entity: "e", At: now.UnixMilli(), State: rule.Dead})
		return err
	})
	for limit, want := range map[int]Counts{
		5: {States: map[rule.State]int{rule.Pending: 2, rule.Dead: 2, rule.Delivered: 1}, Day: 1, Week: 3, Last: ago(time.Hour), Pending: 2, Oldest: ago(30 * day)},
		2: {States: map[rule.State]int{rule.Pending: 1, rule.Delivered: 1}, Day: 1, Week: 2, Since: ago(2 * day), Last: ago(time.Hour), Pending: 2, Oldest: ago(30 * day)},
	} {
		if got, err := f.Counts(t.Context(), "t", now, limit); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("limit %d: %+v, %v, want %+v", limit, got, err, want)
		}
	}
	if got, err := f.Counts(t.Context(), "none", now, 5); err != nil || !reflect.DeepEqual(got, Counts{States: map[rule.State]int{}}) {
		t.Errorf("%+v, %v", got, err)
	}
}

// keys returns the keys of the rows of an entity, sorted.
func (f *File) keys(t *testing.T, entity string, groups ...int64) (keys []InstKey, err error) {
	err = f.EntityInsts(t.Context(), entity, groups, func(k InstKey, _ Inst) error {
		keys = append(keys, k)
		return nil
	})
	slices.SortFunc(keys, func(a, b InstKey) int {
		return cmp.Or(cmp.Compare(a.Group, b.Group), cmp.Compare(a.Partition, b.Partition))
	})
	return keys, err
}
