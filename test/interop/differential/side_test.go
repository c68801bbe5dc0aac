package differential

import (
	"fmt"
	"net"
	"strconv"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// side is the run's knowledge of one of the two brokers. It is for one goroutine at a time.
type side struct {
	name    string
	address string
	clients map[int]*client
	symbols symbols
	limited string // the user of the members and of limitedActor; "": the one of mainActor

	topics    map[string][16]byte // ids of existing topics
	epochs    map[string]int32    // leader epochs of topics
	producers map[int]producer
	members   map[int]member        // by connection
	given     map[string][]producer // to transactional IDs, in order
}

// producer is an assigned producer id.
type producer struct {
	id    int64
	epoch int16
}

// member is a broker's last answer to the member on a connection.
type member struct {
	group, id  string
	generation int32
	leader     bool
	members    []string // as the leader got them
}

func newSide(name, address string) *side {
	s := &side{name: name, address: address, clients: map[int]*client{}, symbols: symbols{}}
	s.topics, s.epochs, s.producers, s.members = map[string][16]byte{}, map[string]int32{}, map[int]producer{}, map[int]member{}
	s.given = map[string][]producer{}
	host, port, err := net.SplitHostPort(address)
	if err == nil {
		s.symbols.name("host", host, "host")
		s.symbols.name("port", port, "port")
	}
	return s
}

// client returns a connection, and opens it if needed.
func (s *side) client(actor int) (*client, error) {
	if c := s.clients[actor]; c != nil {
		return c, nil
	}
	var c *client
	var err error
	switch {
	case actor == watchActor:
		c, err = dialAs(s.address, loginOf(watchName(s.limited)))
	case actor != mainActor && s.limited != "":
		c, err = dialAs(s.address, loginOf(s.limited))
	default:
		c, err = dial(s.address)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.name, err)
	}
	s.clients[actor] = c
	return c, nil
}

// drop closes a connection.
func (s *side) drop(actor int) {
	if c := s.clients[actor]; c != nil {
		_ = c.Close()
		delete(s.clients, actor)
	}
}

func (s *side) close() {
	for actor := range s.clients {
		s.drop(actor)
	}
}

// symbols map the values that differ between the brokers to common names, by kind and value.
type symbols map[[2]string]string

// name gives a value of a kind a name, if it has none.
func (s symbols) name(kind, value, name string) {
	if _, ok := s[[2]string{kind, value}]; !ok {
		s[[2]string{kind, value}] = name
	}
}

// another names a value of a kind after its owner and the number of earlier ones.
func (s symbols) another(kind, value, of string) {
	if _, ok := s[[2]string{kind, value}]; ok {
		return
	}
	n := 0
	for at := range s {
		if at[0] == kind+" of "+of {
			n++
		}
	}
	s[[2]string{kind + " of " + of, value}] = ""
	s[[2]string{kind, value}] = of + "#" + strconv.Itoa(n)
}

// of returns the name of a value, or the value itself without a name.
func (s symbols) of(kind, value string) string {
	if name, ok := s[[2]string{kind, value}]; ok {
		return name
	}
	return value
}

// learn extracts from an answer what later requests and comparisons need. It runs before the
// comparison, so that new values have names in it.
func (s *side) learn(st *step, resp kmsg.Response) {
	switch r := resp.(type) {
	case *kmsg.CreateTopicsResponse:
		for i := range r.Topics {
			if t := &r.Topics[i]; t.ErrorCode == 0 && t.TopicID != [16]byte{} && !st.dry {
				s.topicIs(t.Topic, t.TopicID)
			}
		}
	case *kmsg.DescribeClusterResponse:
		s.symbols.name("cluster", r.ClusterID, "cluster")
	case *kmsg.MetadataResponse:
		if r.ClusterID != nil {
			s.symbols.name("cluster", *r.ClusterID, "cluster")
		}
		for i := range r.Topics {
			if t := &r.Topics[i]; t.ErrorCode == 0 && t.Topic != nil {
				if t.TopicID != [16]byte{} {
					s.topicIs(*t.Topic, t.TopicID)
				}
				if resp.GetVersion() >= 7 && len(t.Partitions) > 0 {
					s.epochs[*t.Topic] = t.Partitions[0].LeaderEpoch
				}
			}
		}
	case *kmsg.EndTxnResponse:
		if r.ErrorCode == 0 && r.Version >= 5 {
			s.gave(st.transactional, producer{r.ProducerID, r.ProducerEpoch})
		}
	case *kmsg.InitProducerIDResponse:
		switch {
		case r.ErrorCode != 0:
		case st.transactional != "":
			s.gave(st.transactional, producer{r.ProducerID, r.ProducerEpoch})
		default:
			s.producers[st.producer] = producer{r.ProducerID, r.ProducerEpoch}
			s.symbols.another("producer", strconv.FormatInt(r.ProducerID, 10), fmt.Sprintf("producer%d", st.producer))
		}
	case *kmsg.JoinGroupResponse:
		s.joined(st, r)
	}
}

func (s *side) topicIs(name string, id [16]byte) {
	s.topics[name] = id
	s.symbols.another("topic", string(id[:]), name)
}

func (s *side) joined(st *step, r *kmsg.JoinGroupResponse) {
	const memberIDRequired = 79
	if r.ErrorCode != 0 && r.ErrorCode != memberIDRequired {
		return
	}
	m := member{group: st.group, id: r.MemberID, generation: r.Generation, leader: r.LeaderID == r.MemberID}
	s.symbols.another("member", r.MemberID, fmt.Sprintf("member%d", st.actor))
	for i := range r.Members {
		m.members = append(m.members, r.Members[i].MemberID)
	}
	s.members[st.actor] = m
}
