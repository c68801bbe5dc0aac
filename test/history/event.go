package history

// The operations, in Event.Do.
const (
	Append = "append" // records to one partition
	Read   = "read"   // of one partition
	Commit = "commit" // of a group's offset in one partition
	Fetch  = "fetch"  // of a committed offset
	Trim   = "trim"   // of one partition
	// Progress is Fetch of a group whose members continue from the committed offset, so that it
	// only grows.
	Progress = "progress"
)

// The outcomes, in Event.Is.
const (
	OK       = "ok"       // it took effect
	Rejected = "rejected" // it did not take effect, and will not
	Unknown  = "unknown"  // it may take effect once, now or later
	Failed   = "failed"   // no answer to an operation without effect
)

// None is a missing offset: a group without a commit.
const None = -1

// Event is one line of a history: an invocation (Do), a return (Is) or a note. Fields that do not
// apply are zero.
type Event struct {
	T  int64 `json:"t"`            // nanoseconds since the history began, never decreasing
	Op int64 `json:"op,omitempty"` // the operation, from 1

	// Of an invocation.

	Do     string `json:"do,omitempty"`
	Client int32  `json:"c,omitempty"`
	Part   int32  `json:"p,omitempty"`   // the partition, numbered by the writer, 0 to 255
	Seq    int64  `json:"seq,omitempty"` // Append: number of its first record
	N      int64  `json:"n,omitempty"`   // Append: number of records
	// Ordered means that this client's records are in its own order, whatever their outcome, as for
	// an idempotent producer.
	Ordered bool   `json:"ord,omitempty"`
	Want    *int64 `json:"want,omitempty"` // Append, Commit: required end or committed offset
	From    int64  `json:"from,omitempty"` // Read: first wanted offset, or None
	Session string `json:"ses,omitempty"`  // Read: a run of reads, each continuing the previous one
	Group   string `json:"g,omitempty"`    // Commit, Fetch; Read: for a group, which must miss nothing
	To      int64  `json:"to,omitempty"`   // Commit, Trim: the offset
	// Again means for a Commit that it may be sent several times, and so take effect again while in
	// progress. On its return it means that it was sent again, and so may take effect even later.
	Again bool   `json:"again,omitempty"`
	Form  string `json:"form,omitempty"` // encoding of the request, for information

	// Of a return.

	Is    string `json:"is,omitempty"`
	Code  string `json:"code,omitempty"`  // reason of a rejection
	Epoch uint32 `json:"e,omitempty"`     // of the answering broker; 0: unknown
	At    int64  `json:"at,omitempty"`    // Append: first offset; Fetch: offset or None; else actual
	By    int64  `json:"by,omitempty"`    // Fetch: the operation that committed it, from its metadata
	Start int64  `json:"start,omitempty"` // Read, Trim: first available offset
	End   int64  `json:"end,omitempty"`   // Read: next offset to be written; 0: unknown
	Got   []Run  `json:"got,omitempty"`   // Read: the records, by offset
	Cut   bool   `json:"cut,omitempty"`   // Read: the answer was cut off
	Bad   string `json:"bad,omitempty"`   // Read: data that no client sent

	// Of a note: a fault of the brokers or of their connections.

	Note string `json:"note,omitempty"`
	Lane string `json:"lane,omitempty"` // what the fault affects
}

// Run is N records of one client with consecutive sequences and offsets: [offset, client, seq, n].
type Run [4]int64

// AddRun adds one record to runs.
func AddRun(runs []Run, offset int64, client int32, seq int64) []Run {
	if n := len(runs); n > 0 {
		r := &runs[n-1]
		if r[0]+r[3] == offset && r[1] == int64(client) && r[2]+r[3] == seq {
			r[3]++
			return runs
		}
	}
	return append(runs, Run{offset, int64(client), seq, 1})
}
