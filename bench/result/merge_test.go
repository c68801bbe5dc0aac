package result_test

import (
	"reflect"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/result"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

func TestMerge(t *testing.T) {
	parts := []result.Run{newRun(t, "a", time.Second), newRun(t, "a", 3*time.Second), newRun(t, "a", time.Minute)}
	whole := result.NewHistogram()
	for i := range parts {
		parts[i].Counts = result.Counts{Sent: 2000, Received: 1999, Lost: 1, SentRate: 100}
		parts[i].Errors = []result.Problem{{Text: "x", Count: 1}}
		h := must.Get(parts[i].Curves.E2EIntended.Histogram())(t)
		whole.Merge(h)
	}
	parts[1].Validity = result.Validity{Reasons: []string{"late"}}
	parts[2].Seconds = append(parts[2].Seconds, parts[2].Seconds[0])
	m := must.Get(result.Merge(parts))(t)
	t.Run("the histogram of all samples is the merged one", func(t *testing.T) {
		for _, name := range result.Names() {
			h, err := m.Curves.Named(name).Histogram()
			if err != nil || !h.Equal(whole) || h.Count() != 6000 {
				t.Errorf("%s differs, error %v", name, err)
			}
		}
	})
	t.Run("counts add up", func(t *testing.T) {
		if c := m.Counts; c.Sent != 6000 || c.Received != 5997 || c.Lost != 3 || c.SentRate != 300 {
			t.Errorf("%+v", c)
		}
		if len(m.Errors) != 1 || m.Errors[0].Count != 3 {
			t.Errorf("%+v", m.Errors)
		}
	})
	t.Run("one invalid part makes it invalid", func(t *testing.T) {
		if m.Validity.Valid || len(m.Validity.Reasons) != 1 || m.Validity.Reasons[0] != "part 2: late" {
			t.Errorf("%+v", m.Validity)
		}
	})
	t.Run("seconds are added one by one", func(t *testing.T) {
		if len(m.Seconds) != 2 || m.Seconds[0].Ack.Count != 6000 || m.Seconds[1].Ack.Count != 2000 {
			t.Errorf("%d seconds", len(m.Seconds))
		}
	})
	t.Run("the parts stay as they are", func(t *testing.T) {
		if parts[0].Counts.Sent != 2000 || parts[0].Curves.AckSent.Count != 2000 || parts[0].Seconds[0].Ack.Count != 2000 {
			t.Error("the first has changed")
		}
	})
	t.Run("parts of different runs are refused", func(t *testing.T) {
		parts[1].ID = "other"
		check.Error(t, check.Err(result.Merge(parts)), "they are merged")
		check.Error(t, check.Err(result.Merge(nil)), "nothing is merged")
	})
}

func TestMergeFloors(t *testing.T) {
	parts := []result.Run{newRun(t, "a", time.Second), newRun(t, "a", 3*time.Second)}
	want := result.NewHistogram()
	for i := range parts {
		h := must.Get(parts[i].Curves.E2EIntended.Histogram())(t)
		want.Merge(h)
		parts[i].Floor = &result.Floor{Curves: parts[i].Curves, OwnLag: parts[i].Curves.AckSent, SentRate: 10}
	}
	m := must.Get(result.Merge(parts))(t)
	h, err := m.Floor.Curves.E2EIntended.Histogram()
	if err != nil || !h.Equal(want) || m.Floor.OwnLag.Count != 4000 || m.Floor.SentRate != 20 {
		t.Errorf("%+v, error %v", m.Floor, err)
	}
	t.Run("there is one only if all have one", func(t *testing.T) {
		parts[1].Floor = nil
		if m, err := result.Merge(parts); err != nil || m.Floor != nil {
			t.Errorf("%+v, error %v", m.Floor, err)
		}
	})
}

// TestMergeCounts fails if Merge omits a count.
func TestMergeCounts(t *testing.T) {
	one := newRun(t, "a", time.Second)
	counts := reflect.ValueOf(&one.Counts).Elem()
	for i := range counts.NumField() {
		if f := counts.Field(i); f.Kind() == reflect.Int64 {
			f.SetInt(3)
		} else {
			f.SetFloat(3)
		}
	}
	m := must.Get(result.Merge([]result.Run{one, one}))(t)
	for i, counts := 0, reflect.ValueOf(m.Counts); i < counts.NumField(); i++ {
		if f := counts.Field(i); f.CanInt() && f.Int() != 6 || f.CanFloat() && f.Float() != 6 {
			t.Errorf("%s is %v, want 6", counts.Type().Field(i).Name, f)
		}
	}
}
