package fsck

import (
	"cmp"
	"context"
	"fmt"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
)

// lostBranch reports DATA or a pack that is not on the log. Only leaders write such objects, so the
// log once included their epoch: a SEAL or a slot was lost, and a broker continued without it. The
// first object of each epoch is reported as damage, the others as orphans.
func (c *checker) lostBranch(key string, size int64, n slotName) {
	if c.st.LossAccepted(n.epoch) {
		c.mu.Lock()
		c.accepted = append(c.accepted, objstore.Entry{Key: key, Size: size})
		c.mu.Unlock()
		c.note("accepted loss", key, "of a branch that a recovery has cut off: seb recover --discard removes it")
		return
	}
	c.mu.Lock()
	first := !c.branches[n.nonce]
	c.branches[n.nonce] = true
	c.strays = append(c.strays, key)
	c.mu.Unlock()
	if !first {
		c.orphan("lost branch", key, size, "of epoch %d, as reported", n.epoch)
		return
	}
	c.damage("lost branch", key, "epoch %d was led here, and the log does not come by: a part of the log was lost, and a broker "+
		"continued without it. What this branch holds was acknowledged; nothing of it is deleted", n.epoch)
}

// behind reports the records after the damage at which the log ends, from the indexes of the slots
// there. The records of a lost slot are included only if a later slot holds records of the same
// partition.
func (l *listing) behind(ctx context.Context) error {
	c := l.c
	var keys []string
	for _, e := range l.pending {
		if n, slot := parseSlot(c.o.Shard, e.Key); slot && !n.pos().Less(c.st.Pos) {
			keys = append(keys, e.Key)
		}
	}
	t, err := c.tell(ctx, keys)
	if err != nil {
		return err
	}
	f := Finding{Severity: Note, Kind: "lost records"}
	for _, topic := range c.st.Topics() {
		for i, p := range topic.Partitions.All() {
			if to := t.next[partition{topic.ID, uint32(i)}]; to > p.Next {
				f.Lost = append(f.Lost, Records{Topic: topic.Name, Partition: i, From: p.Next, To: to})
			}
		}
	}
	f.Text = fmt.Sprintf("behind epoch %d slot %d lie %d objects in %d epochs, which no broker reads; %d topics were created there. "+
		"Bring the lost object back, or accept the loss: seb recover --accept-loss %d:%d",
		c.st.Pos.Epoch, c.st.Pos.Slot, len(keys), len(t.epochs), t.created, c.st.Pos.Epoch, c.st.Pos.Slot)
	c.found(f)
	return nil
}

// branched reports the records on branches that brokers have left, and the command that accepts
// their loss.
func (c *checker) branched(ctx context.Context) error {
	if len(c.strays) == 0 || c.stopped {
		return nil // a recovery from the damage at the end covers the branch too
	}
	t, err := c.tell(ctx, c.strays)
	if err != nil {
		return err
	}
	var first, pack *state.Position
	for _, key := range c.strays {
		n, slot := parseSlot(c.o.Shard, key)
		least := &first
		if !slot {
			n, _ = parsePack(c.o.Shard, key)
			least = &pack
		}
		if at := n.pos(); *least == nil || at.Less(**least) {
			*least = &at
		}
	}
	first = cmp.Or(first, pack)
	f := Finding{Severity: Note, Kind: "lost records"}
	for _, topic := range c.st.Topics() {
		for i := range topic.Partitions.Len() {
			p := partition{topic.ID, uint32(i)}
			if to, there := t.next[p]; there {
				f.Lost = append(f.Lost, Records{Topic: topic.Name, Partition: i, From: t.first[p], To: to})
			}
		}
	}
	f.Text = fmt.Sprintf("on a branch that brokers have left lie %d objects in %d epochs, from epoch %d slot %d on, which no broker reads; "+
		"%d topics were created there. The log may have given out the same offsets again since. "+
		"Accept the loss, so that offsets continue above them: seb recover --accept-loss %d:%d",
		len(c.strays), len(t.epochs), first.Epoch, first.Slot, t.created, first.Epoch, first.Slot)
	c.found(f)
	return nil
}

// told sums up the indexes and state records of objects that are not on the log.
type told struct {
	epochs      map[uint32]bool
	first, next map[partition]int64 // offsets
	created     int                 // topics
}

// tell reads objects that are not on the log and sums them up.
func (c *checker) tell(ctx context.Context, keys []string) (*told, error) {
	t := &told{epochs: map[uint32]bool{}, first: map[partition]int64{}, next: map[partition]int64{}}
	for _, key := range keys {
		o := c.readObject(ctx, key)
		if err := o.fatal(); err != nil {
			return nil, err
		}
		if n, slot := parseSlot(c.o.Shard, key); slot {
			t.epochs[n.epoch] = true
		} else if n, pack := parsePack(c.o.Shard, key); pack {
			t.epochs[n.epoch] = true
		}
		for i := range o.index {
			x := &o.index[i]
			p := partition{x.Topic, x.Partition}
			if first, there := t.first[p]; !there || x.Base < first {
				t.first[p] = x.Base
			}
			t.next[p] = max(t.next[p], x.Base+int64(x.Span))
		}
		for i := range o.recs {
			if o.recs[i].Kind == state.TopicCreate {
				t.created++
			}
		}
	}
	return t, nil
}
