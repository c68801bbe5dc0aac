package record

// KeyRecord is a record of a key. Unlike the records of a read it is the caller's to keep.
type KeyRecord struct {
	Partition int32
	Record
}

// KeyEntry is a key and where its newest record is. It is the caller's to keep.
type KeyEntry struct {
	Key       []byte
	Partition int32
	Offset    int64
	Timestamp int64 // ms since 1970
}
