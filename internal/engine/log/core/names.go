package core

import (
	"encoding/json"
	"fmt"
	"hash/crc32"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// MetaKey is the object that makes a bucket a Seb log. The first broker puts it, once.
const MetaKey = "meta/cluster"

type clusterMeta struct {
	Format  int    `json:"format"`
	Cluster string `json:"cluster"`
	CRC32C  string `json:"crc32c,omitempty"` // of Cluster, in hexadecimal; missing in older buckets
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

// DecodeMeta decodes the content of MetaKey. checked is false where it has no checksum, as in older
// buckets: a bit flipped in transit would give another cluster ID, and a broker that believed it
// would start another log in the same bucket. A later layout is a *state.NewerError.
func DecodeMeta(b []byte) (id record.ID, checked bool, err error) {
	var m clusterMeta
	if err := json.Unmarshal(b, &m); err != nil {
		return id, false, fmt.Errorf("parse %s: %w", MetaKey, err)
	}
	if m.Format > state.Layout {
		return id, false, &state.NewerError{Layout: m.Format}
	}
	if m.Format != state.Layout {
		return id, false, fmt.Errorf("%s: format %d, this version reads %d", MetaKey, m.Format, state.Layout)
	}
	if m.CRC32C != "" && m.CRC32C != m.sum() {
		return id, false, fmt.Errorf("%s: checksum %s, want %s", MetaKey, m.sum(), m.CRC32C)
	}
	if id, err = record.ParseID(m.Cluster); err != nil {
		return id, false, fmt.Errorf("%s: %w", MetaKey, err)
	}
	if id.IsZero() {
		return id, false, fmt.Errorf("%s: cluster ID is zero", MetaKey)
	}
	return id, m.CRC32C != "", nil
}

// snapName is a parsed snapshot name.
type snapName struct {
	key   string
	pos   state.Position
	nonce record.ID
}

// SnapPrefix is the prefix of the names of all snapshots of a shard.
func SnapPrefix(shard uint32) string { return state.SnapPrefix(shard) }

// WALPrefix is the prefix of the names of all commit objects of a shard.
func WALPrefix(shard uint32) string { return state.WALPrefix(shard) }

// snapKey is the name of the snapshot at a position. Numbers are subtracted from the largest, so
// the newest sorts first.
func snapKey(shard uint32, pos state.Position, nonce record.ID) string {
	return state.SnapKey(shard, pos, nonce)
}

// parseSnap parses a snapshot's name; ok is false for any other name.
func parseSnap(shard uint32, key string) (snapName, bool) {
	pos, nonce, ok := state.ParseSnapKey(shard, key)
	return snapName{key, pos, nonce}, ok
}

// parseSnaps returns the names that parse, in listed order: newest first.
func parseSnaps(shard uint32, keys []string) []snapName {
	var names []snapName
	for _, k := range keys {
		if n, ok := parseSnap(shard, k); ok {
			names = append(names, n)
		}
	}
	return names
}

// isShardName reports whether a name lies in a shard's folder ("s0000/...").
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
