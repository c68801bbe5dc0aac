package kafka_test

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/VictoriaMetrics/metrics"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/broker"
	"github.com/sebbroker/seb/internal/engine/group/coordinator"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/auth"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
	"github.com/sebbroker/seb/test/sebtest"
)

// guarded is a server with groups whose rules and clock the test changes.
type guarded struct {
	*served
	t   *testing.T
	a   *auth.Authority
	mu  sync.Mutex // guards now
	now time.Time
	set *metrics.Set
}

func guard(t *testing.T) *guarded {
	g := &guarded{t: t, now: time.Now(), set: metrics.NewSet()}
	b := openBroker(t, objstore.NewMemory(), nil)
	g.a = auth.New(auth.Options{Broker: b, RootKey: apiKey, Internal: []string{"firings"}, Now: g.clock, Metrics: g.set})
	c := coordinator.Open(context.Background(), coordinator.Options{Broker: b, InitialDelay: -1, Logger: quiet})
	t.Cleanup(func() { c.Close(); g.a.Close() })
	g.served = serve(t, b, kafka.Options{Auth: g.a, Groups: c})
	return g
}

func (g *guarded) clock() time.Time {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.now
}

func (g *guarded) wait(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.now = g.now.Add(d)
}

// token creates a principal that lives for an hour.
func (g *guarded) token(id string, rules ...access.Rule) string {
	g.t.Helper()
	_, token := must.Get2(g.a.CreateToken(g.t.Context(), g.a.Root(), auth.TokenSpec{ID: id, Rules: rules, Expires: g.clock().Add(time.Hour)}))(g.t)
	return token
}

func (g *guarded) dialAs(user, password string) *raw {
	g.t.Helper()
	c := unauthenticated(g.t, g.served)
	if code := c.loginAs(user, password).ErrorCode; code != 0 {
		g.t.Fatalf("login of %s: %v", user, kerr.ErrorForCode(code))
	}
	return c
}

func (c *raw) loginAs(user, password string) *kmsg.SASLAuthenticateResponse {
	c.t.Helper()
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Mechanism = "PLAIN"
	c.ask(hand, 1)
	a := kmsg.NewPtrSASLAuthenticateRequest()
	a.SASLAuthBytes = []byte("\x00" + user + "\x00" + password)
	return c.ask(a, 2).(*kmsg.SASLAuthenticateResponse)
}

// clientAs is client with another login.
func (g *guarded) clientAs(mechanism sasl.Mechanism, opts ...kgo.Opt) *kgo.Client {
	g.t.Helper()
	c := must.Get(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(g.addr), kgo.SASL(mechanism), kgo.MetadataMinAge(10 * time.Millisecond)}, opts...)...))(g.t)
	g.t.Cleanup(c.Close)
	return c
}

func rule(t access.ResourceType, name string, o access.Operation) access.Rule {
	return access.Rule{Resource: t, Name: name, Operation: o, Host: access.Any}
}

// byName are the last versions of requests that name topics instead of IDs.
var byName = map[kmsg.Key]int16{kmsg.Produce: 12, kmsg.Fetch: 12, kmsg.OffsetCommit: 9, kmsg.OffsetFetch: 9, kmsg.TxnOffsetCommit: 5, kmsg.Metadata: 9, kmsg.DeleteTopics: 5}

// naming fills a request so that it names a topic and a group once everywhere.
func naming(v reflect.Value, topic, group string) {
	for i := range v.NumField() {
		f, name := v.Field(i), v.Type().Field(i).Name
		text := topic
		if name == "Group" || name == "Groups" || name == "CoordinatorKey" || name == "CoordinatorKeys" {
			text = group
		}
		if name == "TransactionalID" {
			text = "transactional-id"
		}
		switch {
		case name == "Acks" || name == "NumPartitions" || name == "Count":
			f.SetInt(1)
		case name == "ResourceType" && f.CanInt():
			f.SetInt(int64(kmsg.ConfigResourceTypeTopic))
		case name == "Cursor" || name == "TransactionID" || name == "TransactionalID" && f.Kind() != reflect.String || name == "TransactionalIDPattern" || name == "SubscribedTopicRegex" || name == "InstanceID" || name == "ServerAssignor" || name == "RackID":
		case f.Kind() == reflect.String:
			f.SetString(text)
		case f.Kind() == reflect.Pointer && f.Type().Elem().Kind() == reflect.String && (name == "Topic" || name == "Name"):
			f.Set(reflect.ValueOf(&text))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Struct && name != "ReplicaAssignment" && name != "Configs" && name != "ForgottenTopics":
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
			naming(f.Index(0), topic, group)
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.String:
			f.Set(reflect.ValueOf([]string{text}))
		case f.Kind() == reflect.Slice && f.Type().Elem().Kind() == reflect.Int32:
			f.Set(reflect.ValueOf([]int32{0}))
		}
	}
}

