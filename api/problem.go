package api

// ProblemType is the prefix of a problem's "type" member; the code follows.
const ProblemType = "urn:seb:problem:"

// Problem is the body of every answer that is an error: RFC 9457, application/problem+json. Members beyond Code are
// there where they mean something; a pointer tells "not given" from zero.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // for people; names the limit and what was given
	Code   Code   `json:"code"`

	Topic       string `json:"topic,omitempty"`
	Partition   *int32 `json:"partition,omitempty"`
	Offset      *int64 `json:"offset,omitempty"`       // that was asked for or expected
	NextOffset  *int64 `json:"next_offset,omitempty"`  // where the partition ends
	StartOffset *int64 `json:"start_offset,omitempty"` // the first offset that is there
	Field       string `json:"field,omitempty"`        // parameter, header or member of the body that is at fault
	Record      *int64 `json:"record,omitempty"`       // place in the request, from 0, of the record at fault
	Limit       *int64 `json:"limit,omitempty"`
	Given       *int64 `json:"given,omitempty"`
	// Line, Column and Pointer are where the fault of an expression is: in its text, both from 1, or, in its JSON form, a JSON
	// Pointer.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Pointer string `json:"pointer,omitempty"`
	Leader  string `json:"leader,omitempty"` // a hint: address of the broker that took over
	Epoch   uint32 `json:"epoch,omitempty"`  // of the broker that took over
	// Results tells the partitions apart when a produce that spans several did not end alike everywhere.
	Results []PartitionResult `json:"results,omitempty"`
	// Group is the consumer group that the request is about; Committed what it has committed, with offset_mismatch (-1:
	// nothing); Offsets tells the offsets of a PUT apart when they did not end alike.
	Group     string         `json:"group,omitempty"`
	Committed *int64         `json:"committed_offset,omitempty"`
	Offsets   []OffsetResult `json:"offsets,omitempty"`
}

// Error makes a Problem an error.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}
