package failover

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
)

// quantile returns a quantile of durations by the nearest rank.
func quantile(list []time.Duration, q float64) time.Duration {
	if len(list) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(list))
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

// of returns the rounds of each fault, in the order of their execution.
func (r *Result) of() (faults []Fault, rounds map[Fault][]Round) {
	rounds = map[Fault][]Round{}
	for _, round := range r.Rounds {
		if rounds[round.Fault] == nil {
			faults = append(faults, round.Fault)
		}
		rounds[round.Fault] = append(rounds[round.Fault], round)
	}
	return faults, rounds
}

// clients returns the names of the clients.
func (r *Result) clients() (names []string) {
	if len(r.Rounds) > 0 {
		for _, s := range r.Rounds[0].Seen {
			names = append(names, s.Client)
		}
	}
	return names
}

// seen returns what a client has seen in a round.
func (r *Round) seen(client string) Seen {
	i := slices.IndexFunc(r.Seen, func(s Seen) bool { return s.Client == client })
	if i < 0 {
		return Seen{Client: client}
	}
	return r.Seen[i]
}

// column returns a figure of each round.
func column(rounds []Round, of func(*Round) time.Duration) []time.Duration {
	list := make([]time.Duration, len(rounds))
	for i := range rounds {
		list[i] = of(&rounds[i])
	}
	return list
}

// three formats the median, the 99th percentile and the maximum in milliseconds.
func three(list []time.Duration) string {
	ms := func(d time.Duration) string { return fmt.Sprintf("%.0f", float64(d)/float64(time.Millisecond)) }
	return ms(quantile(list, 0.5)) + " | " + ms(quantile(list, 0.99)) + " | " + ms(quantile(list, 1))
}

// Write prints the tables in Markdown.
func (r *Result) Write(w io.Writer) error {
	var b strings.Builder
	faults, rounds := r.of()
	b.WriteString("Milliseconds. Gap: longest time between two acknowledgements, or records of a consumer, in a round.\n" +
		"Wait: longest time from when a record was due until its acknowledgement or arrival.\n\n" +
		"| fault | client | rounds | gap p50 | p99 | max | wait p50 | p99 | max | pauses a round | resets |\n|---|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range faults {
		for _, name := range r.clients() {
			list := rounds[f]
			gap := column(list, func(r *Round) time.Duration { return r.seen(name).Gap })
			wait := column(list, func(r *Round) time.Duration { return r.seen(name).Late })
			pauses, resets := 0, 0
			for i := range list {
				s := list[i].seen(name)
				pauses += s.Pauses
				resets += s.Resets
			}
			fmt.Fprintf(&b, "| %s | %s | %d | %s | %s | %.1f | %d |\n", f, name, len(list), three(gap), three(wait), float64(pauses)/float64(len(list)), resets)
		}
	}
	b.WriteString("\nLed: time from the fault to the first answer of a broker that leads the next epoch.\n\n" +
		"Whole: time from the end of a fault in a namespace until all brokers see each other.\n\n" +
		"| fault | led p50 | p99 | max | whole p50 | p99 | max | takeovers | needless | requests to S3 of a takeover |\n|---|---|---|---|---|---|---|---|---|---|\n")
	for _, f := range faults {
		takeovers, needless := 0, 0
		requests := map[string]int{}
		for _, round := range rounds[f] {
			takeovers += round.Takeovers
			needless += round.Needless
			addAll(requests, round.Requests)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %d | %d | %s |\n", f, three(column(rounds[f], func(r *Round) time.Duration { return r.Led })),
			three(column(rounds[f], func(r *Round) time.Duration { return r.Whole })), takeovers, needless, means(requests, len(rounds[f])))
	}
	b.WriteString("\nErrors, with attempts that the client repeated:\n\n| fault | client | error | count |\n|---|---|---|---|\n")
	for _, f := range faults {
		for _, name := range r.clients() {
			kinds := map[string]int{}
			for _, round := range rounds[f] {
				addAll(kinds, round.seen(name).Errors)
			}
			for _, kind := range slices.Sorted(maps.Keys(kinds)) {
				fmt.Fprintf(&b, "| %s | %s | %s | %d |\n", f, name, strings.ReplaceAll(kind, "|", "/"), kinds[kind])
			}
		}
	}
	standbys := "a second broker is a standby"
	if !r.Standbys {
		standbys = "a second broker deposes the first"
	}
	fmt.Fprintf(&b, "\n%s; %d records in the log; %d unknown outcomes; %d problems\n", standbys, r.Records, r.Unknown, len(r.Problems))
	for _, p := range r.Problems {
		fmt.Fprintln(&b, "problem:", p)
	}
	for _, v := range r.Violations {
		fmt.Fprintln(&b, "violation:", v)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func addAll(to, from map[string]int) {
	for k, n := range from {
		to[k] += n
	}
}

// means lists counts divided by a number of rounds.
func means(counts map[string]int, rounds int) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(counts)) {
		parts = append(parts, fmt.Sprintf("%.1f %s", float64(counts[k])/float64(rounds), k))
	}
	return strings.Join(parts, ", ")
}

// WriteCSV writes a line for each client and round.
func (r *Result) WriteCSV(w io.Writer) error {
	out := csv.NewWriter(w)
	_ = out.Write([]string{"fault", "round", "client", "gap_ms", "wait_ms", "pauses", "resets", "led_ms", "takeovers", "needless"})
	ms := func(d time.Duration) string {
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 3, 64)
	}
	for i := range r.Rounds {
		round := &r.Rounds[i]
		for _, s := range round.Seen {
			_ = out.Write([]string{
				string(round.Fault), strconv.Itoa(round.Number), s.Client, ms(s.Gap), ms(s.Late), strconv.Itoa(s.Pauses),
				strconv.Itoa(s.Resets), ms(round.Led), strconv.Itoa(round.Takeovers), strconv.Itoa(round.Needless),
			})
		}
	}
	out.Flush()
	return out.Error() // of any line
}
