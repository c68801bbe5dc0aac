package kafka

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/record"
)

// config is a topic config of Kafka with the range that Kafka's ConfigDef gives it (4.3, or an
// earlier version if that accepts more). The setting checks the values of a text or list.
type config struct {
	name    string
	setting string // "" without effect
	kind    int8   // type in DescribeConfigs
	low     int64  // least value of a number
	high    int64  // greatest value; 0: that of the type
}

// The types of values.
const (
	kindBool   = 1
	kindString = 2
	kindInt    = 3
	kindLong   = 5
	kindDouble = 6
	kindList   = 7
)

// configs are the topic configs that have a setting.
var configs = []config{
	{name: "cleanup.policy", setting: "cleanup-policy", kind: kindList},
	{name: "compression.type", setting: "compression", kind: kindString},
	{name: "delete.retention.ms", setting: "delete-retention-time", kind: kindLong},
	{name: "max.message.bytes", setting: "max-batch-bytes", kind: kindInt},
	{name: "message.timestamp.type", setting: "timestamp-type", kind: kindString},
	{name: "min.cleanable.dirty.ratio", setting: "min-cleanable-dirty-ratio", kind: kindDouble, high: 1},
	{name: "min.compaction.lag.ms", setting: "min-compaction-lag", kind: kindLong},
	{name: "retention.bytes", setting: "retention-bytes", kind: kindLong, low: math.MinInt64},
	{name: "retention.ms", setting: "retention-time", kind: kindLong, low: -1},
	{name: "seb.key.index", setting: "key-index", kind: kindBool},
}

// ignoredConfigs are about segments, replicas, tiers and caches, which Seb does not have. They are
// accepted, without effect.
var ignoredConfigs = []config{
	{name: "compression.gzip.level", kind: kindInt, low: -1, high: 9},
	{name: "compression.lz4.level", kind: kindInt, low: 1, high: 17},
	{name: "compression.zstd.level", kind: kindInt, low: -131_072, high: 22},
	{name: "file.delete.delay.ms", kind: kindLong},
	{name: "flush.messages", kind: kindLong, low: 1},
	{name: "flush.ms", kind: kindLong},
	{name: "follower.replication.throttled.replicas", kind: kindList},
	{name: "index.interval.bytes", kind: kindInt},
	{name: "internal.segment.bytes", kind: kindInt, low: math.MinInt32},
	{name: "leader.replication.throttled.replicas", kind: kindList},
	{name: "local.retention.bytes", kind: kindLong, low: -2},
	{name: "local.retention.ms", kind: kindLong, low: -2},
	{name: "max.compaction.lag.ms", kind: kindLong, low: 1},
	{name: "message.downconversion.enable", kind: kindBool},
	{name: "message.format.version", kind: kindString},
	{name: "message.timestamp.after.max.ms", kind: kindLong},
	{name: "message.timestamp.before.max.ms", kind: kindLong},
	{name: "message.timestamp.difference.max.ms", kind: kindLong},
	{name: "min.insync.replicas", kind: kindInt, low: 1},
	{name: "preallocate", kind: kindBool},
	{name: "remote.log.copy.disable", kind: kindBool},
	{name: "remote.log.delete.on.disable", kind: kindBool},
	{name: "remote.storage.enable", kind: kindBool},
	{name: "segment.bytes", kind: kindInt, low: 14},
	{name: "segment.index.bytes", kind: kindInt, low: 4},
	{name: "segment.jitter.ms", kind: kindLong},
	{name: "segment.ms", kind: kindLong, low: 1},
	{name: "unclean.leader.election.enable", kind: kindBool},
}

// check returns a value without spaces around it, or an error that names the range.
func (c *config) check(v string) (string, error) {
	v = strings.TrimSpace(v)
	var err error
	switch c.kind {
	case kindBool:
		v = strings.ToLower(v)
		if _, err = strconv.ParseBool(v); err != nil {
			return "", fmt.Errorf("%.100q is not true or false", v)
		}
	case kindDouble:
		n, err := strconv.ParseFloat(v, 64)
		if err != nil || !(n >= float64(c.low) && n <= float64(c.high)) {
			return "", fmt.Errorf("%.100q is not a number from %d to %d", v, c.low, c.high)
		}
	case kindInt, kindLong:
		high := cmp.Or(c.high, math.MaxInt64)
		if c.kind == kindInt {
			high = cmp.Or(c.high, math.MaxInt32)
		}
		n, err := strconv.ParseInt(v, 10, 64)
		if err != nil || n < c.low || n > high {
			return "", fmt.Errorf("%.100q is not an integer from %d to %d", v, c.low, high)
		}
		v = strconv.FormatInt(n, 10)
	}
	return v, nil
}

// toSetting converts a checked value to that of the setting.
func (c *config) toSetting(v string) string {
	switch {
	case c.kind == kindLong && strings.HasPrefix(v, "-"):
		return "unlimited"
	case c.kind == kindLong && strings.HasSuffix(c.name, ".ms"):
		return v + "ms"
	case v == "uncompressed":
		return record.None.String()
	case c.kind == kindList:
		if v = strings.ReplaceAll(v, " ", ""); v == "delete,compact" {
			return "compact,delete"
		}
	}
	return v
}

// value returns the value of a topic with these settings.
func (c *config) value(settings map[string]string) string {
	v := state.Value(settings, c.setting)
	switch {
	case v == "unlimited":
		return strconv.Itoa(state.Unlimited)
	case v == record.None.String():
		return "uncompressed"
	case c.kind == kindLong && strings.HasSuffix(c.name, ".ms"):
		if ms, err := state.Millis(v); err == nil {
			return strconv.FormatInt(ms, 10)
		}
	}
	return v
}

func configNamed(list []config, name string) *config {
	if i := slices.IndexFunc(list, func(c config) bool { return c.name == name }); i >= 0 {
		return &list[i]
	}
	return nil
}

// settingOf converts a topic config; name is "" if the config is ignored.
func settingOf(config string, value *string) (name, setting string, err error) {
	c := cmp.Or(configNamed(configs, config), configNamed(ignoredConfigs, config))
	switch {
	case c == nil:
		return "", "", fmt.Errorf("unknown config %.100q", config)
	case value == nil || *value == "" && c.setting != "": // would set the default
		return "", "", fmt.Errorf("config %s: no value", config)
	}
	v, err := c.check(*value)
	if err != nil {
		return "", "", fmt.Errorf("config %s: %w", config, err)
	}
	return c.setting, c.toSetting(v), nil
}
