package log_test

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// auditOf returns an audit record with a value.
func auditOf(t testing.TB, id record.ID, value string) *log.Append {
	a := batch(t, id, 0, value)
	return &log.Append{Head: a.Head, Data: a.Data}
}

func createOp(name string) core.Op {
	return core.Op{Record: state.Record{Kind: state.TopicCreate, Topic: record.NewID(), Name: name, Partitions: 1}}
}

// TestAuditRecordsShareTheSlotOfTheirChange waits for one object with changes of both kinds, some of
// which are refused.
func TestAuditRecordsShareTheSlotOfTheirChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := newHooked(objstore.NewMemory())
		o := options(store)
		o.Batch.Wait = time.Second
		l := open(t, o)
		id, audit := topic(t, l, "a", 1), topic(t, l, "audit", 1)
		missing := record.NewID()
		before := store.requests()
		audited := func(a log.Append, topic record.ID, value string) *log.Ticket {
			a.Audit = auditOf(t, topic, value)
			return l.Submit([]log.Append{a})
		}
		wrong := batch(t, id, 0, "x")
		wrong.Head.Expected = 7
		tickets := []*log.Ticket{
			audited(batch(t, id, 0, "a"), audit, "append a"),
			l.ProposeAudited(createOp("u"), auditOf(t, audit, "create u")),
			audited(wrong, audit, "append x"),
			l.Submit([]log.Append{batch(t, id, 0, "b")}),
			l.ProposeAudited(createOp("a"), auditOf(t, audit, "create a")),
			audited(batch(t, id, 0, "c"), missing, "append c"),
			l.ProposeAudited(createOp("v"), auditOf(t, missing, "create v")),
			audited(batch(t, id, 0, "d"), audit, "append d"),
		}
		for i, want := range []error{nil, nil, state.ErrOffsetMismatch, nil, state.ErrTopicExists, state.ErrNotAudited, state.ErrNotAudited, nil} {
			r := wait(t, tickets[i])
			check.ErrorIsf(t, r[0].Err(), want, "member %d", i)
		}
		check.Equalf(t, store.requests()-before, 1, "requests")
		if got := contents(t, l, store, id, 0); fmt.Sprint(got) != "[a b d]" {
			t.Errorf("topic has %v", got)
		}
		if got := contents(t, l, store, audit, 0); fmt.Sprint(got) != "[create u append a append d]" {
			t.Errorf("audit topic has %q", got)
		}
		l.Kill()
	})
}

// TestRefusedChangesLeaveNoAuditRecord rejects a whole proposal, and a closed log its members.
func TestRefusedChangesLeaveNoAuditRecord(t *testing.T) {
	store := objstore.NewMemory()
	l := open(t, options(store))
	audit := topic(t, l, "audit", 1)
	r := wait(t, l.ProposeAudited(createOp("audit"), auditOf(t, audit, "create audit")))
	must.ErrorIs(t, r[0].Err(), state.ErrTopicExists)
	r = wait(t, l.ProposeAudited(createOp("b"), auditOf(t, audit, "create b")))
	must.NoError(t, r[0].Err())
	l.Kill()
	r = wait(t, l.ProposeAudited(createOp("c"), auditOf(t, audit, "create c")))
	must.ErrorIs(t, r[0].Err(), log.ErrClosed)
	if got := contents(t, l, store, audit, 0); fmt.Sprint(got) != "[create b]" {
		t.Errorf("audit topic has %q", got)
	}
}
