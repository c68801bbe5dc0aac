package differential

import (
	"slices"
	"strings"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// ruleKeys are the keys that manage rules.
var ruleKeys = []kmsg.Key{kmsg.DescribeACLs, kmsg.CreateACLs, kmsg.DeleteACLs}

var wantedOfRights = []wanted{
	{
		what: "DescribeAcls, CreateAcls, DeleteAcls with an unknown type or operation: Kafka closes the connection or finds no rule, Seb answers INVALID_REQUEST", why: "the client gets the reason",
		is: func(d *difference) bool {
			return codes(d, kmsg.DescribeACLs, of("0"), of("42")) || slices.Contains(ruleKeys, d.key) && d.path == "" && d.kafka == "closed" && (someCode(d.sebSays, "42") || someCode(d.sebSays, "31"))
		},
	},
	{
		what: "CreateAcls for a principal that is not a user, or for an operation that the type does not have: Kafka stores the rule, Seb answers INVALID_REQUEST",
		why:  "the rule could not match a request",
		is:   func(d *difference) bool { return codes(d, kmsg.CreateACLs, of("0"), of("42")) },
	},
	{
		what: "AlterUserScramCredentials of a user's two mechanisms: DUPLICATE_RESOURCE by Kafka, Seb changes both", why: "the passwords are independent",
		is: func(d *difference) bool { return codes(d, kmsg.AlterUserSCRAMCredentials, of("92"), of("0")) },
	},
	{
		what: "AlterClientQuotas of client IDs, and of `request_percentage`: Kafka stores them, Seb answers INVALID_REQUEST", why: "quotas are of users, in bytes and requests",
		is: func(d *difference) bool { return codes(d, kmsg.AlterClientQuotas, of("0"), of("42")) },
	},
	{
		what: "AlterClientQuotas of `request_rate`: INVALID_REQUEST by Kafka, Seb limits the requests per second", why: "Kafka limits their CPU time",
		is: func(d *difference) bool { return codes(d, kmsg.AlterClientQuotas, of("42"), of("0")) },
	},
	{
		what: "OffsetForLeaderEpoch with ClusterAction on the cluster but without Describe on the topic: Kafka answers, Seb refuses it", why: "the operation is for brokers, and Seb has no others",
		is: func(d *difference) bool { return codes(d, kmsg.OffsetForLeaderEpoch, nil, of("29")) },
	},
	{
		what: "All on the cluster: Kafka also allows the deletion of topics", why: "Delete is not an operation on the cluster", diverges: true,
		is: func(d *difference) bool { // by ID, Seb does not show the name
			return codes(d, kmsg.DeleteTopics, of("0", "3"), of("29")) || d.key == kmsg.DeleteTopics && (d.kafka == here || d.seb == here) && someCode(d.sebSays, "100")
		},
	},
	{
		what: "CreateAcls with Alter on the cluster: Seb refuses a rule that allows more than the client may do (CLUSTER_AUTHORIZATION_FAILED)",
		why:  "a client could otherwise give itself every right",
		is:   func(d *difference) bool { return codes(d, kmsg.CreateACLs, of("0"), of("31")) },
	},
	{
		what: "ListGroups with Describe on the cluster: Kafka lists all groups, Seb those that the client may describe", why: "a list shows no more than other answers",
		is: func(d *difference) bool {
			return d.key == kmsg.ListGroups && (strings.HasSuffix(d.path, "]") && d.seb == "" || d.path == "Groups.len" && d.kafka > d.seb)
		},
	},
	{
		what: "a topic ID of a topic that the client may not describe: TOPIC_AUTHORIZATION_FAILED by Kafka, UNKNOWN_TOPIC_ID by Seb", why: "the client does not learn which topics exist",
		is: func(d *difference) bool {
			return strings.HasSuffix(d.path, "ErrorCode") && d.kafka == "29" && d.seb == "100"
		},
	},
}
