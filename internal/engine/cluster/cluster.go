// Package cluster decides when a broker tries to lead a log that another broker leads, and when a
// leader stops or hands over. The log alone decides who leads: nothing here can acknowledge a record,
// and every time below is for comfort. docs/decisions/0036-standby.md has the rules.
//
// The package has no I/O. Subpackage link connects brokers; the server performs what a Member
// decides.
package cluster

import (
	"time"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// Run names one life of one broker process. A SEAL names the run that wrote it.
type Run = state.Run

// Report is what the loop that owns a log knows. Its answer shows that the loop runs.
type Report = state.Report

// Registration tells other brokers where a run is found. It is an object of the bucket that never
// changes.
type Registration struct {
	Run       Run
	Name      string   // for people: the host name
	Addresses []string // host:port that brokers on other machines dial; none: they do not reach this run
	URL       string   // of the HTTP API, for clients and forwarded requests
	Kafka     string   // host:port for Kafka clients, or ""
	KafkaID   int32    // node id for Kafka clients
	KeyHash   [32]byte // SHA-256 of the public key of the run's links
	Version   string   // of the program
	LevelMax  uint32   // the highest format level that it reads and writes
	ReadOnly  bool     // it never leads
	Secure    bool     // Addresses and Local speak TLS
	Machine   [16]byte // identifies machine, boot and network namespace; zero: unknown
	Local     string   // host:port that runs with the same Machine dial, or ""
	// Folder is its data folder, if its API key is there: a run with the same Machine and without a key may
	// take it.
	Folder string
}

// Reachable reports whether other brokers can reach the run.
func (r *Registration) Reachable() bool { return len(r.Addresses) > 0 || r.Local != "" }

// Stands reports whether the run may lead and can be reached.
func (r *Registration) Stands() bool { return !r.ReadOnly && r.Reachable() }

// Beside reports whether the run is on the machine of another, and reaches it on loopback addresses.
func (r *Registration) Beside(o *Registration) bool {
	return r.Machine == o.Machine && r.Machine != [16]byte{} && r.Local != "" && o.Local != ""
}

// SeenBy returns the registration as run o uses it: with the addresses that o dials. There are none
// unless each of the two reaches the other.
func (r Registration) SeenBy(o *Registration) Registration {
	switch {
	case r.Beside(o):
		r.Addresses = []string{r.Local}
	case len(o.Addresses) == 0:
		r.Addresses, r.Local = nil, ""
	default:
		r.Local = ""
	}
	return r
}

// Beat tells another run what its sender does. The loop that owns the sender's log sends it.
type Beat struct {
	From      Run
	Leads     bool // it leads Epoch
	Stands    bool // it tries to end Epoch
	Epoch     uint32
	Nonce     record.ID      // of Epoch
	Pos       state.Position // committed by a leader, applied by a follower
	PosNonce  record.ID      // of the epoch of Pos
	Loaded    bool           // Pos is valid
	StoreOK   bool           // the store answers
	Leaving   bool           // it ends soon
	OtherKey  bool           // it has another root key: it only reads
	Level     uint32         // format level of its state
	Committed time.Time      // append time of the newest slot at Pos, for the lag that people see
}
