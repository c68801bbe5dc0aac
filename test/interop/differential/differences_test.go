package differential

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// wanted is an intended difference. docs/reference/kafka.md has a row for each, with the same
// words.
type wanted struct {
	what string // the difference
	why  string
	// diverges means that the brokers hold different data afterwards, so the topics are deleted.
	diverges bool
	is       func(d *difference) bool
}

// codes reports whether answers to a key have one of these codes of Kafka and of Seb; no codes:
// any.
func codes(d *difference, key kmsg.Key, kafka, seb []string) bool {
	fits := func(list []string, s string) bool { return len(list) == 0 || slices.Contains(list, s) }
	return d.key == key && strings.HasSuffix(d.path, "ErrorCode") && d.kafka != "" && d.seb != "" && fits(kafka, d.kafka) && fits(seb, d.seb)
}

// of makes a list.
func of(s ...string) []string { return s }

// at reports whether a difference is in a field of the answers to a key.
func at(d *difference, key kmsg.Key, path string) bool { return d.key == key && d.bare() == path }

// wantedFor finds a difference in the table; nil if it is unexpected.
func wantedFor(d *difference) *wanted {
	for _, list := range [][]wanted{wantedOfTopics, wantedOfData, wantedOfGroups, wantedOfRights, wantedOfTransactions} {
		for i := range list {
			if list[i].is(d) {
				return &list[i]
			}
		}
	}
	return nil
}

// allWanted returns the table.
func allWanted() []wanted {
	return slices.Concat(wantedOfTopics, wantedOfData, wantedOfGroups, wantedOfRights, wantedOfTransactions)
}

// moreVersions are keys of which Seb supports versions that this Kafka has dropped; see the row of
// ApiVersions.
var moreVersions = []kmsg.Key{kmsg.ListOffsets, kmsg.OffsetCommit, kmsg.OffsetFetch, kmsg.DeleteGroups, kmsg.WriteTxnMarkers, kmsg.TxnOffsetCommit, kmsg.ApiVersions}

const moreVersionsRow = "ApiVersions: ListOffsets, OffsetCommit, OffsetFetch and WriteTxnMarkers from v0, TxnOffsetCommit up to v6, ApiVersions up to v5, DeleteGroups up to v3; Kafka 4.3 has dropped or not released them"

var wantedOfTopics = []wanted{
	{
		what: moreVersionsRow, why: "older and newer clients are served",
		is: func(*difference) bool { return false }, // see run.subset
	},
	{
		what: "`ErrorMessage` is there where the other broker has none", why: "text for humans; the codes are the same",
		is: func(d *difference) bool { return strings.HasSuffix(d.path, "ErrorMessage") },
	},
	{
		what: "CreateTopics, DescribeConfigs: only the settings that Seb has are listed, and `seb.key.index`; of synonyms the value itself",
		why:  "Seb has no settings for segments, flushes and replicas, and flags configure the broker",
		is: func(d *difference) bool {
			p := d.bare()
			switch {
			case d.key != kmsg.CreateTopics && d.key != kmsg.DescribeConfigs:
				return false
			case strings.HasSuffix(p, "Configs[]"):
				return d.seb == "" && !ours(d.path) || strings.Contains(d.path, "seb.key.index")
			case strings.HasSuffix(p, "Configs[].Source"): // set by the test for Kafka's broker
				return d.kafka+d.seb == "45" || d.kafka == "STATIC_BROKER_CONFIG" && d.seb == "DEFAULT_CONFIG"
			}
			return strings.HasSuffix(p, "Configs.len") || strings.Contains(p, "ConfigSynonyms")
		},
	},
	{
		what: "`cleanup.policy`: `delete,compact` is shown as `compact,delete`, and an empty list is refused", why: "the value has one canonical form",
		diverges: true,
		is: func(d *difference) bool {
			return strings.Contains(d.path, `["cleanup.policy"]`) && strings.Contains(d.kafka, "delete") && d.seb == `"compact,delete"` ||
				(strings.Contains(d.step.what, `cleanup.policy=""`) || strings.Contains(d.step.what, `SUBTRACT cleanup.policy`)) && (codes(d, kmsg.CreateTopics, of("0"), of("40")) ||
					codes(d, kmsg.AlterConfigs, of("0"), of("40")) || codes(d, kmsg.IncrementalAlterConfigs, of("0"), of("40")))
		},
	},
	{
		what: "Metadata that creates a topic: Kafka answers UNKNOWN_TOPIC_OR_PARTITION while it creates the topic; Seb answers with the topic",
		why:  "saves the client a second request",
		is:   func(d *difference) bool { return codes(d, kmsg.Metadata, of("3"), of("0")) },
	},
	{
		what: "Metadata v10 and v11 by topic id: INVALID_REQUEST by Kafka; Seb answers", why: "the request is complete", diverges: true,
		is: func(d *difference) bool {
			return d.key == kmsg.Metadata && (d.version == 10 || d.version == 11) && someCode(d.kafkaSays, "42")
		},
	},
	{
		what: "CreateTopics, CreatePartitions: any replication factor and assignment is accepted", why: "the object store does the replication", diverges: true,
		is: func(d *difference) bool {
			return codes(d, kmsg.CreateTopics, of("38", "39"), of("0")) || codes(d, kmsg.CreatePartitions, of("38", "39"), of("0"))
		},
	},
	{
		what: "CreateTopics with validate only: Kafka returns a topic ID", why: "the topic does not exist",
		is: func(d *difference) bool {
			return at(d, kmsg.CreateTopics, "Topics[].TopicID") && d.step.dry && d.seb == "0"
		},
	},
	{
		what: "CreatePartitions of a compacted topic: INVALID_PARTITIONS", why: "keys would move to other partitions", diverges: true,
		is: func(d *difference) bool { return codes(d, kmsg.CreatePartitions, of("0"), of("37")) },
	},
	{
		what: "`message.timestamp.type` may be `create` or `append`", why: "Seb's own names are accepted", diverges: true,
		is: func(d *difference) bool {
			return strings.Contains(d.step.what, `message.timestamp.type="create"`) && strings.HasSuffix(d.path, "ErrorCode") && d.kafka == "40" && d.seb == "0"
		},
	},
	{
		what: "CreateTopics with too many partitions: POLICY_VIOLATION by Kafka, INVALID_PARTITIONS by Seb", why: "the number is invalid; the limit is 10,000",
		is: func(d *difference) bool { return codes(d, kmsg.CreateTopics, of("44"), of("37")) },
	},
	{
		what: "a request with two errors: which one is reported", why: "the order of checks is not part of the protocol",
		is: func(d *difference) bool {
			if strings.HasSuffix(d.path, "ErrorCode") && slices.Contains(refusals, d.seb) && !slices.Contains(append(refusals, "", "0", "3", "100"), d.kafka) {
				return true
			}
			return slices.Contains([]kmsg.Key{kmsg.CreateTopics, kmsg.AlterConfigs, kmsg.IncrementalAlterConfigs, kmsg.CreatePartitions, kmsg.Produce, kmsg.JoinGroup, kmsg.OffsetCommit, kmsg.DeleteRecords, kmsg.ListOffsets, kmsg.OffsetForLeaderEpoch, kmsg.Fetch, kmsg.AlterUserSCRAMCredentials, kmsg.FindCoordinator, kmsg.TxnOffsetCommit}, d.key) &&
				strings.HasSuffix(d.path, "ErrorCode") && slices.Contains(twoFaults[d.key], [2]string{d.kafka, d.seb})
		},
	},
	{
		what: "UNKNOWN_SERVER_ERROR by Kafka: Seb returns the specific error", why: "producers may write twice after it, and the cause stays unknown",
		is: func(d *difference) bool {
			return strings.HasSuffix(d.path, "ErrorCode") && d.kafka == "-1" && d.seb != "0" && d.seb != ""
		},
	},
	{
		what: "SaslHandshake after authentication: ILLEGAL_SASL_STATE by Kafka; Seb authenticates again", why: "clients may authenticate again before a key changes",
		is: func(d *difference) bool { return d.key == kmsg.SASLHandshake && d.kafkaSays["ErrorCode"] == "34" },
	},
}

