package fsck

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/sebbroker/seb/internal/engine/base/sorting"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/record"
)

// RecoverOptions configures Recover. Store and Accept, or Store and Seen, must be set.
type RecoverOptions struct {
	Store objstore.Store
	Shard uint32
	// Accept is the position of the lost or unreadable slot. If a broker has continued without that
	// slot, Accept is the position of the first object on the lost branch. nil accepts no loss.
	Accept *state.Position
	// Seen are the positions that a data directory knows. OlderCopy accepts that the bucket holds less
	// (core.Older).
	Seen      []core.Seen
	OlderCopy bool
}

// Recovery is the result of a recovery.
type Recovery struct {
	Meta   bool            // meta/cluster was missing and is restored; if Epoch is 0, nothing else changed
	Level  uint32          // the new format level of the bucket
	At     state.Position  // the end of the log that is kept
	Branch *state.Position // of the first object on an earlier lost branch; nil if there is none
	Epoch  uint32          // the epoch in which the log continues
	Lost   []Records       // offsets that the lost branch assigned; they hold no records
	Slots  int             // commit objects of the lost branch that remain in the bucket
	Topics int             // topics that were created on the lost branch
	Fenced []string        // names of the SEALs that end the lost branch
}

var (
	// ErrNothingLost reports that the log needs no recovery.
	ErrNothingLost = errors.New("nothing to recover: the log is whole")
	// ErrOtherLoss reports that the accepted position is not the end of the intact log.
	ErrOtherLoss = errors.New("that is not where the log is cut")
)

// unreadableSpan is the number of offsets of each partition that recovery reserves for a lost or
// unreadable object. It is far more than one object can hold.
const unreadableSpan = 1 << 24

// unknownMax bounds the number of missing objects that count. Most slots of a long branch are
// collected, and 2^40 offsets last a partition for years.
const unknownMax = 1 << 16

// Recover records in the log that committed objects are lost, so that a broker can lead again. The
// record is one object, a recovery SEAL in the first lost slot (rule R14). Its epoch is above every
// epoch that an object or the data directory names. It sets the next offset of each partition above
// every offset that they name. Recover fences the lost branch first, so that a broker that still
// leads there stops. Recover deletes nothing.
//
// If a broker has continued without the slot, and its epochs are above those of the lost branch, no
// slot is missing. The recovery SEAL then takes the slot at the end of the log.
//
// Recover also restores a missing meta/cluster. That needs no accepted loss.
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

// meta restores a missing meta/cluster. The log holds its content too.
func (r *recovery) meta(ctx context.Context) error {
	switch {
	case r.badMeta != nil:
		return fmt.Errorf("%s: %w: delete it, and run this again", core.MetaKey, r.badMeta)
	case r.noMeta:
		b := core.EncodeMeta(r.cluster)
		if err := objstore.Retry(ctx, retryPause, func() error { return r.o.Store.Put(ctx, core.MetaKey, objstore.NewBody(b)) }); err != nil {
			return err
		}
		r.out.Meta = true
	}
	return nil
}

const (
	// restoreEpochs and restoreSpan are the numbers of epochs, and of offsets of each partition,
	// that a restore skips. The log may have used them after the backup, and no object tells.
	// Clients refuse an epoch that is not above those that they have seen.
	restoreEpochs = core.RestoredEpochs
	restoreSpan   = math.MaxUint32 // one range without an object in each partition
)

// continueCopy seals the epoch of a copy at the copy's position and stores a snapshot of the state
// after the SEAL. The copy thus continues in its own epoch, and fsck finds the second snapshot that
// it expects where slots were collected. lossy reports that the log may have continued after the
// copy. The SEAL is then a recovery SEAL (rule R14), above every epoch and offset that a client can
// have seen. The caller may repeat an interrupted call.
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
	lastEpoch uint32          // the highest that an object or the caller names
	highest   int64           // the highest next offset that the caller names
	beyond    []slotName      // slots on the lost branch
	first     *state.Position // first object of an earlier lost branch
	proof     bool            // an object shows that the log continued after the cut (rule R13)
	data      bool            // the slot at the cut held data, because a later slot of its epoch refers to it
	damaged   int             // objects of the lost branch that cannot be read
	next      map[partition]int64
	topics    map[record.ID]bool // created on the lost branch
	span      int64              // offsets of each partition that no object names and that may be assigned
}

