package api

// Cluster is the answer to GET /cluster: the brokers of the bucket, as one of them sees them.
type Cluster struct {
	// Members are the broker that answers, and then the others by name.
	Members []ClusterMember `json:"members"`
	// Wrong says what is wrong with the brokers, in sentences.
	Wrong []string `json:"wrong"`
}

// The states of a ClusterMember.
const (
	MemberUp     = "up"     // messages pass in both directions
	MemberSilent = "silent" // it does not answer, or is apart
	MemberGone   = "gone"   // it has ended
)

// The roles of a ClusterMember.
const (
	MemberLeader   = "leader"
	MemberStandby  = "standby"
	MemberFollower = "follower" // it never leads
)

// ClusterMember is a run of a broker.
type ClusterMember struct {
	Run     string `json:"run"`  // names one life of the process
	Name    string `json:"name"` // of the host
	Self    bool   `json:"self,omitempty"`
	State   string `json:"state"`
	Role    string `json:"role"`
	URL     string `json:"url,omitempty"`   // of the HTTP API
	Kafka   string `json:"kafka,omitempty"` // host:port for Kafka clients
	KafkaID int32  `json:"kafka_id,omitempty"`
	Version string `json:"version,omitempty"`
	// Epoch and Position are what it leads or follows, and the end that it has applied, as in
	// HeaderPosition; absent if it has not told them.
	Epoch    uint32 `json:"epoch,omitempty"`
	Position string `json:"position,omitempty"`
	// LagSeconds is the time of the newest commit of the leader less the time of its newest commit;
	// absent if it is not known.
	LagSeconds *float64 `json:"lag_seconds,omitempty"`
	// SilentSeconds is the time since its last answer, if it is silent.
	SilentSeconds float64 `json:"silent_seconds,omitempty"`
	// Apart says that it and the broker that answers do not reach each other, although it may serve.
	Apart bool `json:"apart,omitempty"`
	// Why says why it cannot lead.
	Why string `json:"why,omitempty"`
}
