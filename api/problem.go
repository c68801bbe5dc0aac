package api

// ProblemType is the prefix of a problem's "type" member. The code follows it.
const ProblemType = "urn:seb:problem:"

// Problem is the body of every error answer (RFC 9457, application/problem+json). The members after
// Code are present if they apply. A pointer distinguishes an absent member from zero.
type Problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail,omitempty"` // for people; names the limit and what was given
	Code   Code   `json:"code"`

	Topic       string `json:"topic,omitempty"`
	Partition   *int32 `json:"partition,omitempty"`
	Offset      *int64 `json:"offset,omitempty"`       // requested or expected offset
	NextOffset  *int64 `json:"next_offset,omitempty"`  // the partition's end offset
	StartOffset *int64 `json:"start_offset,omitempty"` // the partition's start offset
	// Field is the invalid parameter, header or member of the body.
	Field string `json:"field,omitempty"`
	// Record is the index of the invalid record in the request, from 0.
	Record *int64 `json:"record,omitempty"`
	Limit  *int64 `json:"limit,omitempty"`
	Given  *int64 `json:"given,omitempty"`
	// Line and Column, both from 1, locate an error in the text of an expression. Pointer, a JSON
	// Pointer, locates it in the JSON form.
	Line    int    `json:"line,omitempty"`
	Column  int    `json:"column,omitempty"`
	Pointer string `json:"pointer,omitempty"`
	Leader  string `json:"leader,omitempty"` // hint: address of the broker that took over
	Epoch   uint32 `json:"epoch,omitempty"`  // of the broker that took over
	// Results has the outcome per partition if a produce to several partitions ended differently.
	Results []PartitionResult `json:"results,omitempty"`
	// Group is the consumer group of the request. Committed is its committed offset, for
	// offset_mismatch (-1: none). Offsets has the outcome per offset if those of a PUT ended
	// differently.
	Group     string         `json:"group,omitempty"`
	Committed *int64         `json:"committed_offset,omitempty"`
	Offsets   []OffsetResult `json:"offsets,omitempty"`
}

// Error returns the code and the detail.
func (p *Problem) Error() string {
	if p.Detail == "" {
		return string(p.Code)
	}
	return string(p.Code) + ": " + p.Detail
}
