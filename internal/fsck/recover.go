package fsck

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/internal/objstore"
	"github.com/sebbroker/seb/record"
)

// RecoverOptions say how to recover. Store and Accept, or Store and Seen, must be set.
type RecoverOptions struct {
	Store objstore.Store
	Shard uint32
	// Accept is the position of the slot that is lost or unreadable or, if a broker has continued without it, of the first object
	// on the branch that was left; nil accepts no loss.
	Accept *state.Position
	// Seen is the last position that a data folder knows of this bucket; nil if there is none. With OlderCopy it is accepted
	// that the bucket holds less.
	Seen      *core.Seen
	OlderCopy bool
}

// Recovery is what a recovery did.
type Recovery struct {
	Meta   bool            // the cluster's object was missing, and was put back; nothing else was done if Epoch is 0
	Level  uint32          // the format level of the bucket from now on
	At     state.Position  // where the log was cut
	Branch *state.Position // of the first object on a branch that brokers had left before; nil if there is none
	Epoch  uint32          // in which it continues
	Lost   []Records       // offsets that were given out on the lost branch and hold no records from now on
	Slots  int             // commit objects on the lost branch that are left in the bucket
	Topics int             // topics that were created on the lost branch
	Fenced []string        // names of the SEALs that end the lost branch
}

var (
	// ErrNothingLost says that there is nothing to recover.
	ErrNothingLost = errors.New("nothing to recover: the log is whole")
	// ErrOtherLoss says that the accepted position is not where the log is cut.
	ErrOtherLoss = errors.New("that is not where the log is cut")
)

// unreadableSpan is how many offsets of each partition an object that is lost, or cannot be read, is taken to have given out:
// more than fit into one by far.
const unreadableSpan = 1 << 24

// unknownMax bounds how many missing objects count: a long branch has had most of its slots collected, and 2^40 offsets are more
// than a partition gets in years.
const unknownMax = 1 << 16

// Recover records in the log that committed objects are lost, so that brokers lead again. The decision is one object, a SEAL
// in the place of the first lost slot (rule R14): it names an epoch above every epoch that any object or the data folder
// names, and gives each partition a next offset above every offset that they name. Before it is put the lost branch is
// fenced, so that a broker that still leads there stops. Nothing is deleted.
//
// Where a broker has continued without the slot, and its epochs have overtaken those of the branch that it left, no slot is
// missing at the end of the log. The decision is then put there.
//
// The cluster's object is put back if it is missing, which needs no decision.
//
// Errors: ErrNoLog, ErrNothingLost, ErrOtherLoss, state.ErrNewer, and objstore's.
func Recover(ctx context.Context, o RecoverOptions) (*Recovery, error) {
	c := newChecker(Options{Store: o.Store, Shard: o.Shard})
	defer c.readers.Wait()
	if err := c.readMeta(ctx); err != nil {
		return nil, err
	}
	r := &recovery{checker: c, o: o, next: map[partition]int64{}}
	if err := r.meta(ctx); err != nil {
		return nil, err
	}
	if err := r.walk(ctx); err != nil {
		return nil, err
	}
	return r.run(ctx)
}

// meta puts the cluster's object back: what it holds is in the log, too.
func (r *recovery) meta(ctx context.Context) error {
	switch {
	case r.badMeta != nil:
		return fmt.Errorf("%s: %w: delete it, and run this again", core.MetaKey, r.badMeta)
	case r.noMeta:
		b := core.EncodeMeta(r.cluster)
		if err := patiently(ctx, func() error { return r.o.Store.Put(ctx, core.MetaKey, objstore.NewBody(b)) }); err != nil {
			return err
		}
		r.out.Meta = true
	}
	return nil
}

const (
	// restoreEpochs and restoreSpan are how many epochs, and offsets of each partition, the log is taken to have gone on after a
	// backup: nothing that is left tells. Clients refuse an epoch that is not above those that they have seen.
	restoreEpochs = 1 << 16
	restoreSpan   = math.MaxUint32 // one range without an object in each partition
)

