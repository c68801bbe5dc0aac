package differential

import (
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

var wantedOfData = []wanted{
	{
		what: "transactions: TRANSACTIONAL_ID_AUTHORIZATION_FAILED for InitProducerId, FindCoordinator and Produce", why: "there are none", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, nil, of("53")) || codes(d, kmsg.InitProducerID, nil, of("53")) || codes(d, kmsg.FindCoordinator, nil, of("53"))
		},
	},
	{
		what: "Produce v0 to v2: Kafka ends the connection, Seb answers UNSUPPORTED_FOR_MESSAGE_FORMAT", why: "the client learns what is wrong",
		is: func(d *difference) bool {
			return d.key == kmsg.Produce && d.version < 3 && d.path == "" && d.kafka == "closed"
		},
	},
	{
		what: "Produce of another magic than 2: INVALID_RECORD or CORRUPT_MESSAGE by Kafka, UNSUPPORTED_FOR_MESSAGE_FORMAT by Seb",
		why:  "the client learns what is wrong, and does not try again",
		is:   func(d *difference) bool { return codes(d, kmsg.Produce, of("87", "2"), of("43")) },
	},
	{
		what: "Produce of bytes that are cut off or have a wrong length: INVALID_RECORD by Kafka, CORRUPT_MESSAGE by Seb",
		why:  "they are not what the client has made, so it may try again",
		is:   func(d *difference) bool { return codes(d, kmsg.Produce, of("87"), of("2")) },
	},
	{
		what: "Produce of a batch with bytes behind it, an append time of its own or unknown attributes: Kafka clears or ignores them, Seb refuses it",
		why:  "bytes could be lost records, and the others change what the records say; no client sends them", diverges: true,
		is: func(d *difference) bool { return codes(d, kmsg.Produce, of("0"), of("2", "32", "87")) },
	},
	{
		what: "Produce of several batches for a partition: INVALID_RECORD by Kafka; Seb stores them", why: "nothing speaks against it", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, of("87"), of("0")) && strings.Contains(d.step.what, "two batches")
		},
	},
	{
		what: "Produce of records without a key to a compacted topic: INVALID_RECORD by Kafka; Seb keeps them for ever", why: "decision 0011", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, of("87"), of("0")) && strings.Contains(d.step.what, "keys false") && !strings.Contains(d.step.what, "base offset")
		},
	},
	{
		what: "Produce of a batch with a base offset: INVALID_RECORD by Kafka; Seb ignores it", why: "it gives out offsets itself", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.Produce, of("87"), of("0")) && strings.Contains(d.step.what, "base offset")
		},
	},
	{
		what: "ListOffsets by time after DeleteRecords: Kafka may tell of records that are gone; Seb finds what is left", why: "the others are gone",
		is: func(d *difference) bool {
			return d.key == kmsg.ListOffsets && d.step.cut && !strings.HasSuffix(d.path, "ErrorCode")
		},
	},
	{
		what: "Produce of records of tomorrow: INVALID_TIMESTAMP by Kafka (`message.timestamp.after.max.ms`); Seb takes any time", why: "there is no such setting",
		diverges: true,
		is:       func(d *difference) bool { return codes(d, kmsg.Produce, of("32"), of("0")) },
	},
	{
		what: "Produce that is refused: which records are at fault (`ErrorRecords`), and the log's start, are not told", why: "nothing is stored, and clients do without",
		is: func(d *difference) bool {
			return strings.Contains(d.bare(), "Partitions[].ErrorRecords") && d.key == kmsg.Produce ||
				at(d, kmsg.Produce, "Topics[].Partitions[].LogStartOffset") && d.beside(d.kafkaSays, "ErrorCode") != "0"
		},
	},
	{
		what: "Produce of a batch that is there already: Kafka gives its largest timestamp as append time, Seb none", why: "it has none",
		is: func(d *difference) bool {
			return at(d, kmsg.Produce, "Topics[].Partitions[].LogAppendTime") && d.seb == "-1"
		},
	},
	{
		what: "Fetch: no session is opened", why: "a client that is given session 0 names its partitions each time",
		is: func(d *difference) bool { return at(d, kmsg.Fetch, "SessionID") && d.seb == "0" },
	},
	{
		what: "Fetch with a small limit: Seb gives a batch more", why: "whole batches are given, and at least one of each partition that has room",
		is: func(d *difference) bool {
			return d.step.small && d.key == kmsg.Fetch && (strings.HasSuffix(d.bare(), "RecordBatches[]") && d.kafka == "" || strings.HasSuffix(d.path, "RecordBatches.len"))
		},
	},
	{
		what: "Fetch: `AbortedTransactions` is null where Kafka has an empty list", why: "clients take both for none",
		is: func(d *difference) bool {
			return at(d, kmsg.Fetch, "Topics[].Partitions[].AbortedTransactions.len") && d.kafka != d.seb && d.kafka+d.seb != ""
		},
	},
	{
		what: "DeleteRecords of a compacted topic: POLICY_VIOLATION by Kafka; Seb trims it", why: "nothing speaks against it", diverges: true,
		is: func(d *difference) bool { return codes(d, kmsg.DeleteRecords, of("44"), nil) },
	},
}

var wantedOfGroups = []wanted{
	{
		what: "a group without members and offsets is no group: Kafka keeps it as Empty for a while", why: "nothing is there to keep",
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
		what: "ListGroups, DescribeGroups: a group without members has no protocol type", why: "it may become any",
		is: func(d *difference) bool {
			return (d.key == kmsg.ListGroups || d.key == kmsg.DescribeGroups) && strings.HasSuffix(d.path, ".ProtocolType") && d.seb == `""`
		},
	},
	{
		what: "DescribeGroups: assignments are shown of Stable groups", why: "others are those of the last generation",
		is: func(d *difference) bool {
			return at(d, kmsg.DescribeGroups, "Groups[].Members[].MemberAssignment") && d.seb == ""
		},
	},
	{
		what: "OffsetCommit to the group without a name: INVALID_GROUP_ID", why: "groups have names", diverges: true,
		is: func(d *difference) bool { return codes(d, kmsg.OffsetCommit, nil, of("24")) },
	},
	{
		what: "OffsetCommit in a generation to a group that is not there: ILLEGAL_GENERATION or, from v9, GROUP_ID_NOT_FOUND by Kafka, UNKNOWN_MEMBER_ID by Seb",
		why:  "members of a broker that was restarted join again",
		is:   func(d *difference) bool { return codes(d, kmsg.OffsetCommit, of("22", "69"), of("25")) },
	},
	{
		what: "OffsetDelete while there are members: GROUP_SUBSCRIBED_TO_TOPIC for every topic", why: "offsets are deleted of groups without members",
		is: func(d *difference) bool {
			return d.key == kmsg.OffsetDelete && (codes(d, kmsg.OffsetDelete, of("0", "3"), of("86")) || codes(d, kmsg.OffsetDelete, of("68"), of("0")))
		},
	},
}
