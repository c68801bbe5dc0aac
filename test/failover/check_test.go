package failover

import (
	"strings"
	"testing"
	"time"
)

// acked is a record that was sent and acknowledged at times in milliseconds.
func acked(began, at int, offset int64) sent {
	return sent{began: time.Duration(began) * time.Millisecond, acked: time.Duration(at) * time.Millisecond, offset: offset}
}

func TestJudge(t *testing.T) {
	three := []sent{acked(1, 5, 0), acked(2, 6, 1), acked(7, 9, 2)}
	for _, c := range []struct {
		name       string
		sequential bool
		records    []sent
		log        []int
		want       string // "": no problem
	}{
		{"in order", true, three, []int{0, 1, 2}, ""},
		{"concurrent records in another order", false, []sent{acked(1, 5, 1), acked(2, 6, 0), acked(7, 9, 2)}, []int{1, 0, 2}, ""},
		{"concurrent records of a sequential producer in another order", true, []sent{acked(1, 5, 1), acked(2, 6, 0)}, []int{1, 0}, "record 0 is at offset 1, after record 1"},
		{"a record before an earlier one", false, []sent{acked(1, 5, 2), acked(2, 6, 0), acked(7, 9, 1)}, []int{1, 2, 0}, "record 2 is at offset 1, before record 0"},
		{"a lost record", true, three, []int{0, 1}, "record 2 is lost: acknowledged at offset 2"},
		{"a doubled record", false, []sent{acked(1, 5, 0), acked(2, 6, 1), acked(7, 9, 3)}, []int{0, 1, 1, 2}, "record 1 is doubled, at offsets [1 2]"},
		{"another offset", false, []sent{acked(1, 5, 1), {}}, []int{0, 1}, "record 0 was acknowledged at offset 1, and is at 0"},
		{"unknown outcomes", true, []sent{{}, acked(1, 5, 0), {}}, []int{1, 2}, ""},
		{"a rejected record in the log", true, []sent{{rejected: true}}, []int{0}, "record 0 was rejected, and is at offset 0"},
		{"a rejected record", true, []sent{{rejected: true}, acked(1, 2, 0)}, []int{1}, ""},
		{"a record of another producer", true, three, []int{0, 1, 2, 3}, "offset 3 has a record that was never sent"},
	} {
		t.Run(c.name, func(t *testing.T) { one(t, judge("t", c.sequential, c.records, c.log), c.want) })
	}
}

func TestCompare(t *testing.T) {
	log := []int{0, 1, 2}
	one(t, compare("c", 0, []int{0, 1, 2}, log), "")
	one(t, compare("c", 1, []int{0, 1, 2}, log), "1 offsets reset")
	one(t, compare("c", 0, []int{0, 1}, log), "read to offset 2, the log ends at 3")
	one(t, compare("c", 0, []int{0, noNumber, 2}, log), "read record -1 at offset 1, which has record 1")
}

// one wants exactly one problem with a text, or none.
func one(t *testing.T, problems []string, want string) {
	t.Helper()
	if want == "" && len(problems) > 0 || want != "" && (len(problems) != 1 || !strings.Contains(problems[0], want)) {
		t.Errorf("got %q, want %q", problems, want)
	}
}

func TestConsumerNoticesJumps(t *testing.T) {
	c := &consumer{track: newTrack("c", time.Now())}
	for _, offset := range []int64{0, 1, 2, 4, 0, 1} {
		c.got(offset, value(int(offset), 0), 0)
	}
	if _, resets := c.counts(); resets != 2 {
		t.Errorf("%d resets, want 2: a jump forward and one back", resets)
	}
	if _, _, err := parse([]byte("x")); err == nil {
		t.Error("a value of another producer is read as one of this")
	}
	if n, due, err := parse(value(7, time.Second)); n != 7 || due != time.Second || err != nil {
		t.Errorf("record %d, due at %v, %v: want record 7, due at 1s", n, due, err)
	}
}

func TestClassOf(t *testing.T) {
	for line, want := range map[string]string{
		"%3|1764167005.123|FAIL|rdkafka#producer-1| [thrd:x]: 127.0.0.1:9092/bootstrap: Connect to ipv4#127.0.0.1:9092 failed: Connection refused (after 0ms in state CONNECT)": "Connection refused",
		"[kafka-producer-network-thread] WARN org.example.Sender - Got error produce response on t-0, retrying. Error: NOT_LEADER_OR_FOLLOWER":                                  "NOT_LEADER_OR_FOLLOWER",
	} {
		if got := classOf(line); got != want {
			t.Errorf("%q of %q, want %q", got, line, want)
		}
	}
}
