package atomics_test

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/test/must"
)

// job is a message of a transaction to the queue jobs.
type job struct {
	of     *txn
	value  string
	leases int
}

// work leases and finishes jobs of the newest broker.
func (l *txnLedger) work(ctx context.Context) {
	for ctx.Err() == nil {
		var out api.QueueMessages
		if !l.newest(ctx, http.MethodPost, "/queues/jobs/lease", `{"max":100,"wait":"100ms"}`, &out) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		var said api.Settlements
		for i := range out.Messages {
			m := &out.Messages[i]
			l.worked(*m.Value, m.ID)
			said.Messages = append(said.Messages, api.Settlement{Receipt: m.Receipt, Do: "done"})
		}
		if len(said.Messages) > 0 {
			l.newest(ctx, http.MethodPost, "/queues/jobs/settle", string(must.Get(json.Marshal(said))(l.c.t)), new(json.RawMessage))
		}
	}
}

// worked notes that a worker has got a job.
func (l *txnLedger) worked(value, id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	j := l.jobs[value]
	switch {
	case j == nil:
		l.c.t.Errorf("message %s has %q, which was not sent", id, value)
		return
	case j.of.is == aborted:
		l.c.t.Errorf("message %s has %q, which is aborted", id, value)
	}
	j.leases++
	l.counts["leases of jobs"]++
}

// judgeJobs checks that workers got all jobs of the transactions that are there, and no others.
func (l *txnLedger) judgeJobs() {
	for _, j := range l.jobs {
		if there := j.of.values[0].at[byHTTP] != 0; there != (j.leases > 0) {
			l.c.t.Errorf("job %q was given %d times, and the records of its transaction are there: %v", j.value, j.leases, there)
		}
	}
}
