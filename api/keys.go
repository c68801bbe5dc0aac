package api

// Headers of the answers about record keys, in addition to HeaderEpoch, HeaderNextOffset and
// HeaderOffset.
const (
	// HeaderKeyIndexLag is the number of records of the topic that the key index did not have when
	// it was read.
	HeaderKeyIndexLag = "Seb-View-Lag"
	// HeaderPartition and HeaderTimestamp belong to the record in the answer to GET /key. The
	// timestamp is in ms since 1970.
	HeaderPartition = "Seb-Partition"
	HeaderTimestamp = "Seb-Timestamp"
)

// PartitionRecord is a record with its partition.
type PartitionRecord struct {
	Partition int32 `json:"partition"`
	Record
}

// KeyEntry is a key with the position of its newest record. Exactly one of Key and KeyBase64 is
// set.
type KeyEntry struct {
	Key       *string `json:"key,omitempty"`
	KeyBase64 *string `json:"key_base64,omitempty"`
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Timestamp int64   `json:"timestamp"` // ms since 1970
}

// Keys is the answer to GET /keys, sorted by the bytes of the keys. If Next or NextBase64 is set,
// it is the parameter after or after-base64 of the next page.
type Keys struct {
	Keys       []KeyEntry `json:"keys"`
	Next       *string    `json:"next,omitempty"`
	NextBase64 *string    `json:"next_base64,omitempty"`
}

// KeyHistory is the answer to GET /key/history. If Next is set, it is the parameter after of the
// next page.
type KeyHistory struct {
	Records []PartitionRecord `json:"records"`
	Next    string            `json:"next,omitempty"`
}
