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

// Coordinator decides the membership of groups. *coordinator.Coordinator implements it.
type Coordinator interface {
	// Ready reports whether this broker coordinates groups.
	Ready() group.Code
	// Join starts a JoinGroup; one answer comes on the channel.
	Join(r *group.JoinRequest) <-chan group.JoinAnswer
	// Sync starts a SyncGroup; one answer comes on the channel.
	Sync(r *group.SyncRequest) <-chan group.SyncAnswer
	// Heartbeat extends a member's session.
	Heartbeat(r *group.Caller) group.Code
	// HeartbeatConsumer handles a heartbeat of the consumer protocol, and returns the heartbeat
	// interval.
	HeartbeatConsumer(r *group.HeartbeatRequest) (group.HeartbeatAnswer, time.Duration)
	// CheckReader checks the member epoch of a request for offsets.
	CheckReader(r *group.Caller) group.Code
	// Leave removes members, with a code for each, or one for all.
	Leave(group string, leaving []group.Leaving) ([]group.Code, group.Code)
	// Commit queues a commit. The returned function waits for an error for each offset, or a code
	// for all.
	Commit(caller *group.Caller, commits []broker.OffsetCommit) func(ctx context.Context) ([]error, group.Code)
	// Offsets returns the committed offsets of a group.
	Offsets(ctx context.Context, group string) (broker.GroupInfo, error)
	// Size is the size of a group's committed offsets.
	Size(group string) broker.GroupRef
	// Describe describes a group with its members.
	Describe(name string) (group.View, group.Code)
	// List describes all groups by name, without their members.
	List() ([]group.View, group.Code)
	// DeleteGroup deletes the committed offsets of a group without members.
	DeleteGroup(ctx context.Context, group string) error
	// DeleteOffset deletes the committed offset of a group without members in one partition.
	DeleteOffset(ctx context.Context, group, topic string, partition int32) error
}

// Topics finds topics. *broker.Broker implements it.
type Topics interface {
	// TopicNamed finds a topic by its name.
	TopicNamed(name string) (broker.TopicRef, bool)
	// TopicOf finds a topic by its ID.
	TopicOf(id record.ID) (broker.TopicRef, bool)
}

// groupServer serves requests about consumer groups.
type groupServer struct {
	Coordinator Coordinator
	Topics      Topics
	// Memory is the class for large answers.
	Memory *budget.Class
}

// Call is one request. Body is the request after its head, valid until its Finish has returned.
// Skim must have accepted it.
type Call struct {
	Version int16
	Body    []byte
	Client  string // client ID
	Host    string // remote host
	Self    Node
}

// Node is a broker's address for clients.
type Node struct {
	ID   int32
	Host string
	Port int32
}

// Finish waits for the answer until ctx ends. It returns the answer with its memory, which the
// caller releases after sending.
type Finish func(ctx context.Context) (kmsg.Response, *budget.Reservation)

// API defines how an API key is served.
type API struct {
	Key      kmsg.Key
	Min, Max int16 // versions
	Shape    conn.Shape
	// Begin begins a request, in the order of arrival, without waiting. The error is
	// conn.ErrMalformed.
	Begin func(s *groupServer, c *Call) (Finish, error)
}

// Table lists the API keys about consumer groups.
func Table() []API {
	return []API{
		offsetCommitAPI, offsetFetchAPI, findCoordinatorAPI, joinGroupAPI, heartbeatAPI, leaveGroupAPI, syncGroupAPI, describeGroupsAPI,
		listGroupsAPI, deleteGroupsAPI, offsetDeleteAPI, consumerGroupHeartbeatAPI, consumerGroupDescribeAPI,
	}
}

// groupRequest is a request type of kmsg.
type groupRequest[T any] interface {
	*T
	kmsg.Request
}

// beginDecoded builds an API's Begin from a function that begins a decoded request. The request's
// strings are copies, its byte slices point into the call's body.
func beginDecoded[T any, R groupRequest[T]](begin func(s *groupServer, c *Call, r R) Finish) func(*groupServer, *Call) (Finish, error) {
	return func(s *groupServer, c *Call) (Finish, error) {
		r := R(new(T))
		r.SetVersion(c.Version)
		if err := r.ReadFrom(c.Body); err != nil {
			return nil, fmt.Errorf("%s v%d: %w: %w", kmsg.Key(r.Key()).Name(), c.Version, conn.ErrMalformed, err)
		}
		return begin(s, c, r), nil
	}
}

// answered is a Finish that does not wait.
func answered(resp kmsg.Response) Finish {
	return func(context.Context) (kmsg.Response, *budget.Reservation) { return resp, nil }
}

// groupServing builds an API's Begin for requests that are served when their answer is due.
func groupServing[T any, R groupRequest[T]](serve func(s *groupServer, c *Call, ctx context.Context, r R) (kmsg.Response, *budget.Reservation)) func(*groupServer, *Call) (Finish, error) {
	return beginDecoded(func(s *groupServer, c *Call, r R) Finish {
		return func(ctx context.Context) (kmsg.Response, *budget.Reservation) { return serve(s, c, ctx, r) }
	})
}

// elementBytes bounds the memory of an element of an answer, decoded and encoded, without its
// strings.
const elementBytes = 256

// callerOf is the sender of a request.
func callerOf(c *Call, groupID, member string, instance *string, generation int32) group.Caller {
	return group.Caller{Group: groupID, Member: member, Instance: deref(instance), Client: c.Client, Generation: generation}
}

func deref(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

// orNil converts "" to null.
func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}