// continueCopy ends the epoch in which a copy was made, at the copy's position, and stores the state behind that: a copy
// continues in an epoch of its own, and the second snapshot is what an fsck expects where slots were collected. lossy says that
// the log went on after the copy was made: then the SEAL is a decision of rule R14, above all that anyone can have seen. It may
// be called again after an interruption.
func continueCopy(ctx context.Context, s objstore.Store, at *state.State, lossy bool) (*Recovery, error) {
	c := newChecker(Options{Store: s, Shard: at.Shard})
	c.cluster = at.Cluster
	r := &recovery{checker: c, o: RecoverOptions{Store: s, Shard: at.Shard}, next: map[partition]int64{}, lastEpoch: at.Pos.Epoch}
	if lossy {
		r.lastEpoch, r.span = at.Pos.Epoch+restoreEpochs, restoreSpan
	}
	if err := r.walk(ctx); err != nil {
		return nil, err
	}
	r.out.At, r.out.Level, r.out.Epoch = at.Pos, r.st.Level, r.st.Pos.Epoch
	switch {
	case r.st.Pos == state.Position{Epoch: r.lastEpoch + 1}: // an earlier call has put the SEAL
		return &r.out, r.putSnapshot(ctx)
	case r.st.Pos != at.Pos || !r.cut.missing():
		return nil, fmt.Errorf("%w: the copy ends at epoch %d slot %d, not %d:%d", ErrDamaged, r.st.Pos.Epoch, r.st.Pos.Slot, at.Pos.Epoch, at.Pos.Slot)
	case lossy:
		return &r.out, r.seal(ctx)
	}
	h := r.sealHead()
	return &r.out, r.putSeal(ctx, &h, []state.Record{{Kind: state.LeaderHint}})
}

type partition struct {
	topic  record.ID
	number uint32
}

// recovery is one call of Recover.
type recovery struct {
	*checker
	o         RecoverOptions
	out       Recovery
	cut       *object         // the slot at the end of the walk: missing or corrupt
	lastEpoch uint32          // the highest that anything names
	beyond    []slotName      // on the lost branch
	first     *state.Position // on a branch that brokers have left before
	proof     bool            // something shows that the log went on behind the cut (rule R13)
	data      bool            // the slot at the cut held data: a later slot of its epoch saw it
	damaged   int             // objects of the lost branch that cannot be read
	next      map[partition]int64
	topics    map[record.ID]bool // created on the lost branch
	span      int64              // offsets of each partition that nothing names and that may have been given out all the same
}

// walk goes to the end of the log as a candidate does: from the newest snapshot that can be read.
func (r *recovery) walk(ctx context.Context) error {
	if err := r.listSnapshots(ctx); err != nil {
		return err
	}
	r.st = state.Genesis(r.cluster, r.o.Shard)
	for i := len(r.snaps) - 1; i >= 0; i-- {
		st, _, err := r.loadSnapshot(ctx, r.snaps[i])
		if err == nil && st.Cluster == r.cluster && st.Pos == r.snaps[i].pos && st.Nonce == r.snaps[i].nonce {
			r.st = st
			break
		}
		if err != nil && !errors.Is(err, state.ErrSnapshot) {
			return err
		}
		r.lastEpoch = max(r.lastEpoch, r.snaps[i].pos.Epoch)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); r.readers.Wait() }()
	a := &ahead{c: r.checker}
	for {
		if at := r.st.Pos; a.epoch != at.Epoch || a.nonce != r.st.Nonce {
			a.restart(at, r.st.Nonce)
		}
		o := a.get(ctx, r.st.Pos.Slot)
		if err := o.fatal(); err != nil {
			return err
		}
		if o.err != nil {
			r.cut = o
			return nil
		}
		if err := r.st.Apply(&o.head, o.recs, o.index); err != nil {
			o.err = fmt.Errorf("%w: %w", record.ErrCorrupt, err)
			r.cut = o
			return nil
		}
	}
}

