package fsck

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/cluster/link"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/views/snapshot"
	"github.com/sebbroker/seb/record"
)

// object is the decoded part of an object of the log that was read whole and verified, without its
// batches.
type object struct {
	key   string
	size  int64
	head  record.Head
	recs  []state.Record
	index []record.IndexEntry
	// err is objstore.ErrNotFound if the object is missing, and record.ErrCorrupt if its head,
	// state records or index are corrupt. Only key and size are then valid. Any other error ends
	// the run.
	err error
	// body is the error of corrupt or missing batches. A broker replays the object nevertheless.
	body error
}

func (o *object) missing() bool { return errors.Is(o.err, objstore.ErrNotFound) }

// fatal returns err unless it means that the object is missing or corrupt.
func (o *object) fatal() error {
	if o.err == nil || o.missing() || errors.Is(o.err, record.ErrCorrupt) {
		return nil
	}
	return o.err
}

// retryPause is the first pause between attempts of a request without a verdict.
const retryPause = 100 * time.Millisecond

// readObject reads and verifies a whole commit object. It may be called concurrently.
func (c *checker) readObject(ctx context.Context, key string) *object {
	o := &object{key: key}
	o.err = objstore.Retry(ctx, retryPause, func() error { return c.readOnce(ctx, o) })
	return o
}

// readSlot reads a commit object, or the SEAL that a recovery wrote for the same slot. The recovery
// decides, even if the object can be read again (rule R14).
func (c *checker) readSlot(ctx context.Context, key string) *object {
	if !c.recovered[key] {
		return c.readObject(ctx, key)
	}
	r := c.readObject(ctx, key+state.RecoverySuffix)
	if r.err == nil && (r.head.Kind != record.KindSeal || r.head.Flags&record.FlagRecovery == 0) {
		r.err = fmt.Errorf("%w: %s is not the seal of a recovery", record.ErrCorrupt, r.key)
	}
	return r
}

// listRecoveries finds the slots that a recovery decides.
func (c *checker) listRecoveries(ctx context.Context) error {
	c.recovered = map[string]bool{}
	return c.list(ctx, core.WALPrefix(c.o.Shard), "", func(e objstore.Entry) bool {
		if slot, is := strings.CutSuffix(e.Key, state.RecoverySuffix); is {
			c.recovered[slot] = true
		}
		return true
	})
}

func (c *checker) readOnce(ctx context.Context, o *object) error {
	got, err := c.get(ctx, o.key, objstore.Whole)
	if err != nil {
		return err
	}
	defer got.Body.Close()
	return c.decode(o, bufio.NewReaderSize(got.Body, bufferOf(got.Size)), got.Size)
}

// decode reads an object of the log and verifies it. It holds the start up to the batches, and a
// buffer for these. size is the size that the store reports, or -1.
func (c *checker) decode(o *object, from io.Reader, size int64) error {
	o.size = max(size, 0)
	var head [record.HeadSize]byte
	n, err := io.ReadFull(from, head[:])
	if err != nil && !ended(err) {
		return fmt.Errorf("read %s: %w", o.key, corrupt(err))
	}
	h, err := record.DecodeHead(head[:n])
	if err != nil {
		return err
	}
	var length error
	if size >= 0 && uint64(size) != h.ObjectLen {
		length = &record.CorruptError{What: objectLength, Want: int64(h.ObjectLen), Got: size}
	}
	_, _, _, meta, err := record.DecodeMeta(head[:]) // at most ObjectLen
	if err != nil {
		return err
	}
	meta = max(meta, record.HeadSize)
	c.memory.take(int64(meta) + bodyBuffer)
	defer c.memory.give(int64(meta) + bodyBuffer)
	b := make([]byte, meta)
	n = copy(b, head[:])
	m, err := io.ReadFull(from, b[n:])
	if err != nil && !ended(err) {
		return fmt.Errorf("read %s: %w", o.key, corrupt(err))
	}
	o.size = max(o.size, int64(n+m))
	if err := o.decodeMeta(b[:n+m]); err != nil {
		if length != nil && errors.Is(err, record.ErrCorrupt) {
			return length
		}
		return err
	}
	err = corrupt(record.VerifyBody(&o.head, o.index, from, make([]byte, bufferOf(int64(h.ObjectLen)))))
	switch {
	case err != nil && !errors.Is(err, record.ErrCorrupt):
		return fmt.Errorf("read %s: %w", o.key, err)
	case length != nil && (err == nil || o.size < int64(h.ObjectLen)):
		o.body = length
	default:
		o.size, o.body = int64(h.ObjectLen), err
	}
	return nil
}

