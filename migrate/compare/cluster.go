package compare

import (
	"context"
	"crypto/tls"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// The SASL mechanisms of a Cluster.
const (
	Plain       = "plain"
	ScramSHA256 = "scram-sha-256"
	ScramSHA512 = "scram-sha-512"
)

// Cluster says how to connect to a cluster.
type Cluster struct {
	Addresses []string
	User      string // "": no SASL
	Password  string
	Mechanism string      // of SASL; "": ScramSHA512
	TLS       *tls.Config // nil: no TLS
}

// side is a connection to one of the two clusters.
type side struct {
	name   string // in errors and reports: the flag of the cluster
	client *kgo.Client
	admin  *kadm.Client
}

// requestRetries bounds how long a cluster that does not answer is asked again.
const requestRetries = 30 * time.Second

func (c *Cluster) open(name string) (*side, error) {
	o := []kgo.Opt{
		kgo.SeedBrokers(c.Addresses...), kgo.ClientID("seb-migrate"), kgo.RetryTimeout(requestRetries),
		kgo.MetadataMinAge(100 * time.Millisecond),
	}
	if c.TLS != nil {
		o = append(o, kgo.DialTLSConfig(c.TLS))
	}
	switch {
	case c.User == "":
	case c.Mechanism == Plain:
		o = append(o, kgo.SASL(plain.Auth{User: c.User, Pass: c.Password}.AsMechanism()))
	case c.Mechanism == ScramSHA256:
		o = append(o, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha256Mechanism()))
	case c.Mechanism == ScramSHA512, c.Mechanism == "":
		o = append(o, kgo.SASL(scram.Auth{User: c.User, Pass: c.Password}.AsSha512Mechanism()))
	default:
		return nil, fmt.Errorf("SASL mechanism %q: want %s, %s or %s", c.Mechanism, Plain, ScramSHA256, ScramSHA512)
	}
	client, err := kgo.NewClient(o...)
	if err != nil {
		return nil, err
	}
	return &side{name: name, client: client, admin: kadm.NewClient(client)}, nil
}

// span is the part of a partition that is compared: from its start to the end that it had when the
// check began.
type span struct {
	topic      string
	id         kadm.TopicID
	partition  int32
	start, end int64
}

// topic is a topic of a cluster.
type topic struct {
	compacted bool
	spans     []span // by partition
}

// topics returns topics by name. Names that the cluster does not have are absent.
func (s *side) topics(ctx context.Context, names []string) (map[string]topic, error) {
	listed, err := s.admin.ListTopics(ctx)
	if err != nil {
		return nil, fmt.Errorf("%s: topics: %w", s.name, err)
	}
	var found []string
	for _, name := range names {
		if d, ok := listed[name]; ok && d.Err == nil {
			found = append(found, name)
		} else if ok {
			return nil, fmt.Errorf("%s: topic %s: %w", s.name, name, d.Err)
		}
	}
	result := map[string]topic{}
	if len(found) == 0 {
		return result, nil // without names the requests below mean all topics
	}
	starts, err := s.admin.ListStartOffsets(ctx, found...)
	if err == nil {
		err = starts.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: start offsets: %w", s.name, err)
	}
	ends, err := s.admin.ListCommittedOffsets(ctx, found...)
	if err == nil {
		err = ends.Error()
	}
	if err != nil {
		return nil, fmt.Errorf("%s: end offsets: %w", s.name, err)
	}
	configs, err := s.admin.DescribeTopicConfigs(ctx, found...)
	if err != nil {
		return nil, fmt.Errorf("%s: settings of topics: %w", s.name, err)
	}
	for _, name := range found {
		t, err := topicOf(listed[name], starts[name], ends[name])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", s.name, err)
		}
		config, err := configs.On(name, nil)
		if err == nil {
			err = config.Err
		}
		if err != nil {
			return nil, fmt.Errorf("%s: settings of topic %s: %w", s.name, name, err)
		}
		t.compacted = isCompacted(config)
		result[name] = t
	}
	return result, nil
}

func topicOf(d kadm.TopicDetail, starts, ends map[int32]kadm.ListedOffset) (topic, error) {
	var t topic
	for p := range int32(len(d.Partitions)) {
		start, hasStart := starts[p]
		end, hasEnd := ends[p]
		if !hasStart || !hasEnd {
			return topic{}, fmt.Errorf("topic %s: no offsets of partition %d", d.Topic, p)
		}
		t.spans = append(t.spans, span{topic: d.Topic, id: d.ID, partition: p, start: start.Offset, end: end.Offset})
	}
	return t, nil
}

func isCompacted(config kadm.ResourceConfig) bool {
	for _, c := range config.Configs {
		if c.Key == "cleanup.policy" && c.Value != nil {
			return strings.Contains(*c.Value, "compact")
		}
	}
	return false
}