// answerCodes collects the error codes of an answer.
func answerCodes(v reflect.Value) (all []int16) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			return answerCodes(v.Elem())
		}
	case reflect.Slice:
		for i := range v.Len() {
			all = append(all, answerCodes(v.Index(i))...)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).Name == "ErrorCode" {
				all = append(all, int16(v.Field(i).Int()))
			} else if v.Type().Field(i).IsExported() {
				all = append(all, answerCodes(v.Field(i))...)
			}
		}
	}
	return all
}

var denials = []int16{kerr.TopicAuthorizationFailed.Code, kerr.GroupAuthorizationFailed.Code, kerr.ClusterAuthorizationFailed.Code, kerr.TransactionalIDAuthorizationFailed.Code}

func denied(r kmsg.Response) bool {
	return slices.ContainsFunc(answerCodes(reflect.ValueOf(r)), func(c int16) bool { return slices.Contains(denials, c) })
}

// free are the keys that every authenticated client may use, and those of the login itself.
var free = []kmsg.Key{kmsg.SASLHandshake, kmsg.SASLAuthenticate, kmsg.ApiVersions, kmsg.DescribeCluster, kmsg.DescribeTransactions, kmsg.ListTransactions}

// needed are the rights that a request of each key needs on every resource that it names, as in Kafka.
var needed = map[kmsg.Key][]need{
	kmsg.AddOffsetsToTxn:              {{access.Write, access.TransactionalID}, {access.Read, access.Group}},
	kmsg.AddPartitionsToTxn:           {{access.Write, access.TransactionalID}, {access.Write, access.Topic}},
	kmsg.AlterClientQuotas:            {{access.AlterConfigs, access.Cluster}},
	kmsg.AlterConfigs:                 {{access.AlterConfigs, access.Topic}, {access.AlterConfigs, access.Cluster}},
	kmsg.AlterUserSCRAMCredentials:    {{access.Alter, access.Cluster}},
	kmsg.ConsumerGroupDescribe:        {{access.Describe, access.Group}, {access.Describe, access.Topic}},
	kmsg.ConsumerGroupHeartbeat:       {{access.Read, access.Group}, {access.Describe, access.Topic}},
	kmsg.CreateACLs:                   {{access.Alter, access.Cluster}},
	kmsg.CreatePartitions:             {{access.Alter, access.Topic}},
	kmsg.CreateTopics:                 {{access.Create, access.Topic}},
	kmsg.DeleteACLs:                   {{access.Alter, access.Cluster}},
	kmsg.DeleteGroups:                 {{access.Delete, access.Group}},
	kmsg.DeleteRecords:                {{access.Delete, access.Topic}},
	kmsg.DeleteTopics:                 {{access.Delete, access.Topic}},
	kmsg.DescribeACLs:                 {{access.Describe, access.Cluster}},
	kmsg.DescribeClientQuotas:         {{access.DescribeConfigs, access.Cluster}},
	kmsg.DescribeConfigs:              {{access.DescribeConfigs, access.Topic}, {access.DescribeConfigs, access.Cluster}, {access.DescribeConfigs, access.Group}},
	kmsg.DescribeGroups:               {{access.Describe, access.Group}},
	kmsg.DescribeLogDirs:              {{access.Describe, access.Cluster}},
	kmsg.DescribeProducers:            {{access.Read, access.Topic}},
	kmsg.DescribeTopicPartitions:      {{access.Describe, access.Topic}},
	kmsg.DescribeUserSCRAMCredentials: {{access.Describe, access.Cluster}},
	kmsg.ElectLeaders:                 {{access.Alter, access.Cluster}},
	kmsg.EndTxn:                       {{access.Write, access.TransactionalID}},
	kmsg.Fetch:                        {{access.Read, access.Topic}},
	kmsg.FindCoordinator:              {{access.Describe, access.Group}},
	kmsg.Heartbeat:                    {{access.Read, access.Group}},
	kmsg.IncrementalAlterConfigs:      {{access.AlterConfigs, access.Topic}, {access.AlterConfigs, access.Cluster}},
	kmsg.InitProducerID:               {{access.IdempotentWrite, access.Cluster}},
	kmsg.JoinGroup:                    {{access.Read, access.Group}},
	kmsg.LeaveGroup:                   {{access.Read, access.Group}},
	kmsg.ListConfigResources:          {{access.DescribeConfigs, access.Cluster}},
	kmsg.ListGroups:                   {{access.Describe, access.Group}},
	kmsg.ListOffsets:                  {{access.Describe, access.Topic}},
	kmsg.ListPartitionReassignments:   {{access.Describe, access.Cluster}},
	kmsg.Metadata:                     {{access.Describe, access.Topic}, {access.Create, access.Topic}},
	kmsg.OffsetCommit:                 {{access.Read, access.Group}, {access.Read, access.Topic}},
	kmsg.OffsetDelete:                 {{access.Delete, access.Group}, {access.Read, access.Topic}},
	kmsg.OffsetFetch:                  {{access.Describe, access.Group}, {access.Describe, access.Topic}},
	kmsg.OffsetForLeaderEpoch:         {{access.Describe, access.Topic}},
	kmsg.Produce:                      {{access.Write, access.Topic}},
	kmsg.SyncGroup:                    {{access.Read, access.Group}},
	kmsg.TxnOffsetCommit:              {{access.Write, access.TransactionalID}, {access.Read, access.Group}, {access.Read, access.Topic}},
	kmsg.WriteTxnMarkers:              {{access.Alter, access.Cluster}},
}

