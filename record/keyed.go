package record

// KeyRecord is a record of a key. Unlike the records of a read, the caller may keep it.
type KeyRecord struct {
	Partition int32
	Record
}

// KeyEntry is a key with the position of its newest record. The caller may keep it.
type KeyEntry struct {
	Key       []byte
	Partition int32
	Offset    int64
	Timestamp int64 // ms since 1970
}
