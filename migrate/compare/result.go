package compare

import (
	"cmp"
	"fmt"
	"strings"
)

// The kinds of differences.
const (
	Missing = "missing" // the target does not have the record, or the key
	Doubled = "doubled" // the target has the record again
	Extra   = "extra"   // only the target has the record, or the key
	Changed = "changed" // the target has another record in its place, or for its key
)

// Result is the result of a check.
type Result struct {
	Equal  bool    `json:"equal"`
	Topics []Topic `json:"topics"` // by name
	Groups []Group `json:"groups"` // by name and partition
}

// Topic is the result for a topic.
type Topic struct {
	Name       string      `json:"topic"`
	Target     string      `json:"target"`               // its name at the target
	Compacted  bool        `json:"compacted"`            // the newest record of each key counts
	Difference string      `json:"difference,omitempty"` // why its records were not compared
	Partitions []Partition `json:"partitions"`
}

// Side has the counts of one side of a partition.
type Side struct {
	Records  int64  `json:"records"`
	Keys     int64  `json:"keys,omitempty"` // with a value, of a compacted topic
	Checksum string `json:"checksum"`       // of all records in their order
}

// Partition is the result for a partition.
type Partition struct {
	Number  int32       `json:"partition"`
	From    Side        `json:"from"`
	To      Side        `json:"to"`
	Missing int64       `json:"missing"`
	Doubled int64       `json:"doubled"`
	Extra   int64       `json:"extra"`
	Changed int64       `json:"changed"`
	First   *Difference `json:"first,omitempty"`
	// Repetitions are places where the target begins again with records that it has, as after a restart of the
	// program that copies. Their records count as doubled.
	Repetitions []Repetition `json:"repetitions,omitempty"`
}

// repetitionsMax bounds the repetitions of a partition that are listed.
const repetitionsMax = 100

// Repetition is records that the target has again.
type Repetition struct {
	First   bool  `json:"first_record"` // it begins with the first record
	From    int64 `json:"from_offset"`  // of its first record
	To      int64 `json:"to_offset"`
	Records int64 `json:"records"`
}

func (r *Repetition) String() string {
	where := fmt.Sprint("offset ", r.From, " of --from")
	if r.First {
		where = "the first record"
	}
	return fmt.Sprintf("--to begins again at %s, at offset %d of --to: it has %d records again", where, r.To, r.Records)
}

// Difference is the first difference of a partition.
type Difference struct {
	Kind  string   `json:"kind"`
	From  *int64   `json:"from_offset,omitempty"` // of the record, or of the next one; nil at the end
	To    *int64   `json:"to_offset,omitempty"`
	Parts []string `json:"parts,omitempty"` // that differ: key, value, headers, timestamp
}

func (d *Difference) String() string {
	at := func(offset *int64, side string) string {
		if offset == nil {
			return "no offset of " + side
		}
		return fmt.Sprint("offset ", *offset, " of ", side)
	}
	what := d.Kind
	if len(d.Parts) > 0 {
		what += " (" + strings.Join(d.Parts, ", ") + ")"
	}
	return fmt.Sprintf("%s at %s, %s", what, at(d.From, "--from"), at(d.To, "--to"))
}

// before orders differences by offset of the source, then of the target.
func (d *Difference) before(other *Difference) bool {
	end := int64(1<<63 - 1)
	offset := func(p *int64) int64 {
		if p == nil {
			return end
		}
		return *p
	}
	return cmp.Or(cmp.Compare(offset(d.From), offset(other.From)), cmp.Compare(offset(d.To), offset(other.To))) < 0
}

// differ counts n records that differ. Their first is d.
func (p *Partition) differ(d Difference, n int64) {
	switch d.Kind {
	case Missing:
		p.Missing += n
	case Doubled:
		p.Doubled += n
	case Extra:
		p.Extra += n
	case Changed:
		p.Changed += n
	}
	if p.First == nil || d.before(p.First) {
		p.First = &d
	}
}

// Group is the position of a group in a partition.
type Group struct {
	Name       string `json:"group"`
	Topic      string `json:"topic"`
	Partition  int32  `json:"partition"`
	FromLeft   int64  `json:"from_left"` // records that it has not read
	ToLeft     int64  `json:"to_left"`   // -1: the target does not have the group
	Difference string `json:"difference,omitempty"`
}