type need struct {
	operation access.Operation
	on        access.ResourceType
}

// TestRightsOfEveryKey asks each key with every kind of client.
func TestRightsOfEveryKey(t *testing.T) {
	g := guard(t)
	nothing := g.token("nothing")
	keys := dial(t, g.served).keys()
	for i, id := range slices.Sorted(maps.Keys(keys)) {
		key := kmsg.Key(id)
		if slices.Contains(free, key) || i%sebtest.Runs(1, 2) != 0 {
			continue
		}
		if len(needed[key]) == 0 {
			t.Errorf("needed has no right for %s", key.Name())
			continue
		}
		t.Run(key.Name(), func(t *testing.T) {
			g := &guarded{t: t, served: g.served, a: g.a, now: g.clock()}
			topic, group, id := "topic-"+key.Name(), "group-"+key.Name(), "p"+key.Name()
			must.Get(g.b.CreateTopic(t.Context(), topic, broker.TopicSpec{}))(t)
			var right, wrong []access.Rule
			for _, n := range needed[key] {
				names := map[access.ResourceType]string{access.Topic: topic, access.Group: group, access.Cluster: access.ClusterName, access.TransactionalID: "transactional-id"}
				right = append(right, rule(n.on, names[n.on], n.operation))
				if n.on != access.Cluster {
					wrong = append(wrong, access.Rule{Resource: n.on, Name: "other.", Prefix: true, Operation: access.All, Host: access.Any})
				}
			}
			if key == kmsg.InitProducerID {
				wrong = []access.Rule{rule(access.Topic, "other", access.Read)} // Write on any topic is enough
			}
			version := keys[int16(key)].MaxVersion
			if v, ok := byName[key]; ok {
				version = v
			}
			request := func() kmsg.Request {
				r := kmsg.RequestForKey(int16(key))
				naming(reflect.ValueOf(r).Elem(), topic, group)
				return r
			}
			lower := func(s string) string { return string([]byte(s)[0]|0x20) + "-" + itoa(int(key)) }
			id = lower(id)
			for _, rules := range [][]access.Rule{right, wrong} {
				for i := range rules {
					rules[i].Principal = id
				}
			}
			holder := g.dialAs(id, g.token(id, wrong...))
			hides := key == kmsg.ListGroups // a list without what may not be seen
			if got := g.dialAs("nothing", nothing).ask(request(), version); denied(got) == hides {
				t.Errorf("without a right: %+v", got)
			}
			if got := holder.ask(request(), version); denied(got) == hides {
				t.Errorf("with a right to other names: %+v", got)
			}
			must.NoError(t, g.a.ChangeRules(t.Context(), g.a.Root(), right, wrong))
			if got := holder.ask(request(), version); denied(got) {
				t.Errorf("with the right: %+v", got)
			}
			if got := dial(t, g.served).ask(request(), version); denied(got) {
				t.Errorf("with the root key: %+v", got)
			}
			must.NoError(t, g.a.RevokeToken(t.Context(), id))
			for name, c := range map[string]*raw{"no key": unauthenticated(t, g.served), "revoked": holder} {
				_, _ = c.Write(c.encode(request(), version)) // the connection may have ended
				t.Log(name)
				c.ended()
			}
		})
	}
}

