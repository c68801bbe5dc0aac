package progress

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestBar: the line has the part that is done, numbers, a rate and the time left. It is drawn ten
// times a second at most, and disappears.
func TestBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		shown := func() string {
			defer out.Reset()
			return out.String()
		}
		b := &Bar{w: &out, what: "records", total: 80, number: func(n int64) string { return fmt.Sprint(n) }, start: time.Now()}
		b.Clear()
		b.Set(0)
		if got, want := shown(), "\rrecords   0% |"+strings.Repeat(" ", 40)+"| 0/80, 0/s\x1b[K"; got != want {
			t.Errorf("at the start: %q, want %q", got, want)
		}
		time.Sleep(every / 2)
		b.Add(1)
		if got := shown(); got != "" {
			t.Errorf("after %v: %q", every/2, got)
		}
		time.Sleep(time.Second - every/2)
		b.Add(19)
		if got, want := shown(), "\rrecords  25% |"+strings.Repeat("█", 10)+strings.Repeat(" ", 30)+"| 20/80, 3s left, 20/s\x1b[K"; got != want {
			t.Errorf("after a second: %q, want %q", got, want)
		}
		b.Clear()
		if got := shown(); got != "\r\x1b[K" {
			t.Errorf("cleared: %q", got)
		}
		b.total = -1
		b.Set(40)
		if got := shown(); got != "\rrecords 40, 40/s\x1b[K" {
			t.Errorf("without a total: %q", got)
		}
	})
	if New(&bytes.Buffer{}, "records", 1, nil) != nil {
		t.Error("a bar on a buffer")
	}
	var none *Bar
	none.Add(1)
	none.Set(1)
	none.Clear()
}
