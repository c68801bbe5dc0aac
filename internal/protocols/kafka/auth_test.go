package kafka_test

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/scram"

	"github.com/sebbroker/seb/internal/engine/access"
	"github.com/sebbroker/seb/internal/engine/budget"
	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/protocols/kafka"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// TestUnauthenticatedRequests: an unauthenticated client may only request versions and
// authenticate, with at most 64 KiB. This holds for every key and for pipelined requests.
func TestUnauthenticatedRequests(t *testing.T) {
	s := memory(t)
	for version := range int16(5) {
		if got := unauthenticated(t, s).ask(kmsg.NewPtrApiVersionsRequest(), version).(*kmsg.ApiVersionsResponse); got.ErrorCode != 0 || len(got.ApiKeys) < 15 {
			t.Errorf("v%d: %+v", version, got)
		}
	}
	served := unauthenticated(t, s).ask(kmsg.NewPtrApiVersionsRequest(), 0).(*kmsg.ApiVersionsResponse).ApiKeys
	if !slices.IsSortedFunc(served, func(a, b kmsg.ApiVersionsResponseApiKey) int { return cmp.Compare(a.ApiKey, b.ApiKey) }) {
		t.Errorf("served keys are not in order: %+v", served)
	}
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		open := key == 17 || key == 18 || key == 36
		if open {
			continue
		}
		c := unauthenticated(t, s)
		r := kmsg.RequestForKey(key)
		if r == nil {
			continue
		}
		version := int16(0)
		for _, k := range served {
			if k.ApiKey == key {
				version = k.MaxVersion
			}
		}
		c.send(r, version)
		c.ended()
	}
	check.Equalf(t, unauthenticated(t, s).login("wrong"), 58, "wrong password")
	c := unauthenticated(t, s)
	check.Equalf(t, c.login("wrong"), 58, "wrong password")
	c.ended()
	// A request right after a wrong password gets no answer.
	c = unauthenticated(t, s)
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Mechanism = "PLAIN"
	wrong := kmsg.NewPtrSASLAuthenticateRequest()
	wrong.SASLAuthBytes = []byte("\x00u\x00wrong")
	all := append(append(c.encode(hand, 1), c.encode(wrong, 2)...), c.encode(kmsg.NewPtrMetadataRequest(), 9)...)
	must.Get(c.Write(all))(t)
	c.receive(hand, 1, 1)
	c.receive(wrong, 2, 2)
	c.ended()
	c = unauthenticated(t, s)
	hand.Mechanism = "GSSAPI"
	if got := c.ask(hand, 1).(*kmsg.SASLHandshakeResponse); got.ErrorCode != 33 || len(got.SupportedMechanisms) != 3 {
		t.Errorf("%+v", got)
	}
	if got := c.ask(wrong, 2).(*kmsg.SASLAuthenticateResponse); got.ErrorCode != 34 {
		t.Errorf("%+v", got)
	}
	c = unauthenticated(t, s)
	large := kmsg.NewPtrSASLAuthenticateRequest()
	large.SASLAuthBytes = make([]byte, 64<<10)
	c.send(large, 2)
	c.ended()
}

// TestUnknownVersions: a newer client gets the served versions; other unknown versions end the
// connection.
func TestUnknownVersions(t *testing.T) {
	s := memory(t)
	c := unauthenticated(t, s)
	b := c.encode(kmsg.NewPtrApiVersionsRequest(), 4)
	binary.BigEndian.PutUint16(b[6:], 99)
	must.Get(c.Write(b))(t)
	if got := c.receive(kmsg.NewPtrApiVersionsRequest(), 0, 1).(*kmsg.ApiVersionsResponse); got.ErrorCode != 35 || len(got.ApiKeys) < 15 {
		t.Errorf("%+v", got)
	}
	c.login(apiKey)
	b = c.encode(kmsg.NewPtrMetadataRequest(), 9)
	binary.BigEndian.PutUint16(b[6:], 99)
	must.Get(c.Write(b))(t)
	c.ended()
}

// TestMisroutedConnections: a client that names another cluster or broker gets no versions (KIP-1242).
func TestMisroutedConnections(t *testing.T) {
	m := newCrew(t, objstore.NewMemory(), 1).mates[0]
	const id = 100
	cluster, other := m.b.Cluster().String(), "other"
	for _, ask := range []struct {
		cluster *string
		node    int32
		want    int16
	}{
		{nil, -1, 0},
		{&cluster, id, 0},
		{&cluster, -1, kerr.InvalidRequest.Code},
		{nil, id, kerr.InvalidRequest.Code},
		{&other, id, kerr.RebootstrapRequired.Code},
		{&cluster, id + 1, kerr.RebootstrapRequired.Code},
	} {
		r := kmsg.NewPtrApiVersionsRequest()
		r.ClusterID, r.NodeID = ask.cluster, ask.node
		got := unauthenticated(t, m.served).ask(r, 5).(*kmsg.ApiVersionsResponse)
		if got.ErrorCode != ask.want || (len(got.ApiKeys) > 0) != (ask.want == 0) {
			t.Errorf("cluster %s, node %d: code %d and %d keys, want code %d", *cmp.Or(ask.cluster, new("")), ask.node, got.ErrorCode, len(got.ApiKeys), ask.want)
		}
	}
}

