// Package failover measures what clients see when the broker that leads a bucket dies, hangs or
// leaves. Run starts real brokers, keeps an open-loop load on them over HTTP and Kafka, injects
// faults, and compares what the log has at the end with what was acknowledged. Package
// test/cmd/failover is its program.
//
// Where a second broker deposes the first one instead of becoming its standby, one broker runs at a
// time, and the next one starts right after a fault, as a supervisor would start it.
package failover

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"
)

// Fault is what happens to the brokers in a round.
type Fault string

// The faults. A process that has ended starts again in the same round, after the takeover.
const (
	None    Fault = "none"    // nothing, for comparison
	Kill    Fault = "kill"    // SIGKILL of the leader
	Stop    Fault = "stop"    // SIGSTOP of the leader, and SIGCONT later
	Term    Fault = "term"    // SIGTERM of the leader
	Roll    Fault = "roll"    // all brokers are replaced, one after the other
	Standby Fault = "standby" // SIGKILL of a broker that does not lead
)

var allFaults = append([]Fault{None, Kill, Stop, Term, Roll, Standby}, networkFaults...)

// ParseFaults reads names with commas between them.
func ParseFaults(text string) ([]Fault, error) { return parseNames("fault", text, allFaults) }

// Store is the kind of bucket.
type Store string

// The buckets. Requests to the S3 server go through a proxy that delays and counts them.
const (
	File Store = "file"
	S3   Store = "s3"
)

// Options configure Run. The zero value of a field with a default selects the default.
type Options struct {
	Program string   // a built seb
	Dir     string   // an existing folder for buckets, data and logs
	Store   Store    // default File
	Brokers int      // default 3
	Faults  []Fault  // one series of rounds for each
	Rounds  int      // of each fault; default 1
	Args    []string // further arguments of seb serve

	Clients []Client // default HTTP, SSE and Franz
	// Prefix begins the command of each client that is a program, such as that of a namespace.
	Prefix []string
	Rate   int // records per second of each producer; default 100
	// KafkaTimeout is the time after which franz-go gives up a request; default 3 s, at least 2 s.
	// MetadataAge is the least time between two of its requests for metadata; default 1 s.
	KafkaTimeout, MetadataAge time.Duration

	StopTime time.Duration // between SIGSTOP and SIGCONT; default 10 s
	Settle   time.Duration // without faults before each round; default 2 s
	// Replace starts a new broker before the old one gets SIGTERM, in rounds of Roll.
	Replace bool
	// Namespaces gives each broker a network of its own, and a proxy between it and S3. The process
	// must be Isolated. More faults are possible then.
	Namespaces bool
	// Seed determines the order of the rounds, their brokers and their times, if Shuffle is set:
	// StopTime and Hold do not apply then.
	Seed    uint64
	Shuffle bool
	Time    time.Duration // no round begins after it; default: no limit
	Hold    time.Duration // of None, and of the faults of namespaces; default 10 s
	Idle    bool          // no clients
	Local   bool          // with namespaces: brokers with the default listeners
	NAT     bool          // with namespaces: the second broker is behind a relay
	// Put, Get and List delay requests of S3.
	Put, Get, List time.Duration

	// Progress gets a line for each step of a round; nil: none.
	Progress func(line string)
}

func (o *Options) setDefaults() error {
	o.Store = cmp.Or(o.Store, File)
	o.Brokers = cmp.Or(o.Brokers, 3)
	o.Rounds = cmp.Or(o.Rounds, 1)
	if len(o.Clients) == 0 {
		o.Clients = []Client{HTTP, SSE, Franz}
	}
	o.Rate = cmp.Or(o.Rate, 100)
	o.KafkaTimeout = cmp.Or(o.KafkaTimeout, 3*time.Second)
	o.MetadataAge = cmp.Or(o.MetadataAge, time.Second)
	o.StopTime = cmp.Or(o.StopTime, 10*time.Second)
	o.Hold = cmp.Or(o.Hold, 10*time.Second)
	o.Time = cmp.Or(o.Time, math.MaxInt64)
	o.Settle = cmp.Or(o.Settle, 2*time.Second)
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	var faults []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			faults = append(faults, fmt.Errorf(format, args...))
		}
	}
	check(o.Store == File || o.Store == S3, "store %q, want file or s3", o.Store)
	check(o.Brokers >= 2 && o.Brokers <= 9, "brokers: %d, want 2 to 9", o.Brokers)
	check(!slices.Contains(o.Clients, SSE) || slices.Contains(o.Clients, HTTP), "clients: %s reads the topic of %s", SSE, HTTP)
	check(o.Rounds >= 1, "rounds: %d, want at least 1", o.Rounds)
	check(o.Rate >= 1 && o.Rate <= 10_000, "rate: %d, want 1 to 10,000", o.Rate)
	check(!o.Namespaces || Isolated(), "namespaces: the process is not isolated")
	check(o.Namespaces || !slices.ContainsFunc(o.Faults, ofNetwork) && !o.Local && !o.NAT, "some of the faults %v need namespaces", o.Faults)
	check(o.KafkaTimeout >= 2*time.Second, "kafka timeout: %v, want at least 2s", o.KafkaTimeout)
	return errors.Join(faults...)
}

func ofNetwork(f Fault) bool { return slices.Contains(networkFaults, f) }

// behind is the number of the broker behind NAT; -1: none.
func (o *Options) behind() int {
	if o.NAT {
		return 1
	}
	return -1
}
