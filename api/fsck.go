package api

import "time"

// Fsck is the answer to requests of /fsck: the check of the bucket that runs, or the last one since
// the broker's start.
type Fsck struct {
	State     string    `json:"state"` // none | running | done | cancelled | failed
	StartedAt time.Time `json:"started_at,omitzero"`
	EndedAt   time.Time `json:"ended_at,omitzero"`
	// Listed counts the objects of the bucket when the check began. Checked counts those that were
	// read so far. A check does not read objects that no record needs.
	Listed  ObjectCount `json:"listed"`
	Checked ObjectCount `json:"checked"`
	// Damages is the number of findings that are damage. Kinds counts all findings by severity and
	// kind, such as "orphan: pack".
	Damages int            `json:"damages"`
	Kinds   map[string]int `json:"kinds"`
	// Findings has at most 100: first damage, and 10 of each other kind.
	Findings []FsckFinding `json:"findings"`
	Summary  *FsckSummary  `json:"summary,omitempty"` // of a check that is done
	Error    string        `json:"error,omitempty"`   // of a check that failed
	// Estimate counts the objects of the bucket now: the upper bound of a check's requests and
	// bytes. It is present if the request asks for it.
	Estimate *ObjectCount `json:"estimate,omitempty"`
}

// ObjectCount is a number of objects and their size.
type ObjectCount struct {
	Objects int64 `json:"objects"`
	Bytes   int64 `json:"bytes"`
}

// FsckFinding is a finding of a check.
type FsckFinding struct {
	Severity string `json:"severity"` // damage | orphan | note
	Kind     string `json:"kind"`
	Key      string `json:"key,omitempty"` // name of the object
	Text     string `json:"text,omitempty"`
	// Lost has ranges of records that cannot be read, at most 10.
	Lost []LostRecords `json:"lost,omitempty"`
}

// LostRecords are the offsets from From to before To.
type LostRecords struct {
	Topic     string `json:"topic"`
	Partition int    `json:"partition"`
	From      int64  `json:"from"`
	To        int64  `json:"to"`
}

// FsckSummary sums up a check.
type FsckSummary struct {
	// Epoch and Slot are the end of the log: the next slot to be written.
	Epoch uint32 `json:"epoch"`
	Slot  uint64 `json:"slot"`
	// Verified are the objects with right checksums. Superseded are objects that a broker will
	// collect, Orphans those that nothing refers to.
	Verified   ObjectCount `json:"verified"`
	Superseded ObjectCount `json:"superseded"`
	Orphans    ObjectCount `json:"orphans"`
	Snapshots  int         `json:"snapshots"`
	Topics     int         `json:"topics"`
	Partitions int         `json:"partitions"`
	Records    int64       `json:"records"`
}
