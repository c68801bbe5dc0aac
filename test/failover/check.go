package failover

import (
	"fmt"
	"slices"
	"time"
)

// problemsMax bounds the problems of one producer.
const problemsMax = 10

// judge compares the log of a topic with its producer's records. log has the number of the record at
// each offset. A producer is sequential if its records keep their order; otherwise a record is only
// after those that were acknowledged before it was sent.
func judge(topic string, sequential bool, records []sent, log []int) (problems []string) {
	problem := func(format string, args ...any) {
		if len(problems) < problemsMax {
			problems = append(problems, topic+": "+fmt.Sprintf(format, args...))
		}
	}
	places := make([][]int, len(records))
	for offset, n := range log {
		if n < 0 || n >= len(records) {
			problem("offset %d has a record that was never sent", offset)
			continue
		}
		places[n] = append(places[n], offset)
	}
	for n, r := range records {
		at := places[n]
		switch {
		case len(at) > 1:
			problem("record %d is doubled, at offsets %v", n, at)
		case r.rejected && len(at) > 0:
			problem("record %d was rejected, and is at offset %d", n, at[0])
		case r.acked > 0 && len(at) == 0:
			problem("record %d is lost: acknowledged at offset %d", n, r.offset)
		case r.acked > 0 && int64(at[0]) != r.offset:
			problem("record %d was acknowledged at offset %d, and is at %d", n, r.offset, at[0])
		}
	}
	if sequential {
		highest := -1
		for offset, n := range log {
			if n < highest {
				problem("record %d is at offset %d, after record %d", n, offset, highest)
			}
			highest = max(highest, n)
		}
		return problems
	}
	// From the end: the earliest acknowledgement of the records behind an offset.
	earliest, by := time.Duration(1<<62), 0
	for offset, n := range slices.Backward(log) {
		if n < 0 || n >= len(records) {
			continue
		}
		r := records[n]
		if r.began > earliest {
			problem("record %d is at offset %d, before record %d, which was acknowledged before it was sent", n, offset, by)
		}
		if r.acked > 0 && r.acked < earliest {
			earliest, by = r.acked, n
		}
	}
	return problems
}

// compare compares what a consumer has read with the log.
func compare(name string, resets int, read, log []int) (problems []string) {
	if resets > 0 {
		problems = append(problems, fmt.Sprintf("%s: %d offsets reset", name, resets))
	}
	if len(read) != len(log) {
		problems = append(problems, fmt.Sprintf("%s: read to offset %d, the log ends at %d", name, len(read), len(log)))
	}
	for offset := range min(len(read), len(log)) {
		if read[offset] != log[offset] {
			return append(problems, fmt.Sprintf("%s: read record %d at offset %d, which has record %d (%d: none)", name, read[offset], offset, log[offset], noNumber))
		}
	}
	return problems
}
