package differential

import (
	"errors"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var wantedOfData = []wanted{
	{
		what: "Produce v0 to v2: Kafka closes the connection, Seb answers UNSUPPORTED_FOR_MESSAGE_FORMAT", why: "the client gets the reason",
		is: func(d *difference) bool {
			return d.key == kmsg.Produce && d.version < 3 && d.path == "" && d.kafka == "closed"
		},
	},
	{
		what: "Produce with a magic other than 2: INVALID_RECORD or CORRUPT_MESSAGE by Kafka, UNSUPPORTED_FOR_MESSAGE_FORMAT by Seb",
		why:  "the client gets the reason and does not retry",
		is:   func(d *difference) bool { return codes(d, kmsg.Produce, of("87", "2"), of("43")) },
	},
	{
		what: "Produce of truncated bytes or a wrong length: INVALID_RECORD by Kafka, CORRUPT_MESSAGE by Seb",
		why:  "the bytes changed on the way, so the client may retry",
		is:   func(d *difference) bool { return codes(d, kmsg.Produce, of("87"), of("2")) },
	},
	{
		what: "Produce of a batch with trailing bytes, an append time or unknown attributes: Kafka clears or ignores them, Seb refuses the batch",
		why:  "trailing bytes could be lost records, the others change the meaning of records; no client sends them", diverges: true,
		is: func(d *difference) bool { return codes(d, kmsg.Produce, of("0"), of("2", "32", "87")) },
	},
	{
		what: "Produce of several batches for a partition: INVALID_RECORD by Kafka; Seb stores them", why: "Seb has no reason to refuse it", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, of("87"), of("0")) && strings.Contains(d.step.what, "two batches")
		},
	},
	{
		what: "Produce of records without a key to a compacted topic: INVALID_RECORD by Kafka; Seb keeps them permanently", why: "decision 0011", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, of("87"), of("0")) && strings.Contains(d.step.what, "keys false") && !strings.Contains(d.step.what, "base offset")
		},
	},
	{
		what: "Produce of a batch with a base offset: INVALID_RECORD by Kafka; Seb ignores it", why: "the broker assigns offsets", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, of("87"), of("0")) && strings.Contains(d.step.what, "base offset")
		},
	},
	{
		what: "ListOffsets by time after DeleteRecords: Kafka may return an offset of a deleted record; Seb finds only remaining records", why: "deleted records cannot be read",
		is: func(d *difference) bool {
			return d.key == kmsg.ListOffsets && d.step.cut && !strings.HasSuffix(d.path, "ErrorCode")
		},
	},
	{
		what: "Produce of records with a future timestamp: INVALID_TIMESTAMP by Kafka (`message.timestamp.after.max.ms`); Seb accepts any time", why: "Seb does not have this setting",
		diverges: true,
		is:       func(d *difference) bool { return codes(d, kmsg.Produce, of("32"), of("0")) },
	},
	{
		what: "refused Produce: Seb does not return the invalid records (`ErrorRecords`) and the log start offset", why: "nothing is stored, and clients do not need them",
		is: func(d *difference) bool {
			return strings.Contains(d.bare(), "Partitions[].ErrorRecords") && d.key == kmsg.Produce ||
				at(d, kmsg.Produce, "Topics[].Partitions[].LogStartOffset") && d.beside(d.kafkaSays, "ErrorCode") != "0"
		},
	},
	{
		what: "Produce of a duplicate batch: Kafka returns its largest timestamp as append time, Seb none", why: "the batch has no append time",
		is: func(d *difference) bool {
			return at(d, kmsg.Produce, "Topics[].Partitions[].LogAppendTime") && d.seb == "-1"
		},
	},
	{
		what: "Fetch: Seb opens no session", why: "a client with session 0 names its partitions in each request",
		is: func(d *difference) bool { return at(d, kmsg.Fetch, "SessionID") && d.seb == "0" },
	},
	{
		what: "Fetch with a small limit: Seb returns one batch more", why: "Seb returns whole batches, and at least one per partition within the limit",
		is: func(d *difference) bool {
			return d.step.small && d.key == kmsg.Fetch && (strings.HasSuffix(d.bare(), "RecordBatches[]") && d.kafka == "" || strings.HasSuffix(d.path, "RecordBatches.len"))
		},
	},
	{
		what: "Fetch of a topic with a `compression.type`: Kafka compresses batches again, Seb keeps those of producers", why: "the setting is for records that Seb encodes itself",
		is: func(d *difference) bool {
			kafka, err := strconv.Atoi(d.kafka)
			seb, err2 := strconv.Atoi(d.seb)
			return at(d, kmsg.Fetch, "Topics[].Partitions[].RecordBatches[].Attributes") && errors.Join(err, err2) == nil && kafka&^attrCodec == seb&^attrCodec
		},
	},
	{
		what: "Fetch: `AbortedTransactions` is null where Kafka has an empty list", why: "clients treat both as none",
		is: func(d *difference) bool {
			return at(d, kmsg.Fetch, "Topics[].Partitions[].AbortedTransactions.len") && d.kafka != d.seb && d.kafka+d.seb != ""
		},
	},
	{
		what: "DeleteRecords of a compacted topic: POLICY_VIOLATION by Kafka; Seb trims it", why: "Seb has no reason to refuse it", diverges: true,
		is: func(d *difference) bool { return codes(d, kmsg.DeleteRecords, of("44"), nil) },
	},
}

