package kafka_test

import (
	"testing"
	"time"

	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/core"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/must"
)

// TestMetadataOfAReadOnlyBroker: a topic created after the start of a read-only broker is in its
// next answer, by name and in the list. The broker does not poll the log during the test.
func TestMetadataOfAReadOnlyBroker(t *testing.T) {
	store := objstore.NewMemory()
	leader := openBroker(t, store, nil)
	follow := func() *served {
		b := openBroker(t, store, func(o *broker.Options) {
			o.Core.ReadOnly, o.Core.FollowPoll = true, core.Duration(time.Hour)
		})
		return serve(t, b, kafka.Options{})
	}
	for _, x := range []struct {
		name string
		ask  []string
	}{{"named", []string{"named"}}, {"listed", nil}} {
		t.Run(x.name, func(t *testing.T) {
			follower := admin(t, follow())
			must.Get(leader.CreateTopic(t.Context(), x.name, broker.TopicSpec{}))(t)
			got, err := follower.ListTopics(t.Context(), x.ask...)
			if err != nil || !got.Has(x.name) || got[x.name].Err != nil {
				t.Errorf("metadata of a new topic: %+v, %v", got, err)
			}
		})
	}
}
