package differential

import (
	"errors"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var wantedOfTransactions = []wanted{
	{
		what: "InitProducerId with a transactional ID, while its transaction is open or ends: CONCURRENT_TRANSACTIONS by Kafka, and an epoch more; Seb answers when the transaction is aborted",
		why:  "one slot ends it",
		is:   func(*difference) bool { return false }, // see side.settled
	},
	{
		what: "a transaction begins with its first record or offset: until then it is not Ongoing, and a partition without records gets no marker",
		why:  "an end of nothing changes nothing",
		is:   func(*difference) bool { return false }, // the generator adds records and offsets at once
	},
	{
		what: "InitProducerId with the epoch before the present one, while a transaction is open: Kafka aborts it and answers PRODUCER_FENCED, Seb only answers",
		why:  "a refused request changes nothing",
		is:   func(*difference) bool { return false }, // the generator does not do it
	},
	{
		what: "EndTxn after the timeout of the transaction: PRODUCER_FENCED by Kafka, INVALID_TXN_STATE for a commit of version 2; Seb answers INVALID_PRODUCER_EPOCH",
		why:  "the producer may go on with another epoch; Kafka's code stops threads of Kafka Streams (KAFKA-20785)",
		is:   func(d *difference) bool { return codes(d, kmsg.EndTxn, of("90", "48"), of("47")) && d.step.late },
	},
	{
		what: "DescribeTransactions of an unknown ID: no producer and no time are -1, 0 in Kafka", why: "0 is a valid producer ID",
		is: func(d *difference) bool {
			return d.key == kmsg.DescribeTransactions && d.kafka == "0" && d.seb == "-1" && d.beside(d.kafkaSays, "ErrorCode") == "105"
		},
	},
	{
		what: "DescribeTransactions: offsets of groups are not shown, in Kafka as partitions of `__consumer_offsets`", why: "Seb has no such topic",
		is: func(d *difference) bool {
			return d.key == kmsg.DescribeTransactions && (strings.Contains(d.path, `["__consumer_offsets"]`) || strings.HasSuffix(d.path, ".Topics.len"))
		},
	},
	{
		what: "Fetch: `AbortedTransactions` has those of the answered batches; Kafka adds some beyond the last stable offset", why: "the next answer has them",
		is: func(d *difference) bool {
			if !at(d, kmsg.Fetch, "Topics[].Partitions[].AbortedTransactions[]") || d.seb != "" {
				return false
			}
			partition, _, _ := strings.Cut(d.path, ".AbortedTransactions")
			first, err := strconv.ParseInt(d.kafkaSays[d.path+".FirstOffset"], 10, 64)
			stable, err2 := strconv.ParseInt(d.kafkaSays[partition+".LastStableOffset"], 10, 64)
			return errors.Join(err, err2) == nil && first >= stable
		},
	},
	{
		what: "ListTransactions with an invalid pattern: unknown states are listed too", why: "both faults are said",
		is: func(d *difference) bool {
			return at(d, kmsg.ListTransactions, "UnknownStateFilters") && someCode(d.kafkaSays, "128")
		},
	},
	{
		what: "Produce of a batch without a transaction by a producer with a transactional ID: INVALID_TXN_STATE; Kafka stores it", why: "a client that does so has lost its transaction", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, of("0"), of("48")) && strings.Contains(d.step.what, "transactional false")
		},
	},
	{
		what: "ListTransactions with a duration: Kafka also lists IDs without a transaction", why: "they have no duration",
		is: func(d *difference) bool {
			return d.key == kmsg.ListTransactions && !strings.Contains(d.step.what, "longer than -1") && (d.seb == "" || d.path == "TransactionStates.len")
		},
	},
	{
		what: "DescribeProducers: epoch and sequence are those of the last records, the time is that of their commit, and the epoch of the coordinator is that of the leader; Kafka forgets the sequence at the end of a transaction",
		why:  "tools show them to people",
		is: func(d *difference) bool {
			p := d.bare()
			return d.key == kmsg.DescribeProducers && (strings.HasSuffix(p, ".CoordinatorEpoch") || strings.HasSuffix(p, ".LastTimestamp") ||
				strings.HasSuffix(p, ".LastSequence") && d.kafka == "-1" || strings.HasSuffix(p, ".ProducerEpoch") && d.beside(d.kafkaSays, "LastSequence") == "-1")
		},
	},
	{
		what: "Fetch: markers have the epoch of the records, in Kafka one that ended the transaction", why: "clients look at the ID of the producer only",
		is: func(d *difference) bool {
			return at(d, kmsg.Fetch, "Topics[].Partitions[].RecordBatches[].ProducerEpoch") && d.beside(d.kafkaSays, "Marker") != ""
		},
	},
	{
		what: "TxnOffsetCommit with a generation to a missing group: ILLEGAL_GENERATION by Kafka, UNKNOWN_MEMBER_ID by Seb", why: "as for OffsetCommit",
		is: func(d *difference) bool { return codes(d, kmsg.TxnOffsetCommit, of("22"), of("25")) },
	},
	{
		what: "DescribeTransactions: a transaction that has ended has no start", why: "it is not kept",
		is: func(d *difference) bool {
			return d.key == kmsg.DescribeTransactions && strings.HasSuffix(d.path, ".StartTimestamp") && strings.HasPrefix(d.beside(d.kafkaSays, "State"), `"Complete`)
		},
	},
	{
		what: "ListOffsets by time: Kafka also finds markers of transactions", why: "they are no records",
		is: func(d *difference) bool {
			byTime := strings.Contains(d.step.what, " at -3, isolation") || strings.Contains(d.step.what, "000, isolation")
			return d.key == kmsg.ListOffsets && byTime && !strings.HasSuffix(d.path, "ErrorCode")
		},
	},
	{
		what: "Produce of a batch that is stored, by an earlier epoch of its producer: INVALID_PRODUCER_EPOCH by Kafka; Seb answers its offset", why: "the answer of the first request may be lost",
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, of("47"), of("0")) && strings.Contains(d.step.what, " (of ") // an older epoch
		},
	},
	{
		what: "Produce: the first sequence of a transactional producer in a partition may be any; Kafka wants 0 in version 2 of transactions", why: "as for other idempotent producers", diverges: true,
		is: func(d *difference) bool { return codes(d, kmsg.Produce, of("45"), of("0")) },
	},
}
