package api

// Cluster is the answer to GET /cluster: the brokers of the bucket, as one of them sees them.
type Cluster struct {
	// The broker that answers, and then the others by name.
	Members []ClusterMember `json:"members"`
	// What is wrong with the brokers, in sentences.
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
	Run  string `json:"run"`            // Names one life of the process.
	Name string `json:"name"`           // Name of the host.
	Self bool   `json:"self,omitempty"` // It has answered the request.
	// `up`: messages pass in both directions. `silent`: it does not answer, or is `apart`. `gone`: it
	// has ended.
	//openapi:enum [up, silent, gone]
	State string `json:"state"`
	// A follower never leads.
	//openapi:enum [leader, standby, follower]
	Role    string `json:"role"`
	URL     string `json:"url,omitempty"`      // Address of its HTTP API.
	Kafka   string `json:"kafka,omitempty"`    // Its host and port for Kafka clients.
	KafkaID int32  `json:"kafka_id,omitempty"` // Its node ID for Kafka clients.
	Version string `json:"version,omitempty"`
	// Epoch that it leads or follows.
	//openapi:format int64
	Epoch uint32 `json:"epoch,omitempty"`
	// The end that it has applied, as in `Seb-Position`.
	Position string `json:"position,omitempty"`
	// Time of the newest commit of the leader less that of its own. Absent if unknown.
	LagSeconds    *float64 `json:"lag_seconds,omitempty"`
	SilentSeconds float64  `json:"silent_seconds,omitempty"` // Time since its last answer, if it is silent.
	// It and the broker that answers do not reach each other, although it may serve.
	Apart bool   `json:"apart,omitempty"`
	Why   string `json:"why,omitempty"` // Why it cannot lead.
}
