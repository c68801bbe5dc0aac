package input_test

import (
	"strings"
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/input"
)

func TestTime(t *testing.T) {
	for text, want := range map[string]string{
		"2026-03-01T12:00:00Z":                     "2026-03-01T12:00:00Z",
		"2026-03-01t12:00:00z":                     "2026-03-01T12:00:00Z",
		"1985-04-12T23:20:50.52Z":                  "1985-04-12T23:20:50.52Z",
		"1996-12-19T16:39:57-08:00":                "1996-12-20T00:39:57Z",
		"1937-01-01T12:00:27.87+00:20":             "1937-01-01T11:40:27.87Z",
		"2026-03-01T12:00:00-00:00":                "2026-03-01T12:00:00Z",
		"2026-03-01T12:00:00+23:59":                "2026-02-28T12:01:00Z",
		"2026-03-01T12:00:00.1234567894999Z":       "2026-03-01T12:00:00.123456789Z",
		"2024-02-29T00:00:00Z":                     "2024-02-29T00:00:00Z",
		"0000-01-01T00:00:00Z":                     "0000-01-01T00:00:00Z",
		"9999-12-31T23:59:59.999999999Z":           "9999-12-31T23:59:59.999999999Z",
		"1990-12-31T23:59:60Z":                     "1991-01-01T00:00:00Z",
		"1990-12-31T15:59:60-08:00":                "1991-01-01T00:00:00Z",
		"2017-01-01T05:29:60.25+05:30":             "2017-01-01T00:00:00.25Z",
		"2026-06-30T23:59:60.5z":                   "2026-07-01T00:00:00.5Z",
		"2026-03-01T12:00:00." + digits(100) + "Z": "2026-03-01T12:00:00.111111111Z",
	} {
		got, err := input.Time(text)
		if err != nil || got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("%s is %v, %v, want %s", text, got, err, want)
		}
		if same, err := input.Time([]byte(text)); err != nil || !same.Equal(got) {
			t.Errorf("%s as bytes is %v, %v", text, same, err)
		}
	}
	if at, _ := input.Time("2026-03-01T12:00:00+05:30"); at.Format(time.RFC3339) != "2026-03-01T12:00:00+05:30" {
		t.Errorf("the offset is lost: %v", at)
	}
}

func digits(n int) string { return strings.Repeat("1", n) }

func TestTimeRefusals(t *testing.T) {
	for _, text := range []string{
		"", "now", "2026-03-01", "2026-03-01T12:00Z", "2026-03-01T12:00:00", "2026-03-01 12:00:00Z", "2026-03-01T12:00:00,5Z", "2026-03-01T12:00:00.Z",
		"2026-03-01T12:00:00+24:00", "2026-03-01T12:00:00+0100", "2026-03-01T12:00:00+01", "2026-03-01T12:00:00+01:60", "2026-03-01T12:00:00+1:00",
		"2026-03-01T24:00:00Z", "2026-03-01T12:60:00Z", "2026-03-01T12:00:61Z", "2026-03-01T9:00:00Z", "2026-3-01T12:00:00Z", "26-03-01T12:00:00Z",
		"2026-02-29T12:00:00Z", "2026-02-30T12:00:00Z", "2026-04-31T12:00:00Z", "2026-00-01T12:00:00Z", "2026-13-01T12:00:00Z", "2026-01-00T12:00:00Z",
		"2026-01-32T12:00:00Z", "-2026-03-01T12:00:00Z", "+2026-03-01T12:00:00Z", "12026-03-01T12:00:00Z", " 2026-03-01T12:00:00Z", "2026-03-01T12:00:00Z ",
		"2026-03-01T12:00:00ZZ", "2026-03-01T12:00:00Z+01:00", "2026-03-01T12:00:00UTC", "2026-03-01T12:00:00−01:00", "٢٠٢٦-03-01T12:00:00Z",
		"2026-03-01T12:00:60Z", "1990-12-30T23:59:60Z", "1990-12-31T23:59:60-08:00", "1990-12-31T23:58:60Z", "9999-12-31T23:59:60Z",
	} {
		if got, err := input.Time(text); err == nil {
			t.Errorf("%q is read as %v", text, got)
		} else if want := "want RFC 3339, such as 2026-03-01T12:00:00Z, given "; !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q: the error is %v", text, err)
		}
	}
}

func FuzzTime(f *testing.F) {
	for _, text := range []string{"2026-03-01T12:00:00Z", "1990-12-31t15:59:60.5-08:00", "2026-03-01T12:00:00,5Z", "2026-03-01T12:00:00+24:00"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := input.Time(text)
		if want, fault := time.Parse(time.RFC3339Nano, text); fault == nil && err == nil && !got.Equal(want) {
			t.Fatalf("%q is %v, want %v", text, got, want)
		} else if fault != nil && err == nil && !strings.ContainsAny(text, "tz") && !strings.Contains(text, ":60") {
			t.Fatalf("%q is %v, and package time refuses it: %v", text, got, fault)
		}
		if err == nil {
			if again, err := input.Time(got.Format(time.RFC3339Nano)); err != nil || !again.Equal(got) {
				t.Fatalf("%q is written as %s and read as %v, %v", text, got.Format(time.RFC3339Nano), again, err)
			}
		}
	})
}
