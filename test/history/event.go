package history

// The operations, in Event.Do.
const (
	Append = "append" // records to one partition
	Read   = "read"   // of one partition
	Commit = "commit" // of a group's offset in one partition
	Fetch  = "fetch"  // of that
	Trim   = "trim"   // of one partition
	// Progress is Fetch of a group whose members go on from what was committed, so that it only grows.
	Progress = "progress"
)

// The outcomes, in Event.Is.
const (
	OK       = "ok"       // it happened
	Rejected = "rejected" // it did not, and will not
	Unknown  = "unknown"  // it may have happened, or may yet, once
	Failed   = "failed"   // of what changes nothing: there is no answer
)

// None is an offset that is not there: a group that has committed nothing.
const None = -1

// Event is one line of a history: an invocation (Do), a return (Is) or a note. Fields that do not belong to it are zero.
type Event struct {
	T  int64 `json:"t"`            // nanoseconds since the history began; it never goes back
	Op int64 `json:"op,omitempty"` // the operation, from 1

	// Of an invocation.

	Do     string `json:"do,omitempty"`
	Client int32  `json:"c,omitempty"`
	Part   int32  `json:"p,omitempty"`   // the partition, by the writer's own number, 0 to 255
	Seq    int64  `json:"seq,omitempty"` // Append: number of the first record among all that the client ever sent
	N      int64  `json:"n,omitempty"`   // Append: how many
	// Ordered says that the records of this client are in its own order, whatever their outcome: that of an idempotent
	// producer.
	Ordered bool   `json:"ord,omitempty"`
	Want    *int64 `json:"want,omitempty"` // Append, Commit: only if the end, or what is committed, is this
	From    int64  `json:"from,omitempty"` // Read: the first offset wanted; with a session whose place is not known, None
	Session string `json:"ses,omitempty"`  // Read: one run of reads, each of which goes on where the one before ended
	Group   string `json:"g,omitempty"`    // Commit, Fetch; Read: for the group, which is to miss nothing
	To      int64  `json:"to,omitempty"`   // Commit, Trim: the offset
	// Again says of a Commit that it may be sent several times, and so happen again while it is under way; of its return,
	// that it was, and so may happen again even later.
	Again bool   `json:"again,omitempty"`
	Form  string `json:"form,omitempty"` // how it is asked, for people

	// Of a return.

	Is    string `json:"is,omitempty"`
	Code  string `json:"code,omitempty"`  // why not
	Epoch uint32 `json:"e,omitempty"`     // of the broker that answered; 0: it did not say
	At    int64  `json:"at,omitempty"`    // Append: offset of the first record; Fetch: the offset, or None; a condition that failed: what is there
	By    int64  `json:"by,omitempty"`    // Fetch: the operation that committed it, as its metadata says
	Start int64  `json:"start,omitempty"` // Read, Trim: the first offset that is there
	End   int64  `json:"end,omitempty"`   // Read: the next offset to be written; 0: not said
	Got   []Run  `json:"got,omitempty"`   // Read: the records, by offset
	Cut   bool   `json:"cut,omitempty"`   // Read: the answer broke off, so what is missing is no fault
	Bad   string `json:"bad,omitempty"`   // Read: what came and is no record that anybody sent

	// Of a note: what was done to the brokers, or to whom they talk.

	Note string `json:"note,omitempty"`
	Lane string `json:"lane,omitempty"` // to whom
}

// Run is N records of one client, with sequences and offsets that follow one another: [offset, client, seq, n].
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
