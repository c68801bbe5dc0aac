package keyindex

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/record"
)

// manifest is the one row that says what else there is. It changes with every transaction.
type manifest struct {
	Cluster   string `json:"cluster"`
	NextTopic uint32 `json:"next_topic"` // the number that the next topic gets; none is used again
	NextRun   int64  `json:"next_run"`
	Runs      []Info `json:"runs"` // oldest first
	// The journal holds the sequences [JournalFrom, JournalNext).
	JournalFrom int64 `json:"journal_from"`
	JournalNext int64 `json:"journal_next"`
	// Positions is how many rows that table has, PositionsSum the sum of their checksums.
	Positions    int    `json:"positions"`
	PositionsSum uint64 `json:"positions_sum"`
}

func (m *manifest) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("view: manifest of numbers and text: %v", err))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeManifest(b []byte) (m manifest, err error) {
	body := b[:max(0, len(b)-sumBytes)]
	if len(b) < sumBytes || binary.LittleEndian.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return m, localdb.Damaged("checksum of the manifest")
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, localdb.Damaged("manifest: %v", err)
	}
	return m, nil
}

const sumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// partKey names a partition.
type partKey struct {
	topic     record.ID
	partition uint32
}

// position is how far a partition was read.
type position struct {
	number uint32    // of the topic
	next   int64     // first offset that was not read
	origin record.ID // of the epoch of the offset before; zero if that is not known
	// settled is an offset: of the tombstones below it none went unread that has deleted something in the view.
	settled int64
}

// sum is a checksum of a row, never 0.
func (p *position) sum(k partKey) uint64 {
	b := append(make([]byte, 0, 64), k.topic[:]...)
	b = binary.LittleEndian.AppendUint32(b, k.partition)
	b = binary.LittleEndian.AppendUint32(b, p.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(p.next))
	b = binary.LittleEndian.AppendUint64(b, uint64(p.settled))
	return uint64(crc32.Checksum(append(b, p.origin[:]...), castagnoli)) + 1
}

// recent are the entries that are in no run yet: in the file they are the journal, in memory sorted lists, few of them
// for any number of entries. The lists are never changed: queries read them.
type recent struct {
	lists   [][]RunEntry // oldest first
	entries int
	bytes   int // of keys
}

// add takes a sorted list.
func (r *recent) add(list []RunEntry) {
	if len(list) == 0 {
		return
	}
	lists := append([][]RunEntry{}, r.lists...)
	lists = append(lists, list)
	for n := len(lists); n > 1 && len(lists[n-2]) < 2*len(lists[n-1]); n-- {
		lists = append(lists[:n-2], MergeTwo(lists[n-2], lists[n-1]))
	}
	r.lists = lists
	r.entries += len(list)
	for i := range list {
		r.bytes += len(list[i].Key)
	}
}

// all is everything in one list.
func (r *recent) all() []RunEntry {
	var all []RunEntry
	for i := len(r.lists) - 1; i >= 0; i-- {
		all = MergeTwo(r.lists[i], all)
	}
	return all
}