func (r *recovery) run(ctx context.Context) (*Recovery, error) {
	at := r.st.Pos
	r.out.At = at
	r.lastEpoch = max(r.lastEpoch, at.Epoch)
	if err := r.survey(ctx); err != nil {
		return nil, err
	}
	older := r.o.Seen != nil && r.o.Seen.Beyond(r.st)
	lost := r.proof || !r.cut.missing()
	want := at
	if !lost && r.first != nil {
		want = *r.first
	}
	switch {
	case older && !r.o.OlderCopy:
		return nil, fmt.Errorf("%w: the data folder knows epoch %d slot %d, and the bucket ends at %d:%d: add --accept-older-copy",
			ErrOtherLoss, r.o.Seen.Epoch, r.o.Seen.Slot, at.Epoch, at.Slot)
	case !older && !lost && r.first == nil && r.out.Meta:
		return &r.out, nil
	case !older && !lost && r.first == nil:
		return nil, fmt.Errorf("%w up to epoch %d slot %d", ErrNothingLost, at.Epoch, at.Slot)
	case r.o.Accept != nil && *r.o.Accept != want:
		return nil, fmt.Errorf("%w: it is epoch %d slot %d, given was %d:%d", ErrOtherLoss, want.Epoch, want.Slot, r.o.Accept.Epoch, r.o.Accept.Slot)
	case r.o.Accept == nil && !r.o.OlderCopy:
		return nil, fmt.Errorf("%w: run with --accept-loss %d:%d", ErrOtherLoss, want.Epoch, want.Slot)
	}
	if err := r.fence(ctx); err != nil {
		return nil, err
	}
	if err := r.survey(ctx); err != nil { // with what a leader has stored until it was fenced
		return nil, err
	}
	if older {
		r.lastEpoch = max(r.lastEpoch, r.o.Seen.Epoch)
	}
	if err := r.seal(ctx); err != nil {
		return nil, err
	}
	return &r.out, nil
}

// fence puts a SEAL at the end of every epoch behind the cut, so that a broker that leads there stops.
func (r *recovery) fence(ctx context.Context) error {
	type epoch struct {
		number uint32
		nonce  record.ID
	}
	ends := map[epoch]uint64{} // the slot behind the last
	for _, n := range r.beyond {
		e := epoch{n.epoch, n.nonce}
		ends[e] = max(ends[e], n.slot+1)
		o := r.readObject(ctx, state.SlotKey(r.o.Shard, n.epoch, n.nonce, n.slot))
		if o.err == nil && o.head.Kind == record.KindSeal {
			next := epoch{o.head.NextEpoch, o.head.NextNonce}
			ends[next] = max(ends[next], 0) // it may be led, without a slot so far
		}
	}
	order := make([]epoch, 0, len(ends))
	for e := range ends {
		order = append(order, e)
	}
	slices.SortFunc(order, func(a, b epoch) int { return int(int64(a.number) - int64(b.number)) })
	for _, e := range order {
		for slot := ends[e]; ; slot++ {
			h := record.Head{
				Kind: record.KindSeal, Flags: record.FlagAhead, Cluster: r.cluster, Shard: r.o.Shard,
				Epoch: e.number, Nonce: e.nonce, Slot: slot, NextEpoch: e.number + 1, NextNonce: record.NewID(),
			}
			key := state.SlotKey(r.o.Shard, e.number, e.nonce, slot)
			done, err := r.put(ctx, key, &h, nil)
			if err != nil {
				return err
			}
			if done {
				r.out.Fenced = append(r.out.Fenced, key)
				break
			}
		}
	}
	return nil
}

// put stores a SEAL under a free name, and says whether it did.
func (r *recovery) put(ctx context.Context, key string, h *record.Head, recs []state.Record) (bool, error) {
	body, err := record.EncodeObject(h, state.EncodeRecords(nil, recs), nil, nil)
	if err != nil {
		return false, err
	}
	err = patiently(ctx, func() error { return r.o.Store.Put(ctx, key, objstore.NewBody(body)) })
	if errors.Is(err, objstore.ErrExists) {
		o := r.readObject(ctx, key) // perhaps an attempt of ours that had no answer
		return o.err == nil && o.head.Kind == record.KindSeal && o.head.NextNonce == h.NextNonce, o.fatal()
	}
	return err == nil, err
}

