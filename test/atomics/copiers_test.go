package atomics_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/kversion"

	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// groupKind is how the members of a group take part in it. Each group copies all records to a topic of its own.
type groupKind int

const (
	dynamic groupKind = iota
	static            // with an instance ID; the next run replaces one that still works
	served            // of the consumer protocol (KIP-848); one member is static
	groupKinds
)

func (k groupKind) name() string { return [...]string{"dynamic", "static", "served"}[k] }

func (k groupKind) topic() string { return "copy-" + k.name() }

// kindOf returns the group that writes a topic.
func kindOf(topic string) (k groupKind, ok bool) {
	for ; k < groupKinds; k++ {
		if topic == k.topic() {
			return k, true
		}
	}
	return 0, false
}

// copier copies committed records, in transactions with the offsets of its group.
func (l *txnLedger) copier(ctx context.Context, seed uint64, group groupKind, kind int) {
	r := rand.New(rand.NewPCG(seed, uint64(100*(int(group)+1)+kind)))
	var replaced sync.WaitGroup
	defer replaced.Wait()
	for run := 0; ctx.Err() == nil; run++ {
		s := must.Get(kgo.NewGroupTransactSession(l.options(r, kind, group.options(kind, run)...)...))(l.c.t)
		for range 1 + r.IntN(100) {
			if !l.copy(ctx, s, group, r.IntN(12)) {
				break
			}
		}
		if group != static || r.IntN(2) == 0 {
			s.Close()
			continue
		}
		hows := []int{2 + r.IntN(10), 2 + r.IntN(10), 2 + r.IntN(10)}
		replaced.Go(func() {
			for _, how := range hows {
				if !l.copy(ctx, s, group, how) {
					break
				}
			}
			s.Close()
			l.count("replaced members")
		})
	}
}

// options are those of a run of a copier. The transactional ID of a static member does not fence its last run.
func (k groupKind) options(kind, run int) []kgo.Opt {
	id := fmt.Sprintf("copy-%s-%d", k.name(), kind)
	opts := []kgo.Opt{
		kgo.ConsumerGroup(k.name()), kgo.ConsumeTopics("a", "b"), kgo.SessionTimeout(6 * time.Second), kgo.RebalanceTimeout(2 * time.Second),
	}
	switch {
	case k == static:
		opts = append(opts, kgo.InstanceID(id))
		id = fmt.Sprint(id, "-", run%3)
	case k == served:
		opts = append(opts, kgo.ServerSideBalancer(), kgo.Balancers(kgo.StickyBalancer()))
		if kind%2 == 1 { // version 1 of transactions, with all versions of groups
			versions := kversion.V3_9_0()
			versions.SetMaxKeyVersion(int16(kmsg.ConsumerGroupHeartbeat), 1)
			opts = append(opts, kgo.MaxVersions(versions))
		} else if kind > 0 {
			opts = append(opts, kgo.InstanceID(id))
		}
	}
	return append(opts, kgo.TransactionalID(id))
}

// copy makes one transaction of a copier. It reports whether the session can go on.
func (l *txnLedger) copy(ctx context.Context, s *kgo.GroupTransactSession, group groupKind, how int) bool {
	call, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	if s.Begin() != nil {
		return false
	}
	poll, cancelPoll := context.WithTimeout(call, time.Second)
	defer cancelPoll()
	fetched := s.PollRecords(poll, 500)
	l.noteLosses(fetched)
	for _, x := range fetched.Records() {
		s.Produce(call, &kgo.Record{Topic: group.topic(), Partition: x.Partition, Value: x.Value}, nil)
	}
	if how == 0 && fetched.NumRecords() > 0 {
		l.count("copies without an end, " + group.name())
		return false
	}
	ok, err := s.End(call, how > 1)
	if ok && fetched.NumRecords() > 0 {
		l.count("committed copies, " + group.name())
	}
	return err == nil && ctx.Err() == nil
}

// noteLosses notes the places to which a client went back, because an epoch of the log ends there.
func (l *txnLedger) noteLosses(fetched kgo.Fetches) {
	fetched.EachError(func(_ string, _ int32, err error) {
		if loss, ok := errors.AsType[*kgo.ErrDataLoss](err); ok {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.losses = append(l.losses, loss)
		}
	})
}

// judgeLosses checks that clients went back over offsets without records only: markers and aborted batches of another
// epoch than that of the last record. franz-go takes that for a loss.
func (l *txnLedger) judgeLosses() {
	for _, loss := range l.losses {
		for value, v := range l.of {
			offsets := []int64{v.at[byHTTP] - 1}
			if v.topic != loss.Topic {
				offsets = nil
			}
			if k, ok := kindOf(loss.Topic); ok {
				offsets = append(offsets, v.copies[k][byHTTP]-1)
			}
			for _, o := range offsets {
				if v.partition == loss.Partition && o >= loss.ResetTo && o < loss.ConsumedTo {
					l.c.t.Errorf("%v: %q is at offset %d", loss, value, o)
				}
			}
		}
	}
	l.counts["ends of epochs"] = len(l.losses)
}

// judgeOffsets checks that a group has read all, and no more.
func (l *txnLedger) judgeOffsets(group string, after map[string]int64) {
	c := must.Get(kgo.NewClient(l.options(rand.New(rand.NewPCG(1, 1)), 0)...))(l.c.t)
	defer c.Close()
	var offsets kadm.OffsetResponses
	sebtest.Eventually(l.c.t, "the group answers", func() (ok bool) {
		var err error
		offsets, err = kadm.NewClient(c).FetchOffsets(l.c.t.Context(), group)
		return err == nil
	})
	for place, n := range after {
		o, _ := offsets.Lookup(place[:1], int32(place[2]-'0'))
		if o.At < n || o.At > l.stable[place] {
			l.c.t.Errorf("%s: group %s is at offset %d, its last record at %d, the last stable offset %d", place, group, o.At, n-1, l.stable[place])
		}
	}
}