func itoa(n int) string { return string([]byte{'a' + byte(n/26), 'a' + byte(n%26)}) }

// TestAccessTools manages rules and passwords as Kafka's tools do, and uses them.
func TestAccessTools(t *testing.T) {
	g, ctx := guard(t), t.Context()
	topic(t, g.b, "orders", broker.TopicSpec{})
	a := admin(t, g.served)
	alter, err := a.AlterUserSCRAMs(ctx, nil, []kadm.UpsertSCRAM{{User: "ann", Mechanism: kadm.ScramSha512, Iterations: 8192, Password: "pw"}})
	if err != nil || alter["ann"].Err != nil {
		t.Fatalf("%+v %v", alter, err)
	}
	if users, err := a.DescribeUserSCRAMs(ctx); err != nil || len(users) != 1 || users["ann"].CredInfos[0].Iterations != 8192 {
		t.Errorf("users %+v %v", users, err)
	}
	ann := g.clientAs(scram.Auth{User: "ann", Pass: "pw"}.AsSha512Mechanism())
	produce := func() error {
		return ann.ProduceSync(ctx, &kgo.Record{Topic: "orders", Value: []byte("v")}).FirstErr()
	}
	check.ErrorIsf(t, produce(), kerr.TopicAuthorizationFailed, "produce without a rule")
	allow := kadm.NewACLs().Topics("ord").Groups("readers").Allow("User:ann").AllowHosts().Operations(kadm.OpRead, kadm.OpWrite).ResourcePatternType(kadm.ACLPatternPrefixed)
	created := must.Get(a.CreateACLs(ctx, allow))(t)
	for _, c := range created {
		check.Equalf(t, c.Err != nil, c.Type == kmsg.ACLResourceTypeGroup && c.Operation == kadm.OpWrite, "create %+v", c)
	}
	check.NoErrorf(t, produce(), "produce with a rule")
	reader := g.clientAs(scram.Auth{User: "ann", Pass: "pw"}.AsSha512Mechanism(), kgo.ConsumerGroup("readers"), kgo.ConsumeTopics("orders"))
	if got := consume(t, reader, 1); string(got[0].Value) != "v" {
		t.Errorf("consumed %s", got[0].Value)
	}
	described, err := a.DescribeACLs(ctx, kadm.NewACLs().AnyResource().Allow().AllowHosts().Operations().ResourcePatternType(kadm.ACLPatternAny))
	if err != nil || len(described) == 0 || len(described[0].Described) != 3 {
		t.Errorf("rules %+v %v", described, err)
	}
	deleted, err := a.DeleteACLs(ctx, kadm.NewACLs().Topics("ord").Allow("User:ann").AllowHosts().Operations().ResourcePatternType(kadm.ACLPatternPrefixed))
	if err != nil || len(deleted) == 0 || len(deleted[0].Deleted) != 2 {
		t.Errorf("deleted %+v %v", deleted, err)
	}
	check.ErrorIsf(t, produce(), kerr.TopicAuthorizationFailed, "produce after the rule was deleted")
}

