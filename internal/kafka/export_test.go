package kafka

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/access"
	"github.com/sebbroker/seb/internal/auth"
	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/framed"
	"github.com/sebbroker/seb/internal/group/coordinator"
	"github.com/sebbroker/seb/internal/kafka/wire"
)

// Groups serves requests about consumer groups without a connection.
type Groups struct{ s *Server }

func NewGroups(b *broker.Broker, c *coordinator.Coordinator) *Groups {
	return &Groups{&Server{b: b, groups: c, fetchClass: b.Budget().Class(budget.Fetch), advertised: &address{"self", 9092}}}
}

// Memory is the class for large answers.
func (g *Groups) Memory() *budget.Class { return g.s.fetchClass }

// API is an API key about consumer groups.
type API struct {
	Key      kmsg.Key
	Min, Max int16
	Shape    wire.Shape
	api      *api
}

func GroupTable() (list []API) {
	for _, a := range table() {
		if a.groups {
			list = append(list, API{a.key, a.min, a.max, a.shape, &a})
		}
	}
	return list
}

// Begin begins a request from 1.2.3.4 with its body after the head.
func (g *Groups) Begin(a API, version int16, body []byte) (framed.Finish, error) {
	from := &session{Server: g.s, remote: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 5}}
	return a.api.begin(&call{session: from, who: (&auth.Authority{}).Root(), api: a.api, version: version, client: []byte("client"), body: body}, context.Background())
}

// KeyRights is what a request of a key needs.
type KeyRights struct {
	Key   kmsg.Key
	Max   int16
	Needs []NeededRight
}

// NeededRight is one of its needs.
type NeededRight struct {
	Operation access.Operation
	On        access.ResourceType
}

// Keys lists the table of keys.
func Keys() (list []KeyRights) {
	for _, a := range table() {
		k := KeyRights{Key: a.key, Max: a.max}
		for _, n := range a.needs {
			k.Needs = append(k.Needs, NeededRight{n.operation, n.on})
		}
		list = append(list, k)
	}
	return list
}
