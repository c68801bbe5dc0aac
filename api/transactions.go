package api

import "time"

// The states of a Transaction.
const (
	TransactionOpen            = "open"
	TransactionCommitted       = "committed"
	TransactionAborted         = "aborted"           // by its producer
	TransactionAbortedByBroker = "aborted_by_broker" // after its timeout, for an operator, or for a newer producer
	TransactionNone            = "none"              // there was none since the producer took the ID
)

// The values of the parameter isolation.
const (
	IsolationCommitted   = "committed"
	IsolationUncommitted = "uncommitted"
)

// Transaction is what the broker knows of a transactional ID of Kafka clients: its producer, and the
// transaction that is open or was the newest.
type Transaction struct {
	ID            string `json:"transactional_id"`
	ProducerID    int64  `json:"producer_id"` // -1: none, until the next producer takes the ID.
	ProducerEpoch int32  `json:"producer_epoch"`
	// `open`, or how the newest one ended: `aborted_by_broker` after its timeout, for an operator, or for a
	// newer producer. `none`: there was none since the producer took the ID.
	//openapi:enum [open, committed, aborted, aborted_by_broker, none]
	State          string    `json:"state"`
	TimeoutSeconds float64   `json:"timeout_seconds"` // The broker aborts a transaction that is open for longer.
	Changed        time.Time `json:"changed_at"`      // When a producer took the ID, or the newest transaction ended.
	// Of the open transaction: when it began. Absent if none is open.
	Started    time.Time `json:"started_at,omitzero"`
	AgeSeconds float64   `json:"age_seconds,omitempty"` // Of the open transaction.
	// Partitions with records of the open transaction, of topics that the client may describe.
	Partitions []TransactionPartition `json:"partitions"`
	// Offsets of consumer groups that it commits with its records.
	StagedOffsets int `json:"staged_offsets,omitempty"`
}

// TransactionPartition is a partition with records of an open transaction.
type TransactionPartition struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	First     int64  `json:"first_offset"` // Offset of the transaction's first record.
	// Committed reads end here: at the first record of the oldest transaction that is open in the partition.
	Stable int64 `json:"last_stable_offset"`
}

// Transactions is the answer to GET /transactions, sorted by transactional ID.
type Transactions struct {
	Transactions []Transaction `json:"transactions"`
	// The parameter `after` of the next page, if there is one and `limit` was given.
	Next *string `json:"next,omitempty"`
}