// TestRotatedTokens: while two tokens are valid, each works with each mechanism, and only as itself.
func TestRotatedTokens(t *testing.T) {
	g, ctx := guard(t), t.Context()
	first := g.token("orders")
	_, second := must.Get2(g.a.RotateToken(ctx, g.a.Root(), "orders", time.Hour))(t)
	for _, token := range []string{first, second, "wrong"} {
		for _, mechanism := range []sasl.Mechanism{
			plain.Auth{User: "orders", Pass: token}.AsMechanism(),
			scram.Auth{User: "orders", Pass: token}.AsSha256Mechanism(), scram.Auth{User: "orders", Pass: token}.AsSha512Mechanism(),
		} {
			err := g.clientAs(mechanism, kgo.RetryTimeout(time.Millisecond)).Ping(ctx)
			if (err == nil) != (token != "wrong") {
				t.Errorf("%s with %.12s: %v", mechanism.Name(), token, err)
			}
		}
	}
	if c := unauthenticated(t, g.served); c.loginAs("other", first).ErrorCode != kerr.SaslAuthenticationFailed.Code {
		t.Error("a token is accepted under another name")
	}
}

// TestNamesAreHidden: topics that the client may not describe are in no answer, and unknown by ID.
func TestNamesAreHidden(t *testing.T) {
	g := guard(t)
	for _, name := range []string{"mine", "secret", "firings"} {
		topic(t, g.b, name, broker.TopicSpec{})
	}
	c := g.dialAs("me", g.token("me", access.Rule{Resource: access.Topic, Name: "m", Prefix: true, Operation: access.Read, Host: access.Any}))
	all := c.ask(kmsg.NewPtrMetadataRequest(), 9).(*kmsg.MetadataResponse)
	if len(all.Topics) != 1 || *all.Topics[0].Topic != "mine" {
		t.Errorf("topics %+v", all.Topics)
	}
	answer := func(name string) kmsg.MetadataResponseTopic {
		r := kmsg.NewPtrMetadataRequest()
		r.AllowAutoTopicCreation = true
		r.Topics = []kmsg.MetadataRequestTopic{{Topic: &name}}
		return c.ask(r, 9).(*kmsg.MetadataResponse).Topics[0]
	}
	there, missing := answer("secret"), answer("missing")
	if there.Topic, missing.Topic = nil, nil; !reflect.DeepEqual(there, missing) || there.ErrorCode != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("a hidden topic %+v, a missing one %+v", there, missing)
	}
	if got := answer("more"); got.ErrorCode != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("a topic is created without the right: %+v", got)
	}
	ref, _ := g.b.TopicNamed("secret")
	r := kmsg.NewPtrFetchRequest()
	r.Topics = []kmsg.FetchRequestTopic{{TopicID: ref.ID, Partitions: []kmsg.FetchRequestTopicPartition{{}}}}
	if got := c.ask(r, 13).(*kmsg.FetchResponse).Topics[0].Partitions[0]; got.ErrorCode != kerr.UnknownTopicID.Code {
		t.Errorf("fetch by ID: %+v", got)
	}
}

// TestWaitingFetchesEnd: a fetch that waits when its right ends gets no record.
func TestWaitingFetchesEnd(t *testing.T) {
	g := guard(t)
	topic(t, g.b, "t", broker.TopicSpec{})
	fetch := kmsg.NewPtrFetchRequest()
	fetch.MaxWaitMillis, fetch.MinBytes, fetch.MaxBytes = 60_000, 1, 1<<20
	fetch.Topics = []kmsg.FetchRequestTopic{{Topic: "t", Partitions: []kmsg.FetchRequestTopicPartition{{CurrentLeaderEpoch: -1, PartitionMaxBytes: 1 << 20}}}}
	read := rule(access.Topic, "t", access.Read)
	waiting := func(id string) *raw {
		c := g.dialAs(id, g.token(id, read))
		c.send(fetch, 12)
		return c
	}
	revoked, denied, other := waiting("revoked"), waiting("denied"), waiting("other")
	must.NoError(t, g.a.RevokeToken(t.Context(), "revoked"))
	read.Principal, read.Deny = "denied", true
	must.NoError(t, g.a.ChangeRules(t.Context(), g.a.Root(), []access.Rule{read}, nil))
	c := client(t, g.served)
	must.NoError(t, c.ProduceSync(t.Context(), &kgo.Record{Topic: "t", Value: []byte("v")}).FirstErr())
	revoked.ended()
	for name, c := range map[string]*raw{"denied": denied, "other": other} {
		p := c.receive(fetch, 12, c.last).(*kmsg.FetchResponse).Topics[0].Partitions[0]
		if want := name == "other"; (len(p.RecordBatches) > 0) != want || (p.ErrorCode == kerr.TopicAuthorizationFailed.Code) == want {
			t.Errorf("%s: code %d with %d bytes", name, p.ErrorCode, len(p.RecordBatches))
		}
	}
}

