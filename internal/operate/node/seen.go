package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/record"
)

// The data folder stores the last position of each bucket's log. A broker whose bucket ends before
// that position does not lead: the bucket is an older copy, or its newest objects are lost.
//
// positions.json lists the buckets. A position in it is up to a second old. The newest position of a
// bucket is in a file of its own (mark.go).

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

// ReadSeen returns the positions that a data folder knows: that of a store's bucket, and those of buckets at
// other addresses.
func ReadSeen(dir, store string) ([]core.Seen, error) {
	all, err := readPositions(dir)
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if !slices.ContainsFunc(all, func(p savedPosition) bool { return sameBucket(p.Store, store) }) {
		all = append(all, savedPosition{Store: store}) // the list was lost, or has never had it
	}
	var known []core.Seen
	for i := range all {
		s, ok := all[i].seen()
		if m, is := readMark(dir, all[i].Store); is && (!ok || m.Cluster == s.Cluster && s.before(m)) {
			s, ok = seenAt{m}, true
		}
		if ok {
			s.Here = sameBucket(all[i].Store, store)
			known = append(known, s.Seen)
		}
	}
	return known, nil
}

// seenAt adds an order to a position.
type seenAt struct{ core.Seen }

func (s seenAt) before(t core.Seen) bool {
	return s.Epoch < t.Epoch || s.Epoch == t.Epoch && s.Slot < t.Slot
}

func (p *savedPosition) seen() (s seenAt, ok bool) {
	cluster, err1 := record.ParseID(p.Cluster)
	nonce, err2 := record.ParseID(p.Nonce)
	s.Seen = core.Seen{Cluster: cluster, Epoch: p.Epoch, Nonce: nonce, Slot: p.Slot, Highest: p.Highest}
	return s, err1 == nil && err2 == nil
}

// bucketOf is the name of a store's bucket, with files or with journals.
func bucketOf(store string) string {
	name, found := strings.CutSuffix(store, "journal=false")
	if !found {
		return store
	}
	return name[:len(name)-1] // without the separator
}

// sameBucket reports whether two names of stores name one bucket.
func sameBucket(a, b string) bool { return bucketOf(a) == bucketOf(b) }

// ForgetSeen removes a store's position from a data folder, and those of other addresses for which also, if
// not nil, returns true.
func ForgetSeen(dir, store string, also func(*core.Seen) bool) error {
	f, err := openFolder(dir)
	if err != nil {
		return err
	}
	all, err := readPositions(dir)
	errs := []error{err}
	for _, p := range append(all, savedPosition{Store: store}) {
		known, err := ReadSeen(dir, p.Store)
		errs = append(errs, err)
		here := slices.IndexFunc(known, func(s core.Seen) bool { return s.Here })
		if sameBucket(p.Store, store) || here >= 0 && also != nil && also(&known[here]) {
			if err := os.Remove(markFile(dir, p.Store)); !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
			errs = append(errs, saveSeen(dir, p.Store, nil))
		}
	}
	return errors.Join(append(errs, f.close())...)
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
		for i := range all[:n] {
			_ = os.Remove(markFile(dir, all[i].Store)) // proves nothing if it is read without the list
		}
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
