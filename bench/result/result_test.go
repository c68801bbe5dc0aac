package result_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/bench/result"

	"github.com/sebbroker/seb/bench/workload"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// curve holds 2000 samples of up to longest.
func curve(t *testing.T, longest time.Duration) result.Curve {
	t.Helper()
	h := result.NewHistogram()
	for i := range int64(2000) {
		h.Record(int64(longest) * (i + 1) / 2000)
	}
	c := h.Curve()
	return c
}

func newRun(t *testing.T, label string, longest time.Duration) result.Run {
	t.Helper()
	c := curve(t, longest)
	r := result.Run{
		Label: label, Workload: workload.Default(), Started: time.Unix(1_700_000_000, 0).UTC(),
		Curves:    result.Curves{AckIntended: c, AckSent: c, E2EIntended: &c, E2ESent: &c},
		Generator: result.Generator{Lag: c, OwnLag: c, Inside: c, Jitter: c},
		Validity:  result.Validity{Valid: true},
		Faults:    []result.Fault{{Fault: workload.Fault{Kind: workload.Pause, At: time.Second, For: time.Second}, From: 1, To: 2}},
		Seconds:   []result.Second{{At: 1, Ack: c}},
	}
	r.Counts.SentRate = longest.Seconds()
	return r
}

func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.json")
	f := result.File{Tool: result.ThisTool("v1"), Runs: []result.Run{newRun(t, "a", time.Second), newRun(t, "b", time.Minute)}}
	must.NoError(t, f.Write(path))
	back := must.Get(result.Read(path))(t)
	again := path + "2"
	must.NoError(t, back.Write(again))
	if len(back.Runs) != 2 || back.Runs[1].Curves.E2ESent.Count != 2000 || back.Runs[0].Faults[0] != f.Runs[0].Faults[0] {
		t.Errorf("%d runs came back", len(back.Runs))
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), ".*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	text := must.Get(os.ReadFile(path))(t)
	if second, err := os.ReadFile(again); err != nil || !bytes.Equal(text, second) {
		t.Errorf("read and written again it differs, error %v", err)
	}
	t.Run("another form is refused", func(t *testing.T) {
		for _, other := range []string{`"schema": 2`, `"schema": 0`} {
			_, err := result.Parse([]byte(strings.Replace(string(text), `"schema": 1`, other, 1)))
			check.ErrorIsf(t, err, result.ErrSchema, "%s: error", other)
		}
	})
	t.Run("a damaged histogram is refused", func(t *testing.T) {
		check.Error(t, check.Err(result.Parse([]byte(strings.Replace(string(text), `"n": 2000`, `"n": 2001`, 1)))), "it is taken")
	})
	t.Run("a folder that is not there is an error", func(t *testing.T) {
		check.Error(t, f.Write(filepath.Join(path, "x", "y.json")), "it is written")
	})
}

func TestClean(t *testing.T) {
	if c := (result.Counts{Sent: 5, Reordered: 3, Unexpected: 1}); !c.Clean() {
		t.Error("order counts")
	}
	for _, c := range []result.Counts{{Failed: 1}, {Unanswered: 1}, {Unsent: 1}, {DoneTwice: 1}, {Lost: 1}, {Duplicates: 1}, {Corrupt: 1}, {Foreign: 1}} {
		if c.Clean() {
			t.Errorf("%+v is clean", c)
		}
	}
}

func TestTime(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0s", 512: "512ns", 1234: "1.234µs", 12_345: "12.35µs", 123_456: "123.5µs", 1_234_567: "1.235ms", 12_345_678: "12.35ms",
		123_456_789: "123.5ms", 1_234_567_890: "1.235s", 12_345_678_901: "12.35s", 119_999_999_999: "2m0s",
	} {
		check.Equalf(t, result.Time(float64(d)), want, "%d ns", d)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"schema":1,"runs":[{"id":"x","faults":[{"fault":"pause at=1s for=1s"}],"workload":{"rate":"5","size":"1KiB"}}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := result.Parse(text)
		if err == nil {
			for i := range file.Runs {
				file.Runs[i].Curves.Headline()
			}
		}
	})
}
