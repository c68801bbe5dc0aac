package progress

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/test/check"
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
		check.Equalf(t, shown(), "\rrecords   0% |"+strings.Repeat(" ", 40)+"| 0/80, 0/s\x1b[K", "at the start")
		time.Sleep(every / 2)
		b.Add(1)
		check.Equalf(t, shown(), "", "after %v", every/2)
		time.Sleep(time.Second - every/2)
		b.Add(19)
		check.Equalf(t, shown(), "\rrecords  25% |"+strings.Repeat("█", 10)+strings.Repeat(" ", 30)+"| 20/80, 3s left, 20/s\x1b[K", "after a second")
		b.Clear()
		check.Equalf(t, shown(), "\r\x1b[K", "cleared")
		b.total = -1
		b.Set(40)
		check.Equalf(t, shown(), "\rrecords 40, 40/s\x1b[K", "without a total")
	})
	if New(&bytes.Buffer{}, "records", 1, nil) != nil {
		t.Error("a bar on a buffer")
	}
	var none *Bar
	none.Add(1)
	none.Set(1)
	none.Clear()
}