// TestSessionLifetime: the answer to a login says how long the session lasts (KIP-368), and at its
// end the connection is closed.
func TestSessionLifetime(t *testing.T) {
	g := guard(t)
	token := g.token("short")
	g.wait(time.Hour - 100*time.Millisecond) // the clock stands still from here on
	c := unauthenticated(t, g.served)
	got := c.loginAs("short", token)
	if got.ErrorCode != 0 || got.SessionLifetimeMillis < 1 || got.SessionLifetimeMillis > 100 {
		t.Errorf("%+v", got)
	}
	c.ended()
	g.wait(time.Second)
	if got := unauthenticated(t, g.served).loginAs("short", token); got.ErrorCode != kerr.SaslAuthenticationFailed.Code || got.ErrorMessage == nil {
		t.Errorf("login with an expired token: %+v", got)
	}
}

// TestRefusedAnswers: fields beside the codes of refused requests are those of Kafka, and a missing
// right is reported before an error in the rest of the request.
func TestRefusedAnswers(t *testing.T) {
	g := guard(t)
	for _, name := range []string{"mine", "secret", "hidden"} {
		topic(t, g.b, name, broker.TopicSpec{Partitions: 2})
	}
	deny := rule(access.Topic, "hidden", access.Describe)
	deny.Deny = true
	c := g.dialAs("me", g.token("me", rule(access.Topic, "mine", access.Create), rule(access.Topic, "mine", access.Read), rule(access.Topic, "new", access.Create),
		rule(access.Topic, "hidden", access.Delete), deny, rule(access.Cluster, access.ClusterName, access.Create), rule(access.Group, "readable", access.Read)))
	root := g.dialAs("seb", apiKey)

	join := kmsg.NewPtrJoinGroupRequest()
	join.Group, join.MemberID = "group", "member"
	if got := c.ask(join, 2).(*kmsg.JoinGroupResponse); got.ErrorCode != kerr.GroupAuthorizationFailed.Code || got.MemberID != "" {
		t.Errorf("JoinGroup: %+v", got)
	}
	groups := kmsg.NewPtrDescribeGroupsRequest()
	groups.Groups = []string{"group", "readable"}
	if got := c.ask(groups, 5).(*kmsg.DescribeGroupsResponse).Groups; got[0].State != "" || got[1].State != "Dead" {
		t.Errorf("DescribeGroups: %+v", got)
	}
	offsets := kmsg.NewPtrListOffsetsRequest()
	offsets.Topics = []kmsg.ListOffsetsRequestTopic{{Topic: "secret", Partitions: []kmsg.ListOffsetsRequestTopicPartition{{Timestamp: -100}}}}
	if got := c.ask(offsets, 5).(*kmsg.ListOffsetsResponse).Topics[0].Partitions[0].ErrorCode; got != kerr.TopicAuthorizationFailed.Code {
		t.Errorf("ListOffsets of an unknown special time: code %d", got)
	}
	names := kmsg.NewPtrDeleteTopicsRequest()
	names.TopicNames = []string{"hidden"}
	check.Equalf(t, c.ask(names, 5).(*kmsg.DeleteTopicsResponse).Topics[0].ErrorCode, kerr.TopicAuthorizationFailed.Code, "DeleteTopics without Describe: code")
	acls := kmsg.NewPtrDescribeACLsRequest()
	acls.ResourceType, acls.ResourcePatternType, acls.Operation, acls.PermissionType = kmsg.ACLResourceTypeAny, kmsg.ACLResourcePatternTypeAny, 99, kmsg.ACLPermissionTypeAny
	check.Equalf(t, root.ask(acls, 2).(*kmsg.DescribeACLsResponse).ErrorCode, kerr.InvalidRequest.Code, "DescribeAcls of operation 99: code")
	users := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	users.Deletions = []kmsg.AlterUserSCRAMCredentialsRequestDeletion{{Mechanism: 1}}
	if got := root.ask(users, 0).(*kmsg.AlterUserSCRAMCredentialsResponse).Results[0].ErrorCode; got != kerr.UnacceptableCredential.Code {
		t.Errorf("AlterUserScramCredentials of a user without a name: code %d", got)
	}
	must.NoError(t, g.a.SetPassword(t.Context(), g.a.Root(), auth.Password{
		User: "ann", Mechanism: access.SCRAMSHA256, Iterations: 4096, Salt: []byte("a salt of sixteen"), Salted: make([]byte, 32),
	}))
	twice := kmsg.NewPtrDescribeUserSCRAMCredentialsRequest()
	twice.Users = []kmsg.DescribeUserSCRAMCredentialsRequestUser{{Name: "ann"}, {Name: "ann"}}
	if got := root.ask(twice, 0).(*kmsg.DescribeUserSCRAMCredentialsResponse).Results; len(got) != 1 || got[0].ErrorCode != kerr.DuplicateResource.Code || got[0].CredentialInfos != nil {
		t.Errorf("DescribeUserScramCredentials of a user twice: %+v", got)
	}
	createsWithoutConfigs(t, c)
	showsOperations(t, c)
}

