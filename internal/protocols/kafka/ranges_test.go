package kafka_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

const (
	anyInt  = "2147483647"
	anyLong = "9223372036854775807"
)

// topicConfigs are the configs of LogConfig.configDefCopy() in Kafka 4.3.1 with the values that they
// accept, each with its two ends, and those just beyond.
var topicConfigs = []struct {
	name     string
	ignored  bool     // without effect, so DescribeConfigs does not return it
	accepted []string // "given shown" if DescribeConfigs returns another text
	refused  []string
}{
	{"cleanup.policy", false, []string{"compact", "delete", "compact,delete", "delete,compact compact,delete"}, []string{"", "keep", "compact,keep"}},
	{"compression.gzip.level", true, []string{"-1", "1", "9"}, []string{"-2", "10"}},
	{"compression.lz4.level", true, []string{"1", "17"}, []string{"0", "18"}},
	{"compression.type", false, []string{"uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"}, []string{"", "rar", "GZIP"}},
	{"compression.zstd.level", true, []string{"-131072", "22"}, []string{"-131073", "23"}},
	{"delete.retention.ms", false, []string{"0", "1", "999", anyLong}, []string{"-1", anyLong + "0", "1d", "", "1.5"}},
	{"file.delete.delay.ms", true, []string{"0", anyLong}, []string{"-1", "9223372036854775808"}},
	{"flush.messages", true, []string{"1", anyLong}, []string{"0", "9223372036854775808"}},
	{"flush.ms", true, []string{"0", anyLong}, []string{"-1", "9223372036854775808"}},
	{"follower.replication.throttled.replicas", true, []string{"", "*", "0:1,1:2"}, nil},
	{"index.interval.bytes", true, []string{"0", anyInt}, []string{"-1", "2147483648"}},
	{"internal.segment.bytes", true, []string{"-2147483648", anyInt}, []string{"-2147483649", "2147483648"}},
	{"leader.replication.throttled.replicas", true, []string{"", "*", "0:1,1:2"}, nil},
	{"local.retention.bytes", true, []string{"-2", anyLong}, []string{"-3", "9223372036854775808"}},
	{"local.retention.ms", true, []string{"-2", anyLong}, []string{"-3", "9223372036854775808"}},
	{"max.compaction.lag.ms", true, []string{"1", anyLong}, []string{"0", "9223372036854775808"}},
	{"max.message.bytes", false, []string{"0", "1", "31457280"}, []string{"-1", "31457281", anyInt, "2147483648", "1MiB"}},
	{"message.timestamp.after.max.ms", true, []string{"0", anyLong}, []string{"-1", "9223372036854775808"}},
	{"message.timestamp.before.max.ms", true, []string{"0", anyLong}, []string{"-1", "9223372036854775808"}},
	{"message.timestamp.type", false, []string{"CreateTime", "LogAppendTime"}, []string{"", "NoTimestampType", "createtime"}},
	{"min.cleanable.dirty.ratio", false, []string{"0", "0.5", "1", "1.0 1", "1e-3 0.001"}, []string{"-0.1", "1.1", "NaN", "x"}},
	{"min.compaction.lag.ms", false, []string{"0", "1", "9223372036853", "9223372036854", "9223372036855", anyLong}, []string{"-1", "9223372036854775808"}},
	{"min.insync.replicas", true, []string{"1", anyInt}, []string{"0", "2147483648"}},
	{"preallocate", true, []string{"true", "false", "TRUE"}, []string{"yes"}},
	{"remote.log.copy.disable", true, []string{"true", "false"}, []string{"2"}},
	{"remote.log.delete.on.disable", true, []string{"true", "false"}, []string{"2"}},
	{"remote.storage.enable", true, []string{"true", "false"}, []string{"2"}},
	{"retention.bytes", false, []string{"-9223372036854775808 -1", "-1", "0", "1", anyLong}, []string{"-9223372036854775809", "9223372036854775808", "1GiB", "unlimited"}},
	{"retention.ms", false, []string{"-1", "0", "1", "999", "1000", "8640000000001", anyLong, " 7 7"}, []string{"-2", "9223372036854775808", "7d", "unlimited"}},
	{"segment.bytes", true, []string{"14", "1048576", anyInt}, []string{"13", "2147483648"}},
	{"segment.index.bytes", true, []string{"4", anyInt}, []string{"3", "2147483648"}},
	{"segment.jitter.ms", true, []string{"0", anyLong}, []string{"-1", "9223372036854775808"}},
	{"segment.ms", true, []string{"1", anyLong}, []string{"0", "9223372036854775808"}},
	{"unclean.leader.election.enable", true, []string{"true", "false"}, []string{"2"}},

	// of earlier versions
	{"message.downconversion.enable", true, []string{"true", "false"}, []string{"2"}},
	{"message.format.version", true, []string{"3.0-IV1"}, nil},
	{"message.timestamp.difference.max.ms", true, []string{"0", anyLong}, []string{"-1", "9223372036854775808"}},

	{"seb.key.index", false, []string{"true", "false", "True true"}, []string{"yes"}},
}

// TestRangesOfConfigs: CreateTopics, AlterConfigs and IncrementalAlterConfigs accept the values that
// Kafka accepts, and DescribeConfigs returns them. A value beyond the range is INVALID_CONFIG, and the
// message names the config, or the setting that it is in Seb, and the value.
func TestRangesOfConfigs(t *testing.T) {
	s := memory(t)
	a, ctx := admin(t, s), t.Context()
	topic(t, s.b, "altered", broker.TopicSpec{})
	n := 0
	set := func(name, value string) (errs []error) {
		n++
		create := must.Get(a.CreateTopics(ctx, 1, 1, map[string]*string{name: &value}, "t"+strconv.Itoa(n)))(t)
		change := []kadm.AlterConfig{{Name: name, Value: &value}}
		all := must.Get(a.AlterTopicConfigsState(ctx, change, "altered"))(t)
		dry := must.Get(a.ValidateAlterTopicConfigs(ctx, change, "altered"))(t)
		one := must.Get(a.AlterTopicConfigs(ctx, change, "altered"))(t)
		for _, r := range create {
			errs = append(errs, r.Err)
			if r.Err != nil && (!strings.Contains(r.ErrMessage, name) && !strings.Contains(r.ErrMessage, "setting ") || !strings.Contains(r.ErrMessage, value)) {
				t.Errorf("%s=%s: message %q", name, value, r.ErrMessage)
			}
		}
		return append(errs, all[0].Err, dry[0].Err, one[0].Err)
	}
	described := func(topic, name string) string {
		for _, c := range must.Get(a.DescribeTopicConfigs(ctx, topic))(t)[0].Configs {
			if c.Key == name {
				return c.MaybeValue()
			}
		}
		return "none"
	}
	for _, c := range topicConfigs {
		for _, value := range c.accepted {
			want := value
			if i := strings.LastIndex(value, " "); i > 0 {
				value, want = value[:i], value[i+1:]
			}
			if c.ignored {
				want = "none"
			}
			for _, err := range set(c.name, value) {
				check.NoErrorf(t, err, "%s=%s", c.name, value)
			}
			check.Equalf(t, described("altered", c.name), want, "%s=%s", c.name, value)
			check.Equalf(t, described("t"+strconv.Itoa(n), c.name), want, "created with %s=%s", c.name, value)
		}
		for _, value := range c.refused {
			for _, err := range set(c.name, value) {
				check.ErrorIsf(t, err, kerr.InvalidConfig, "%s=%s", c.name, value)
			}
		}
	}
}
