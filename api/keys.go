package api

// Headers of the answers about record keys, besides HeaderEpoch, HeaderNextOffset and HeaderOffset.
const (
	// HeaderViewLag is how many records of the topic the index of keys did not have yet when it was asked.
	HeaderViewLag = "Seb-View-Lag"
	// HeaderPartition and HeaderTimestamp are those of the record that answers GET /key; ms since 1970.
	HeaderPartition = "Seb-Partition"
	HeaderTimestamp = "Seb-Timestamp"
)

// PlacedRecord is a record with the partition it is in.
type PlacedRecord struct {
	Partition int32 `json:"partition"`
	Record
}

// KeyEntry is a key and where its newest record is. Exactly one of Key and KeyBase64 is set.
type KeyEntry struct {
	Key       *string `json:"key,omitempty"`
	KeyBase64 *string `json:"key_base64,omitempty"`
	Partition int32   `json:"partition"`
	Offset    int64   `json:"offset"`
	Timestamp int64   `json:"timestamp"` // ms since 1970
}

// Keys is the answer to GET /keys, by the bytes of the keys. Next or NextBase64, if there, is what to give as after, or
// after-base64, to go on.
type Keys struct {
	Keys       []KeyEntry `json:"keys"`
	Next       *string    `json:"next,omitempty"`
	NextBase64 *string    `json:"next_base64,omitempty"`
}

// KeyHistory is the answer to GET /key/history. Next, if there, is what to give as after to go on.
type KeyHistory struct {
	Records []PlacedRecord `json:"records"`
	Next    string         `json:"next,omitempty"`
}