// createsWithoutConfigs: the answer about a created topic shows its settings only with
// DescribeConfigs.
func createsWithoutConfigs(t *testing.T, c *raw) {
	t.Helper()
	create := kmsg.NewPtrCreateTopicsRequest()
	create.TimeoutMillis, create.Topics = 20_000, []kmsg.CreateTopicsRequestTopic{{Topic: "new", NumPartitions: 1, ReplicationFactor: 1}}
	got := c.ask(create, 7).(*kmsg.CreateTopicsResponse).Topics[0]
	if got.ErrorCode != 0 || got.ConfigErrorCode != kerr.TopicAuthorizationFailed.Code || len(got.Configs) != 0 || got.NumPartitions != -1 {
		t.Errorf("CreateTopics: %+v", got)
	}
}

// showsOperations: a page of DescribeTopicPartitions has all refused topics, whatever its limit, and
// operations are shown of topics and of a cluster that the client may describe.
func showsOperations(t *testing.T, c *raw) {
	t.Helper()
	pages := kmsg.NewPtrDescribeTopicPartitionsRequest()
	pages.ResponsePartitionLimit = 1
	for _, name := range []string{"mine", "nowhere", "secret"} {
		pages.Topics = append(pages.Topics, kmsg.DescribeTopicPartitionsRequestTopic{Topic: name})
	}
	page := c.ask(pages, 0).(*kmsg.DescribeTopicPartitionsResponse)
	var codes []int16
	for _, of := range page.Topics {
		codes = append(codes, of.ErrorCode)
		check.Equalf(t, of.AuthorizedOperations < 0, of.ErrorCode != 0, "DescribeTopicPartitions: %+v", of)
	}
	refused := kerr.TopicAuthorizationFailed.Code
	if !slices.Equal(codes, []int16{refused, refused, 0}) || page.NextCursor == nil || page.NextCursor.Topic != "mine" {
		t.Errorf("page %+v", page)
	}
	all := kmsg.NewPtrMetadataRequest()
	all.IncludeClusterAuthorizedOperations, all.IncludeTopicAuthorizedOperations = true, true
	all.Topics = []kmsg.MetadataRequestTopic{{Topic: kmsg.StringPtr("new")}, {Topic: kmsg.StringPtr("secret")}}
	got := c.ask(all, 9).(*kmsg.MetadataResponse)
	if got.AuthorizedOperations != 0 {
		t.Errorf("operations %b on a cluster that the client may not describe", got.AuthorizedOperations)
	}
	if n := len(got.Topics); n != 2 || got.Topics[0].AuthorizedOperations >= 0 || got.Topics[1].AuthorizedOperations >= 0 {
		t.Errorf("operations on refused topics: %+v", got.Topics)
	}
}
