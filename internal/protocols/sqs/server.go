package sqs

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/sebbroker/seb/api"
	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/log/state"
	"github.com/sebbroker/seb/internal/engine/queue"
	"github.com/sebbroker/seb/record"
)

// Account is the account of all queues.
const Account = "000000000000"

// Client is the client of a request, as its front end knows it. Errors are answers.
type Client interface {
	// Name is that of the principal.
	Name() string
	// May returns why the client may not perform an operation on a topic or group.
	May(o access.Operation, t access.ResourceType, name string) error
	// Changing returns a context for a change of a topic that needs a right.
	Changing(ctx context.Context, o access.Operation, topic string) (context.Context, error)
	// Lease is queue.Queues.Lease, whose wait takes the place of a reader.
	Lease(ctx context.Context, r queue.LeaseRequest) (*queue.Leases, error)
	// Create is queue.Queues.Create. It checks rights, also to the dead-letter queue.
	Create(ctx context.Context, name string, s queue.Spec) error
	// Update is queue.Queues.Update. It checks rights, also to the dead-letter queue.
	Update(ctx context.Context, name string, s queue.Spec) error
	// Reserve holds memory for the answer until it is sent.
	Reserve(n int64) error
}

// Options configure New.
type Options struct {
	Broker *broker.Broker
	Queues *queue.Queues
	// Problem returns the problem of an error, with the code by which it is translated.
	Problem func(error) *api.Problem
}

// Server answers requests. Its methods may be called concurrently.
type Server struct {
	o       Options
	running sync.WaitGroup // tasks

	mu     sync.Mutex // guards the fields below
	parsed map[string]*settings
	purged map[record.ID]time.Time // by topic
	moves  map[string][]*moveTask  // by their queue, the newest first
	closed bool
}

// New returns a Server.
func New(o Options) *Server {
	return &Server{o: o, parsed: map[string]*settings{}, purged: map[record.ID]time.Time{}, moves: map[string][]*moveTask{}}
}

// Call is a request. Client, Base, Region and RequestID are set by its front end.
type Call struct {
	Client    Client
	Base      string // URL of the broker, without a slash at its end
	Region    string
	RequestID string
	Trace     string // the trace of the request; "": none

	Action string
	Form   Form
	in     parameters
	action *action
	queue  string // of the URL; "": none
	leases *queue.Leases
}

// action is one of the API.
type action struct {
	needsQueue bool
	result     bool // in XML it has an element of its result
	serve      func(*Server, context.Context, *Call) (*Answer, error)
}

// actions are those of the API reference.
var actions map[string]*action

func init() {
	actions = map[string]*action{
		"CreateQueue":                  {false, true, (*Server).createQueue},
		"GetQueueUrl":                  {false, true, (*Server).getQueueURL},
		"ListQueues":                   {false, true, (*Server).listQueues},
		"DeleteQueue":                  {true, false, (*Server).deleteQueue},
		"PurgeQueue":                   {true, false, (*Server).purgeQueue},
		"GetQueueAttributes":           {true, true, (*Server).getAttributes},
		"SetQueueAttributes":           {true, false, (*Server).setAttributes},
		"ListDeadLetterSourceQueues":   {true, true, (*Server).listSources},
		"ListQueueTags":                {true, true, (*Server).listTags},
		"TagQueue":                     {true, false, (*Server).tag},
		"UntagQueue":                   {true, false, (*Server).untag},
		"SendMessage":                  {true, true, (*Server).sendMessage},
		"SendMessageBatch":             {true, true, (*Server).sendBatch},
		"ReceiveMessage":               {true, true, (*Server).receive},
		"DeleteMessage":                {true, false, (*Server).deleteMessage},
		"DeleteMessageBatch":           {true, true, (*Server).deleteBatch},
		"ChangeMessageVisibility":      {true, false, (*Server).changeVisibility},
		"ChangeMessageVisibilityBatch": {true, true, (*Server).changeBatch},
		"StartMessageMoveTask":         {false, true, (*Server).startMove},
		"CancelMessageMoveTask":        {false, true, (*Server).cancelMove},
		"ListMessageMoveTasks":         {false, true, (*Server).listMoves},
		"AddPermission":                {true, false, (*Server).permission},
		"RemovePermission":             {true, false, (*Server).permission},
	}
}