// walk replays the log from the newest readable snapshot to its end, like a candidate.
func (r *recovery) walk(ctx context.Context) error {
	if err := errors.Join(r.listRecoveries(ctx), r.listSnapshots(ctx)); err != nil {
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
	older := core.Older(r.o.Seen, r.st)
	if older != nil && older.Cluster != r.cluster {
		older = nil // of another log that the address held
	}
	lost := r.proof || !r.cut.missing()
	want := at
	if !lost && r.first != nil {
		want = *r.first
	}
	switch {
	case older != nil && !r.o.OlderCopy:
		return nil, fmt.Errorf("%w: the data folder knows epoch %d slot %d, and the bucket ends at %d:%d: add --accept-older-copy",
			ErrOtherLoss, older.Epoch, older.Slot, at.Epoch, at.Slot)
	case older == nil && !lost && r.first == nil && r.out.Meta:
		return &r.out, nil
	case older == nil && !lost && r.first == nil:
		return nil, fmt.Errorf("%w up to epoch %d slot %d", ErrNothingLost, at.Epoch, at.Slot)
	case r.o.Accept != nil && *r.o.Accept != want:
		return nil, fmt.Errorf("%w: it is epoch %d slot %d, given was %d:%d", ErrOtherLoss, want.Epoch, want.Slot, r.o.Accept.Epoch, r.o.Accept.Slot)
	case r.o.Accept == nil && !r.o.OlderCopy:
		return nil, fmt.Errorf("%w: run with --accept-loss %d:%d", ErrOtherLoss, want.Epoch, want.Slot)
	}
	if err := r.fence(ctx); err != nil {
		return nil, err
	}
	if err := r.survey(ctx); err != nil { // includes the objects that a leader stored before it was fenced
		return nil, err
	}
	for i := range r.o.Seen {
		if s := &r.o.Seen[i]; older != nil && s.Cluster == r.cluster && s.Concerns(r.st) {
			r.lastEpoch, r.highest = max(r.lastEpoch, s.Epoch), max(r.highest, s.Highest)
		}
	}
	if err := r.seal(ctx); err != nil {
		return nil, err
	}
	return &r.out, nil
}

// fence puts a SEAL at the end of every epoch after the cut, so that a broker that leads it stops.
func (r *recovery) fence(ctx context.Context) error {
	type epoch struct {
		number uint32
		nonce  record.ID
	}
	ends := map[epoch]uint64{} // the slot after the last
	for _, n := range r.beyond {
		e := epoch{n.epoch, n.nonce}
		ends[e] = max(ends[e], n.slot+1)
		o := r.readObject(ctx, state.SlotKey(r.o.Shard, n.epoch, n.nonce, n.slot))
		if o.err == nil && o.head.Kind == record.KindSeal {
			next := epoch{o.head.NextEpoch, o.head.NextNonce}
			ends[next] = max(ends[next], 0) // a leader may exist that has no slot yet
		}
	}
	order := make([]epoch, 0, len(ends))
	for e := range ends {
		order = append(order, e)
	}
	sorting.Sort(order, func(a, b epoch) int { return int(int64(a.number) - int64(b.number)) })
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

// put stores a SEAL if its name is free, and reports whether it did.
func (r *recovery) put(ctx context.Context, key string, h *record.Head, recs []state.Record) (bool, error) {
	body, err := record.EncodeObject(h, state.EncodeRecords(nil, recs), nil, nil)
	if err != nil {
		return false, err
	}
	err = objstore.Retry(ctx, retryPause, func() error { return r.o.Store.Put(ctx, key, objstore.NewBody(body)) })
	if errors.Is(err, objstore.ErrExists) {
		o := r.readObject(ctx, key) // may be an earlier attempt of this call that got no response
		return o.err == nil && o.head.Kind == record.KindSeal && o.head.NextNonce == h.NextNonce, o.fatal()
	}
	return err == nil, err
}

// unknown counts the objects at and after the cut whose offsets are unknown: unreadable objects,
// and missing objects below existing ones.
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
			first = r.st.Epochs[i].Seal + 1 // of a leader that the lost SEAL fenced
		}
		n += int64(ends[nonce]+1-first) - int64(len(there))
	}
	n = min(n, unknownMax)
	if r.data || len(r.beyond) == 0 && !r.cut.missing() {
		n++ // the slot held data, or may have; otherwise it held the SEAL of its epoch
	}
	return n + int64(r.damaged)
}

