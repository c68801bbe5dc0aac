package kafka_test

import (
	"context"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/must"
)

// TestTopicInUseByTriggersIsNotDeleted: the code is Kafka's for topics that cannot be deleted. The
// message, from version 5 on, names the triggers.
func TestTopicInUseByTriggersIsNotDeleted(t *testing.T) {
	s := serve(t, openBroker(t, objstore.NewMemory(), func(o *broker.Options) {
		o.InUse = func(_ context.Context, topic string) error {
			if topic != "events" {
				return nil
			}
			return &broker.TopicInUseError{Topic: topic, By: []string{"no-x"}}
		}
	}), kafka.Options{})
	must.Get(admin(t, s).CreateTopics(t.Context(), 1, 1, nil, "events"))(t)
	c := dial(t, s)
	for version, want := range map[int16]error{1: kerr.InvalidRequest, 3: kerr.TopicDeletionDisabled, 6: kerr.TopicDeletionDisabled} {
		r := kmsg.NewPtrDeleteTopicsRequest()
		r.Version, r.TimeoutMillis, r.TopicNames = version, 5000, []string{"events"}
		name := kmsg.NewDeleteTopicsRequestTopic()
		name.Topic = kmsg.StringPtr("events")
		r.Topics = append(r.Topics, name)
		got := c.ask(r, version).(*kmsg.DeleteTopicsResponse)
		if len(got.Topics) != 1 || kerr.ErrorForCode(got.Topics[0].ErrorCode) != want {
			t.Errorf("version %d: %+v, want %v", version, got.Topics, want)
		}
		if text := got.Topics[0].ErrorMessage; version >= 5 && (text == nil || !strings.Contains(*text, "no-x")) {
			t.Errorf("version %d: the message does not name the trigger", version)
		}
	}
	if _, ok := s.b.TopicNamed("events"); !ok {
		t.Error("the topic was deleted")
	}
}
