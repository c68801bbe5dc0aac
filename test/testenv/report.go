package testenv

import (
	"fmt"
	"os"
	"strconv"
	"time"
)

// Report prints a line for a check that has passed: the client, the check, and its duration.
// figures are additional values, such as those of Rate.
func Report(client, what string, took time.Duration, figures ...string) {
	line := fmt.Sprintf("%-16s %-72s %6.1f s", client, what, took.Seconds())
	for _, f := range figures {
		line += "  " + f
	}
	_, _ = fmt.Fprintln(os.Stdout, line)
}

// Rate returns a number of records per second as a figure for Report.
func Rate(verb string, records int, took time.Duration) string {
	return fmt.Sprintf("%s %s/s", verb, Thousands(int(float64(records)/max(took.Seconds(), 1e-9))))
}

// Thousands formats a number with commas.
func Thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