// longer reports whether err, of batches, says that an object is longer than its head says. Its
// batches are whole then.
func longer(err error) bool {
	c, ok := errors.AsType[*record.CorruptError](err)
	return ok && c.What == objectLength && c.Got > c.Want
}

// objectLength is CorruptError.What of an object whose length is not the one that its head names.
const objectLength = "object length"

// bodyBuffer is the largest buffer with which an object is read or verified.
const bodyBuffer = 64 << 10

// bufferOf is the buffer for an object of a size, or of an unknown one if it is negative. A bucket may have
// many small objects.
func bufferOf(size int64) int {
	if size < 0 || size >= bodyBuffer {
		return bodyBuffer
	}
	return int(size) + 1
}

func ended(err error) bool { return err == io.EOF || err == io.ErrUnexpectedEOF }

// decodeMeta verifies the start of an object, up to the end of the index, and keeps copies of the
// head, the state records and the index.
func (o *object) decodeMeta(b []byte) error {
	h, encoded, index, need, err := record.DecodeMeta(b)
	if err == nil && need > 0 {
		err = &record.CorruptError{What: "object is cut off", Want: int64(need), Got: int64(len(b))}
	}
	if err != nil {
		return err
	}
	o.recs, err = state.DecodeRecords(encoded)
	if errors.Is(err, state.ErrNewer) {
		return err
	}
	if err != nil {
		return &record.CorruptError{What: "state records", Err: err}
	}
	o.head, o.index = h, index
	return nil
}

// readHead reads the head of a commit object. missing reports that the object does not exist.
func (c *checker) readHead(ctx context.Context, key string) (h record.Head, missing bool, err error) {
	err = objstore.Retry(ctx, retryPause, func() error {
		b, _, err := c.readUpTo(ctx, key, record.HeadSize)
		if err == nil {
			h, err = record.DecodeHead(b)
		}
		return err
	})
	return h, errors.Is(err, objstore.ErrNotFound), err
}

// readUpTo reads at most limit bytes from the beginning of an object. size is the size of the whole
// object, or -1 if the store does not report it.
func (c *checker) readUpTo(ctx context.Context, key string, limit int64) (b []byte, size int64, err error) {
	got, err := c.get(ctx, key, objstore.Range{Length: limit})
	if err != nil {
		return nil, 0, err
	}
	defer got.Body.Close()
	b, err = io.ReadAll(io.LimitReader(got.Body, limit))
	if err != nil {
		return nil, 0, fmt.Errorf("read %s: %w", key, corrupt(err))
	}
	return b, got.Size, nil
}

// get is Get of the store, with the error of corrupt.
func (c *checker) get(ctx context.Context, key string, r objstore.Range) (objstore.Object, error) {
	o, err := c.o.Store.Get(ctx, key, r)
	return o, corrupt(err)
}

