package kafka

import (
	"context"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/sebbroker/seb/internal/broker"
	"github.com/sebbroker/seb/internal/budget"
	"github.com/sebbroker/seb/internal/group/coordinator"
	"github.com/sebbroker/seb/internal/kafka/conn"
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
	Shape    conn.Shape
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
func (g *Groups) Begin(a API, version int16, body []byte) (conn.Finish, error) {
	from := &session{Server: g.s, remote: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 5}}
	return a.api.begin(&call{session: from, api: a.api, version: version, client: []byte("client"), body: body}, context.Background())
}