// unknown counts the objects behind the cut, and in it, that were stored and whose offsets nothing names: those that cannot
// be read, and those that are missing below others.
func (r *recovery) unknown() (n int64) {
	at := r.st.Pos
	slots := map[record.ID]map[uint64]bool{}
	ends := map[record.ID]uint64{}
	for _, name := range r.beyond {
		if slots[name.nonce] == nil {
			slots[name.nonce] = map[uint64]bool{}
		}
		slots[name.nonce][name.slot] = true
		ends[name.nonce] = max(ends[name.nonce], name.slot)
	}
	for nonce, there := range slots { //tidy:unordered a sum
		first := uint64(0)
		if nonce == r.st.Nonce {
			first = at.Slot + 1
		} else if i := slices.IndexFunc(r.st.Epochs, func(e state.Epoch) bool { return e.Nonce == nonce }); i >= 0 {
			first = r.st.Epochs[i].Seal + 1 // of a leader that the lost SEAL had deposed
		}
		n += int64(ends[nonce]+1-first) - int64(len(there))
	}
	n = min(n, unknownMax)
	if r.data || len(r.beyond) == 0 && !r.cut.missing() {
		n++ // the slot at the cut held data, or may have; else it held the SEAL of its epoch
	}
	return n + int64(r.damaged)
}

// seal puts the decision.
func (r *recovery) seal(ctx context.Context) error {
	loss := &state.Loss{LastEpoch: r.lastEpoch}
	unknown := r.unknown()
	for _, t := range r.st.Topics() {
		for i, p := range t.Partitions.All() {
			next := max(p.Next, r.next[partition{t.ID, uint32(i)}])
			if r.o.Seen != nil && r.o.OlderCopy {
				next = max(next, r.o.Seen.Highest)
			}
			next += unknown*unreadableSpan + r.span
			if next > p.Next {
				loss.Next = append(loss.Next, state.LostOffsets{Topic: t.ID, Partition: uint32(i), Next: next})
				r.out.Lost = append(r.out.Lost, Records{Topic: t.Name, Partition: i, From: p.Next, To: next})
			}
		}
	}
	var recs []state.Record
	if r.st.Level < state.LevelRecovery {
		recs = append(recs, state.RaiseTo(state.LevelRecovery))
	}
	recs = append(recs, state.Record{Kind: state.LossAccepted, Loss: loss}, state.Record{Kind: state.LeaderHint})
	h := r.sealHead()
	h.Flags = record.FlagRecovery
	r.out.Branch = r.first
	r.out.Slots, r.out.Topics, r.out.Epoch = len(r.beyond), len(r.topics), h.NextEpoch
	r.out.Level = max(r.st.Level, state.LevelRecovery)
	return r.putSeal(ctx, &h, recs)
}

// sealHead is the head of a SEAL at the end of the walk.
func (r *recovery) sealHead() record.Head {
	at := r.st.Pos
	return record.Head{
		Kind: record.KindSeal, Time: r.st.AppendTime, Cluster: r.cluster, Shard: r.o.Shard,
		Epoch: at.Epoch, Nonce: r.st.Nonce, Slot: at.Slot, Low: at.Slot, PrevCRC: r.st.PrevCRC,
		NextEpoch: r.lastEpoch + 1, NextNonce: record.NewID(),
	}
}

// putSeal puts the SEAL at the end of the walk, and a snapshot of the state behind it.
func (r *recovery) putSeal(ctx context.Context, h *record.Head, recs []state.Record) error {
	key := r.cut.key
	if !r.cut.missing() { // the name is taken, by unreadable bytes: nothing is deleted
		key = state.RecoveryKey(r.o.Shard, h.Epoch, h.Nonce, h.Slot)
	}
	done, err := r.put(ctx, key, h, recs)
	if err != nil {
		return err
	}
	if !done {
		return fmt.Errorf("%w: %s was written meanwhile: run it again", ErrActive, key)
	}
	// From now on every start begins here: at no snapshot of a lost branch, whatever comes back of it.
	if err := r.st.Apply(h, recs, nil); err != nil {
		return err
	}
	return r.putSnapshot(ctx)
}

func (r *recovery) putSnapshot(ctx context.Context) error {
	snap := state.EncodeSnapshot(r.st)
	key := state.SnapKey(r.o.Shard, r.st.Pos, r.st.Nonce)
	err := patiently(ctx, func() error { return r.o.Store.Put(ctx, key, objstore.NewBody(snap)) })
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return fmt.Errorf("the log continues, and its snapshot was not stored: %w", err)
	}
	return nil
}