// Parse reads the action of a request and its parameters, after it has held memory for them. Errors: *Error, and
// those of hold.
func (c *Call) Parse(r *http.Request, body []byte, hold func(n int64) error) error {
	if err := c.parse(r, body, hold); err != nil {
		return err
	}
	atQueue := c.Form != JSON && r.URL.Path != "/" // which has only the actions on it
	if c.action = actions[c.Action]; c.action == nil || atQueue && (c.Action == "CreateQueue" || c.Action == "ListQueues") {
		if c.Form != JSON {
			return newError(http.StatusBadRequest, "InvalidAction", "The action %.80s is not valid for this endpoint.", c.Action)
		}
		return refuse("UnknownOperationException", "The requested operation is not recognized by the service.")
	}
	if c.in.QueueUrl == "" && atQueue {
		c.in.QueueUrl = r.URL.Path
	}
	if !c.action.needsQueue {
		return nil
	}
	if c.in.QueueUrl == "" {
		return errMissing("QueueUrl")
	}
	return c.ofURL(c.in.QueueUrl)
}

// Waits reports whether the answer may wait for messages.
func (c *Call) Waits() bool { return c.Action == "ReceiveMessage" }

// ofURL sets the queue of a URL.
func (c *Call) ofURL(text string) error {
	u, err := url.Parse(text)
	if err != nil {
		return newError(http.StatusNotFound, "InvalidAddress", "The address %.200s is not valid for this endpoint.", text)
	}
	parts := strings.Split(strings.Trim(u.Path, "/"), "/")
	n := len(parts)
	if n < 2 {
		if n == 1 && u.Host == "" && validName.MatchString(parts[0]) { // only its name
			c.queue = parts[0]
			return nil
		}
		return newError(http.StatusNotFound, "InvalidAddress", "The address %.200s is not valid for this endpoint.", text)
	}
	if c.queue = parts[n-1]; parts[n-2] != Account || state.CheckTopicName(c.queue) != nil {
		return errNoQueue
	}
	return nil
}

var validName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,80}$`)

// Serve answers a parsed request. Errors are turned into an answer by Error. leases, if not nil, are the
// messages of the answer: they go back to the queue if it does not reach the client.
func (s *Server) Serve(ctx context.Context, c *Call) (a *Answer, leases *queue.Leases, err error) {
	a, err = c.action.serve(s, ctx, c)
	return a, c.leases, err
}

// Error returns an error in the form of AWS.
func (s *Server) Error(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return of(s.o.Problem(err))
}

func (s *Server) permission(_ context.Context, _ *Call) (*Answer, error) {
	return nil, refuse("UnsupportedOperation", "Permissions are rules of tokens: seb acl allow, or PUT /acls.")
}

// empty is the answer without a result.
func (c *Call) empty() *Answer { return c.answer(func(*output) {}) }

func (c *Call) url(queue string) string { return c.Base + "/" + Account + "/" + queue }

func (c *Call) arn(queue string) string {
	return "arn:aws:sqs:" + c.Region + ":" + Account + ":" + queue
}

// ofARN returns the queue of an ARN.
func ofARN(text string) (queue string, ok bool) {
	parts := strings.Split(text, ":")
	if len(parts) != 6 || parts[0] != "arn" || parts[2] != "sqs" || parts[4] != Account {
		return "", false
	}
	return parts[5], state.CheckTopicName(parts[5]) == nil
}

// settings returns those of the queue of a call. Error: errNoQueue.
func (s *Server) settings(name string) (*settings, error) {
	r, ok := s.o.Broker.TopicNamed(name)
	text := r.Settings[state.QueueSetting]
	if !ok || text == "" {
		return nil, errNoQueue
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.parsed[text]; x != nil {
		return x, nil
	}
	x, err := parseSettings(r.Settings)
	if err != nil {
		return nil, err
	}
	if len(s.parsed) >= parsedMax {
		clear(s.parsed)
	}
	s.parsed[text] = x
	return x, nil
}

// parsedMax bounds the texts of settings whose meaning is remembered.
const parsedMax = 1000

// page returns up to MaxResults of a sorted list of names from NextToken on, and the next token.
func (c *Call) page(names []string) (list []string, next string, err error) {
	most := 1000
	if n := c.in.MaxResults; n != nil {
		if most = *n; most < 1 || most > 1000 {
			return nil, "", errParameter("MaxResults", most, "Must be between 1 and 1000, if provided.")
		}
	}
	at, found := slices.BinarySearch(names, c.in.NextToken)
	if found {
		at++
	}
	list = names[at:]
	if len(list) > most {
		if list = list[:most]; c.in.MaxResults != nil {
			next = list[most-1]
		}
	}
	return list, next, nil
}
