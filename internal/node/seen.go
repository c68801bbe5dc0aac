package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/log/core"
	"github.com/sebbroker/seb/record"
)

// The data folder stores the last position of each bucket's log. A broker whose bucket ends before
// that position does not lead: the bucket is an older copy, or its newest objects are lost.

// positionsFile has the positions; positionsMax bounds them, the oldest are removed first.
const (
	positionsFile = "positions.json"
	positionsMax  = 64
)

// savedPosition is a position in the file.
type savedPosition struct {
	Store   string    `json:"store"` // bucket, prefix and endpoint
	Cluster string    `json:"cluster"`
	Epoch   uint32    `json:"epoch"`
	Nonce   string    `json:"nonce"` // of the epoch
	Slot    uint64    `json:"slot"`  // the next
	Highest int64     `json:"highest_offset"`
	At      time.Time `json:"at"`
}

// readPositions reads the file. A missing or truncated file has no positions.
func readPositions(dir string) ([]savedPosition, error) {
	b, err := os.ReadFile(filepath.Join(dir, positionsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var all []savedPosition
	if json.Unmarshal(b, &all) != nil {
		return nil, nil
	}
	return all, nil
}

// ReadSeen returns the known position of a store's log in a data folder, or nil.
func ReadSeen(dir, store string) (*core.Seen, error) {
	all, err := readPositions(dir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	for _, p := range all {
		if !sameBucket(p.Store, store) {
			continue
		}
		cluster, err1 := record.ParseID(p.Cluster)
		nonce, err2 := record.ParseID(p.Nonce)
		if err1 != nil || err2 != nil {
			return nil, nil
		}
		return &core.Seen{Cluster: cluster, Epoch: p.Epoch, Nonce: nonce, Slot: p.Slot, Highest: p.Highest}, nil
	}
	return nil, nil
}

// sameBucket reports whether two names of stores name one bucket, with files or with journals.
func sameBucket(a, b string) bool {
	bucket := func(store string) string {
		name, found := strings.CutSuffix(store, "journal=false")
		if !found {
			return store
		}
		return name[:len(name)-1] // without the separator
	}
	return bucket(a) == bucket(b)
}

// ForgetSeen removes a store's position from a data folder.
func ForgetSeen(dir, store string) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	return errors.Join(saveSeen(dir, store, nil), f.close())
}

// saveSeen replaces a store's position; nil removes it.
func saveSeen(dir, store string, s *core.Seen) error {
	all, err := readPositions(dir)
	if err != nil {
		return err
	}
	all = slices.DeleteFunc(all, func(p savedPosition) bool { return sameBucket(p.Store, store) })
	if s != nil {
		all = append(all, savedPosition{
			Store: store, Cluster: s.Cluster.String(), Epoch: s.Epoch, Nonce: s.Nonce.String(), Slot: s.Slot,
			Highest: s.Highest, At: time.Now().UTC(),
		})
	}
	if n := len(all) - positionsMax; n > 0 {
		all = all[n:]
	}
	b, err := json.MarshalIndent(all, "", "  ")
	if err != nil {
		return err
	}
	file := filepath.Join(dir, positionsFile)
	if err := os.WriteFile(file+".new", append(b, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

// seenEvery is the minimum interval between saves. Commits after the last save are unknown if the
// machine dies: an older copy of the bucket that lacks only those is not detected.
const seenEvery = time.Second

// positionSaver saves the position of a broker's log.
type positionSaver struct {
	dir, store string
	broker     *broker.Broker
	log        *slog.Logger
	changed    chan struct{} // capacity 1
	stop       chan struct{}
	once       sync.Once
	done       sync.WaitGroup
	last       core.Seen
}

func newPositionSaver(dir, store string, log *slog.Logger) *positionSaver {
	return &positionSaver{dir: dir, store: store, log: log, changed: make(chan struct{}, 1), stop: make(chan struct{})}
}

// notify is the broker's hook. It does not block.
func (k *positionSaver) notify() {
	if k == nil {
		return
	}
	select {
	case k.changed <- struct{}{}:
	default:
	}
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
		return
	}
	k.last = seen
}

// close saves the last position.
func (k *positionSaver) close() {
	if k == nil || k.broker == nil {
		return
	}
	k.once.Do(func() {
		close(k.stop)
		k.done.Wait()
		k.save()
	})
}