// TestHostileFrames: the server trusts no length or count before its bytes have arrived. Hostile
// requests, authenticated or not, leave no reservation and take no more memory than the bytes they
// sent.
func TestHostileFrames(t *testing.T) {
	b := openBroker(t, objstore.NewMemory(), nil)
	s := serve(t, b, kafka.Options{})
	claims := func(key, version int16, body []byte) []byte {
		f := binary.BigEndian.AppendUint32(nil, uint32(8+2+len(body)))
		f = binary.BigEndian.AppendUint16(f, uint16(key))
		f = binary.BigEndian.AppendUint16(f, uint16(version))
		return append(append(f, 0, 0, 0, 1, 0xff, 0xff), body...)
	}
	many := []byte{0x7f, 0xff, 0xff, 0xff}
	for name, f := range map[string][]byte{
		"a length of 2 GiB":     append(many, claims(0, 9, nil)[4:]...),
		"topics of metadata":    claims(3, 1, many),
		"as many as bytes":      claims(3, 1, append([]byte{0, 0, 0xff, 0xff}, bytes.Repeat([]byte{0xff}, 0xffff)...)),
		"topics of produce":     claims(0, 3, append([]byte{0xff, 0xff, 0, 1, 0, 0, 0, 1}, many...)),
		"a produce with a hole": claims(0, 3, append([]byte{0xff, 0xff, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1, 0, 1, 't', 0, 0, 0, 1, 0, 0, 0, 0}, many...)),
		"tags":                  claims(18, 3, []byte{1, 1, 0xff, 0xff, 0xff, 0xff, 0x0f}),
		"a negative text":       claims(17, 1, []byte{0x80, 0}),
	} {
		for _, known := range []bool{false, true} {
			t.Run(fmt.Sprint(name, known), func(t *testing.T) {
				c := unauthenticated(t, s)
				if known {
					c.login(apiKey)
				}
				must.Get(c.Write(f))(t)
				_ = c.Conn.(interface{ CloseWrite() error }).CloseWrite()
				c.ended()
			})
		}
	}
	for _, class := range []budget.Kind{budget.Produce, budget.Fetch} {
		if u := b.Budget().Class(class).Usage(); u.Used != 0 || u.Peak > 2<<20 {
			t.Errorf("%s: %d bytes reserved, peak %d", class, u.Used, u.Peak)
		}
	}
}

// TestScram: both SCRAM mechanisms accept only clients with the API key that complete every step.
func TestScram(t *testing.T) {
	s := memory(t)
	for name, mechanism := range map[string]func(scram.Auth) sasl.Mechanism{
		"SCRAM-SHA-256": scram.Auth.AsSha256Mechanism, "SCRAM-SHA-512": scram.Auth.AsSha512Mechanism,
	} {
		for password, good := range map[string]bool{apiKey: true, "wrong": false, "": false} {
			c := must.Get(kgo.NewClient(kgo.SeedBrokers(s.addr), kgo.SASL(mechanism(scram.Auth{User: "anybody", Pass: password})), kgo.RequestRetries(0)))(t)
			if err := c.Ping(t.Context()); (err == nil) != good {
				t.Errorf("%s with %q: %v", name, password, err)
			}
			c.Close()
		}
		hand := kmsg.NewPtrSASLHandshakeRequest()
		hand.Mechanism = name
		for _, message := range []string{"", "\x00u\x00" + apiKey, "n,,n=u,r=abc", "c=biws,r=abc,p=AAAA"} {
			c := unauthenticated(t, s)
			if got := c.ask(hand, 1).(*kmsg.SASLHandshakeResponse); got.ErrorCode != 0 {
				t.Fatalf("%+v", got)
			}
			auth := kmsg.NewPtrSASLAuthenticateRequest()
			auth.SASLAuthBytes = []byte(message)
			got := c.ask(auth, 2).(*kmsg.SASLAuthenticateResponse)
			if begins := message == "n,,n=u,r=abc"; (got.ErrorCode == 0) != begins || (len(got.SASLAuthBytes) > 0) != begins {
				t.Errorf("%s %q: %+v", name, message, got)
			}
			if got.ErrorCode == 0 { // the conversation has only begun
				c.send(kmsg.NewPtrMetadataRequest(), 9)
			}
			c.ended()
		}
	}
}