// corrupt adds record.ErrCorrupt to the errors of an object that may be in a damaged part of the
// bucket, or that has lost bytes. They do not end a run.
func corrupt(err error) error {
	if errors.Is(err, objstore.ErrDamaged) || errors.Is(err, objstore.ErrOutOfRange) {
		return fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	return err
}

// list calls f with every object whose key begins with prefix and sorts behind after, until f
// returns false.
func (c *checker) list(ctx context.Context, prefix, after string, f func(objstore.Entry) bool) error {
	o := objstore.ListOptions{Prefix: prefix, After: after}
	for {
		var entries []objstore.Entry
		var more bool
		err := objstore.Retry(ctx, retryPause, func() (err error) {
			entries, more, err = c.o.Store.List(ctx, o)
			return err
		})
		if err != nil {
			return fmt.Errorf("list %q: %w", prefix, err)
		}
		for _, e := range entries {
			if !f(e) {
				return nil
			}
		}
		if !more || len(entries) == 0 {
			return nil
		}
		o.After = entries[len(entries)-1].Key
	}
}

// gate is a semaphore that bounds the bytes held at a time. A request above the limit takes the
// whole limit.
type gate struct {
	mu    sync.Mutex // guards free
	cond  *sync.Cond
	free  int64
	whole int64
}

func newGate(bytes int64) *gate {
	g := &gate{free: bytes, whole: bytes}
	g.cond = sync.NewCond(&g.mu)
	return g
}

func (g *gate) take(n int64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for n = min(n, g.whole); g.free < n; {
		g.cond.Wait()
	}
	g.free -= n
}

func (g *gate) give(n int64) {
	g.mu.Lock()
	g.free += min(n, g.whole)
	g.mu.Unlock()
	g.cond.Broadcast()
}

// ahead reads the slots of an epoch in order, with read-ahead.
type ahead struct {
	c      *checker
	epoch  uint32
	nonce  record.ID
	issued uint64
	window uint64
	got    map[uint64]chan *object
}

// restart continues at another position, with a window of one slot.
func (a *ahead) restart(at state.Position, nonce record.ID) {
	a.epoch, a.nonce, a.issued, a.window, a.got = at.Epoch, nonce, at.Slot, 1, map[uint64]chan *object{}
}

// get returns the object in the slot after the last returned one. Cancelling ctx ends the other
// reads.
func (a *ahead) get(ctx context.Context, slot uint64) *object {
	for ; a.issued < slot+a.window; a.issued++ {
		key, answer := state.SlotKey(a.c.o.Shard, a.epoch, a.nonce, a.issued), make(chan *object, 1)
		a.got[a.issued] = answer
		a.c.readers.Go(func() { answer <- a.c.readSlot(ctx, key) })
	}
	a.window = min(2*a.window, uint64(a.c.o.Readers))
	o := <-a.got[slot]
	delete(a.got, slot)
	return o
}

// contents is the set of object names that a copy at a state holds.
type contents struct {
	shard  uint32
	st     *state.State
	epochs map[record.ID]bool // epochs that the state knows, by nonce
	must   map[string]bool    // slots and packs with records
	may    map[string]bool    // SEALs and copies of views, if they exist
}

// contentsAt returns the contents at a state. views lists the copies of views in the store.
func contentsAt(st *state.State, views []snapshot.Found) *contents {
	n := &contents{st.Shard, st, map[record.ID]bool{}, map[string]bool{}, map[string]bool{}}
	for _, t := range st.Topics() {
		for _, p := range t.Partitions.Written() {
			for i := range p.Ranges {
				if r := &p.Ranges[i]; !r.Lost() {
					n.must[st.RangeKey(r)] = true
				}
			}
		}
	}
	for _, e := range st.Epochs {
		n.epochs[e.Nonce] = true
		if e.Nonce != st.Nonce {
			n.may[state.SlotKey(st.Shard, e.Number, e.Nonce, e.Seal)] = true
			n.may[state.RecoveryKey(st.Shard, e.Number, e.Nonce, e.Seal)] = true
		}
	}
	for _, f := range viewsAt(st, views) {
		for _, key := range f.Keys {
			n.may[key] = true
		}
	}
	return n
}

// forgotten reports whether key is a slot of an earlier epoch that the state does not know (rule
// R12). A copy holds the SEALs among these slots. They link epoch 0 to the epochs that the state
// knows.
func (n *contents) forgotten(key string) bool {
	s, ok := parseSlot(n.shard, key)
	return ok && s.epoch < n.st.Pos.Epoch && !n.epochs[s.nonce] && !n.st.OnLostBranch(s.pos())
}

func (n *contents) holds(key string) bool { return n.must[key] || n.may[key] || n.forgotten(key) }

// before reports whether an object was written before the state, so that a later state needs it
// only if this one does.
func (n *contents) before(key string) bool {
	if s, ok := parseSlot(n.shard, strings.TrimSuffix(key, state.RecoverySuffix)); ok {
		return s.pos().Less(n.st.Pos)
	}
	if p, ok := parsePack(n.shard, key); ok {
		_, installed := n.st.PackOf(state.PackID{Epoch: p.epoch, ID: p.slot})
		return p.epoch < n.st.Pos.Epoch || installed
	}
	at, ok := state.ParseViewPosition(n.shard, key)
	return ok && at.Less(n.st.Pos)
}

// viewsAt returns the newest complete copy of each view that is not ahead of a state. In all, the
// newest copy of a view comes first.
func viewsAt(st *state.State, all []snapshot.Found) (found []snapshot.Found) {
	for _, f := range all {
		on := slices.ContainsFunc(st.Epochs, func(e state.Epoch) bool { return e.Number == f.Epoch && e.Nonce == f.Nonce })
		newer := slices.ContainsFunc(found, func(o snapshot.Found) bool { return o.View == f.View })
		if f.Complete && on && !newer && !st.Pos.Less(f.Position) {
			found = append(found, f)
		}
	}
	return found
}

const (
	probePrefix = "probe/"
	metaPrefix  = "meta/"
)

// slotName holds the parts of a commit object's name.
type slotName struct {
	epoch uint32
	nonce record.ID
	slot  uint64
}

func (n slotName) pos() state.Position { return state.Position{Epoch: n.epoch, Slot: n.slot} }

// parseSlot parses a commit object's name; ok is false for any other name.
func parseSlot(shard uint32, key string) (n slotName, ok bool) {
	n.epoch, n.nonce, n.slot, ok = state.ParseSlotKey(shard, key)
	return n, ok
}

// parsePack parses a pack's name, with its number as the slot; ok is false for any other name.
func parsePack(shard uint32, key string) (n slotName, ok bool) {
	n.epoch, n.nonce, n.slot, ok = state.ParsePackKey(shard, key)
	return n, ok
}

// ref identifies a data object: a slot or a pack.
type ref struct {
	state.Position // for a pack its epoch and number
	pack           bool
}

func refOf(r *state.Range) ref {
	return ref{state.Position{Epoch: r.Epoch, Slot: r.Slot}, r.Pack}
}

// snapshotObject holds a snapshot's key and the parts of its name.
type snapshotObject struct {
	key   string
	pos   state.Position
	nonce record.ID
	size  int64 // of a listed object
}

// isRegistration reports whether an object is the registration of a broker.
func isRegistration(key string) bool {
	_, ok := link.ParseKey(key)
	return ok
}

// parseSnapshot parses a snapshot's name; ok is false for any other name.
func parseSnapshot(shard uint32, key string) (s snapshotObject, ok bool) {
	rest, found := strings.CutPrefix(key, core.SnapPrefix(shard))
	f := strings.SplitN(rest, "-", 3)
	if !found || len(f) != 3 || len(f[0]) != 10 || len(f[1]) != 20 {
		return s, false
	}
	epoch, err1 := strconv.ParseUint(f[0], 10, 32)
	slot, err2 := strconv.ParseUint(f[1], 10, 64)
	nonce, err3 := record.ParseID(f[2])
	if err1 != nil || err2 != nil || err3 != nil {
		return s, false
	}
	return snapshotObject{key: key, pos: state.Position{Epoch: math.MaxUint32 - uint32(epoch), Slot: math.MaxUint64 - slot}, nonce: nonce}, true
}