var wantedOfGroups = []wanted{
	{
		what: "a group without members and offsets does not exist: Kafka keeps it as Empty for a while", why: "the group has no data",
		is: func(d *difference) bool {
			switch d.key {
			case kmsg.ListGroups:
				state := d.kafkaSays[d.path+".GroupState"]
				return d.kafka == here && d.seb == "" && (state == `"Empty"` || state == `""`) || d.path == "Groups.len"
			case kmsg.DescribeGroups:
				return strings.HasSuffix(d.path, ".State") && d.kafka == `"Empty"` && d.seb == `"Dead"` ||
					codes(d, kmsg.DescribeGroups, of("0"), of("69")) && d.beside(d.kafkaSays, "State") == `"Empty"`
			}
			return codes(d, kmsg.DeleteGroups, of("0"), of("69")) || codes(d, kmsg.OffsetDelete, of("0"), of("69"))
		},
	},
	{
		what: "ListGroups, DescribeGroups: a group without members has no protocol type", why: "the next member chooses it",
		is: func(d *difference) bool {
			return (d.key == kmsg.ListGroups || d.key == kmsg.DescribeGroups) && strings.HasSuffix(d.path, ".ProtocolType") && d.seb == `""`
		},
	},
	{
		what: "DescribeGroups: only Stable groups show assignments", why: "in other states they belong to the last generation",
		is: func(d *difference) bool {
			return at(d, kmsg.DescribeGroups, "Groups[].Members[].MemberAssignment") && d.seb == ""
		},
	},
	{
		what: "OffsetCommit to a group with an empty name: INVALID_GROUP_ID", why: "a group needs a name", diverges: true,
		is: func(d *difference) bool { return codes(d, kmsg.OffsetCommit, nil, of("24")) },
	},
	{
		what: "OffsetCommit with a generation to a missing group: ILLEGAL_GENERATION or, from v9, GROUP_ID_NOT_FOUND by Kafka, UNKNOWN_MEMBER_ID by Seb",
		why:  "members join again after a restart of the broker",
		is:   func(d *difference) bool { return codes(d, kmsg.OffsetCommit, of("22", "69"), of("25")) },
	},
	{
		what: "OffsetDelete while the group has members: GROUP_SUBSCRIBED_TO_TOPIC for every topic", why: "Seb deletes offsets only of groups without members", diverges: true,
		is: func(d *difference) bool {
			return d.key == kmsg.OffsetDelete && (codes(d, kmsg.OffsetDelete, of("0", "3"), of("86")) || codes(d, kmsg.OffsetDelete, of("68"), of("0")))
		},
	},
}