// TestFirstMessageOfSCRAM: a well-formed first message gets an answer, any other ends the connection
// with the error of a wrong password. So does a user without a password for the mechanism.
func TestFirstMessageOfSCRAM(t *testing.T) {
	g := guard(t)
	set := []kadm.UpsertSCRAM{{User: "ann", Mechanism: kadm.ScramSha512, Iterations: 8192, Password: "pw"}}
	if got, err := admin(t, g.served).AlterUserSCRAMs(t.Context(), nil, set); err != nil || got["ann"].Err != nil {
		t.Fatalf("%+v %v", got, err)
	}
	for _, c := range []struct {
		mechanism, message string
		good               bool
	}{
		{"SCRAM-SHA-512", "n,,n=ann,r=abc", true},
		{"SCRAM-SHA-512", "y,,n=ann,r=abc", true},
		{"SCRAM-SHA-512", "n,a=other,n=ann,r=abc,ext=1", true},
		{"SCRAM-SHA-256", "n,,n=ann,r=abc", false}, // only a password of the other mechanism
		{"SCRAM-SHA-256", "n,,n=any=2Cname=3D=2C,r=abc", true},
		{"SCRAM-SHA-256", "n,,n=a=2Cb=3Ec,r=abc", false},
		{"SCRAM-SHA-256", "n,,n=a=2,r=abc", false},
		{"SCRAM-SHA-256", "n,,n=u=,r=abc", false},
		{"SCRAM-SHA-256", "n,,n=u,r=", false},
		{"SCRAM-SHA-256", "n,,n=u", false},
		{"SCRAM-SHA-256", "n,,m=x,n=u,r=abc", false},
		{"SCRAM-SHA-256", "n,,r=abc,n=u", false},
		{"SCRAM-SHA-256", "n,x,n=u,r=abc", false},
		{"SCRAM-SHA-256", "p=tls-exporter,,n=u,r=abc", false},
		{"SCRAM-SHA-256", ",,,", false},
	} {
		link := unauthenticated(t, g.served)
		hand := kmsg.NewPtrSASLHandshakeRequest()
		hand.Mechanism = c.mechanism
		link.ask(hand, 1)
		first := kmsg.NewPtrSASLAuthenticateRequest()
		first.SASLAuthBytes = []byte(c.message)
		got := link.ask(first, 2).(*kmsg.SASLAuthenticateResponse)
		if !c.good {
			if got.ErrorCode != kerr.SaslAuthenticationFailed.Code || len(got.SASLAuthBytes) > 0 {
				t.Errorf("%s %q: %+v, want SASL_AUTHENTICATION_FAILED", c.mechanism, c.message, got)
			}
			link.ended()
		} else if got.ErrorCode != 0 || !strings.HasPrefix(string(got.SASLAuthBytes), "r=abc") || !strings.Contains(string(got.SASLAuthBytes), ",i=") {
			t.Errorf("%s %q: %+v", c.mechanism, c.message, got)
		}
	}
}

// TestSASLWithoutHeads: librdkafka uses SASL only if SaslHandshake v0 is supported, and its old
// versions use v0: SASL messages without heads. The last answer is empty, and a wrong message gets
// none.
func TestSASLWithoutHeads(t *testing.T) {
	s := memory(t)
	for _, k := range unauthenticated(t, s).ask(kmsg.NewPtrApiVersionsRequest(), 0).(*kmsg.ApiVersionsResponse).ApiKeys {
		if k.ApiKey == 17 && k.MinVersion != 0 {
			t.Errorf("SaslHandshake begins with v%d", k.MinVersion)
		}
	}
	c := withoutHeads(t, s, "PLAIN")
	c.message([]byte("\x00user\x00" + apiKey))
	if got := c.answer(); len(got) > 0 {
		t.Errorf("the answer to the right password is %q, want it empty", got)
	}
	if got := c.ask(kmsg.NewPtrMetadataRequest(), 9).(*kmsg.MetadataResponse); len(got.Brokers) != 1 {
		t.Errorf("%+v", got)
	}
	for _, message := range []string{"\x00user\x00wrong", "no message of PLAIN", string(make([]byte, 64<<10+1))} {
		c := withoutHeads(t, s, "PLAIN")
		c.message([]byte(message))
		c.ended()
	}
	// A request is not a SASL message.
	c = withoutHeads(t, s, "PLAIN")
	c.send(kmsg.NewPtrMetadataRequest(), 9)
	c.ended()

	for _, password := range []string{apiKey, "wrong"} {
		c := withoutHeads(t, s, "SCRAM-SHA-256")
		session, message, err := scram.Auth{User: "anybody", Pass: password}.AsSha256Mechanism().Authenticate(t.Context(), "")
		must.NoError(t, err)
		c.message(message)
		if _, message, err = session.Challenge(c.answer()); err != nil {
			t.Fatal(err)
		}
		c.message(message)
		if password == "wrong" {
			c.ended()
			continue
		}
		if done, _, err := session.Challenge(c.answer()); !done || err != nil { // it verifies the server's last message
			t.Errorf("%v %v", done, err)
		}
		if got := c.ask(kmsg.NewPtrMetadataRequest(), 9).(*kmsg.MetadataResponse); len(got.Brokers) != 1 {
			t.Errorf("%+v", got)
		}
	}
	// After an unsupported mechanism requests still have heads.
	c = unauthenticated(t, s)
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Mechanism = "GSSAPI"
	if got := c.ask(hand, 0).(*kmsg.SASLHandshakeResponse); got.ErrorCode != 33 {
		t.Errorf("%+v", got)
	}
	check.Equalf(t, c.login(apiKey), 0, "the next mechanism")
}

