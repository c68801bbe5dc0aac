package kafka

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/sebbroker/seb/internal/log/state"
)

// config is a topic setting with its name in Kafka.
type config struct {
	name, setting string
	kind          int8                          // type in DescribeConfigs
	parse         func(v string) (string, bool) // converts Kafka's value; false: invalid
	format        func(s *state.Settings) string
}

// The types of values.
const (
	kindBool   = 1
	kindString = 2
	kindInt    = 3
	kindLong   = 5
	kindList   = 7
)

// configs are the supported settings. See ignoredConfigs for other settings of Kafka.
var configs = []config{
	{"cleanup.policy", "cleanup-policy", kindList, parsePolicy, func(s *state.Settings) string { return s.CleanupPolicy }},
	{"compression.type", "compression", kindString, same, func(s *state.Settings) string { return s.Compression }},
	{"delete.retention.ms", "delete-retention-time", kindLong, parseMillis, func(s *state.Settings) string { return millis(s.DeleteRetentionTime) }},
	{"max.message.bytes", "max-batch-bytes", kindInt, same, func(s *state.Settings) string { return strconv.Itoa(s.MaxBatchBytes) }},
	{"message.timestamp.type", "timestamp-type", kindString, same, func(s *state.Settings) string { return s.TimestampType }},
	{"min.compaction.lag.ms", "min-compaction-lag", kindLong, parseMillis, func(s *state.Settings) string { return millis(s.MinCompactionLag) }},
	{"retention.bytes", "retention-bytes", kindLong, same, func(s *state.Settings) string { return strconv.FormatInt(s.RetentionBytes, 10) }},
	{"retention.ms", "retention-time", kindLong, parseMillis, func(s *state.Settings) string { return millis(s.RetentionTime) }},
	{"seb.key.index", "key-index", kindBool, same, func(s *state.Settings) string { return strconv.FormatBool(s.KeyIndex) }},
}

// ignoredConfigs are about segments, replicas, tiers and caches, which Seb does not have. A topic
// may be created with them, without effect.
var ignoredConfigs = []string{
	"compression.gzip.level", "compression.lz4.level", "compression.zstd.level", "file.delete.delay.ms", "flush.messages", "flush.ms", "follower.replication.throttled.replicas", "index.interval.bytes",
	"leader.replication.throttled.replicas", "local.retention.bytes", "local.retention.ms", "max.compaction.lag.ms", "message.format.version", "message.timestamp.after.max.ms",
	"message.timestamp.before.max.ms", "message.timestamp.difference.max.ms", "message.downconversion.enable",
	"min.cleanable.dirty.ratio", "min.insync.replicas", "preallocate", "remote.log.copy.disable", "remote.log.delete.on.disable",
	"remote.storage.enable", "segment.bytes", "segment.index.bytes",
	"segment.jitter.ms", "segment.ms", "unclean.leader.election.enable",
}

func same(v string) (string, bool) { return v, true }

// parsePolicy accepts policies in any order.
func parsePolicy(v string) (string, bool) {
	if strings.ReplaceAll(v, " ", "") == "delete,compact" {
		return "compact,delete", true
	}
	return strings.ReplaceAll(v, " ", ""), true
}

// parseMillis accepts a time in milliseconds; -1 is unlimited.
func parseMillis(v string) (string, bool) {
	n, err := strconv.ParseInt(v, 10, 64)
	if err != nil || n < -1 || n > int64(100_000*24*time.Hour/time.Millisecond) {
		return "", false
	}
	if n == -1 {
		return "unlimited", true
	}
	return (time.Duration(n) * time.Millisecond).String(), true
}

func millis(d time.Duration) string {
	if d == state.Unlimited {
		return "-1"
	}
	return strconv.FormatInt(d.Milliseconds(), 10)
}

func configNamed(name string) *config {
	for i := range configs {
		if configs[i].name == name {
			return &configs[i]
		}
	}
	return nil
}

// settingOf converts a topic config; name is "" if the config is ignored.
func settingOf(config string, value *string) (name, setting string, err error) {
	c := configNamed(config)
	if c == nil {
		for _, ignored := range ignoredConfigs {
			if ignored == config {
				return "", "", nil
			}
		}
		return "", "", fmt.Errorf("unknown config %.100q", config)
	}
	if value == nil || *value == "" { // would set the default
		return "", "", fmt.Errorf("config %s: no value", config)
	}
	v, ok := c.parse(*value)
	if !ok {
		return "", "", fmt.Errorf("config %s: invalid number of milliseconds %.100q", config, *value)
	}
	return c.setting, v, nil
}
