package kafka

import (
	"context"
	"net"

	"github.com/sebbroker/seb/internal/kafka/conn"
)

// groupAPIs lists the API keys about consumer groups, which Table defines.
func groupAPIs() []api {
	var list []api
	for _, a := range Table() {
		list = append(list, api{
			key: a.Key, min: a.Min, max: a.Max, shape: a.Shape, groups: true,
			begin: func(c *call, _ context.Context) (conn.Finish, error) { return c.beginGroup(&a) },
		})
	}
	return list
}

// beginGroup begins a request about groups on arrival. Later requests of the connection begin even
// if this one waits.
func (c *call) beginGroup(a *API) (conn.Finish, error) {
	head, _, err := conn.ParseHead(c.frame.Bytes, c.api.shape.IsFlexible(c.version))
	if err != nil {
		return nil, err
	}
	self := c.host()
	finish, err := a.Begin(c.groups, &Call{
		Version: c.version, Body: c.body, Client: string(head.Client), Host: hostOf(c.remote),
		Self: Node{ID: nodeID, Host: self.host, Port: self.port},
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) (conn.Answer, error) {
		resp, memory := finish(ctx)
		answer := c.answer(resp)
		answer.Release = memory.Release
		return answer, nil
	}, nil
}

// hostOf is the host of an address in Kafka's notation.
func hostOf(a net.Addr) string {
	host, _, err := net.SplitHostPort(a.String())
	if err != nil {
		host = a.String()
	}
	return "/" + host
}
