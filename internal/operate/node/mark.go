package node

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/engine/base/wake"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore/watermark"
	"github.com/sebbroker/seb/record"
)

// The file position-<hash of the address> of a data folder is a watermark (package watermark) with the
// newest position of a bucket:
//
//	cluster 16 bytes | nonce of the epoch 16 | epoch u32 | next slot u64 | highest next offset i64
//
// A leader sets it before it acknowledges a slot, so a killed broker has recorded every acknowledged
// slot. It is synced each second while it changes: after a power failure it may be older by that. Of a
// bucket without fsync it is not synced.

const markBytes = 2*len(record.ID{}) + 4 + 8 + 8

// markFile is the name of the file with the position of a store's bucket.
func markFile(dir, store string) string {
	sum := sha256.Sum256([]byte(bucketOf(store)))
	return filepath.Join(dir, "position-"+hex.EncodeToString(sum[:8]))
}

// readMark reads the newest position of a store's bucket. ok is false if there is none that is valid.
func readMark(dir, store string) (s core.Seen, ok bool) {
	content, err := os.ReadFile(markFile(dir, store))
	if err != nil {
		return s, false
	}
	b, ok := watermark.Decode(content)
	if !ok || len(b) != markBytes {
		return s, false
	}
	copy(s.Cluster[:], b)
	copy(s.Nonce[:], b[16:])
	s.Epoch, s.Slot = binary.LittleEndian.Uint32(b[32:]), binary.LittleEndian.Uint64(b[36:])
	s.Highest = int64(binary.LittleEndian.Uint64(b[44:]))
	return s, true
}

func appendMark(dst []byte, s *core.Seen) []byte {
	dst = append(append(dst, s.Cluster[:]...), s.Nonce[:]...)
	dst = binary.LittleEndian.AppendUint32(dst, s.Epoch)
	dst = binary.LittleEndian.AppendUint64(dst, s.Slot)
	return binary.LittleEndian.AppendUint64(dst, uint64(s.Highest))
}

// seenEvery is the interval of saves, and so about how much of the position a power failure loses.
const seenEvery = time.Second

// positionSaver saves the position of a broker's log.
type positionSaver struct {
	dir, store string
	broker     *broker.Broker
	log        *slog.Logger
	changed    wake.Signal
	stop       chan struct{}
	once       sync.Once
	done       sync.WaitGroup
	last       core.Seen // in positions.json

	mu     sync.Mutex      // guards the fields below
	mark   *watermark.Mark // nil: it cannot be written
	newest core.Seen       // in it
	record []byte
}

// newPositionSaver opens the file. A broker whose data folder cannot keep a position still starts.
func newPositionSaver(dir, store string, log *slog.Logger) *positionSaver {
	k := &positionSaver{dir: dir, store: store, log: log, changed: wake.New(), stop: make(chan struct{})}
	f, err := os.OpenFile(markFile(dir, store), os.O_RDWR|os.O_CREATE, 0o600)
	if err == nil {
		k.mark, err = watermark.Open(f)
	}
	if err != nil {
		log.Warn("position not saved in the data folder", "err", err)
	}
	return k
}

// committed is the log's hook: a slot of this leader is stored and not acknowledged yet.
func (k *positionSaver) committed(c *log.Committed) {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := core.Seen{Cluster: c.State.Cluster, Epoch: c.Epoch, Nonce: c.State.Nonce, Slot: c.Slot + 1, Highest: k.newest.Highest}
	if k.newest.Epoch != s.Epoch || k.newest.Cluster != s.Cluster {
		s.Highest = broker.Highest(c.State)
	}
	for i := range c.Index {
		s.Highest = max(s.Highest, c.Index[i].Base+int64(c.Index[i].Span))
	}
	k.setLocked(&s)
}

// setLocked sets a newer position.
func (k *positionSaver) setLocked(s *core.Seen) {
	k.newest = *s
	if k.mark == nil {
		return
	}
	k.record = appendMark(k.record[:0], s)
	if err := k.mark.Set(k.record); err != nil {
		k.giveUpLocked(err)
	}
}

// giveUpLocked leaves the position to positions.json.
func (k *positionSaver) giveUpLocked(err error) {
	k.log.Warn("position not saved in the data folder", "err", err)
	_ = k.mark.Close()
	k.mark = nil
}

// notify is the broker's hook. It does not block.
func (k *positionSaver) notify(bool) {
	if k == nil {
		return
	}
	k.changed.Send()
}

// start saves the position of a leader, now and after changes.
func (k *positionSaver) start(b *broker.Broker) {
	if k == nil {
		return
	}
	k.broker = b
	k.save()
	k.done.Go(func() {
		for {
			select {
			case <-k.changed:
			case <-k.stop:
				return
			}
			select {
			case <-time.After(seenEvery):
			case <-k.stop:
				return
			}
			k.save()
		}
	})
}

// save writes the position of a leader, or of a fenced one, if it has changed. The path of a follower
// may not be the log (rule R11). A full disk must not stop a broker; the file then has an older
// position.
func (k *positionSaver) save() {
	led := k.broker.Epoch()
	seen, known := k.broker.Seen()
	if !known || seen == k.last || seen.Epoch != led || k.broker.Follows() {
		return
	}
	if err := saveSeen(k.dir, k.store, &seen); err != nil {
		k.log.Warn("position not saved in the data folder", "err", err)
	} else {
		k.last = seen
	}
	k.mu.Lock()
	if k.newest.Cluster != seen.Cluster || (seenAt{k.newest}).before(seen) {
		k.setLocked(&seen)
	}
	mark := k.mark
	k.mu.Unlock()
	_, parameters, _ := strings.Cut(k.store, "?")
	if mark == nil || strings.Contains(parameters, "fsync=false") { // the log is not durable either
		return
	}
	if err := mark.Sync(); err != nil && !errors.Is(err, os.ErrClosed) {
		k.log.Warn("position not saved in the data folder", "err", err)
	}
}

// close saves the last position.
func (k *positionSaver) close() {
	if k == nil {
		return
	}
	k.once.Do(func() {
		if close(k.stop); k.broker != nil {
			k.done.Wait()
			k.save()
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.mark != nil {
			_ = k.mark.Close()
			k.mark = nil
		}
	})
}
