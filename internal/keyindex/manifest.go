package keyindex

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/sebbroker/seb/internal/localdb"
	"github.com/sebbroker/seb/record"
)

// manifest is the row that describes the rest of the file. Every transaction rewrites it.
type manifest struct {
	Cluster   string `json:"cluster"`
	NextTopic uint32 `json:"next_topic"` // the number of the next new topic; never reused
	NextRun   int64  `json:"next_run"`
	Runs      []Info `json:"runs"` // oldest first
	// The journal has the sequences [JournalFrom, JournalNext).
	JournalFrom int64 `json:"journal_from"`
	JournalNext int64 `json:"journal_next"`
	// Positions is the number of rows of that table, PositionsSum the sum of their checksums.
	Positions    int    `json:"positions"`
	PositionsSum uint64 `json:"positions_sum"`
}

func (m *manifest) encode() []byte {
	b, err := json.Marshal(m)
	if err != nil {
		panic(fmt.Sprintf("keyindex: encode manifest: %v", err))
	}
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

func decodeManifest(b []byte) (m manifest, err error) {
	body := b[:max(0, len(b)-sumBytes)]
	if len(b) < sumBytes || binary.LittleEndian.Uint32(b[len(body):]) != crc32.Checksum(body, castagnoli) {
		return m, localdb.Damaged("wrong checksum of the manifest")
	}
	if err := json.Unmarshal(body, &m); err != nil {
		return m, localdb.Damaged("manifest: %v", err)
	}
	return m, nil
}

const sumBytes = 4

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// partKey identifies a partition.
type partKey struct {
	topic     record.ID
	partition uint32
}

// position is the read position in a partition.
type position struct {
	number uint32    // of the topic
	next   int64     // first unread offset
	origin record.ID // nonce of the epoch of offset next-1; zero if unknown
	// settled: no tombstone below it that deletes an indexed record was missed (FORMAT.md).
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

// recent holds the entries that are in no run yet: in the file the journal, in memory a few sorted
// lists, whatever the number of entries. The lists are immutable, because queries read them.
type recent struct {
	lists   [][]RunEntry // oldest first
	entries int
	bytes   int // of keys
}

// add adds a sorted list. Each list stays at least twice as long as the next, so their number is
// logarithmic.
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

// all returns all entries as one list.
func (r *recent) all() []RunEntry {
	var all []RunEntry
	for i := len(r.lists) - 1; i >= 0; i-- {
		all = MergeTwo(r.lists[i], all)
	}
	return all
}