// blockBytes is the alignment in journals. Small objects share a block, and together hold less than
// one object can.
const blockBytes = 4096

// unreadable is the number of blocks in damaged parts of journals. No name of an object there is known.
func (r *recovery) unreadable(ctx context.Context) (blocks int64, err error) {
	damages, err := r.damages(ctx, core.WALPrefix(r.o.Shard))
	for _, d := range damages {
		if d.Lost {
			blocks += (d.Bytes + blockBytes - 1) / blockBytes
		}
	}
	return min(blocks, unknownMax), err
}

// seal puts the recovery SEAL.
func (r *recovery) seal(ctx context.Context) error {
	loss := &state.Loss{LastEpoch: r.lastEpoch}
	unreadable, err := r.unreadable(ctx)
	if err != nil {
		return err
	}
	unknown := r.unknown() + unreadable
	for _, t := range r.st.Topics() {
		for i, p := range t.Partitions.All() {
			next := max(p.Next, r.next[partition{t.ID, uint32(i)}])
			next = max(next, r.highest)
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

// sealHead returns the head of a SEAL at the end of the walk.
func (r *recovery) sealHead() record.Head {
	at := r.st.Pos
	return record.Head{
		Kind: record.KindSeal, Time: r.st.AppendTime, Cluster: r.cluster, Shard: r.o.Shard,
		Epoch: at.Epoch, Nonce: r.st.Nonce, Slot: at.Slot, Low: at.Slot, PrevCRC: r.st.PrevCRC,
		NextEpoch: r.lastEpoch + 1, NextNonce: record.NewID(),
	}
}

// putSeal puts the SEAL at the end of the walk, and a snapshot of the state after it.
func (r *recovery) putSeal(ctx context.Context, h *record.Head, recs []state.Record) error {
	key := r.cut.key
	if !r.cut.missing() { // unreadable bytes have the name, and recovery deletes nothing
		key = state.RecoveryKey(r.o.Shard, h.Epoch, h.Nonce, h.Slot)
	}
	done, err := r.put(ctx, key, h, recs)
	if err != nil {
		return err
	}
	if !done {
		return fmt.Errorf("%w: %s was written meanwhile: run it again", ErrActive, key)
	}
	// Every later start reads this snapshot, even if a snapshot of a lost branch reappears.
	if err := r.st.Apply(h, recs, nil); err != nil {
		return err
	}
	return r.putSnapshot(ctx)
}

func (r *recovery) putSnapshot(ctx context.Context) error {
	snap := state.EncodeSnapshot(r.st)
	key := state.SnapKey(r.o.Shard, r.st.Pos, r.st.Nonce)
	err := objstore.Retry(ctx, retryPause, func() error { return r.o.Store.Put(ctx, key, objstore.NewBody(snap)) })
	if err != nil && !errors.Is(err, objstore.ErrExists) {
		return fmt.Errorf("the log continues, and its snapshot was not stored: %w", err)
	}
	return nil
}