// withoutHeads is a client that has started SASL messages without heads.
func withoutHeads(t testing.TB, s *served, mechanism string) *raw {
	t.Helper()
	c := unauthenticated(t, s)
	hand := kmsg.NewPtrSASLHandshakeRequest()
	hand.Mechanism = mechanism
	if got := c.ask(hand, 0).(*kmsg.SASLHandshakeResponse); got.ErrorCode != 0 || len(got.SupportedMechanisms) != 3 {
		t.Fatalf("%+v", got)
	}
	return c
}

// message sends bytes with their length.
func (c *raw) message(b []byte) {
	c.t.Helper()
	must.Get(c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)))(c.t)
}

// answer reads bytes with their length.
func (c *raw) answer() []byte {
	c.t.Helper()
	length := make([]byte, 4)
	must.Get(io.ReadFull(c, length))(c.t)
	b := make([]byte, binary.BigEndian.Uint32(length))
	must.Get(io.ReadFull(c, b))(c.t)
	return b
}

// TestScramWithRepeatedNonce: librdkafka before 2.6.1 repeats its own nonce before the nonce in its
// last message. Kafka up to 3.9 accepts that if the proof is right.
func TestScramWithRepeatedNonce(t *testing.T) {
	s := memory(t)
	for mechanism, newHash := range map[string]func() hash.Hash{"SCRAM-SHA-256": sha256.New, "SCRAM-SHA-512": sha512.New} {
		for _, c := range []struct {
			password, head, nonce string // nonce: "" or the text before the nonce
			good                  bool
		}{
			{apiKey, "n,,", "mine", true},
			{apiKey, "n,,", "", true},
			{apiKey, "n,,", "yours", false},
			{apiKey, "y,,", "mine", false}, // the first message has another head
			{"wrong", "n,,", "mine", false},
		} {
			link := unauthenticated(t, s)
			hand := kmsg.NewPtrSASLHandshakeRequest()
			hand.Mechanism = mechanism
			link.ask(hand, 1)
			say := func(message string) *kmsg.SASLAuthenticateResponse {
				auth := kmsg.NewPtrSASLAuthenticateRequest()
				auth.SASLAuthBytes = []byte(message)
				return link.ask(auth, 2).(*kmsg.SASLAuthenticateResponse)
			}
			server := string(say("n,,n=u,r=mine").SASLAuthBytes) // r=mine…,s=salt,i=8192
			fields := strings.Split(server, ",")
			salt := must.Get(base64.StdEncoding.DecodeString(fields[1][2:]))(t)
			last := "c=" + base64.StdEncoding.EncodeToString([]byte(c.head)) + ",r=" + c.nonce + fields[0][2:]
			said := "n=u,r=mine," + server + "," + last
			mac := func(key []byte, text string) []byte {
				m := hmac.New(newHash, key)
				m.Write([]byte(text))
				return m.Sum(nil)
			}
			salted := must.Get(pbkdf2.Key(newHash, c.password, salt, access.TokenIterations, newHash().Size()))(t)
			proof, stored := mac(salted, "Client Key"), newHash()
			stored.Write(proof)
			for i, b := range mac(stored.Sum(nil), said) {
				proof[i] ^= b
			}
			got := say(last + ",p=" + base64.StdEncoding.EncodeToString(proof))
			if want := "v=" + base64.StdEncoding.EncodeToString(mac(mac(salted, "Server Key"), said)); (got.ErrorCode == 0) != c.good || c.good && string(got.SASLAuthBytes) != want {
				t.Errorf("%s %+v: %+v", mechanism, c, got)
			}
			if c.good {
				link.ask(kmsg.NewPtrMetadataRequest(), 9)
			} else {
				link.ended()
			}
		}
	}
}