// refusals are the codes of requests without a right.
var refusals = []string{"29", "30", "31"}

// twoFaults are codes of Kafka and Seb for requests with two errors, by key.
var twoFaults = map[kmsg.Key][][2]string{
	kmsg.CreateTopics:              {{"40", "42"}, {"38", "40"}, {"39", "40"}, {"42", "40"}, {"39", "37"}, {"44", "40"}, {"44", "38"}, {"40", "38"}, {"40", "37"}, {"38", "37"}, {"37", "38"}},
	kmsg.IncrementalAlterConfigs:   {{"40", "3"}, {"40", "17"}, {"42", "17"}},
	kmsg.AlterConfigs:              {{"40", "3"}, {"42", "3"}, {"42", "17"}},
	kmsg.Produce:                   {{"2", "3"}, {"2", "100"}, {"53", "3"}, {"87", "10"}, {"21", "2"}, {"21", "87"}, {"76", "87"}, {"53", "100"}, {"87", "21"}, {"2", "21"}, {"76", "32"}, {"87", "32"}, {"32", "2"}, {"21", "32"}, {"47", "45"}, {"48", "87"}, {"45", "87"}, {"47", "87"}},
	kmsg.JoinGroup:                 {{"23", "25"}},
	kmsg.CreatePartitions:          {{"39", "37"}},
	kmsg.TxnOffsetCommit:           {{"49", "25"}, {"47", "25"}},
	kmsg.FindCoordinator:           {{"31", "42"}},
	kmsg.AlterUserSCRAMCredentials: {{"91", "92"}, {"92", "93"}, {"93", "92"}, {"92", "33"}, {"33", "92"}},
}

// ours reports whether a path belongs to a setting of Seb.
func ours(path string) bool {
	for _, name := range []string{
		"cleanup.policy", "compression.type", "delete.retention.ms", "max.message.bytes", "message.timestamp.type", "min.compaction.lag.ms",
		"retention.bytes", "retention.ms",
	} {
		if strings.Contains(path, `"`+name+`"`) {
			return true
		}
	}
	return false
}

// someCode reports whether an answer contains a code.
func someCode(f fields, code string) bool {
	for path, value := range f {
		if strings.HasSuffix(path, "ErrorCode") && value == code {
			return true
		}
	}
	return false
}
