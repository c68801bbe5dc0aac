package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/group"
	"github.com/sebbroker/seb/internal/kafka/conn"
	"github.com/sebbroker/seb/record"
)

// Coordinator is who decides, a *coordinator.Coordinator.
type Coordinator interface {
	// Ready says whether this is where groups are coordinated.
	Ready() group.Code
	// Join begins a joining; one answer comes on the channel.
	Join(r *group.JoinRequest) <-chan group.JoinAnswer
	// Sync begins to wait for an assignment; one answer comes on the channel.
	Sync(r *group.SyncRequest) <-chan group.SyncAnswer
	// Heartbeat says that a member lives.
	Heartbeat(r *group.Caller) group.Code
	// HeartbeatConsumer makes and hears members of the consumer protocol, and says how soon the next heartbeat is due.
	HeartbeatConsumer(r *group.HeartbeatRequest) (group.HeartbeatAnswer, time.Duration)
	// CheckReader says whether a member of the consumer protocol that asks for offsets is one.
	CheckReader(r *group.Caller) group.Code
	// Leave removes members, with a code for each, or one for all.
	Leave(group string, leaving []group.Leaving) ([]group.Code, group.Code)
	// Commit queues a commit; what it returns waits for an error for each offset, or a code for all.
	Commit(caller *group.Caller, commits []broker.OffsetCommit) func(ctx context.Context) ([]error, group.Code)
	// Offsets is what a group has committed.
	Offsets(ctx context.Context, group string) (broker.GroupInfo, error)
	// Size is how much that is.
	Size(group string) broker.GroupRef
	// Describe describes a group with its members.
	Describe(name string) (group.View, group.Code)
	// List describes all groups by name, without their members.
	List() ([]group.View, group.Code)
	// DeleteGroup forgets what a group without members has committed.
	DeleteGroup(ctx context.Context, group string) error
	// DeleteOffset forgets what a group without members has committed in one partition.
	DeleteOffset(ctx context.Context, group, topic string, partition int32) error
}

// Topics finds topics, a *broker.Broker.
type Topics interface {
	// TopicNamed finds a topic by its name.
	TopicNamed(name string) (broker.TopicRef, bool)
	// TopicOf finds a topic by its id.
	TopicOf(id record.ID) (broker.TopicRef, bool)
}

// Server is what requests are answered with.
type groupServer struct {
	Coordinator Coordinator
	Topics      Topics
	// Memory is what large answers are reserved from.
	Memory *budget.Class
}

// Call is one request. Body is its bytes behind the head, good until its Finish has returned; Skim must have accepted them.
type Call struct {
	Version int16
	Body    []byte
	Client  string // what the client calls itself
	Host    string // where it connects from
	Self    Node
}

// Node is a broker as clients are told of it.
type Node struct {
	ID   int32
	Host string
	Port int32
}

// Finish waits for the answer, until ctx ends, and returns it with the memory that it takes; whoever has sent it releases that.
type Finish func(ctx context.Context) (kmsg.Response, *budget.Reservation)

// API is how an API key is served.
type API struct {
	Key      kmsg.Key
	Min, Max int16 // versions
	Shape    conn.Shape
	// Begin begins a request, in the order of requests, and does not wait. An error is conn.ErrMalformed.
	Begin func(s *groupServer, c *Call) (Finish, error)
}

// Table is every API key that is served here.
func Table() []API {
	return []API{
		offsetCommitAPI, offsetFetchAPI, findCoordinatorAPI, joinGroupAPI, heartbeatAPI, leaveGroupAPI, syncGroupAPI, describeGroupsAPI,
		listGroupsAPI, deleteGroupsAPI, offsetDeleteAPI, consumerGroupHeartbeatAPI, consumerGroupDescribeAPI,
	}
}

// request is what kmsg decodes into.
type groupRequest[T any] interface {
	*T
	kmsg.Request
}

// beginning makes an API's Begin of a function that begins a decoded request. Its texts are its own, its bytes are the call's.
func beginning[T any, R groupRequest[T]](begin func(s *groupServer, c *Call, r R) Finish) func(*groupServer, *Call) (Finish, error) {
	return func(s *groupServer, c *Call) (Finish, error) {
		r := R(new(T))
		r.SetVersion(c.Version)
		if err := r.ReadFrom(c.Body); err != nil {
			return nil, fmt.Errorf("%s v%d: %w: %w", kmsg.Key(r.Key()).Name(), c.Version, conn.ErrMalformed, err)
		}
		return begin(s, c, r), nil
	}
}

// answered is a Finish that need not wait.
func answered(resp kmsg.Response) Finish {
	return func(context.Context) (kmsg.Response, *budget.Reservation) { return resp, nil }
}

// serving is for requests that are served when their answer's turn comes.
func groupServing[T any, R groupRequest[T]](serve func(s *groupServer, c *Call, ctx context.Context, r R) (kmsg.Response, *budget.Reservation)) func(*groupServer, *Call) (Finish, error) {
	return beginning(func(s *groupServer, c *Call, r R) Finish {
		return func(ctx context.Context) (kmsg.Response, *budget.Reservation) { return serve(s, c, ctx, r) }
	})
}

// elementBytes is above what an element of an answer takes, decoded and encoded, its texts aside.
const elementBytes = 256

// callerOf is who a request says it is from.
func callerOf(c *Call, groupID, member string, instance *string, generation int32) group.Caller {
	return group.Caller{Group: groupID, Member: member, Instance: deref(instance), Client: c.Client, Generation: generation}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// orNil is a nullable text.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
