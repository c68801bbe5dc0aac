package group

import (
	"bytes"
	"slices"
)

// group is one group. It is removed when it has no member, no unused member ID and no commit in
// flight.
type group struct {
	name         string
	state        State
	generation   int32
	protocolType string
	protocol     string
	leader       string // member id
	members      map[string]*member
	instances    map[string]*member // static members
	order        []*member          // all members, by time of joining
	pending      []pendingID        // member IDs issued and not used yet
	admitted     uint64             // commits admitted, in total
	open         []uint64           // commits in flight, ascending
	consumers    *consumers         // members of the consumer protocol; nil: never had any

	notBefore int64 // Preparing: earliest end of the rebalance, so that more members can join
	deadline  int64 // Preparing: members must join by then
	first     bool  // Preparing: the group was empty before, so pending IDs are not waited for
	closing   bool  // Preparing: only commits in flight are waited for
	syncBy    int64 // Completing: members must sync by then

	bytes int64
	next  int64 // time of the next tick, or earlier
	index int   // in Core.queue
}

type pendingID struct {
	id       string
	deadline int64
}

type member struct {
	id, instance, client, host string
	protocols                  []Protocol
	session, rebalance         int64
	assignment                 []byte
	deadline                   int64  // end of the session; of the wait while it waits to join
	join, sync                 Ticket // parked requests, 0 if none
	fresh                      bool   // was in no generation yet
	owesSync                   bool   // Completing: must sync and has not
	owns                       bool   // its newest JoinGroup names partitions
	absent                     bool   // was not in the last generation
	refuse                     bool   // its next SyncGroup is refused
}

func (m *member) bytes() int64 {
	return memberCost + int64(len(m.id)+len(m.instance)+len(m.client)+len(m.host)+len(m.assignment)) + protocolBytes(m.protocols)
}

func protocolBytes(ps []Protocol) int64 {
	n := int64(0)
	for i := range ps {
		n += protoCost + int64(len(ps[i].Name)+len(ps[i].Metadata))
	}
	return n
}

func cloneProtocols(ps []Protocol) []Protocol {
	own := make([]Protocol, len(ps))
	for i, p := range ps {
		own[i] = Protocol{Name: p.Name, Metadata: bytes.Clone(p.Metadata)}
	}
	return own
}

// metadata returns the member's metadata for a protocol.
func (m *member) metadata(protocol string) []byte {
	for i := range m.protocols {
		if m.protocols[i].Name == protocol {
			return m.protocols[i].Metadata
		}
	}
	return nil
}

func (m *member) knows(protocol string) bool {
	return slices.ContainsFunc(m.protocols, func(p Protocol) bool { return p.Name == protocol })
}

// sameProtocols reports whether a request has the same protocols as the member's last one.
func (m *member) sameProtocols(ps []Protocol) bool {
	return slices.EqualFunc(m.protocols, ps, func(a, b Protocol) bool { return a.Name == b.Name && bytes.Equal(a.Metadata, b.Metadata) })
}

// rebalanceTimeout is the longest rebalance timeout of the members.
func (g *group) rebalanceTimeout() int64 {
	most := int64(0)
	for _, m := range g.order {
		most = max(most, m.rebalance)
	}
	return most
}

// supports reports whether a member with these protocols is compatible with all members except but.
func (g *group) supports(r *JoinRequest, but *member) bool {
	if r.ProtocolType == "" || len(r.Protocols) == 0 {
		return false
	}
	others := 0
	for _, m := range g.order {
		if m != but {
			others++
		}
	}
	if others == 0 {
		return true
	}
	return r.ProtocolType == g.protocolType && slices.ContainsFunc(r.Protocols, func(p Protocol) bool {
		return !slices.ContainsFunc(g.order, func(m *member) bool { return m != but && !m.knows(p.Name) })
	})
}

// vote chooses the protocol among those that all members support. Each member votes for its first
// choice; in a tie the oldest member decides.
func (g *group) vote() string {
	var common []string
	for _, p := range g.order[0].protocols {
		if !slices.ContainsFunc(g.order, func(m *member) bool { return !m.knows(p.Name) }) {
			common = append(common, p.Name)
		}
	}
	votes := make([]int, len(common))
	for _, m := range g.order {
		for i := range m.protocols {
			if at := slices.Index(common, m.protocols[i].Name); at >= 0 {
				votes[at]++
				break
			}
		}
	}
	best := 0
	for i := range votes {
		if votes[i] > votes[best] {
			best = i
		}
	}
	return common[best]
}

// allJoined reports whether all members that the rebalance waits for have joined.
func (g *group) allJoined() bool {
	return (g.first || len(g.pending) == 0) && !slices.ContainsFunc(g.order, func(m *member) bool { return m.join == 0 })
}

// deadlineAfter is the time of the group's next tick.
func (g *group) deadlineAfter(now int64) int64 {
	next := int64(never)
	if g.consumers != nil {
		next = g.consumers.deadline()
	}
	for i := range g.pending {
		next = min(next, g.pending[i].deadline)
	}
	for _, m := range g.order {
		if m.canExpire() {
			next = min(next, m.deadline)
		}
	}
	switch {
	case g.state == Preparing && !g.closing:
		next = min(next, g.deadline)
		if g.notBefore > now && g.allJoined() {
			next = min(next, g.notBefore)
		}
	case g.state == Completing:
		next = min(next, g.syncBy)
	}
	return next
}

// canExpire reports whether the member's deadline applies. A member with a parked JoinGroup or
// SyncGroup counts as alive. A new member has a deadline even then.
func (m *member) canExpire() bool {
	return m.sync == 0 && (m.join == 0 || m.fresh)
}
