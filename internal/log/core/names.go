package core

import (
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/sebbroker/seb/internal/log/state"
	"github.com/sebbroker/seb/record"
)

// MetaKey names the object that makes a bucket a Seb log: put once, by whoever comes first.
const MetaKey = "meta/cluster"

type clusterMeta struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	CRC32C  string `json:"crc32c,omitempty"` // of Cluster, in hexadecimal; older buckets have none
}

func (m *clusterMeta) sum() string {
	return fmt.Sprintf("%08x", crc32.Checksum([]byte(m.Cluster), castagnoli))
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// EncodeMeta is the content of MetaKey.
func EncodeMeta(cluster record.ID) []byte {
	m := clusterMeta{Format: state.Layout, Cluster: cluster.String()}
	m.CRC32C = m.sum()
	b, err := json.Marshal(m)
	if err != nil {
		panic(err)
	}
	return append(b, '\n')
}

// DecodeMeta reads the content of MetaKey. Where it has no checksum, as in older buckets, checked is false: a bit that is flipped
// on its way makes another id of it, and a broker that believed that would begin another log in the same bucket. A later layout is a
// *state.NewerError.
func DecodeMeta(b []byte) (id record.ID, checked bool, err error) {
	var m clusterMeta
	if err := json.Unmarshal(b, &m); err != nil {
		return id, false, fmt.Errorf("parse %s: %w", MetaKey, err)
	}
	if m.Format > state.Layout {
		return id, false, &state.NewerError{Layout: m.Format}
	}
	if m.Format != state.Layout {
		return id, false, fmt.Errorf("%s: format %d, this Seb reads %d", MetaKey, m.Format, state.Layout)
	}
	if m.CRC32C != "" && m.CRC32C != m.sum() {
		return id, false, fmt.Errorf("%s: its checksum is %s, and %s says it", MetaKey, m.sum(), m.CRC32C)
	}
	if id, err = record.ParseID(m.Cluster); err != nil {
		return id, false, fmt.Errorf("%s: %w", MetaKey, err)
	}
	if id.IsZero() {
		return id, false, fmt.Errorf("%s: the cluster has no id", MetaKey)
	}
	return id, m.CRC32C != "", nil
}

// snapName is a snapshot's name taken apart.
type snapName struct {
	key   string
	pos   state.Position
	nonce record.ID
}

// SnapPrefix is what the names of all snapshots of a shard begin with.
func SnapPrefix(shard uint32) string { return state.SnapPrefix(shard) }

// WALPrefix is what the names of all commit objects of a shard begin with.
func WALPrefix(shard uint32) string { return state.WALPrefix(shard) }

// snapKey names the snapshot at a position: numbers are subtracted from the largest, so the newest sorts first.
func snapKey(shard uint32, pos state.Position, nonce record.ID) string {
	return state.SnapKey(shard, pos, nonce)
}

// parseSnap takes a snapshot's name apart; ok is false for any other name.
func parseSnap(shard uint32, key string) (snapName, bool) {
	pos, nonce, ok := state.ParseSnapKey(shard, key)
	return snapName{key, pos, nonce}, ok
}

// parseSnaps returns the names that parse, newest first as listed.
func parseSnaps(shard uint32, keys []string) []snapName {
	var names []snapName
	for _, k := range keys {
		if n, ok := parseSnap(shard, k); ok {
			names = append(names, n)
		}
	}
	return names
}

// isShardName says whether a name lies in a shard's folder ("s0000/...").
func isShardName(key string) bool {
	if len(key) < 6 || key[0] != 's' || key[5] != '/' {
		return false
	}
	for _, c := range key[1:5] {
		if c < '0' || c > '9' {
			return false
		}
	}
	return true
}
